"""Records sparse sums: each term as steps for however many rows have a non-zero factor.

Which rows these are is known when the plan runs. A term maps each row to a row (see
`viete.analysis.sparsity`), so it is recorded as if every row were a sequence: steps that run
sequence by sequence can be made for any number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

from viete.evaluate.fast import FastArrays, Term
from viete.evaluate.labelled import Value
from viete.evaluate.plan.arranging import Group, KernelStep, steps_of
from viete.evaluate.plan.buffers import laid
from viete.evaluate.plan.node import FLOAT, Node, Unrecordable
from viete.evaluate.plan.recorder import Recorder


@dataclass(eq=False)
class RowTerm:
    """One term of a sum: its steps and its result, on stand-ins for the operands of the sum.

    ``operands`` maps their names in ``space``, in order, to whether rows of them are taken.
    """

    space: Recorder
    steps: list[KernelStep]
    result: Node
    operands: Mapping[str | int, bool]

    def __post_init__(self) -> None:
        self.memory = cache(partial(laid, [Group(self.steps, False)], 1))  # by bytes of a number


def sum_of_rows(it: FastArrays, kept: Node, rows: Mapping[str, Value], term: Term) -> Node:
    """As `FastArrays.sum_of_rows`, as one node. Raises Unrecordable for terms that mix rows."""
    outer, lookup, memo = it.xp, it.lookup, it.memo
    others: dict[Node, None] = {}  # other values that the terms look up
    recorded: list[tuple[Recorder, list[KernelStep], Node]] = []

    def stand_in(key: str, loops: tuple[int, ...]) -> Value:
        v = lookup(key, loops)
        a, base = v.array, v.array.base
        if a.space is it.xp:  # a derived name, evaluated here
            return v
        others[base] = None
        there = it.xp.leaf(base.id, base.shape, base.kind)
        return Value(it.xp.view(there, a.probe, None, a.offset), v.axes, v.const, False, v.interval)

    for k in range(kept.shape[0]):
        it.xp = it.backend.xp = space = Recorder(kept.shape[1], outer.fused)
        it.lookup, it.memo = stand_in, {}
        own = {
            key: Value(space.leaf(key, v.array.shape, v.array.kind, True), v.axes, False, False,
                       v.interval)
            for key, v in rows.items()
        }  # fmt: skip
        try:
            result = term(k, own)
        finally:
            it.xp = it.backend.xp = outer
            it.lookup, it.memo = lookup, memo
        if result is None:
            raise Unrecordable("a term that is not a matrix of the rows")
        steps = steps_of({}, space.fused, {result.base})
        apart = space.batch == 1 or all(map(by_rows, steps))
        if not apart or result.lead not in ((0, 1), None):
            raise Unrecordable("a term that mixes its rows")
        recorded.append((space, steps, result))
    names = dict.fromkeys(rows, True) | {b.id: False for b in others}
    terms = tuple(RowTerm(*each, names) for each in recorded)
    args = (kept, *(v.array for v in rows.values()), *others)
    lead = None if kept.lead is None else (0, kept.lead[1])
    return outer.node("sparse", args, terms[0].result.shape, FLOAT, lead, (terms,))


def by_rows(step: KernelStep) -> bool:
    """Whether a step maps rows to rows, or involves no rows."""
    if step.lead is None or step.node.lead is None:
        return all(a.base.lead is None for a in step.reads)
    return all(a.lead is not None or a.base.lead is None for a in step.reads)


__all__ = ["RowTerm", "sum_of_rows"]
