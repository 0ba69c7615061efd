"""The layout of a graph of arrows: positions from left to right, blocks upwards.

Each position has its residual stream as a spine. A node that adds to a stream stands below the
point where it adds. Arrows into one point that are too small to see are merged into one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from viete.ask.arrows import Arrows, Edge, Vertex

COLUMN, ROW, MARGIN, LEFT = 72, 88, 40, 76  # the least column and row, and what is around them
ASIDE, LINE, BEND, GAP = 18, 17, 12, 8
LETTER, LONGEST = 6.4, 24  # the width of a letter, and the letters of a name in the graph
WIDEST, THINNEST = 7.0, 0.6
LEAST = 0.02  # of the largest arrow: what has an arrow of its own
STUB = 26  # the length of a folded arrow

Point = tuple[float, float]


@dataclass(frozen=True)
class Folded:
    """Arrows into one vertex as one: their number, sum, sum of sizes, and share.

    ``terms`` are the terms of the arrows that are listed.
    """

    end: str
    count: int
    value: float
    mass: float
    share: float
    terms: tuple[tuple[str, float], ...] = ()


class ArrowLayout:
    """The drawn arrows of a graph, the folded ones, and the places of both."""

    def __init__(self, graph: Arrows) -> None:
        self.graph = graph
        ordered = sorted(graph.arrows.values(), key=lambda a: -a.mass)
        self.most = (ordered[0].mass if ordered else 0.0) or 1.0
        self.drawn = [a for a in ordered if a.mass >= LEAST * self.most]
        self.folded = self.fold(ordered[len(self.drawn) :], sum(a.mass for a in ordered))
        used = {name for a in self.drawn for name in (a.start, a.end)}
        self.nodes = [n for n in graph.nodes.values() if n.name in used]
        self.columns = sorted({n.position for n in self.nodes if n.position is not None})
        self.blocks = sorted({n.block for n in self.nodes if n.block is not None})
        self.stream = {n.name for n in self.nodes if n.stream}
        self.side_by_side = not self.stream  # in a row, not below the stream
        self.step = LETTER * max([len(n.label) for n in self.nodes if n.block is not None] + [0])
        self.rank, deep = self.ranks()
        self.row = max(ROW, deep + 2 * LINE)
        self.tokens = {n.position: n.token for n in graph.nodes.values() if n.token}
        self.lefts = self.spines()
        self.base = MARGIN + LINE + self.row * len(self.blocks)
        self.below = self.base + deep + LINE
        self.right = self.lefts[-1]
        self.curves = self.bent()

    def fold(self, small: Sequence[Edge], whole: float) -> list[Folded]:
        """Small arrows, and the terms that are not listed, as one arrow for each end vertex."""
        into: dict[str, list[Edge]] = {}
        shown = {a.end for a in self.drawn} | {a.start for a in self.drawn}
        for a in small:
            into.setdefault(a.end if a.end in shown else self.graph.of, []).append(a)
        rests = [*self.graph.rests]
        if self.graph.hidden is not None:
            rests.append((self.graph.hidden, self.graph.count))
        beyond = Counter[str]()
        for more, count in rests:
            end = more.end if more.end in shown else self.graph.of
            into.setdefault(end, []).append(more)
            beyond[end] += count - 1
            whole += more.mass
        return [
            Folded(
                end,
                len(some) + beyond[end],
                sum(a.value for a in some),
                mass := sum(a.mass for a in some),
                mass / (whole or 1.0),
                tuple(x for a in some for x in a.terms),
            )
            for end, some in into.items()
        ]

    def ranks(self) -> tuple[dict[str, int], int]:
        """The order of the vertices below each vertex of the stream, and their total height."""
        stacked = Counter[tuple[int | None, int | None]]()
        rank: dict[str, int] = {}
        for node in self.nodes:
            if node.name not in self.stream and node.name != self.graph.of:
                rank[node.name] = stacked[node.block, node.position]
                stacked[node.block, node.position] += 1
        self.stacked = stacked
        return rank, 0 if self.side_by_side else LINE * (max(stacked.values(), default=0) + 1)

    def spines(self) -> list[float]:
        """The places of the streams, and the end of the last column."""
        longest = dict.fromkeys(self.columns, 0)
        for node in self.nodes:
            if node.name in self.rank and node.position in longest:
                longest[node.position] = max(longest[node.position], len(short(node.label)))
        tokens = [len(self.tokens.get(p, "")) for p in longest] + [0]
        beside = [ASIDE + GAP + LETTER * (n + 3) for n in longest.values()]
        if self.side_by_side:
            counts = [max(n for (_, at), n in self.stacked.items() if at == p) for p in longest]
            beside = [(self.step + GAP) * n + GAP for n in counts]
        under = [2 * GAP + LETTER * (a + b) / 2 for a, b in pairwise(tokens)]
        widths = [max(COLUMN, *both) for both in zip(beside, under, strict=True)]
        return list(accumulate(widths or [COLUMN], initial=LEFT))

    def middle(self, k: int) -> float:
        """The middle of a column's vertices."""
        if not self.side_by_side:
            return self.lefts[k]
        return (self.lefts[k] + self.lefts[k + 1] - self.step - GAP) / 2

    @property
    def names_rows(self) -> list[tuple[str, float]]:
        """The label at the left of each row, the stream of its block, with its height."""
        named = dict(self.graph.rows)
        named |= {n.block: n.label for n in reversed(self.nodes)
                  if n.block is not None and n.name in self.stream}  # fmt: skip
        return [(named.get(b, str(b)), self.height_of(b)) for b in self.blocks]

    def height_of(self, block: int) -> float:
        """The height of a block's stream, counted downwards as on a page."""
        return self.base - self.row * self.blocks.index(block)

    def at(self, node: Vertex) -> Point:
        """A vertex's place: in or below the stream of its position; the expression at the top."""
        known = node.position in self.columns
        column = self.columns.index(node.position) if known else len(self.columns) - 1  # type: ignore[arg-type]
        x, middle = self.lefts[column], self.middle(column)
        if node.block is None:
            return middle, MARGIN
        y = self.height_of(node.block)
        if self.side_by_side:
            before = self.rank[node.name] - (self.stacked[node.block, node.position] - 1) / 2
            return middle + (self.step + GAP) * before, y
        if node.name in self.stream:
            return x, y
        return x + ASIDE, y + LINE * (self.rank[node.name] + 1)

    def beginning(self, f: Folded) -> Point:
        """The start of a folded arrow, which has no start vertex: to the left below its end."""
        x, y = self.at(self.graph.nodes[f.end])
        aside = STUB / 2 if self.side_by_side and f.end != self.graph.of else STUB  # beside a name
        return x - aside, y + aside / 2

    def tells(self, f: Folded) -> bool:
        """Whether the share of a folded arrow is large enough to be shown, and has room."""
        return f.share >= LEAST and (f.end == self.graph.of or not self.side_by_side)

    def bent(self) -> list[tuple[Edge, tuple[Point, Point, Point, Point]]]:
        """Each arrow with its curve, vertical at both ends; parallel arrows are bent."""
        between = Counter[tuple[str, str]]()
        out = []
        for a in self.drawn:
            (x, y), (u, v) = (self.at(self.graph.nodes[name]) for name in (a.start, a.end))
            k = between[a.start, a.end]
            between[a.start, a.end] += 1
            bend, middle = (BEND if k % 2 else -BEND) * ((k + 1) // 2), (y + v) / 2
            if x == u and y - v > self.row:  # beside the vertices on its way
                bend += 2 * BEND * round((y - v) / self.row)
            out.append((a, ((x, y), (x + bend, middle), (u + bend, middle), (u, v))))
        return out


def words(a: Edge) -> str:
    """An arrow and its value on one line."""
    return f"{a.start} →{f'({a.by})' if a.by not in ('', '+') else ''} {a.end}: {a.value:+.4f}"


def folded_words(f: Folded) -> str:
    """A folded arrow on one line."""
    count = f"{f.count} smaller arrow{'s' * (f.count > 1)}"
    return f"{count} → {f.end}: {f.value:+.4f}, {f.share:.1%} of all sizes"


def wide(mass: float, most: float) -> float:
    """The width of an arrow."""
    return round(THINNEST + WIDEST * min(mass / most, 1.0), 2)


def short(name: str) -> str:
    """A name as shown in the graph, cut if it is long."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


__all__ = ["ArrowLayout", "Folded", "folded_words", "short", "wide", "words"]
