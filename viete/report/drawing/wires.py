"""The vertical layout of a diagram: its arrows as horizontal and vertical lines.

Between two rows lies a *channel*. All lines in it that come from one box form a comb: a horizontal
line with teeth up to the boxes it comes from and down to the boxes it goes to. Combs that would
touch lie at different heights, in the order with the fewest crossings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from viete.report.drawing.boxes import LayoutItem, Spacing
from viete.report.drawing.columns import Columns, Route, plan, port_space
from viete.report.drawing.diagram import Arrow, Box, BoxGroup, Diagram

Point = tuple[int, int]


@dataclass(frozen=True)
class Rect:
    """A rectangle by its edges, which belong to it."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True)
class Wire:
    """An arrow as a line of horizontal and vertical pieces, with the point at its end."""

    arrow: Arrow
    points: tuple[Point, ...]  # from the source to the target


@dataclass(frozen=True)
class Label:
    """A text next to a line."""

    x: int
    y: int  # of the box it belongs to, or of the middle of the line
    text: str
    place: str  # 'below' its source | 'above' its target | 'right' or 'left' of a line


@dataclass(frozen=True)
class DiagramLayout:
    """The places of all elements, in the unit of the metrics."""

    width: int
    height: int
    boxes: tuple[tuple[Box, Rect], ...]
    frames: tuple[tuple[BoxGroup, Rect], ...]
    wires: tuple[Wire, ...]
    loops: tuple[
        tuple[BoxGroup, tuple[Point, ...]], ...
    ]  # from the end of a frame to its beginning
    labels: tuple[Label, ...]


@dataclass(eq=False)
class Comb:
    """The lines in a channel that come from one place above it."""

    tops: set[int] = field(default_factory=set)  # where it meets the row above
    ends: set[int] = field(default_factory=set)  # where it meets the row below
    level: int = 0  # of its horizontal line, from 1; 0: it has none

    @property
    def low(self) -> int:
        return min(self.tops | self.ends)

    @property
    def high(self) -> int:
        return max(self.tops | self.ends)


