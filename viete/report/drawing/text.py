"""A diagram in box-drawing characters."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from viete.printable import display_width
from viete.report.drawing.boxes import Spacing
from viete.report.drawing.diagram import Box, Diagram, cleaned, wrap
from viete.report.drawing.rows import rows
from viete.report.drawing.wires import DiagramLayout, Point, Rect, layout

_CELLS = Spacing(
    gap=3, lane=2, port=4, track=1, lead=1, tip=2, clear=1, label=1, notch=1,
    side=2, head=0, foot=1, above=1, loop=3,
)  # fmt: skip

# The arms of a line in a cell, and the character with these arms.
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_GLYPHS = " ╵╷│╴┘┐┤╶└┌├─┴┬┼"


def to_text(d: Diagram, width: int = 100) -> str:
    """A drawing in box-drawing characters, at most ``width`` columns wide if possible.

    A drawing that is too wide is first made taller, with groups below each other, and then wrapped.
    """
    d = cleaned(d)
    best = _lay_out(d, None, False)
    if best.width >= width and rows(d, True) != rows(d):
        tall = _lay_out(d, None, True)
        best = min(best, tall, key=lambda lay: lay.width)
    if best.width >= width:
        texts = [text for b in d.boxes for text in (b.title, *b.lines)]
        for limit in (16, 24, 32, 44):
            if not any(display_width(t) > limit for t in texts):
                break
            wrapped = _lay_out(d, limit, True)
            if wrapped.width < width:
                best = wrapped
            elif limit == 16:  # not even so: then there is nothing to be won
                break
    return _Canvas(d.title, best, width).text()


def _lay_out(d: Diagram, limit: int | None, stacked: bool) -> DiagramLayout:
    """The layout with texts wrapped at ``limit``; a title's lines stay together in its box."""
    if limit:
        boxes = []
        for b in d.boxes:
            lines = [part for line in b.lines for part in wrap(line, limit)]
            boxes.append(replace(b, title="\n".join(wrap(b.title, limit)), lines=tuple(lines)))
        d = replace(d, boxes=tuple(boxes))
    return layout(d, {b.id: _cell_size(b) for b in d.boxes}, _CELLS, display_width, stacked)


def _cell_size(b: Box) -> tuple[int, int]:
    lines = [*b.title.split("\n"), *b.lines]
    return (max(map(display_width, lines)) + 4) // 2, len(lines) + 1


_width = lru_cache(10_000)(display_width)  # of a character


class _Canvas:
    """Character cells. Later strokes win, but lines that cross or join share a cell."""

    def __init__(self, title: str, lay: DiagramLayout, width: int) -> None:
        self.cells: dict[Point, str] = {}
        self.arms: dict[Point, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self.title = "\n".join(wrap(title, max(width, 20)))
        for _, r in lay.frames:
            self.frame(r)
        for b, r in lay.boxes:
            self.box(b, r)
        for wire in lay.wires:
            self.line(wire.points, wire.arrow.source)
        for group, loop in lay.loops:
            self.line(loop, f"loop of {group.id}")
        for at, nets in self.arms.items():
            self.cells[at] = self.glyph(list(nets.values()), self.cells.get(at, ""))
        for points in (*(w.points for w in lay.wires), *(loop for _, loop in lay.loops)):
            (x, y), (tip, end) = points[-2:]
            self.cells[tip, end] = "▼" if end > y else "►" if tip > x else "◄"
        for g, r in lay.frames:
            if g.title:  # a line passes behind it
                self.write(r.left + 2, r.top, f" {g.title} ")
        for t in lay.labels:
            if t.place == "left":
                self.write(t.x - 1 - display_width(t.text), t.y, t.text)
            else:
                self.write(t.x + 2, t.y + {"below": 1, "above": -1}.get(t.place, 0), t.text)

    def write(self, x: int, y: int, text: str) -> None:
        for c in text:
            size = _width(c)
            if size:
                self.cells[x, y] = c
                if size == 2:
                    self.cells[x + 1, y] = ""
            else:
                self.cells[x - 1, y] = self.cells.get((x - 1, y), " ") + c
            x += size

    def frame(self, r: Rect) -> None:
        across = "┄" * (r.right - r.left - 1)
        self.write(r.left, r.top, f"╭{across}╮")
        self.write(r.left, r.bottom, f"╰{across}╯")
        for y in range(r.top + 1, r.bottom):
            self.cells[r.left, y] = self.cells[r.right, y] = "┊"

    def box(self, b: Box, r: Rect) -> None:
        across = "─" * (r.right - r.left - 1)
        upper, lower = f"┌{across}┐", f"└{across}┘"
        if b.kind in ("input", "output"):
            upper, lower = f"╭{across}╮", f"╰{across}╯"
        self.write(r.left, r.top, upper)
        self.write(r.left, r.bottom, lower)
        for y in range(r.top + 1, r.bottom):
            self.write(r.left, y, "│" + " " * (r.right - r.left - 1) + "│")
        for n, line in enumerate([*b.title.split("\n"), *b.lines], 1):
            x = r.left + (r.right - r.left + 1 - display_width(line)) // 2
            self.write(x, r.top + n, line)

    def line(self, points: tuple[Point, ...], net: str) -> None:
        for (x, y), (x2, y2) in pairwise(points):
            dx, dy = (x2 > x) - (x2 < x), (y2 > y) - (y2 < y)
            ahead = _RIGHT if dx > 0 else _LEFT if dx else _DOWN if dy > 0 else _UP
            behind = _LEFT if dx > 0 else _RIGHT if dx else _UP if dy > 0 else _DOWN
            while (x, y) != (x2, y2):
                self.arms[x, y][net] |= ahead
                x, y = x + dx, y + dy
                self.arms[x, y][net] |= behind

    @staticmethod
    def glyph(nets: list[int], under: str) -> str:
        """The character for the lines in a cell. Lines that only cross do not join: ─│─."""
        if under in ("─", "│"):  # the border of a box, where a line begins
            nets.append(_GLYPHS.index(under))
            return _GLYPHS[_union(nets)]
        if under == "┊" and nets == [_LEFT]:
            return "┤"
        upright = [n for n in nets if n & (_UP | _DOWN)]
        if len(nets) > 1 and upright and upright != nets:
            nets = upright
        return _GLYPHS[_union(nets)]

    def text(self) -> str:
        rows: dict[int, dict[int, str]] = defaultdict(dict)
        for (x, y), c in self.cells.items():
            rows[y][x] = c
        lines = []
        for y in range(max(rows, default=-1) + 1):
            line = [" "] * (max(rows[y], default=-1) + 1)
            for x, c in rows[y].items():
                if x >= 0:
                    line[x] = c
            lines.append("".join(line).rstrip())
        return "\n".join([self.title, "", *lines] if self.title else lines) + "\n"


def _union(nets: list[int]) -> int:
    arms = 0
    for n in nets:
        arms |= n
    return arms
