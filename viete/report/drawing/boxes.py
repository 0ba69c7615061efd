"""The order of boxes, lanes and frames from left to right.

Every item is pulled towards the middle of its neighbours above and below, and keeps its distance
from its neighbours beside it. A branch of a residual stream stays on one side of the stream.
Nothing here knows about pixels or characters: ``Spacing`` says how large everything is.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import inf
from statistics import fmean

from viete.report.drawing.diagram import BoxGroup

LITTLE = 1e-2  # of a crossing: no reason to turn an order around


@dataclass(frozen=True)
class Spacing:
    """Distances in the unit of the medium: a pixel, or a character cell."""

    gap: int  # between two boxes of a row
    lane: int  # between a vertical line and its neighbour
    port: int  # between two arrows that arrive at one box
    track: int  # between two horizontal lines
    lead: int  # from a row to the first horizontal line below it
    tip: int  # from the last horizontal line to the row below it
    clear: int  # from the point of an arrow to the box it points to
    label: int  # height of a label
    notch: int  # least height between a residual that comes in and one that leaves
    side: int  # from a frame to what it holds, left and right
    head: int  # from the upper edge of a frame to the arrows in it: room for its title
    foot: int  # from what a frame holds to its lower edge
    above: int  # from the lines above a frame to its upper edge
    loop: int  # from a frame to the arrow that leads back to its beginning


@dataclass(eq=False, repr=False)
class LayoutItem:
    """An item with a place among the columns: a box, a lane or a frame."""

    first: int  # half rows
    last: int
    half: int = 0  # half the width that is drawn
    left: float = 0  # what it takes up at the left and the right of its middle
    right: float = 0
    number: int = 0  # in the list of boxes; of a frame, that of its first box
    lane: bool = False
    side: int = 0  # the last lane of a branch keeps to the right (+1) or left (-1) of everything
    stream: int | None = None  # the residual stream that it is a stretch of
    branch: int = 0  # of what branches off a stream: right of it (+1), left of it (-1)
    x: float = 0  # the middle
    key: float = 0  # the order from left to right
    home: GroupFrame | None = None
    up: list[LayoutItem] = field(default_factory=list)
    down: list[LayoutItem] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class GroupFrame(LayoutItem):
    """A group; or, for items without a group, the whole sheet."""

    group: BoxGroup | None = None
    items: list[LayoutItem] = field(default_factory=list)
    rows: dict[int, list[LayoutItem]] = field(default_factory=dict)
    pairs: list[tuple[LayoutItem, LayoutItem]] = field(
        default_factory=list
    )  # neighbours, left and right
    back: list[tuple[LayoutItem, LayoutItem]] = field(
        default_factory=list
    )  # and from right to left
    title: int = 0  # width of the title
    label: str = ""  # of the arrow that leads back to the beginning
    loop: int = 0  # width of that arrow, label included


def arrange(frames: list[GroupFrame], m: Spacing) -> None:
    """Order the items of each row from left to right, with the fewest crossings found."""
    for f in frames:
        at: dict[int, int] = defaultdict(int)  # first guess: as they come, row by row
        for i in f.items:
            if not isinstance(i, GroupFrame):
                i.left, i.right = max(i.left, i.half), max(i.right, i.half)
            i.key = i.x = at[i.first]
            i.home = f
            at[i.first] += 1
        _take_sides(f)
        keep_order(f)
    best = inf
    keys: dict[LayoutItem, tuple[float, float]] = {}
    for n in range(10):
        _pull(frames, m, up=n % 2 == 0)
        cost = _cost(frames)
        if cost < best:
            best, keys = cost, {i: (i.key, i.x) for f in frames for i in f.items}
    for i, (key, x) in keys.items():
        i.key, i.x = key, x
    for f in frames:
        keep_order(f)
    # The same order from right to left crosses as little: which reads better?
    few = frames if len(frames) < 5 else []
    ways = [[f for n, f in enumerate(few) if way >> n & 1] for way in range(1, 1 << len(few))]
    for turned in ways or [frames, *([f] for f in frames)]:
        before = _cost(frames)
        for f in turned:
            _mirror(f)
        if _cost(frames) > before - LITTLE:
            for f in turned:
                _mirror(f)


def _mirror(f: GroupFrame) -> None:
    for i in f.items:
        i.key = -i.key
        _move(i, -i.x)
    keep_order(f)


def _cost(frames: list[GroupFrame]) -> float:
    """The number of crossings, of neighbours against the order of the list, and then the length."""
    links = [(i.last, i.x, j.x) for f in frames for i in f.items for j in i.down]
    crossings, here, ends = 0, -1, list[float]()
    for at, _, x in sorted(links):
        if at != here:
            here, ends = at, []
        crossings += len(ends) - bisect(ends, x)
        insort(ends, x)
    turned = 0.0
    for row in (row for f in frames for row in f.rows.values()):
        for i, j in combinations([i for i in row if not i.lane][:9], 2):
            if i.number > j.number:
                turned += 4 if isinstance(i, GroupFrame) and isinstance(j, GroupFrame) else 0.4
    return crossings + turned + 1e-7 * sum(abs(a - b) for _, a, b in links)


def keep_order(f: GroupFrame) -> None:
    """Note which items are in each row, and which are neighbours in some half row."""
    f.items.sort(key=lambda i: i.key)
    halves: dict[int, list[LayoutItem]] = defaultdict(list)
    for i in f.items:
        for h in range(i.first, i.last + 1):
            halves[h].append(i)
    f.rows = {h // 2: halves[h] for h in sorted(halves) if h % 2 == 0}
    rank = {i: n for n, i in enumerate(f.items)}
    pairs = {pair for row in halves.values() for pair in pairwise(row)}
    f.pairs = sorted(pairs, key=lambda pair: (rank[pair[1]], rank[pair[0]]))
    f.back = sorted(f.pairs, key=lambda pair: -rank[pair[0]])


def _pull(frames: list[GroupFrame], m: Spacing, up: bool) -> None:
    """Order every row by the middle of its items' sources, or of their targets.

    First row by row, each by itself, so that one pass orders a long chain; then all rows together,
    for items in several.
    """
    for f in frames:
        wish = {i: i.x for i in f.items}
        goal = dict(wish)  # what it would be without neighbours: this gives the order
        for r in f.rows if up else reversed(f.rows):
            row = f.rows[r]
            mine = [i for i in row if (i.first if up else i.last) // 2 == r]
            for i in mine:
                ties = _ties(i, up)
                if ties:
                    goal[i] = fmean(_place(near, wish) - own.x + i.x for own, near in ties)
                if f.group:  # what is in a frame stands as what else is in it wants it to
                    ties = [(own, near) for own, near in ties if near.home is f]
                if ties:
                    wish[i] = fmean(_place(near, wish) - own.x + i.x for own, near in ties)
            row.sort(key=lambda i: (i.branch, round(goal[i], 3)))
            fit = _fit_row(row, wish, m)
            wish.update((i, fit[i]) for i in mine)
        for stream in {i.stream for i in f.items if i.stream is not None}:
            mates = [i for i in f.items if i.stream == stream]
            goal.update(dict.fromkeys(mates, fmean(goal[i] for i in mates)))

        def order(i: LayoutItem, goal: dict[LayoutItem, float] = goal) -> tuple[float, ...]:
            return i.branch, round(goal[i], 3), -1 if i.stream is None else i.stream

        f.items.sort(key=order)  # what is equal keeps its order, and a stream together
        for n, i in enumerate(f.items):
            i.key = n
        keep_order(f)
        for i, x in _fit(f, wish, m).items():
            _move(i, x)
        if f.group:
            left = min(i.x - i.left for i in f.items) - m.side
            bound(f, left, max(i.x + i.right for i in f.items) + m.side)


def _take_sides(f: GroupFrame) -> None:
    """Place the branches of a frame's one stream: to its right, or in parallel left and right."""
    streams = {i.stream for i in f.items if i.stream is not None}
    mates = [i for i in f.items if i.stream is not None]
    if len(streams) != 1:
        return
    top, end = min(i.first for i in mates), max(i.last for i in mates)
    left = {i for i in f.items if i.stream is None and i.first <= end and i.last >= top}
    branches: list[list[LayoutItem]] = []
    for i in f.items:
        if i in left:
            left.remove(i)
            branch = [i]
            for mate in branch:  # it grows
                near = [j for j in (*mate.up, *mate.down) if j in left]
                branch += dict.fromkeys(near)
                left.difference_update(near)
            branches.append(branch)
    branches.sort(key=lambda branch: (min(i.first for i in branch), branch[0].number))
    parallel = 0
    for n, branch in enumerate(branches):
        meets = any(
            i.first <= j.last and j.first <= i.last
            for other in branches[:n] + branches[n + 1 :]
            for i in branch
            for j in other
            if not (i.lane or j.lane)
        )
        parallel += meets
        for i in branch:
            i.branch = -1 if meets and parallel % 2 else 1


