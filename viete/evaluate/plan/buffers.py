"""Which memory each value takes, and when another may have it.

A value lives from the step that makes it to the last one that reads it. What lives within one group
alone needs room for a few sequences only; an operation takes over its argument's memory where
nobody else reads it any more.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection
from dataclasses import dataclass

from viete.evaluate.plan.arranging import VIEWS, Group, KernelStep
from viete.evaluate.plan.kernels import IN_PLACE
from viete.evaluate.plan.node import BOOL, FLOAT, HALF, Node

ALIGNED = 64  # bytes, a cache line


@dataclass
class Buffer:
    """Bytes of the arena (or of one group's ``scratch``) from step ``first`` to step ``last``."""

    bytes: int
    first: int
    last: int
    scratch: Group | None = None
    offset: int = 0


@dataclass
class Memory:
    """Where everything lies: ``home`` of each value, and how large the two arenas are."""

    home: dict[Node, Buffer]
    arena: int
    scratch: int
    wanted: int  # if nothing were shared


def bytes_of(node: Node, float_bytes: int, half_bytes: int = 2) -> int:
    """What a value takes, in whole cache lines."""
    each = {FLOAT: float_bytes, HALF: half_bytes, BOOL: 1}.get(node.kind, 8)
    return -(-node.size * each // ALIGNED) * ALIGNED


def laid(
    groups: list[Group], batch: int, float_bytes: int, half_bytes: int = 2,
    outputs: Collection[Node] = (),
) -> Memory:  # fmt: skip
    """A place for every value but ``outputs``, which have memory of their own."""
    order: dict[KernelStep, tuple[int, Group]] = {}
    spans: dict[KernelStep, tuple[int, int]] = {}  # when a value of the whole piece is in use
    for g in groups:
        start, end = len(order), len(order) + len(g.steps) - 1
        for k, s in enumerate(g.steps, start):
            order[s] = k, g
            spans[s] = (start, end) if g.looped(batch) else (k, k)
    uses: dict[Node, list[KernelStep]] = {}
    for s in order:
        for b in s.bases:
            uses.setdefault(b, []).append(s)

    home: dict[Node, Buffer] = {}
    wanted = 0
    for s, (at, g) in order.items():
        node = s.node
        if s.target or node in outputs:
            continue
        readers = uses.get(node, [])
        first_axis = node.lead is not None and node.size // max(1, node.shape[node.lead[0]]) \
            == node.strides[node.lead[0]]  # fmt: skip
        here = first_axis and g.looped(batch) and all(order[r][1] is g for r in readers)
        scratch = g if here else None
        size = bytes_of(node, float_bytes, half_bytes)
        wanted += size
        if scratch is not None:
            size = -(-size * g.chunk // batch // ALIGNED) * ALIGNED
            first, last = at, max((order[r][0] for r in readers), default=at)
        else:
            first, last = spans[s][0], max([spans[s][1], *(spans[r][1] for r in readers)])
        taken = taken_over(s, at, home, uses, order, scratch)
        if taken is not None:
            taken.last = max(taken.last, last)
            home[node] = taken
            continue
        home[node] = Buffer(size, first, last, scratch)
    buffers = list({id(b): b for b in home.values()}.values())
    arena = packed([b for b in buffers if b.scratch is None])
    rooms: dict[int, list[Buffer]] = {}
    for buffer in buffers:
        if buffer.scratch is not None:
            rooms.setdefault(id(buffer.scratch), []).append(buffer)
    scratch_size = max(map(packed, rooms.values()), default=0)
    return Memory(home, arena, scratch_size, wanted)


def taken_over(
    step: KernelStep, at: int, home: dict[Node, Buffer], uses: dict[Node, list[KernelStep]],
    order: dict[KernelStep, tuple[int, Group]], scratch: Group | None,
) -> Buffer | None:  # fmt: skip
    """The buffer of an argument that may take the result."""
    node = step.node
    for k in IN_PLACE.get(step.kernel, ()):
        a = step.args[k] if k < len(step.args) else None
        if not isinstance(a, Node) or a.base.name in VIEWS or a.base not in home:
            continue
        base, buffer = a.base, home[a.base]
        alone = sum(x.base is base for x in step.reads) == 1
        last = all(order[r][0] <= at for r in uses[base])
        same = a.whole and a.size == node.size and a.kind == node.kind
        if alone and last and same and buffer.scratch in (None, scratch):
            return buffer
    return None


def packed(buffers: list[Buffer]) -> int:
    """Offsets by best fit, in the order of time; the bytes it takes."""
    free: list[tuple[int, int]] = []  # offset, size; in order, never touching
    ends: list[tuple[int, int, Buffer]] = []
    top = 0
    for n, b in enumerate(sorted(buffers, key=lambda b: b.first)):
        while ends and ends[0][0] < b.first:
            release(free, ends.pop(0)[2])
        fits = [(size, at) for at, size in free if size >= b.bytes]
        if fits:
            size, at = min(fits)
            free.remove((at, size))
            if size > b.bytes:
                bisect.insort(free, (at + b.bytes, size - b.bytes))
            b.offset = at
        elif free and sum(free[-1]) == top:  # the last gap grows
            b.offset = free.pop()[0]
            top = b.offset + b.bytes
        else:
            b.offset, top = top, top + b.bytes
        bisect.insort(ends, (b.last, n, b))
    return top


def release(free: list[tuple[int, int]], b: Buffer) -> None:
    """Give bytes back, joined with the gaps beside them."""
    at, size = b.offset, b.bytes
    k = bisect.bisect(free, (at, 0))
    if k < len(free) and free[k][0] == at + size:
        size += free.pop(k)[1]
    if k and sum(free[k - 1]) == at:
        at, before = free.pop(k - 1)
        size += before
    bisect.insort(free, (at, size))
