"""Recording every block of a loop, and reading the equations once.

What an equation does in one turn of its loop it does in the next, with other arrays of the same
shapes. So it is recorded once on stand-ins, and for each turn the nodes are made again from that
record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from viete.evaluate.gradient import Backprop
from viete.evaluate.labelled import Value
from viete.evaluate.plan.node import Node
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


class Recorded(Backprop):
    """A run of the backward equations on nodes."""

    meaning = Recording
    arrays: Recording

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.space: Recorder = self.arrays.xp
        self.turns: dict[Any, Turn] = {}
        self.read: dict[int, tuple[list[Ref], bool] | None] = {}

    def value(self, step: Step) -> Value:
        self.space.equation = step
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
        members = [(r.key, self.program.places(r, step.loops)) for r in refs]
        if any(m not in self.store for m in members):
            return None
        values = [self.store[m] for m in members]
        bases: dict[Node, int] = {}
        said = []
        for v in values:
            a, base = v.array, v.array.base
            number = bases.setdefault(base, len(bases))
            said.append((v.axes, number, base.shape, base.kind, base.lead, a.shape, a.strides,
                         a.offset, a.lead))  # fmt: skip
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
                stand_in[a.base], a.probe, a.lead)  # fmt: skip
            store[m] = Value(copy, v.axes)
        arrays, kept = self.arrays, (self.store, self.arrays.memo)
        self.store, arrays.xp, arrays.memo = store, space, {}  # what is kept there are nodes
        try:
            result = super().value(step)
        finally:
            (self.store, arrays.memo), arrays.xp = kept, self.space
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
                    else self.space.view(of(a.of), a.probe, a.lead)
                )  # fmt: skip
            return made[a]

        for n in turn.nodes:
            if n.name == "constant":
                made[n] = self.space.constant(n.data)
            elif n.of is not None:
                made[n] = self.space.view(of(n.of), n.probe, n.lead)
            else:
                args = tuple(map(of, n.args))
                made[n] = self.space.node(n.name, args, n.shape, n.kind, n.lead, n.attrs)
        return Value(of(turn.result.array), turn.result.axes)


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
    named = sum(isinstance(y, Idx) and y.name in letters
                for r in refs for i in r.index for y in walk(i))  # fmt: skip
    there = sum(isinstance(x, Idx) and x.name in letters for x in parts)
    return refs, there != named
