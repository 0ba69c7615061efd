"""A card's data flow as a picture: SVG in a notebook, lines on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from viete.atomic import behind, replacing
from viete.document.colours import svg_file
from viete.errors import VieteError
from viete.report.drawing.diagram import Diagram
from viete.report.drawing.mermaid import to_mermaid
from viete.report.drawing.svg import to_svg
from viete.report.drawing.text import to_text

WRITERS = {".svg": lambda diagram: svg_file(to_svg(diagram)), ".mmd": to_mermaid, ".txt": to_text}


@dataclass(frozen=True)
class DiagramPicture:
    """A drawn diagram: ``.svg``, ``.text()``, ``.save(path)``."""

    diagram: Diagram

    @property
    def svg(self) -> str:
        """The picture as a stand-alone SVG."""
        return to_svg(self.diagram)

    def text(self) -> str:
        """The drawing in box-drawing characters."""
        return to_text(self.diagram)

    def save(self, path: str | Path) -> Path:
        """Write .svg, .mmd (Mermaid) or .txt, whole or not at all. Raises VieteError for others."""
        path = Path(path)
        write = WRITERS.get(path.suffix.lower() or ".svg")
        if write is None:
            known = ", ".join(WRITERS)
            raise VieteError(f"a diagram can be saved as {known}, not as {path.suffix}: {path}")
        with replacing(behind(path)) as file:
            file.write(write(self.diagram).encode())
        return path

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def __repr__(self) -> str:
        return f"<diagram of {self.diagram.title}: {len(self.diagram.boxes)} boxes>"


__all__ = ["DiagramPicture"]