def _ties(i: LayoutItem, up: bool) -> list[tuple[LayoutItem, LayoutItem]]:
    """What pulls an item: it, or the items in a frame, with the neighbours above (or below)."""
    if not isinstance(i, GroupFrame):
        return [(i, near) for near in (i.up if up else i.down)]
    ties = [(own, near) for own in i.items for near in (own.up if up else own.down)]
    # What stands beside a frame gives way to it: followed, it would run away.
    outer = [(own, near, near if near.home is i.home else near.home) for own, near in ties]
    return [(own, near) for own, near, o in outer if o and (o.last < i.first or o.first > i.last)]


def _place(i: LayoutItem, wish: dict[LayoutItem, float]) -> float:
    if i in wish:
        return wish[i]
    return i.x + wish[i.home] - i.home.x if i.home in wish else i.x


def _apart(i: LayoutItem, j: LayoutItem, m: Spacing) -> float:
    return i.right + j.left + (m.lane if i.lane or j.lane else m.gap)


def _fit_row(
    row: list[LayoutItem], wish: dict[LayoutItem, float], m: Spacing
) -> dict[LayoutItem, float]:
    """The places of one row that are nearest to the wishes, by least squares."""
    # Pool adjacent violators: items that would overlap move as one block, to their mean wish.
    blocks: list[tuple[float, float, list[LayoutItem]]] = []  # place less offset, weight, items
    offset, offsets = 0.0, {}
    for n, i in enumerate(row):
        offset += _apart(row[n - 1], i, m) if n else 0
        offsets[i] = offset
        weight = 1e3 if isinstance(i, GroupFrame) else 0.05 if i.lane else 1.0
        place, items = wish[i] - offset, [i]
        while blocks and blocks[-1][0] > place:
            before, heavy, mates = blocks.pop()
            place = (before * heavy + place * weight) / (heavy + weight)
            weight, items = heavy + weight, mates + items
        blocks.append((place, weight, items))
    return {i: place + offsets[i] for place, _, items in blocks for i in items}


