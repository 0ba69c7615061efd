"""Which entries of its arguments an entry of a function's result needs, found in its definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viete.explore.operation import Operand, Operation

Reads = Mapping[Operand, list[set[str | None]]]  # None: all entries along an axis


def entries_read(
    last: Operation, operands: Sequence[Operand], start: int, made: Sequence[Operation]
) -> str:
    """'elementwise', 'row' or 'function': of each argument one entry is read, one axis, or more.

    The operations from ``start`` to ``last`` are the function's. A function of only numbers is
    'constant'.
    """
    found = reads(last, start, made)
    if not found or all(x.plain for x in operands):
        return "constant"
    many = max(sum(len(labels) != 1 or None in labels for labels in axes)
               for axes in found.values())  # fmt: skip
    return ("elementwise", "row", "function")[min(many, 2)]


def reads(operation: Operation, start: int, made: Sequence[Operation]) -> Reads:
    """For each array made before ``start``, the labels of an operation that its axes go along."""
    out: dict[Operand, list[set[str | None]]] = {}
    known = set(operation.axes) - {operation.to}
    for x in operation.operands:
        if x.plain:
            continue
        along = [a if a in known else None for a in x.axes]
        inner = made[x.of] if x.made else None
        found: Reads
        if inner is None or inner.id < start:
            found = {Operand(x.of, (), x.made): [{a} for a in along]}
        else:
            inner = inner if inner.last is None else made[inner.last]
            places: dict[str | None, str | None] = dict(zip(inner.axes, along, strict=True))
            found = {
                source: [{places.get(a) for a in labels} for labels in axes]
                for source, axes in reads(inner, start, made).items()
            }
        for source, axes in found.items():
            before = out.setdefault(source, [set() for _ in axes])
            for labels, more in zip(before, axes, strict=True):
                labels |= more
    return out
