"""Where boxes, lanes and frames stand from left to right: their order, then their places.

Every item is pulled to the middle of what it hangs on, and keeps its distance from its neighbours.
Nothing here knows about pixels or characters: ``Spacing`` says how large everything is.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import floor, inf
from statistics import fmean, median

from viete.report.drawing.diagram import BoxGroup


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
    """Something that has a place among the columns: a box, a lane or a frame."""

    first: int  # half rows
    last: int
    half: int = 0  # half the width that is drawn
    left: float = 0  # what it takes up at the left and the right of its middle
    right: float = 0
    number: int = 0  # in the list of boxes; of a frame, that of its first box
    lane: bool = False
    side: int = 0  # a lane of a residual keeps to the right (+1) or the left (-1) of everything
    x: float = 0  # the middle
    key: float = 0  # the order from left to right
    home: GroupFrame | None = None
    up: list[LayoutItem] = field(default_factory=list)
    down: list[LayoutItem] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class GroupFrame(LayoutItem):
    """A group; or, for what is in no group, the whole sheet."""

    group: BoxGroup | None = None
    items: list[LayoutItem] = field(default_factory=list)
    rows: dict[int, list[LayoutItem]] = field(default_factory=dict)
    pairs: list[tuple[LayoutItem, LayoutItem]] = field(
        default_factory=list
    )  # neighbours, left and right
    back: list[tuple[LayoutItem, LayoutItem]] = field(
        default_factory=list
    )  # and from right to left
    lefts: dict[LayoutItem, list[LayoutItem]] = field(default_factory=dict)
    rights: dict[LayoutItem, list[LayoutItem]] = field(default_factory=dict)
    title: int = 0  # width of the title
    label: str = ""  # of the arrow that leads back to the beginning
    loop: int = 0  # width of that arrow, label included


def arrange(frames: list[GroupFrame], m: Spacing) -> None:
    """Of the orders from left to right that pulling comes to, the one with fewest crossings."""
    for f in frames:
        at: dict[int, int] = defaultdict(int)  # first guess: as they come, row by row
        for i in f.items:
            if not isinstance(i, GroupFrame):
                i.left, i.right = max(i.left, i.half), max(i.right, i.half)
            i.key = i.x = at[i.first]
            i.home = f
            at[i.first] += 1
        keep_order(f)
    best = inf
    keys: dict[LayoutItem, tuple[float, float]] = {}
    for n in range(10):
        pull(frames, m, up=n % 2 == 0, sort=True)
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
        if _cost(frames) >= before:
            for f in turned:
                _mirror(f)


def _mirror(f: GroupFrame) -> None:
    for i in f.items:
        i.key = -i.key
        _move(i, -i.x)
    keep_order(f)


def _cost(frames: list[GroupFrame]) -> float:
    """Crossings, and neighbours against the order of the reader's list; then length."""
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
                turned += 1 if isinstance(i, GroupFrame) and isinstance(j, GroupFrame) else 0.4
    return crossings + turned + 1e-7 * sum(abs(a - b) for _, a, b in links)


def keep_order(f: GroupFrame) -> None:
    """Note which items stand in each row, and which are neighbours in some half row."""
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
    f.lefts, f.rights = defaultdict(list), defaultdict(list)
    for i, j in f.pairs:
        f.lefts[j].append(i)
        f.rights[i].append(j)


