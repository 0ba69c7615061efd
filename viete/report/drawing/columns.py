"""The horizontal room of a diagram: boxes, frames, and lanes for the arrows.

A stretch of a row that an arrow must pass is kept free: a *lane* is an item of no width among the
boxes. So no arrow can cross a box, and placing lanes and boxes is one problem. A group is a frame
with its own items, and one item of the sheet.

A row counts as two half rows, because a branch returns at the upper half of a side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from viete.report.drawing.boxes import (
    GroupFrame,
    LayoutItem,
    Spacing,
    arrange,
    keep_order,
)
from viete.report.drawing.diagram import Arrow, Diagram, check
from viete.report.drawing.places import place
from viete.report.drawing.rows import rows


@dataclass(eq=False, repr=False)
class Route:
    """The path of one arrow: the item that it passes in each row, from its source to its target."""

    arrow: Arrow
    stops: list[LayoutItem]
    into: int = 0  # comes into its target at the right, at the left, from above
    label: str = "target"  # where its label stands: 'source' | 'target' | 'lane'

    @property
    def in_stream(self) -> bool:
        """Whether the route is a stretch of a residual stream, and so straight."""
        number = self.stops[0].stream
        return number is not None and all(i.stream == number for i in self.stops)

    @property
    def above(self) -> str:
        """The text above the route's target."""
        label = self.arrow.label if self.label == "target" else ""
        return "" if self.into else ": ".join(filter(None, (label, self.arrow.step)))


@dataclass
class Columns:
    """Every item with its place from left to right; the heights are still open."""

    row: dict[str, int]
    box: dict[str, LayoutItem]
    frames: list[GroupFrame]
    routes: list[Route]


def plan(
    d: Diagram,
    half: dict[str, int],
    m: Spacing,
    wide: Callable[[str], int],
    stacked: bool = False,
) -> Columns:
    """Place boxes of the given half widths; ``wide`` measures a label or a group's title."""
    check(d)
    row = rows(d, stacked)
    group = {b.id: b.group for b in d.boxes}
    box = {b.id: LayoutItem(2 * row[b.id], 2 * row[b.id] + 1, half[b.id]) for b in d.boxes}
    sheet = GroupFrame(0, 0)
    frame: dict[str | None, GroupFrame] = {None: sheet}
    for g in d.groups:
        span = [box[b.id] for b in d.boxes if b.group == g.id]
        if span:
            first, last = min(i.first for i in span), max(i.last for i in span)
            frame[g.id] = GroupFrame(first, last, group=g, title=wide(g.title))
            sheet.items.append(frame[g.id])
    for n, b in enumerate(d.boxes):
        box[b.id].number = n
        if not frame[b.group].items:
            frame[b.group].number = n
        frame[b.group].items.append(box[b.id])

    routes = []
    lanes: dict[tuple[object, str | None], LayoutItem] = {}
    for n, a in enumerate(d.arrows):
        s, t = group[a.source], group[a.target]
        if a.back and s == t is not None:
            texts = [frame[s].label, a.label]
            frame[s].label = ", ".join(dict.fromkeys(filter(None, texts)))
            frame[s].loop = m.loop + (m.lane + wide(frame[s].label) if frame[s].label else 0)
            continue
        route = Route(a, [box[a.source]])
        for r in range(row[a.source] + 1, row[a.target]):
            # In the frame of its source as long as that goes on; outside; in its target's.
            inside = [g for g in (s, t) if g is not None]
            here = next((g for g in inside if frame[g].first <= 2 * r < frame[g].last), None)
            # One lane for all the arrows of a source: it is the same value that they carry.
            key = (n if a.residual else a.source, here)
            if key not in lanes:
                lanes[key] = LayoutItem(2 * r, 2 * r, lane=True)
                frame[here].items.append(lanes[key])
            lanes[key].last = max(lanes[key].last, 2 * r + 1)
            route.stops.append(lanes[key])
        if row[a.target] <= row[a.source]:  # a way back that is not a loop of one group
            lane = LayoutItem(2 * row[a.target], 2 * row[a.source] + 1, lane=True, side=-1)
            sheet.items.append(lane)
            route.stops.append(lane)
        route.stops.append(box[a.target])
        routes.append(route)
    for route in routes:
        for i, j in pairwise(route.stops):
            if i is not j and i not in j.up and not (i.side or j.side):
                j.up.append(i)
                i.down.append(j)
    _streams(routes, row)
    _make_room(d, routes, m, wide)

    everything = [f for f in frame.values() if f is not sheet] + [sheet]
    arrange(everything, m)
    for route in routes:
        if not route.arrow.residual and row[route.arrow.source] < row[route.arrow.target]:
            _to_the_side(route, frame[group[route.arrow.target]], m, wide)
    for f in everything:
        keep_order(f)
    place(everything, m)
    return Columns(row, box, everything[:-1], routes)


