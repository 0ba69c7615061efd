"""A picture: a stand-alone SVG, and lines for a terminal with or without colours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from viete.atomic import behind, replacing
from viete.document.colours import INK, PAPER, SANS, SERIF, SOFT, svg_file
from viete.errors import VieteError
from viete.printable import display_width, printable
from viete.report.drawing.svg import formula_text

MARGIN, HEAD = 20, 46  # around a picture, and the room of its title
SIZE = 12.5  # of letters
LONGEST = 28  # columns of a label
_FORMULA = re.compile(r"[^\"'`\x00-\x1f]*[\^_][^\"'`\x00-\x1f]*|\w{1,2}")  # and no words of a text


@dataclass(frozen=True)
class Picture:
    """A drawing of an answer. ``body`` is SVG of ``width`` and ``height`` without its frame.

    ``lines`` are the same in plain characters, and ``coloured`` in a terminal's colours.
    """

    title: str
    width: float
    height: float
    body: tuple[str, ...]
    lines: tuple[str, ...]
    coloured: tuple[str, ...]

    @property
    def svg(self) -> str:
        """The picture as a file: with a background, so that it is readable on a dark page too."""
        title = measure(label(self.title, 200), 15)
        width = max(self.width, 200, title) + 2 * MARGIN
        height = self.height + HEAD + MARGIN
        return "\n".join((
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img" font-family="{SANS}" '
            f'font-size="{SIZE}" style="max-width:100%;height:auto">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="{width:.0f}" height="{height:.0f}" rx="12" fill="{PAPER}"/>',
            heading(self.title),
            f'<g transform="translate({MARGIN} {HEAD})">',
            *self.body,
            "</g>",
            "</svg>\n",
        ))  # fmt: skip

    def text(self, colour: bool = False) -> str:
        """The picture for a terminal, with the escape sequences of colours or without."""
        return "\n".join((self.title, "", *(self.coloured if colour else self.lines))) + "\n"

    def save(self, path: str | Path) -> Path:
        """Write the SVG, whole or not at all.

        Raises VieteError where the file cannot be written, and for a name with another format.
        """
        if Path(path).suffix.lower() not in ("", ".svg"):
            raise VieteError(f"a picture can be saved as .svg, not as {Path(path).suffix}: {path}")
        with replacing(behind(Path(path))) as file:
            file.write(svg_file(self.svg).encode())
        return Path(path)

    def above(self, other: Picture) -> Picture:
        """This picture above another, with this one's title."""
        at = self.height + 34
        moved = f'<g transform="translate(0 {at:.0f})">', *other.body, "</g>"
        return Picture(
            self.title, max(self.width, other.width), at + other.height, (*self.body, *moved),
            (*self.lines, *other.lines), (*self.coloured, *other.coloured),
        )  # fmt: skip

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def __repr__(self) -> str:
        return f"<picture of {self.title}>"


def stacked(pictures: Sequence[Picture], title: str = "") -> Picture:
    """Several pictures, one below the other."""
    if len(pictures) == 1:
        return pictures[0]
    body, y = list[str](), 0.0
    for p in pictures:
        if p.title:
            body.append(letters(0, y + 12, p.title, INK, more='font-weight="600"'))
            y += 30
        body += [f'<g transform="translate(0 {y:.0f})">', *p.body, "</g>"]
        y += p.height + 34
    heads = [(p.title, "") if p.title else () for p in pictures]
    whole = [x for p, head in zip(pictures, heads, strict=True) for x in (*head, *p.lines, "")]
    colours = [x for p, head in zip(pictures, heads, strict=True) for x in (*head, *p.coloured, "")]
    width = max(p.width for p in pictures)
    return Picture(title, width, y - 34, tuple(body), tuple(whole), tuple(colours))


def heading(title: str) -> str:
    """The title: a formula typeset, words as they are."""
    if _FORMULA.fullmatch(title):
        return formula_text(MARGIN, 30, title, 18, fill=INK, font_family=SERIF)
    return letters(MARGIN, 29, title, INK, more='font-size="15" font-weight="600"')


def letters(
    x: float, y: float, said: str, colour: str = SOFT, anchor: str = "start", more: str = ""
) -> str:
    """A text in an SVG."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" '
        f'xml:space="preserve" {more}>{escape(label(said, 200))}</text>'
    )


def label(text: str, most: int = LONGEST) -> str:
    """A label with printable characters, cut if it is too long."""
    text = printable(text, 400)
    return text if display_width(text) <= most else f"{text[: most - 2]}…{text[-1]}"


def measure(text: str, size: float = SIZE) -> float:
    """The width of a text, rather too wide."""
    return display_width(text) * size * 0.58


__all__ = ["LONGEST", "SIZE", "Picture", "label", "letters", "measure", "stacked"]