def _fit(f: GroupFrame, wish: dict[LayoutItem, float], m: Spacing) -> dict[LayoutItem, float]:
    """Give every item of a frame its wish as far as its neighbours in all its rows let it.

    Pushing everything to the right until it fits is one solution, pushing it to the left another;
    half way between the two fits as well, and favours neither side.
    """
    low = dict(wish)
    for pairs, way in ((f.pairs, 1), (f.back, -1)):
        pushed: set[LayoutItem] = {i for i in low if isinstance(i, GroupFrame)}
        for i, j in pairs:  # boxes give way to frames
            first, then = (i, j) if way > 0 else (j, i)
            end = low[first] + way * _apart(i, j, m)
            if first in pushed and way * low[then] < way * end:
                low[then] = end
                pushed.add(then)
    high = dict(low)
    for i, j in f.pairs:
        low[j] = max(low[j], low[i] + _apart(i, j, m))
    for i, j in f.back:
        high[i] = min(high[i], high[j] - _apart(i, j, m))
    return {i: (low[i] + high[i]) / 2 for i in low}


def _move(item: LayoutItem, x: float) -> None:
    if isinstance(item, GroupFrame):
        for i in item.items:
            i.x += x - item.x
    item.x = x


def bound(f: GroupFrame, left: float, right: float) -> None:
    """Set the edges of a frame."""
    f.x, f.right = (left + right) / 2, (right - left) / 2
    f.left = f.right + f.loop
