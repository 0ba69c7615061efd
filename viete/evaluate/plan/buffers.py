"""Memory of a plan: which buffer each value takes, and when it is free again (liveness).

A value lives from the step that makes it to the last step that reads it. A value that only lives
within one group needs room for a few sequences only. An operation reuses its argument's memory if
nothing else reads the argument any more.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from viete.evaluate.plan.arranging import Group, KernelStep
from viete.evaluate.plan.kernels import IN_PLACE
from viete.evaluate.plan.node import BOOL, FLOAT, HALF, Node

ALIGNED = 64  # bytes, a cache line


@dataclass
class Buffer:
    """Bytes of the arena (or of a group's ``scratch``) in use from step ``first`` to ``last``."""

    bytes: int
    first: int
    last: int
    scratch: Group | None = None
    offset: int = 0


@dataclass
class Memory:
    """The memory of a plan: the buffer (``home``) of each value, and the sizes of two arenas."""

    home: dict[Node, Buffer]
    arena: int
    scratch: int
    wanted: int  # if nothing were shared


def bytes_of(node: Node, float_bytes: int, half_bytes: int = 2) -> int:
    """The bytes of a value, rounded up to whole cache lines."""
    kind = node.kind
    each = (
        float_bytes if kind == FLOAT else half_bytes if kind == HALF else 1 if kind == BOOL else 8
    )
    return -(-node.size * each // ALIGNED) * ALIGNED


def laid(
    groups: list[Group], batch: int, float_bytes: int, half_bytes: int = 2,
    outputs: Collection[Node] = (),
) -> Memory:  # fmt: skip
    """Buffers for all values except ``outputs``, which have separate memory."""
    readers: dict[Node, Group | None] = {}  # the only group that reads a value, else None
    last_read: dict[Node, int] = {}  # the last step that reads it
    until: dict[Node, int] = {}  # the end of that step's group, if it runs sequence by sequence
    at = -1
    for g in groups:
        end = at + len(g.steps)
        for at, s in enumerate(g.steps, at + 1):  # noqa: B020
            for b in s.bases:
                if readers.setdefault(b, g) is not g:
                    readers[b] = None
                last_read[b], until[b] = at, end if g.looped(batch) else at

    home: dict[Node, Buffer] = {}
    wanted, at = 0, -1
    for g in groups:
        start, end, looped = at + 1, at + len(g.steps), g.looped(batch)
        for at, s in enumerate(g.steps, start):
            node = s.node
            if s.target or node in outputs:
                continue
            here = looped and rows_first(node) and readers.get(node, g) is g
            scratch = g if here else None
            size = bytes_of(node, float_bytes, half_bytes)
            wanted += size
            if here:
                size = -(-size * g.chunk // batch // ALIGNED) * ALIGNED
                first, last = at, last_read.get(node, at)
            else:
                first = start if looped else at
                last = max(end if looped else at, until.get(node, at))
            taken = taken_over(s, at, home, last_read, scratch)
            if taken is None:
                home[node] = Buffer(size, first, last, scratch)
            else:
                taken.last = max(taken.last, last)
                home[node] = taken
    buffers = list({id(b): b for b in home.values()}.values())
    arena = packed([b for b in buffers if b.scratch is None])
    rooms: dict[int, list[Buffer]] = {}
    for buffer in buffers:
        if buffer.scratch is not None:
            rooms.setdefault(id(buffer.scratch), []).append(buffer)
    scratch_size = max(map(packed, rooms.values()), default=0)
    return Memory(home, arena, scratch_size, wanted)


def rows_first(node: Node) -> bool:
    """Whether the sequences are contiguous in memory, one after the other."""
    if node.lead is None:
        return False
    axis, _ = node.lead
    return node.size // max(1, node.shape[axis]) == node.strides[axis]


def taken_over(
    step: KernelStep, at: int, home: Mapping[Node, Buffer], last_read: Mapping[Node, int],
    scratch: Group | None,
) -> Buffer | None:  # fmt: skip
    """The buffer of an argument that the result may overwrite; None if there is none."""
    node = step.node
    for k in IN_PLACE.get(step.kernel, ()):
        a = step.args[k] if k < len(step.args) else None
        if not isinstance(a, Node) or a.base not in home or last_read[a.base] > at:
            continue
        buffer = home[a.base]
        same = a.whole and a.size == node.size and a.kind == node.kind
        alone = sum(x.base is a.base for x in step.reads) == 1
        if same and alone and buffer.scratch in (None, scratch):
            return buffer
    return None


def packed(buffers: list[Buffer]) -> int:
    """Set offsets by best fit, in the order of time; returns the bytes needed."""
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
    """Free a buffer's bytes, merged with adjacent gaps."""
    at, size = b.offset, b.bytes
    k = bisect.bisect(free, (at, 0))
    if k < len(free) and free[k][0] == at + size:
        size += free.pop(k)[1]
    if k and sum(free[k - 1]) == at:
        at, before = free.pop(k - 1)
        size += before
    bisect.insort(free, (at, size))
