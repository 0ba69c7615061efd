"""Recording every block of a loop, and reading the equations once.

What an equation does in one turn of its loop it does in the next, with other arrays of the same
shapes. So it is recorded once on stand-ins, and for each turn the nodes are made again from that
record.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from viete.evaluate.gradient import Backprop
from viete.evaluate.labelled import Value
from viete.evaluate.plan.node import Node, laid_out
from viete.evaluate.plan.recorder import Recorder
from viete.evaluate.plan.recording import Recording
from viete.evaluate.schedule import Member, Step
from viete.notation.tree import Bind, Idx, Ref, walk


@dataclass
class Turn:
    """An equation recorded: its nodes, in order, on stand-ins for the bases of its operands."""

    stand_ins: list[Node]
    nodes: list[Node]
    result: Value


class RecordedRun(Backprop):
    """A run of the equations on nodes, forward or back.

    The value of a member in ``changed`` is a node that an intervention fills.
    """

    meaning = Recording
    arrays: Recording

    def __init__(self, *args: Any, changed: Collection[Member] = ()) -> None:
        super().__init__(*args)
        self.changed = changed
        self.layouts: dict[Member, tuple[str, ...]] = {}  # of those: their axes
        self.space: Recorder = self.arrays.xp
        self.turns: dict[Any, Turn] = {}
        self.read: dict[int, tuple[list[Ref], bool] | None] = {}

    def value(self, step: Step) -> Value:
        self.space.equation = step
        found = self.recorded(step)
        return self.replaced(found, step) if step.makes in self.changed else found

    def replaced(self, v: Value, step: Step) -> Value:
        """The value as a node of its own, of which all is made that comes after."""
        a, self.layouts[step.makes] = v.array, v.axes
        if a.size == a.base.size and 0 not in a.strides:  # it goes on lying in that order
            at = (a.shape, a.strides, a.offset)
            node = self.space.node(
                "changed", (a.base,), a.base.shape, a.kind, a.base.lead, (step.makes, at)
            )
            return replace(v, array=self.space.view(node, a.probe, a.lead, a.offset))
        at = (a.shape, laid_out(a.shape).strides, 0)
        copy = self.space.node("copy", (a,), a.shape, a.kind, a.lead)
        node = self.space.node("changed", (copy,), a.shape, a.kind, a.lead, (step.makes, at))
        return replace(v, array=node)

    def recorded(self, step: Step) -> Value:
        """The nodes of an equation, recorded, or made again as in an earlier turn."""
        found = self.operands(step)
        if found is None:
            return super().value(step)
        members, values, key = found
        if key not in self.turns:
            self.turns[key] = self.on_stand_ins(step, members, values)
        return self.again(self.turns[key], values)

    def operands(self, step: Step) -> tuple[list[Member], list[Value], Any] | None:
        """What an equation reads, and a key that is the same for turns that do the same."""
        e = step.equation
        if not step.loops:
            return None
        if id(e) not in self.read:
            self.read[id(e)] = reading(step, self.program.model.loop_letters)
        if (found := self.read[id(e)]) is None:
            return None
        refs, counts = found
        memo = self.program.memo
        key = ("operands", id(e), *step.loops.values())
        if key not in memo:
            memo[key] = e, [(r.key, self.program.places(r, step.loops)) for r in refs]
        members = memo[key][1]
        if any(m not in self.store for m in members):
            return None
        values = [self.store[m] for m in members]
        bases: dict[Node, int] = {}
        said = []
        for v in values:
            a, base = v.array, v.array.base
            number = bases.setdefault(base, len(bases))
            said.append((v.axes, v.interval, number, base.shape, base.kind, base.lead, a.shape,
                         a.strides, a.offset, a.lead))  # fmt: skip
        turn = tuple(step.loops.items()) if counts else ()
        return members, values, (id(e), turn, tuple(said))

    def on_stand_ins(self, step: Step, members: list[Member], values: list[Value]) -> Turn:
        """The equation, recorded in a namespace of its own."""
        space = Recorder(self.space.batch, self.space.fused, self.space.half)
        bases = {v.array.base: None for v in values}
        stand_in = {b: space.given(f"operand {k}", b.shape, b.kind) for k, b in enumerate(bases)}
        for b, s in stand_in.items():
            s.lead = b.lead
        store: dict[Member, Value] = {}
        for m, v in zip(members, values, strict=True):
            a = v.array
            copy = stand_in[a.base] if a.of is None else space.view(
                stand_in[a.base], a.probe, a.lead, a.offset)  # fmt: skip
            store[m] = Value(copy, v.axes, v.const, False, v.interval)
        arrays, kept = self.arrays, (self.store, self.arrays.memo)
        self.store, arrays.memo = store, {}  # what is kept there are nodes
        arrays.xp = arrays.backend.xp = space
        try:
            result = super().value(step)
        finally:
            self.store, arrays.memo = kept
            arrays.xp = arrays.backend.xp = self.space
        return Turn(list(stand_in.values()), space.nodes[len(stand_in) :], result)

    def again(self, turn: Turn, values: list[Value]) -> Value:
        """The nodes of a turn for other operands."""
        bases = list({v.array.base: None for v in values})
        made: dict[Node, Node] = dict(zip(turn.stand_ins, bases, strict=True))

        def of(a: Any) -> Any:
            if not isinstance(a, Node):
                return a
            if a not in made:  # a constant, or a view of one, from another turn
                made[a] = (
                    self.space.constant(a.data) if a.of is None
                    else self.space.view(of(a.of), a.probe, a.lead, a.offset)
                )  # fmt: skip
            return made[a]

        for n in turn.nodes:
            if n.name == "constant":
                made[n] = self.space.constant(n.data)
            elif n.of is not None:
                made[n] = self.space.view(of(n.of), n.probe, n.lead, n.offset)
            else:
                args = tuple(map(of, n.args))
                made[n] = self.space.node(n.name, args, n.shape, n.kind, n.lead, n.attrs)
        return replace(turn.result, array=of(turn.result.array))


def reading(step: Step, letters: Any) -> tuple[list[Ref], bool] | None:
    """The operands of an equation, and whether the block's number counts as a number.

    None for a sum over blocks, whose operands are of several turns.
    """
    e = step.equation.right
    parts = list(walk(e))
    if any(isinstance(x, Bind) and x.index in letters for x in parts):
        return None
    refs = [x for x in parts if isinstance(x, Ref) and x.symbol.kind in
            ("value", "parameter", "input")]  # fmt: skip
    # Of a head, i mod 2 is a number: it says which part of an operand is read, not which operand.
    named = sum(isinstance(y, Idx) and y.name in letters
                for r in refs for slot, i in zip(r.symbol.slots, r.index, strict=True)
                if slot in letters for y in walk(i))  # fmt: skip
    there = sum(isinstance(x, Idx) and x.name in letters for x in parts)
    return refs, there != named