def layout(
    d: Diagram,
    sizes: dict[str, tuple[int, int]],
    m: Spacing,
    wide: Callable[[str], int],
    stacked: bool = False,
) -> DiagramLayout:
    """Lay out boxes of the given half widths and heights; ``wide`` measures a label."""
    if not d.boxes:
        return DiagramLayout(0, 0, (), (), (), (), ())
    p = plan(d, {i: half for i, (half, _) in sizes.items()}, m, wide, stacked)
    above, below = _ports(p, m, wide)
    combs = _combs(p, above, below)
    for there in combs.values():
        _level(list(there.values()))

    tall = {i: height for i, (_, height) in sizes.items()}
    notes_below = {r.stops[0].last for r in p.routes if r.arrow.label and r.label == "source"}
    notes_above = {r.stops[-1].first for r in p.routes if r.above}
    starts, ends = {f.first for f in p.frames}, {f.last for f in p.frames}
    last = max(p.row.values())
    top, bottom, level = [0] * (last + 1), [0] * (last + 1), [0] * (last + 2)
    y = 0
    for c in range(last + 2):
        y += m.label * (2 * c - 1 in notes_below) + m.foot * (2 * c - 1 in ends)
        tracks = max((comb.level for comb in combs[c].values()), default=0)
        level[c] = y + m.lead
        if tracks:
            y = level[c] + (tracks - 1) * m.track
        elif 0 < c <= last and (2 * c - 1 not in notes_below or 2 * c - 1 in ends):
            y += m.lead
        if c <= last:
            y += m.head * (2 * c in starts) + m.above * (2 * c in starts and c > 0)
            y += m.label * (2 * c in notes_above)
            top[c] = y = y + m.tip * (c > 0 or tracks > 0 or 0 in starts)
            bottom[c] = y = y + max(tall[i] for i, row in p.row.items() if row == c)

    rect: dict[str, Rect] = {}
    for i, item in p.box.items():
        x, c = int(item.x), p.row[i]
        upper = top[c] + (bottom[c] - top[c] - tall[i]) // 2
        rect[i] = Rect(x - item.half, upper, x + item.half, upper + tall[i])
    wires, labels = list[Wire](), list[Label]()
    for r in p.routes:
        points = _points(r, above, below, combs, rect, level, m)
        wires.append(Wire(r.arrow, points))
        labels += _labels(r, points, below, rect[r.arrow.source])
    frames, loops = [], []
    for f in p.frames:
        assert f.group is not None
        left, right = int(f.x - f.right), int(f.x + f.right)
        upper = top[f.first // 2] - m.tip - m.label * (f.first in notes_above) - m.head
        lower = bottom[f.last // 2] + m.label * (f.last in notes_below) + m.foot
        frames.append((f.group, Rect(left, upper, right, lower)))
        if f.loop:
            x, back, out = left - m.loop, upper + m.notch, lower - m.notch
            line = (left, out), (x, out), (x, back), (left - m.clear, back)
            loops.append((f.group, line))
            if f.label:
                labels.append(Label(x, (out + back) // 2, f.label, "left"))
    boxes = tuple((b, rect[b.id]) for b in d.boxes)
    edges = [r.right for r in rect.values()] + [r.right for _, r in frames]
    edges += [
        x for line in (*(w.points for w in wires), *(way for _, way in loops)) for x, _ in line
    ]
    edges += [t.x + m.lane + wide(t.text) for t in labels if t.place != "left"]
    marks = tuple(dict.fromkeys(labels))
    return DiagramLayout(max(edges), y, boxes, tuple(frames), tuple(wires), tuple(loops), marks)


def _ports(
    p: Columns, m: Spacing, wide: Callable[[str], int]
) -> tuple[dict[Route, int], dict[LayoutItem, int]]:
    """The places where arrows enter the top of their boxes, and where they leave from below."""
    outs: dict[LayoutItem, list[Route]] = defaultdict(list)
    ins: dict[LayoutItem, list[Route]] = defaultdict(list)
    for r in p.routes:
        outs[r.stops[0]].append(r)
        if not r.into:
            ins[r.stops[-1]].append(r)
    below: dict[LayoutItem, int] = {}
    for box, routes in outs.items():
        below[box] = int(box.x)
        end, *others = {r.stops[1] for r in routes}
        # A single arrow goes straight down if it can; a label would have to move with it.
        straight = end.half < abs(end.x - box.x) <= box.half - m.port // 2
        if straight and not others and not end.side and box.right == box.half:
            below[box] = int(end.x)
    above: dict[Route, int] = {}
    for box, routes in ins.items():
        edge = max(0, box.half - m.port // 2)
        low, high = int(box.x) - edge, int(box.x) + edge
        if box.home and box.home.group and box.first == box.home.first:  # its title is there
            title = box.home.x - box.home.right + box.home.title + 2 * m.side + m.lane
            low = min(max(low, int(title)), int(box.x))
        came = {r: below.get(r.stops[-2], int(r.stops[-2].x)) for r in routes}
        routes.sort(key=lambda r: came[r])
        spaces = [port_space(r, m, wide) for r in routes]
        stream = next((n for n, r in enumerate(routes) if r.in_stream), None)
        fit = _fit(low, high, [came[r] for r in routes], spaces, stream)
        above.update(zip(routes, fit, strict=True))
    return above, below


def _fit(
    low: int, high: int, came: list[int], spaces: list[int], stream: int | None
) -> list[int]:  # fmt: skip
    """The places between low and high for arrows from the given places, from left to right."""
    straight = [n for n, x in enumerate(came) if low <= x <= high]
    if stream is not None:  # it comes straight down in any case
        straight = [stream, *(n for n in straight if n > stream)]
    if straight:  # the others beside those that come straight down
        first = straight[0]
        fit = [came[first] - sum(spaces[n:first]) for n in range(first)] + came[first:]
        for n in range(first, len(fit)):
            if n not in straight:
                fit[n] = fit[n - 1] + spaces[n - 1]
    else:  # evenly over the middle
        start = (low + high - sum(spaces[:-1])) // 2
        fit = [start + sum(spaces[:n]) for n in range(len(came))]
    place = low
    for n, space in enumerate(spaces):
        fit[n] = max(fit[n], place)
        place = fit[n] + space
    place = high + min(spaces)  # the ends of the last label may stand out a little
    for n in reversed(range(len(fit))):
        place = fit[n] = min(fit[n], place - spaces[n])
    return fit


def _stations(r: Route, above: dict[Route, int], below: dict[LayoutItem, int]) -> list[int]:
    """The place of an arrow in each row, from its source's to its target's."""
    start, *lanes, end = r.stops
    between = [int(i.x) for i in lanes[: (end.first - start.first) // 2 - 1]]
    last = int(lanes[-1].x) if r.into else above[r]
    return [below[start], *between, last]


def _combs(
    p: Columns, above: dict[Route, int], below: dict[LayoutItem, int]
) -> dict[int, dict[tuple[LayoutItem, int], Comb]]:
    """The combs of each channel; channel c is above row c."""
    combs: dict[int, dict[tuple[LayoutItem, int], Comb]] = defaultdict(lambda: defaultdict(Comb))
    for r in p.routes:
        start, lane, end = r.stops[0], r.stops[1], r.stops[-1]
        if end.first > start.first:
            stations = pairwise(_stations(r, above, below))
            for c, (x, then) in enumerate(stations, start.first // 2 + 1):
                comb = combs[c][start, x]
                comb.tops.add(x)
                comb.ends.add(then)
        else:
            combs[start.first // 2 + 1][start, below[start]].tops |= {below[start], int(lane.x)}
            combs[end.first // 2][lane, int(lane.x)].ends |= {int(lane.x), above[r]}
    return combs


def _level(combs: list[Comb]) -> None:
    """Give combs that would touch different levels, 1, 2, …, from the top."""
    combs = [c for c in combs if c.low < c.high]
    # cost[a][b]: what it costs to have a above b. Lines that would lie on each other cost most.
    cost = [[_conflicts(a, b) for b in combs] for a in combs]
    debt = [sum(cost[b][a] - cost[a][b] for b in range(len(combs))) for a in range(len(combs))]
    left = list(range(len(combs)))
    done: list[Comb] = []
    while left:
        # The comb that gains least from having those that are left above it.
        a = min(left, key=lambda a: (-debt[a], a))
        left.remove(a)
        for b in left:
            debt[b] -= cost[a][b] - cost[b][a]
        touching = (c.level for c in done if c.low <= combs[a].high and combs[a].low <= c.high)
        combs[a].level = 1 + max(touching, default=0)
        done.append(combs[a])


def _conflicts(a: Comb, b: Comb) -> int:
    crossings = sum(b.low < x < b.high for x in a.ends) + sum(a.low < x < a.high for x in b.tops)
    return crossings + 1000 * len(a.ends & b.tops)


def _points(
    r: Route,
    above: dict[Route, int],
    below: dict[LayoutItem, int],
    combs: dict[int, dict[tuple[LayoutItem, int], Comb]],
    rect: dict[str, Rect],
    level: list[int],
    m: Spacing,
) -> tuple[Point, ...]:
    start, lane, end = r.stops[0], r.stops[1], r.stops[-1]
    source, target = rect[r.arrow.source], rect[r.arrow.target]

    def height(c: int, item: LayoutItem, x: int) -> int:
        return level[c] + (combs[c][item, x].level - 1) * m.track

    points = [(below[start], source.bottom)]
    if end.first > start.first:
        stations = pairwise(_stations(r, above, below))
        for c, (x, then) in enumerate(stations, start.first // 2 + 1):
            if x != then:
                y = height(c, start, x)
                points += [(x, y), (then, y)]
    else:
        x = int(lane.x)
        y = height(start.first // 2 + 1, start, below[start])
        points += [(below[start], y), (x, y)]
        y = height(end.first // 2, lane, x)
        points += [(x, y), (above[r], y)]
    if r.into:
        y = (target.top + target.bottom) // 2
        points.append((points[-1][0], y))
        points.append((target.right + m.clear if r.into > 0 else target.left - m.clear, y))
    else:
        points.append((above[r], target.top - m.clear))
    return tuple(points)


def _labels(
    r: Route, points: tuple[Point, ...], below: dict[LayoutItem, int], rect: Rect
) -> Iterator[Label]:
    if r.arrow.label and r.label == "source":
        yield Label(below.get(r.stops[0], 0), rect.bottom, r.arrow.label, "below")
    if r.above:
        yield Label(points[-1][0], points[-1][1], r.above, "above")
    if r.arrow.label and r.label == "lane":
        tallest = max(pairwise(points), key=lambda ends: abs(ends[0][1] - ends[1][1]))
        (x, y), (_, end) = tallest
        yield Label(x, (y + end) // 2, r.arrow.label, "right" if r.into > 0 else "left")
