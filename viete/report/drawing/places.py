"""Horizontal placement: lines as straight as possible, with everything kept apart.

A linear program, as in Gansner et al. 1993 (A technique for drawing directed graphs), sec. 4:
linked items want to stand in one line, above all those of a residual stream, and neighbours keep
their distance. All distances are whole numbers, so rounding down keeps every one of them.
"""

from __future__ import annotations

from collections import defaultdict
from math import floor

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

from viete.report.drawing.boxes import GroupFrame, LayoutItem, Spacing, bound

STREAM, LANES, LANE, BOXES = 1000.0, 4.0, 2.0, 3.0  # how much a link wants to be straight
BALANCE, NARROW = 0.5, 0.02  # to stand in the middle of what it leads to; to take little room
DIGITS = 5  # of a solution, before it is rounded down

Terms = dict[int, float]  # coefficients of variables


class LinearProgram:
    """Variables from 0 up with costs, and rows ``terms ≥ least``."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.rows: list[Terms] = []
        self.least: list[float] = []

    def variable(self, cost: float = 0.0) -> int:
        self.costs.append(cost)
        return len(self.costs) - 1

    def at_least(self, terms: Terms, least: float) -> None:
        self.rows.append(terms)
        self.least.append(least)

    def near(self, terms: Terms, weight: float) -> None:
        """Add the distance of ``terms`` from 0 to the cost."""
        away = self.variable(weight)
        for sign in (1.0, -1.0):
            self.at_least({**{v: sign * a for v, a in terms.items()}, away: 1.0}, 0.0)

    def solve(self) -> np.ndarray:
        entries = [(n, v, a) for n, row in enumerate(self.rows) for v, a in row.items()]
        size = len(self.rows), len(self.costs)
        at, of, values = zip(*entries, strict=True) if entries else ((), (), ())
        matrix = coo_matrix((values, (at, of)), shape=size).tocsr()
        found = linprog(self.costs, A_ub=-matrix, b_ub=[-x for x in self.least], method="highs")
        assert found.status == 0, found.message  # everything can be moved apart
        return np.round(found.x, DIGITS)


def place(frames: list[GroupFrame], m: Spacing) -> None:
    """Set the place of every item of the frames; the last frame is the sheet."""
    p = LinearProgram()
    frames = [f for f in frames if f.items]
    middle = {i: p.variable(NARROW / 10) for f in frames for i in f.items if not _is_frame(i)}
    edges = {f: (p.variable(-NARROW), p.variable(NARROW)) for f in frames}

    def left(i: LayoutItem) -> tuple[int, float]:
        """A variable, and the distance from it to the item's left edge."""
        if isinstance(i, GroupFrame):
            return edges[i][0], i.loop
        return middle[i], i.left

    def right(i: LayoutItem) -> tuple[int, float]:
        return (edges[i][1], 0) if isinstance(i, GroupFrame) else (middle[i], i.right)

    for f in frames:
        low, high = edges[f]
        side = m.side if f.group else 0
        for i in f.items:
            for terms, least in (({left(i)[0]: 1.0, low: -1.0}, left(i)[1]),
                                 ({high: 1.0, right(i)[0]: -1.0}, right(i)[1])):  # fmt: skip
                p.at_least(terms, least + side)
        for i, j in f.pairs:
            between = m.lane if i.lane or j.lane else m.gap
            least = right(i)[1] + left(j)[1] + between
            p.at_least({left(j)[0]: 1.0, right(i)[0]: -1.0}, least)
        if f.group:
            p.at_least({high: 1.0, low: -1.0}, f.title + 2 * m.side)
            for i, room in title_rooms(f, m):
                p.at_least({middle[i]: 1.0, low: -1.0}, room)
    links = [(i, j) for i in middle for j in i.down]
    ups: dict[LayoutItem, int] = defaultdict(int)
    for _, j in links:
        ups[j] += 1
    for i, j in links:
        alone = len(i.down) == ups[j] == 1
        weight = LANES if i.lane and j.lane else LANE if i.lane or j.lane else BOXES
        if i.stream is not None and i.stream == j.stream:
            weight = STREAM
        elif i.stream is not None or j.stream is not None:
            weight *= 2 if alone else 0.5
        p.near({middle[i]: 1.0, middle[j]: -1.0}, weight * (2 if alone else 1))
    for i in middle:
        for others in (i.up, i.down):
            boxes = [j for j in others if not j.lane]
            if len(boxes) > 1 and not i.lane and i.stream is None:
                terms = {middle[i]: 1.0, **{middle[j]: -1.0 / len(boxes) for j in boxes}}
                p.near(terms, BALANCE)
    solved = p.solve()
    for i, v in middle.items():
        i.x = floor(solved[v])
    for f in frames:
        if f.group:
            low, high = (floor(solved[v]) for v in edges[f])
            bound(f, low, high)


def title_rooms(f: GroupFrame, m: Spacing) -> list[tuple[LayoutItem, float]]:
    """How far from a frame's left edge lines may enter from above, to pass by its title."""
    mine = set(f.items)
    return [
        (i, (len(i.up) - 1) * m.port + f.title + 2 * m.side + m.lane)
        for i in f.items
        if i.first == f.first and any(u not in mine for u in i.up)
    ]


def _is_frame(i: LayoutItem) -> bool:
    return isinstance(i, GroupFrame)


__all__ = ["place"]
