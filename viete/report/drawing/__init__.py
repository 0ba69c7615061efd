"""Data-flow diagrams: an abstract graph, drawn as SVG, as Mermaid and as plain text.

SVG and text share one layout, measured once in pixels and once in character cells: ``rows``, then
``columns`` (with ``places``), then ``wires``. This package draws any graph of boxes and does not
know what a card is.
"""

from viete.report.drawing.diagram import Arrow, Box, BoxGroup, Diagram
from viete.report.drawing.mermaid import to_mermaid
from viete.report.drawing.svg import to_svg
from viete.report.drawing.text import to_text

__all__ = ["Arrow", "Box", "BoxGroup", "Diagram", "to_mermaid", "to_svg", "to_text"]
