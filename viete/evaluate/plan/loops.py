"""Records every turn of a loop, but evaluates the equations of one turn only.

The turns of a loop do the same operations on different arrays of the same shapes. So one turn is
recorded on stand-ins, and its nodes are copied for each other turn.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from viete.evaluate.gradient import Backprop
from viete.evaluate.labelled import Value
from viete.evaluate.plan.node import Node, laid_out
from viete.evaluate.plan.recorder import Recorder
from viete.evaluate.plan.recording import Recording
from viete.evaluate.schedule import Member, Step
from viete.graph.card import Equation
from viete.notation.tree import Bind, Idx, Ref, walk


@dataclass
class Turn:
    """A recorded turn of a loop: its nodes, in order, on stand-ins for the bases of its operands.

    The equation of a node is the number of its step in the turn. ``results`` are the steps' values.
    """

    stand_ins: list[Node]
    nodes: list[Node]
    results: list[Value]


class RecordedRun(Backprop):
    """A run of the equations on nodes, forward or backward.

    The value of a member in ``changed`` is a node that an intervention fills.
    """

    meaning = Recording
    arrays: Recording

    def __init__(self, *args: Any, changed: Collection[Member] = ()) -> None:
        super().__init__(*args, dict.fromkeys(changed))
        self.changed = changed
        self.layouts: dict[Member, tuple[str, ...]] = {}  # of those: their axes
        self.space: Recorder = self.arrays.xp
        self.turns: dict[Any, Turn] = {}

    def perform(self, steps: list[Step], keep: Collection[Member] | None) -> None:
        """As `Run.perform`, one turn of a loop at a time."""
        for (_, loops), turn in groupby(steps, lambda step: (step.equation.loop, step.loops)):
            self.record(list(turn), bool(loops))
        if keep is not None:
            for member in [m for m in self.store if m[0] in self.program.computed]:
                if member not in keep:
                    del self.store[member]

    def record(self, steps: list[Step], again: bool) -> None:
        """Record the nodes of some steps; a turn of a loop is copied from an earlier equal one."""
        found = self.operands(steps) if again else None
        if found is None:
            for step in steps:
                self.space.equation = step
                self.store[step.makes] = self.value(step).frozen()
            return
        values, key = found
        if key not in self.turns:
            self.turns[key] = self.on_stand_ins(steps, values)
        self.copy(self.turns[key], steps, values)

    def value(self, step: Step) -> Value:
        found = super().value(step)
        return self.replaced(found, step) if step.makes in self.changed else found

    def replaced(self, v: Value, step: Step) -> Value:
        """The value as a separate node, which later steps read."""
        a, self.layouts[step.makes] = v.array, v.axes
        if a.size == a.base.size and 0 not in a.strides:  # it keeps that order
            at = (a.shape, a.strides, a.offset)
            node = self.space.node(
                "changed", (a.base,), a.base.shape, a.kind, a.base.lead, (step.makes, at)
            )
            return replace(v, array=self.space.view(node, a.probe, a.lead, a.offset))
        at = (a.shape, laid_out(a.shape).strides, 0)
        copy = self.space.node("copy", (a,), a.shape, a.kind, a.lead)
        node = self.space.node("changed", (copy,), a.shape, a.kind, a.lead, (step.makes, at))
        return replace(v, array=node)

    def operands(self, steps: list[Step]) -> tuple[dict[Member, Value], Any] | None:
        """The values that a turn reads from before, and a key that is equal for equal turns.

        None for a turn that no other turn can repeat.
        """
        members, counts = self.reads(steps)
        if members is None or any(s.makes in self.changed for s in steps):
            return None
        made = {s.makes: k for k, s in enumerate(steps)}
        values: dict[Member, Value] = {}
        bases: dict[Node, int] = {}
        said: list[Any] = [tuple(steps[0].loops.items()) if counts else ()]
        said += [id(s.equation) for s in steps]
        for m in members:
            if m in made:
                said.append(made[m])
                continue
            v = values[m] = self.store.get(m, NOTHING)
            if v is NOTHING:
                return None
            a, base = v.array, v.array.base
            said += (v.axes, v.interval, bases.setdefault(base, len(bases)), base.shape, base.kind,
                     base.lead, a.shape, a.strides, a.offset, a.lead)  # fmt: skip
        return values, tuple(said)

    def reads(self, steps: list[Step]) -> tuple[list[Member] | None, bool]:
        """The members that the equations of a turn name, in order, with repetitions.

        And whether the number of the turn is used as a number; None if the members are not known.
        """
        memo = self.program.memo
        key = ("reads", *(id(s.equation) for s in steps), *steps[0].loops.values())
        if (before := memo.get(key)) is None:
            letters = self.program.model.loop_letters
            sums = [self.sparse[s.makes[0]] for s in steps if s.makes[0] in self.sparse]
            equations = [s.equation for s in steps] + [e for x in sums for e in x.inside]
            parts = [reading(e, letters) for e in equations]
            refs = [r for found, _ in parts for r in found or () if r.key not in self.inside]
            members = [(r.key, self.program.places(r, steps[0].loops)) for r in refs]
            known = all(found is not None for found, _ in parts)
            reads = members if known else None, any(counts for _, counts in parts)
            memo[key] = before = equations, reads  # kept, so that their ids are not reused
        return before[1]

    def on_stand_ins(self, steps: list[Step], values: dict[Member, Value]) -> Turn:
        """A turn recorded in a separate namespace."""
        space = Recorder(self.space.batch, self.space.fused, self.space.half)
        bases = {v.array.base: None for v in values.values()}
        stand_in = {b: space.leaf(f"operand {k}", b.shape, b.kind) for k, b in enumerate(bases)}
        for b, s in stand_in.items():
            s.lead = b.lead
        arrays, kept = self.arrays, (self.store, self.arrays.memo)
        self.store, arrays.memo = {}, {}  # they hold nodes here
        arrays.xp = arrays.backend.xp = space
        try:
            for m, v in values.items():
                a, base = v.array, stand_in[v.array.base]
                copy = base if a.of is None else space.view(base, a.probe, a.lead, a.offset)
                self.store[m] = Value(copy, v.axes, v.const, False, v.interval)
            for k, step in enumerate(steps):
                space.equation = k
                self.store[step.makes] = self.value(step).frozen()
            results = [self.store[step.makes] for step in steps]
        finally:
            self.store, arrays.memo = kept
            arrays.xp = arrays.backend.xp = self.space
        return Turn(list(stand_in.values()), space.nodes[len(stand_in) :], results)

    def copy(self, turn: Turn, steps: list[Step], values: dict[Member, Value]) -> None:
        """Copy the nodes of a turn for the operands and steps of another turn."""
        space = self.space
        bases = {v.array.base: None for v in values.values()}
        made: dict[Any, Node] = dict(zip(turn.stand_ins, bases, strict=True))
        own = set(turn.stand_ins)  # and nodes computed from them
        for n in turn.nodes:
            space.equation = None if n.equation is None else steps[n.equation]
            if n.name == "constant":
                made[n] = space.constant(n.data)
                continue
            args = tuple([made[a] if isinstance(a, Node) else a for a in n.args])
            if n.name != "astype" and not own.isdisjoint(n.args):
                own.add(n)
                made[n] = space.added(n.copied(args, space))
            elif n.of is not None:
                made[n] = space.view(made[n.of], n.probe, n.lead, n.offset)
            else:
                made[n] = space.node(n.name, args, n.shape, n.kind, n.lead, n.attrs)
        for step, v in zip(steps, turn.results, strict=True):
            self.store[step.makes] = replace(v, array=made[v.array])


NOTHING = Value(None)


def reading(e: Equation, letters: Collection[str]) -> tuple[list[Ref] | None, bool]:
    """The operands of an equation, and whether it uses the block's number as a number.

    None for a sum over blocks, whose operands are of several turns.
    """
    parts = list(walk(e.right))
    if any(isinstance(x, Bind) and x.index in letters for x in parts):
        return None, False
    refs = [x for x in parts if isinstance(x, Ref) and x.symbol.kind in
            ("value", "parameter", "input")]  # fmt: skip
    # In the index of a head, i mod 2 is a number: it selects a part of an operand, not an operand.
    named = sum(isinstance(y, Idx) and y.name in letters
                for r in refs for slot, i in zip(r.symbol.slots, r.index, strict=True)
                if slot in letters for y in walk(i))  # fmt: skip
    there = sum(isinstance(x, Idx) and x.name in letters for x in parts)
    return refs, there != named
