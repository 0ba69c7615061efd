"""The graph of an expansion as a stand-alone SVG: positions from left to right, blocks upwards.

Each position has its residual stream as a spine. An arrow is as wide as the terms that pass through
it are large; what adds is blue, what takes away is orange. Arrows too small to be seen are folded,
and their share of all sizes is written. Beside the graph stand the largest with their values. An
arrow has its value and, where it is of one term, that term's label as attributes of a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import accumulate

from viete.ask.arrows import Arrows, Edge, Vertex
from viete.document.colours import INK, NEGATIVE, PAPER, POSITIVE, SERIF, SOFT, STREAM
from viete.report.drawing.vectors import line, text

COLUMN, ROW, MARGIN = 84, 90, 60  # columns and rows are wider for what stands in them
ASIDE, LINE, BEND, GAP = 46, 18, 14, 8
LETTER, LONGEST = 6.6, 32  # the width of a letter, and the letters of a name in the graph
LISTED = 16  # arrows with their values beside the graph
WIDEST, THINNEST = 7.0, 0.6
LEAST = 0.01  # of the largest arrow: what is drawn


def arrows_svg(graph: Arrows, listed: int = LISTED) -> str:
    """The graph, drawn, with so many of its largest arrows listed beside it."""
    ordered = sorted(graph.arrows.values(), key=lambda a: -a.mass)
    most = ordered[0].mass or 1.0 if ordered else 1.0
    drawn = [a for a in ordered if a.mass >= LEAST * most]
    place = Places(graph, drawn)
    body = [
        line(place.column(k), place.base, place.column(k), MARGIN + GAP, STREAM, 1.2)
        for k in range(len(place.columns))
    ]
    between = Counter[tuple[str, str]]()
    paths = list[str]()
    for a in drawn:
        bend = between[a.start, a.end] * BEND
        between[a.start, a.end] += 1
        paths.append(
            path(a, place.at(graph.nodes[a.start]), place.at(graph.nodes[a.end]), bend, most)
        )
    body += reversed(paths)  # the largest in front
    note = folded(ordered[len(drawn) :], ordered)
    samples, names, width = beside(place.right, drawn[:listed], most, len(drawn), note)
    if not listed:
        width = round(place.right)
        names = [text(MARGIN / 2, place.height - GAP, note, SOFT)] if note else []
    dots = list[str]()
    for n in place.nodes:
        x, y = place.at(n)
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{INK}"/>')
        if n.block is not None and n.name in place.stream:
            names.append(text(x - GAP, y - GAP, short(n.name), INK, "end"))
        else:
            names.append(text(x + GAP, y + 4, short(n.name), INK))
    tokens = {n.position: n.token for n in graph.nodes.values() if n.token}
    for k, position in enumerate(place.columns):
        where = tokens.get(position) or str(position)
        names.append(text(place.column(k), place.below, where, INK, "middle"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {place.height}" '
        f'width="{width}" height="{place.height}" font-family="{SERIF}" font-size="13">\n'
        f'<rect width="{width}" height="{place.height}" fill="{PAPER}"/>\n'
        + "\n".join((*body, *samples, *dots))
        + f'\n<g paint-order="stroke" stroke="{PAPER}" stroke-width="4">\n'
        + "\n".join(names)
        + "\n</g>\n</svg>\n"
    )


class Places:
    """Where the vertices of drawn arrows stand: a column for a position, a row for a block."""

    def __init__(self, graph: Arrows, drawn: Sequence[Edge]) -> None:
        used = {name for a in drawn for name in (a.start, a.end)}
        self.nodes = [n for n in graph.nodes.values() if n.name in used]
        self.columns = sorted({n.position for n in self.nodes if n.position is not None})
        self.blocks = sorted({n.block for n in self.nodes if n.block is not None})
        self.stream = {name for a in drawn for name in (a.start, a.end)
                       if a.by.startswith("A") or (name == a.end and a.by == "+")}  # fmt: skip
        self.stream |= {a.start for a in drawn if a.end == graph.of}
        stacked = Counter[tuple[int | None, int | None]]()
        self.rank = dict[str, int]()
        for node in self.nodes:
            if node.name not in self.stream:
                self.rank[node.name] = stacked[node.block, node.position]
                stacked[node.block, node.position] += 1
        deep = LINE * (max(stacked.values(), default=0) + 1)
        self.row_height = max(ROW, deep + LINE)
        longest = dict.fromkeys(self.columns, 0)  # the letters beside each stream
        for node in self.nodes:
            if node.name in self.rank and node.position in longest:
                longest[node.position] = max(longest[node.position], len(short(node.name)))
        widths = [max(COLUMN, round(ASIDE + LETTER * (n + 6) + 2 * GAP) if n else 0)
                  for n in longest.values()]  # fmt: skip
        self.lefts = list(accumulate(widths, initial=MARGIN))
        self.base = MARGIN + self.row_height * len(self.blocks)
        self.below = self.base + deep + LINE
        self.height = max(self.base + deep + MARGIN, MARGIN + LINE * (LISTED + 3))
        self.right = self.lefts[-1] + MARGIN * (2 if len(self.columns) < 2 else 1)

    def column(self, k: int) -> float:
        """Where a column's stream is."""
        return self.lefts[k]

    def at(self, node: Vertex) -> tuple[float, float]:
        """A vertex: in the stream of its position, or beside it."""
        known = node.position in self.columns
        x = self.column(self.columns.index(node.position) if known else len(self.columns) - 1)  # type: ignore[arg-type]
        if node.block is None:
            return x, MARGIN / 2
        y = self.base - self.row_height * self.blocks.index(node.block)
        if node.name in self.stream:
            return x, y
        return x + ASIDE, y + LINE * (self.rank[node.name] + 1)


