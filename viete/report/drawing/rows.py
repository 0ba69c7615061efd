"""The row of a diagram in which each box stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from viete.report.drawing.diagram import Diagram

Node = str | tuple[str, str]  # a box, or the ('top', ...) or ('end', ...) of a group


def rows(d: Diagram, stacked: bool = False) -> dict[str, int]:
    """The row of each box: an arrow always points to a lower one.

    ``stacked`` gives a narrow and tall diagram: sources of a group are above all of it, its targets
    below, and parts that no arrow joins are one below the other.
    """
    arrows = [(a.source, a.target) for a in d.arrows if not a.back]
    edges: list[tuple[Node, Node, int]] = [(s, t, 1) for s, t in arrows]
    order = _sorted(d, edges)
    if stacked:
        for fence in _fences(d, arrows):
            try:  # A group with a detour through the outside cannot be fenced off.
                order = _sorted(d, edges + fence)
                edges += fence
            except ValueError:
                continue
    before: dict[Node, list[tuple[Node, int]]] = defaultdict(list)
    after: dict[Node, list[tuple[Node, int]]] = defaultdict(list)
    for s, t, n in edges:
        before[t].append((s, n))
        after[s].append((t, n))
    row: dict[Node, int] = {}
    for v in order:
        row[v] = max((row[s] + n for s, n in before[v]), default=0)
    # Longest paths leave everything as high as it can be. Let it sink to what needs it, ...
    leads = {s for s, _ in arrows}
    for v in reversed(order):
        if v in leads or (isinstance(v, tuple) and after[v]):
            row[v] = max(row[v], min(row[t] - n for t, n in after[v]))
    # ... and rise again where that makes more arrows shorter than longer, or where it comes to
    # stand beside something made of the same: V beside Q and K.
    for v in order:
        ins = [s for s, n in before[v] if isinstance(s, str)]
        outs = [t for t, n in after[v] if isinstance(t, str)]
        least = max((row[s] + n for s, n in before[v]), default=row[v])
        if ins and len(ins) >= len(outs):
            beside = [row[t] for s in ins for t, _ in after[s] if t != v]
            row[v] = max(least, min([row[v], *beside]))
    at = {b.id: row[b.id] for b in d.boxes}
    if stacked:
        _stack(d, arrows, at)
    _place_lonely(d, arrows, at)
    used = {r: i for i, r in enumerate(sorted(set(at.values())))}
    return {b: used[r] for b, r in at.items()}


def _fences(d: Diagram, arrows: list[tuple[str, str]]) -> Iterator[list[tuple[Node, Node, int]]]:
    """Constraints that keep a group's rows to itself; then those that put groups in a column."""
    group = {b.id: b.group for b in d.boxes}
    full = [g.id for g in d.groups if g.id in group.values()]
    for g in full:
        top, end = ("top", g), ("end", g)
        fence: list[tuple[Node, Node, int]] = []
        for b in d.boxes:
            fence += [(top, b.id, 0), (b.id, end, 0)] if b.group == g else []
        fence += [(s, top, 1) for s, t in arrows if group[t] == g != group[s]]
        fence += [(end, t, 1) for s, t in arrows if group[s] == g != group[t]]
        yield fence
    for g, h in pairwise(full):
        yield [(("end", g), ("top", h), 1)]


def _sorted(d: Diagram, edges: Iterable[tuple[Node, Node, int]]) -> list[Node]:
    """The boxes in an order in which every arrow points forward."""
    after: dict[Node, list[Node]] = {b.id: [] for b in d.boxes}
    waits: dict[Node, int] = dict.fromkeys(after, 0)
    for s, t, _ in edges:
        after.setdefault(s, []).append(t)
        waits[t] = waits.get(t, 0) + 1
        waits.setdefault(s, 0)
    order = [v for v in after if not waits[v]]
    for v in order:
        for t in after.get(v, ()):
            waits[t] -= 1
            if not waits[t]:
                order.append(t)
    if len(order) < len(waits):
        # Every box that still waits has a predecessor that waits: go back until one comes again.
        left = {v for v in waits if waits[v]}
        back = {t: s for s in after if s in left for t in after[s] if t in left}
        v, seen = next(v for v in waits if v in left), list[Node]()
        while v not in seen:
            seen.append(v)
            v = back[v]
        cycle = [v, *reversed(seen[seen.index(v) :])]
        raise ValueError(
            f"the arrows are circular: {' → '.join(map(str, cycle))}; "
            "mark the one that leads back with back=True"
        )
    return order


def _stack(d: Diagram, arrows: Sequence[tuple[str, str]], row: dict[str, int]) -> None:
    """Put parts that no arrow and no group joins one below the other."""
    part = {b.id: b.id for b in d.boxes}

    def root(v: str) -> str:
        while part[v] != v:
            part[v] = v = part[part[v]]
        return v

    first: dict[str, str] = {}
    joined = [(first.setdefault(b.group, b.id), b.id) for b in d.boxes if b.group is not None]
    for s, t in [*arrows, *joined]:
        part[root(s)] = root(t)
    parts = defaultdict(list)
    for b in d.boxes:
        parts[root(b.id)].append(b.id)
    start = 0
    for ids in parts.values():
        shift = start - min(row[i] for i in ids)
        for i in ids:
            row[i] += shift
        start = max(row[i] for i in ids) + 1


def _place_lonely(d: Diagram, arrows: Sequence[tuple[str, str]], row: dict[str, int]) -> None:
    """Place boxes without arrows, four to a row: in the rows of their group, or at the bottom."""
    joined = {v for ends in arrows for v in ends}
    for group in dict.fromkeys(b.group for b in d.boxes):
        alone = [b.id for b in d.boxes if b.group == group and b.id not in joined]
        mates = [row[b.id] for b in d.boxes if b.group == group is not None and b.id in joined]
        start = min(mates) if mates else 1 + max((row[v] for v in joined), default=-1)
        for i, v in enumerate(alone):
            row[v] = start + i // 4
        if not mates:
            joined.update(alone)