def pull(
    frames: list[GroupFrame],
    m: Spacing,
    up: bool,
    sort: bool = False,
    both: bool = False,
    final: bool = False,
) -> None:
    """Move every item below the middle of those it comes from, or above those it leads to.

    Row by row, each row as if it stood alone, so that one pass straightens a long chain; then
    all rows together, for what stands in several.
    """
    for f in frames:
        wish = {i: i.x for i in f.items}
        goal = dict(wish)  # what it would be without neighbours: this gives the order
        for r in f.rows if up else reversed(f.rows):
            row = [i for i in f.rows[r] if not i.side]
            mine = [i for i in row if (i.first if up else i.last) // 2 == r]
            for i in mine:
                ties = [] if final and isinstance(i, GroupFrame) else _ties(i, up)
                if both:
                    ties += _ties(i, not up)
                if ties and sort:
                    goal[i] = fmean(_place(near, wish) - own.x + i.x for own, near in ties)
                if f.group:  # what is in a frame stands as what else is in it wants it to, ...
                    ties = [(own, near) for own, near in ties if near.home is f]
                if not (sort or i.lane):  # ... and boxes follow boxes: that makes a straight spine
                    ties = [(o, near) for o, near in ties if not (o.lane or near.lane)] or ties
                if ties:
                    middle = fmean if sort else median
                    wish[i] = middle([_place(near, wish) - own.x + i.x for own, near in ties])
            if sort:
                row.sort(key=lambda i: round(goal[i], 3))
            fit = _fit_row(row, wish, m)
            wish.update((i, fit[i]) for i in mine)
        if sort:
            goal.update((i, i.side * inf) for i in f.items if i.side)
            f.items.sort(key=lambda i: round(goal[i], 3))  # what is equal keeps its order
            for n, i in enumerate(f.items):
                i.key = n
            keep_order(f)
        for i, x in _fit(f, wish, m).items():
            _move(i, x)
        if f.group:
            _bound(f, m)


def _ties(i: LayoutItem, up: bool) -> list[tuple[LayoutItem, LayoutItem]]:
    """What pulls an item: it, or the items in a frame, and what they hang on above (or below)."""
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
    """The places of one row that are nearest to the wishes, in the sense of least squares."""
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
    half way between the two fits as well, and favours neither side. Only lanes that keep to a side
    of everything take what is left over.
    """
    low = {i: wish[i] for i in f.items if not i.side}
    pushed: set[LayoutItem] = {
        i for i in low if isinstance(i, GroupFrame)
    }  # boxes give way to frames
    for i, j in f.pairs:
        if i in pushed and j in low and low[j] < low[i] + _apart(i, j, m):
            low[j] = low[i] + _apart(i, j, m)
            pushed.add(j)
    pushed = {i for i in low if isinstance(i, GroupFrame)}
    for i, j in f.back:
        if j in pushed and i in low and low[i] > low[j] - _apart(i, j, m):
            low[i] = low[j] - _apart(i, j, m)
            pushed.add(i)
    high, aim = dict(low), dict(low)
    for i, j in f.pairs:
        if i in low and j in low:
            low[j] = max(low[j], low[i] + _apart(i, j, m))
    for i, j in f.back:
        if i in high and j in high:
            high[i] = min(high[i], high[j] - _apart(i, j, m))
    x = {i: (low[i] + high[i]) / 2 for i in low}
    # Half way is farther than most have to go: back towards their wishes, from either end.
    for row in ([*x], [*reversed(x)]) * 2:
        for i in row:
            if x[i] > aim[i]:
                x[i] = max([aim[i], *(x[n] + _apart(n, i, m) for n in f.lefts[i] if n in x)])
            elif x[i] < aim[i]:
                x[i] = min([aim[i], *(x[n] - _apart(i, n, m) for n in f.rights[i] if n in x)])
    for i, j in f.pairs:
        if j.side > 0 and i in x:
            x[j] = max(x.get(j, -inf), x[i] + _apart(i, j, m))
    for i, j in f.back:
        if i.side < 0 and j in x:
            x[i] = min(x.get(i, inf), x[j] - _apart(i, j, m))
    return x


def close_gaps(f: GroupFrame, m: Spacing) -> None:
    """Take out what is empty from top to bottom."""
    shift, reach = 0.0, inf
    for i in sorted(f.items, key=lambda i: i.x - i.left):
        shift += max(0, i.x - i.left - shift - reach - m.gap)
        _move(i, i.x - shift)
        reach = i.x + i.right if reach == inf else max(reach, i.x + i.right)
    if f.group:
        _bound(f, m)


def _move(item: LayoutItem, x: float) -> None:
    if isinstance(item, GroupFrame):
        for i in item.items:
            i.x += x - item.x
    item.x = x


def _bound(f: GroupFrame, m: Spacing) -> None:
    """Fit a frame around its items; lines that enter it from above must not meet its title."""
    left = min(i.x - i.left for i in f.items) - m.side
    right = max(i.x + i.right for i in f.items) + m.side
    mine = set(f.items)
    for i in f.items:
        if i.first == f.first and any(u not in mine for u in i.up):
            left = min(left, i.x - (len(i.up) - 1) * m.port - f.title - 2 * m.side - m.lane)
    right = max(right, left + f.title + 2 * m.side)
    f.x = (left + right) / 2
    f.right = (right - left) / 2
    f.left = f.right + f.loop


def to_origin(sheet: GroupFrame) -> None:
    """Move everything so that the leftmost thing is at 0."""
    left = min(i.x - i.left for i in sheet.items)
    for i in sheet.items:
        _move(i, i.x - left)


def settle(frames: list[GroupFrame], m: Spacing) -> None:
    """Whole numbers; lanes straight below their beginnings or above their ends; no small steps."""
    for f in frames:
        for i in f.items:
            _move(i, i.x if isinstance(i, GroupFrame) else floor(i.x + 0.5))
        if f.group:
            _bound(f, m)
        for i, j in f.pairs:  # a frame may have become wider by a hair
            _move(j, max(j.x, i.x + _apart(i, j, m)))
        if f.group:
            _bound(f, m)
    for f in frames:
        for i in f.items:
            if i.side or isinstance(i, GroupFrame):
                continue
            low = max((n.x + _apart(n, i, m) for n in f.lefts[i]), default=-inf)
            high = min((n.x - _apart(i, n, m) for n in f.rights[i]), default=inf)
            if f.group:
                low = max(low, f.x - f.right + m.side + i.left)
                high = min(high, f.x + f.right - m.side - i.right)
                if i.first == f.first:
                    low = i.x  # the title is at its left
            near = [n.x for n in [*i.up, *i.down]]
            if i.lane:
                straight = [x for x in near if low <= x <= high]
                i.x = straight[0] if straight else min(max(near[0], low), high)
            elif len(i.up) == 1 and abs(near[0] - i.x) <= m.port and low <= near[0] <= high:
                i.x = near[0]