def _streams(routes: list[Route], row: dict[str, int]) -> None:
    """Number the residual streams: boxes joined by residual arrows, one into each and one out."""
    after: dict[LayoutItem, Route] = {}
    before: set[LayoutItem] = set()
    for route in routes:
        start, end = route.stops[0], route.stops[-1]
        down = row[route.arrow.source] < row[route.arrow.target]
        if route.arrow.residual and down and start not in after and end not in before:
            after[start] = route
            before.add(end)
    for n, box in enumerate(box for box in after if box not in before):
        while box in after:
            for i in after[box].stops:
                i.stream = n
            box = after[box].stops[-1]


def _make_room(d: Diagram, routes: list[Route], m: Spacing, wide: Callable[[str], int]) -> None:
    """Decide the places of the labels, and widen the boxes for them and for their arrows."""
    outs: dict[LayoutItem, list[Route]] = defaultdict(list)
    ins: dict[LayoutItem, list[Route]] = defaultdict(list)
    for route in routes:
        outs[route.stops[0]].append(route)
        ins[route.stops[-1]].append(route)
    for box, there in outs.items():
        labels = {r.arrow.label for r in there}
        if len(labels) == 1:
            for r in there:
                r.label = "source"
            box.right = wide(labels.pop())
    for box, there in ins.items():
        spaces = [port_space(r, m, wide) for r in there]
        room = sum(spaces) // 2
        if any(r.in_stream for r in there):  # in the middle, with the others on either side
            room = sum(spaces) - min(spaces)
        box.half = max(box.half, room + m.port // 2)
    for box in {**outs, **ins}:
        box.right += m.lane if box.right else 0
    for route in routes:
        for box in (route.stops[0], route.stops[-1]):
            box.left, box.right = max(box.left, box.half), max(box.right, box.half)


def port_space(route: Route, m: Spacing, wide: Callable[[str], int]) -> int:
    """The distance from one arrow that enters from above to the next, with room for its label."""
    return max(m.port, m.lane + wide(route.above)) if route.above else m.port


def _to_the_side(
    route: Route, target: GroupFrame, m: Spacing, wide: Callable[[str], int]
) -> None:  # fmt: skip
    """Let a branch re-enter its stream from the side, where no box is in the way."""
    last, end = route.stops[-2], route.stops[-1]
    if (
        end.stream is None
        or not any(i.stream == end.stream for i in end.up)
        or last.stream == end.stream
    ):
        return
    side = (
        1
        if (last.home is target and last.key > end.key)
        or (last.home is not target and last.x > end.x)
        else -1
    )
    mates = [i for i in target.items if i.first <= end.last and i.last >= end.first]
    if any(side * (i.key - end.key) > 0 for i in mates if not i.lane or i.side):
        return
    lane = LayoutItem(end.first, end.first, lane=True, home=target, side=side)
    lane.key = end.key + side / 2
    target.items.append(lane)
    route.stops.insert(-1, lane)
    route.into = side
    end.up.remove(last)
    last.down.remove(end)
    last.down.append(lane)
    lane.up.append(last)
    if route.label == "target":
        route.label = "lane"
        if route.arrow.label:
            room = m.lane + wide(route.arrow.label)
            lane.left, lane.right = (0, room) if side > 0 else (room, 0)


__all__ = ["Columns", "Route", "plan", "port_space"]
