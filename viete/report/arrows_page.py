"""A graph of arrows as a page: the picture, and a table of all its arrows."""

from __future__ import annotations

from viete.ask.arrows import Arrows
from viete.document.tree import Block, CodeBlock, heading, paragraph, table
from viete.report.drawing.arrows import arrows_svg


def arrows_page(graph: Arrows) -> list[Block]:
    """The graph with its arrows, the largest first, and the share of the number that they omit."""
    ordered = sorted(graph.arrows.values(), key=lambda a: -a.mass)
    rows = [[a.start, a.by, a.end, f"{a.value:+.4f}"] for a in ordered]
    out: list[Block] = [heading(1, f"What made `{graph.of}`"),
                        CodeBlock("", picture=arrows_svg(graph, listed=0)),
                        table(["from", "by", "to", "its value"], rows)]  # fmt: skip
    if graph.hidden is not None:
        out.append(paragraph(f"{graph.count} smaller terms, {graph.hidden.value:+.4f} together, "
                             f"have no arrow here."))  # fmt: skip
    return out


__all__ = ["arrows_page"]