def path(
    a: Edge, start: tuple[float, float], end: tuple[float, float], bend: float, most: float
) -> str:
    """One arrow, bent away from others between the same vertices."""
    (x, y), (to_x, to_y) = start, end
    of = f' data-term="{escape(a.term)}"' if a.term else ""
    return (
        f'<path class="arrow" data-value="{a.value!r}"{of} d="M{x:.1f},{y:.1f} '
        f'Q{(x + to_x) / 2 - bend:.1f},{(y + to_y) / 2 - bend:.1f} {to_x:.1f},{to_y:.1f}" '
        f'fill="none" stroke="{colour(a)}" stroke-width="{wide(a, most)}">'
        f"<title>{escape(words(a))}</title></path>"
    )


def beside(
    left: float, first: Sequence[Edge], most: float, count: int, note: str
) -> tuple[list[str], list[str], int]:  # fmt: skip
    """Samples of the largest arrows, their names with their values, and how wide all is."""
    samples, out = list[str](), list[str]()
    for k, a in enumerate(first):
        row = MARGIN + LINE * k
        samples.append(line(left, row - 4, left + 20, row - 4, colour(a), wide(a, most)))
        out.append(text(left + 28, row, words(a), INK))
    more = [f"and {count - len(first)} smaller ones"] * (count > len(first)) + [note] * bool(note)
    for k, sentence in enumerate(more, len(first)):
        out.append(text(left + 28, MARGIN + LINE * k, sentence, SOFT))
    longest = max(map(len, [*map(words, first), *more]), default=0)
    return samples, out, round(left) + 28 + round(LETTER * longest) + MARGIN


def folded(small: Sequence[Edge], every: Sequence[Edge]) -> str:
    """What is said of arrows that are too small to be drawn."""
    if not small:
        return ""
    share = sum(a.mass for a in small) / (sum(a.mass for a in every) or 1.0)
    return f"{len(small)} more below {LEAST:.0%} of the largest: {share:.1%} of all sizes"


def words(a: Edge) -> str:
    """An arrow and its value in a line."""
    return f"{a.start} →{f'({a.by})' if a.by not in ('', '+') else ''} {a.end}: {a.value:+.4f}"


def colour(a: Edge) -> str:
    """What adds, and what takes away."""
    return POSITIVE if a.value >= 0 else NEGATIVE


def wide(a: Edge, most: float) -> float:
    """The width of an arrow."""
    return round(THINNEST + WIDEST * a.mass / most, 2)


def short(name: str) -> str:
    """A name as it stands in the graph."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


__all__ = ["arrows_svg"]
