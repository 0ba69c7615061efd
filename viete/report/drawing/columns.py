"""What takes up room in a diagram from left to right: boxes, frames, and the ways of the arrows.

A stretch of a row that an arrow has to pass is kept free for it: a *lane* is an item of no width
that stands among the boxes. So no arrow can run through a box, and placing lanes and boxes is one
problem. A group is a frame with items of its own, and one item of the sheet.

A row counts as two half rows, because a residual leaves at the lower half of its source's side
and comes in at the upper half of its target's.
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
    close_gaps,
    keep_order,
    pull,
    settle,
    to_origin,
)
from viete.report.drawing.diagram import Arrow, Diagram, check
from viete.report.drawing.rows import rows


@dataclass(eq=False, repr=False)
class Route:
    """The way of one arrow: the item it is at in each row, from its source to its target."""

    arrow: Arrow
    stops: list[LayoutItem]
    out: int = 0  # leaves its source at the right (+1), at the left (-1), from below (0)
    into: int = 0  # comes into its target at the right, at the left, from above
    label: str = "target"  # where its label stands: 'source' | 'target' | 'lane'


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
    """LayoutItem boxes of the given half widths; ``wide`` measures a label or a group's title."""
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
    for route in sorted(routes, key=lambda r: r.arrow.residual):
        _link(route)
    _make_room(d, routes, m, wide)

    everything = [f for f in frame.values() if f is not sheet] + [sheet]
    arrange(everything, m)
    taken: set[tuple[LayoutItem, int, str]] = set()
    for route in routes:
        if route.arrow.residual and row[route.arrow.source] < row[route.arrow.target]:
            ends = frame[group[route.arrow.source]], frame[group[route.arrow.target]]
            _to_the_side(route, *ends, taken, m, wide)
    for f in everything:
        keep_order(f)
    for n in range(14):
        pull(everything, m, up=n % 2 == 0, both=5 < n < 12)
    for f in everything:
        close_gaps(f, m)
    for up in (True, False):  # now that the frames have come to stand
        pull([sheet], m, up, final=True)
    settle(everything, m)
    to_origin(sheet)
    return Columns(row, box, everything[:-1], routes)


def _link(route: Route) -> None:
    """Tie the items of an arrow together, so that they pull each other into line."""
    start, end = route.stops[0], route.stops[-1]
    # A residual follows the boxes; they follow it only where nothing else holds them.
    free = route.arrow.residual and all(i.up or i.down for i in (start, end))
    for i, j in pairwise(route.stops):
        if i is j or i.side or j.side:
            continue
        if i not in j.up and (j.lane or not free):
            j.up.append(i)
        if j not in i.down and (i.lane or not free):
            i.down.append(j)


def _make_room(d: Diagram, routes: list[Route], m: Spacing, wide: Callable[[str], int]) -> None:
    """Decide where the labels stand, and widen the boxes for them and for their arrows."""
    outs: dict[LayoutItem, list[Route]] = defaultdict(list)
    ins: dict[LayoutItem, list[Route]] = defaultdict(list)
    for route in routes:
        outs[route.stops[0]].append(route)
        ins[route.stops[-1]].append(route)
    for box, there in outs.items():
        labels = {r.arrow.label for r in there}
        if len(labels) == 1 and not all(r.arrow.residual for r in there):
            for r in there:
                r.label = "source"
            box.right = wide(labels.pop())
    for box, there in ins.items():
        spaces = [port_space(r, m, wide) for r in there]
        box.half = max(box.half, sum(spaces) // 2 + m.port // 2)
    for box in {**outs, **ins}:
        box.right += m.lane if box.right else 0
    for route in routes:
        for box in (route.stops[0], route.stops[-1]):
            box.left, box.right = max(box.left, box.half), max(box.right, box.half)


def port_space(route: Route, m: Spacing, wide: Callable[[str], int]) -> int:
    """From where an arrow comes in from above to where the next may: room for its label."""
    label = route.arrow.label if route.label == "target" else ""
    return max(m.port, m.lane + wide(label)) if label else m.port


def _to_the_side(
    route: Route,
    source: GroupFrame,
    target: GroupFrame,
    taken: set[tuple[LayoutItem, int, str]],
    m: Spacing,
    wide: Callable[[str], int],
) -> None:
    """Let a residual come in (and leave) at a side of its boxes, where no box is in the way."""
    start, end = route.stops[0], route.stops[-1]

    def free(box: LayoutItem, f: GroupFrame, side: int, way: str) -> bool:
        mates = [i for i in f.items if not i.lane and i.first <= box.last and i.last >= box.first]
        outermost = all(side * i.key < side * box.key for i in mates if i is not box)
        return outermost and (box, side, way) not in taken

    for side in (1, -1):
        if not free(end, target, side, "in"):
            continue
        if source is target and not free(start, source, side, "out"):
            continue
        lane = route.stops[-2]
        if lane is start or lane.home is not target:  # there is no row before it in its frame
            lane = LayoutItem(end.first, end.first, lane=True, home=target)
            route.stops.insert(-1, lane)
            target.items.append(lane)
        if source is target:
            lane.first, route.out = start.last, side
            taken.add((start, side, "out"))
        lane.last, route.into = end.first, side
        taken.add((end, side, "in"))
        lane.side, lane.key = side, side * (1e6 + lane.last - lane.first)
        if route.label == "target":
            route.label = "lane"
            if route.arrow.label:
                room = m.lane + wide(route.arrow.label)
                lane.left, lane.right = (0, room) if side > 0 else (room, 0)
        return
