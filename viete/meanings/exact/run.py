"""An exact run: tokens and exact weights in, every named value out as exact numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from viete.evaluate.labelled import Array, Value, in_order, permute
from viete.evaluate.run import Run, again
from viete.evaluate.schedule import Member, Step
from viete.graph.card import Equation
from viete.meanings.entries import Entries, EntryRun
from viete.meanings.exact.atoms import Atom
from viete.meanings.exact.deciding import effort
from viete.meanings.exact.namespace import Numbers, check_defined
from viete.meanings.exact.numbers import Number
from viete.notation.tree import Expr, Num, Pick, Ref

MOST_TERMS = 12  # of an entry of a named value; a longer one is named after its place
MOST_LENGTH = 150  # letters of it: functions of functions could double in every block
RATIONAL, CLOSED, NAMED = range(3)


@dataclass(frozen=True)
class Status:
    """The kind of numbers in a value.

    ``level`` is RATIONAL (plain fractions), CLOSED (roots and powers of e, equality decided) or
    NAMED (with undecided numbers). ``since`` are the members in which levels 1 and 2 were first
    reached on the way to it, ``bits`` the highest precision that a comparison in it needed (0:
    none), ``ties`` sentences on proven ties.
    """

    level: int
    since: tuple[Member | None, Member | None]
    bits: int = 0
    ties: tuple[str, ...] = ()


class Exact(Entries):
    """The evaluator of arrays, on exact numbers."""

    numbers = Numbers
    space: Numbers


class ExactRun(EntryRun):
    """A run whose arrays hold `Number`; ``status`` gives the `Status` of each value.

    A division by exactly zero and a comparison that cannot be decided raise VieteError.
    """

    meaning = Exact
    arrays: Exact

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.space = self.arrays.space
        self.status: dict[Member, Status] = {}
        self.made: list[tuple[Step, Value]] = []  # all that was computed, kept or not

    def __reduce__(self) -> Any:
        """A copy computes its values again: terms are sorted by when their atoms were made."""
        _, (kind, ready, store, *rest) = super().__reduce__()
        given = {m: v for m, v in store.items() if m[0] not in ready.computed}
        return recomputed, (kind, ready, given, *rest)

    @property
    def names(self) -> list[Atom]:
        """The names given to long numbers, in order."""
        return list(self.space.names.values())

    def value(self, step: Step) -> Value:
        """The value of one equation at one turn of its loop; long entries are named by place."""
        effort.bits, self.space.ties = 0, []
        v = super().value(step)
        if not v.axes:
            v = Value(np.array(v.array, dtype=object), ())
        if v.array.dtype == object:
            v = self.short(v, step)
        self.status[step.makes] = self.judged(step, v)
        self.made.append((step, v))
        return v

    def full(self, v: Value, equation: Equation) -> Value:
        check_defined(v.array)
        return super().full(v, equation)

    def ordered(self, v: Value, letters: Iterable[str]) -> Array:
        check_defined(v.array)
        return super().ordered(v, letters)

    def short(self, v: Value, step: Step) -> Value:
        axes = in_order(v, step.equation.left.symbol.slots)
        array = np.array(permute(np, v.array, v.axes, axes), dtype=object)
        for place in np.ndindex(array.shape):
            x = array[place]
            if not isinstance(x, float):
                array[place] = self.named(Number.of(x), step, dict(zip(axes, place, strict=True)))
        return Value(array, axes)

    def named(self, x: Number, step: Step, place: dict[str, int]) -> Number:
        if x.size > MOST_TERMS or x.length > MOST_LENGTH:
            return self.space.named(x, self.place(step, place))
        if x.name is not None and self.inner(x.name):
            x.name.label = self.place(step, place)
        return x

    def inner(self, name: Atom) -> bool:
        return isinstance(name.label, Ref) and name.label.symbol.base == self.space.letter

    def place(self, step: Step, place: dict[str, int]) -> Expr:
        """The name of an entry's place: ``A^{1,2}[0, 1]``, with block and head as index letters."""
        symbol, rest = step.equation.left.symbol, dict(place)
        loops = self.program.loops_of(symbol, step.makes[1])
        index = tuple(
            Num(Fraction(loops[s] if s in loops else
                rest.pop(s) + self.program.range_of(s).start)) for s in symbol.slots
        )  # fmt: skip
        items = tuple(Num(Fraction(k)) for k in rest.values())
        return Pick(Ref(symbol, index), items) if items else Ref(symbol, index)

    def places(self) -> dict[Any, Expr]:
        """Every entry that is not a fraction, by its key: the place where it first occurred."""
        out: dict[Any, Expr] = {}
        for step, v in self.made:
            for at in np.ndindex(v.array.shape):
                x = v.array[at]
                if isinstance(x, Number) and x.rational is None and x.key not in out:
                    out[x.key] = self.place(step, dict(zip(v.axes, at, strict=True)))
        return out

    def judged(self, step: Step, v: Value) -> Status:
        """The status of a value, from its entries and from the values it needs."""
        level = max((level_of(x) for x in v.array.flat), default=RATIONAL)
        since: list[Member | None] = []
        for wanted in (CLOSED, NAMED):
            before = [
                s.since[wanted - 1]
                for m in self.order(step.needs)
                if (s := self.status.get(m)) is not None and s.since[wanted - 1] is not None
            ]
            since.append(next(iter(before), step.makes if level >= wanted else None))
        return Status(level, (since[0], since[1]), effort.bits, tuple(self.space.ties))

    def order(self, members: frozenset[Member]) -> list[Member]:
        place = {m: k for k, m in enumerate(self.status)}
        return sorted((m for m in members if m in place), key=lambda m: place[m])


def level_of(x: Any) -> int:
    """The level of an entry: RATIONAL, CLOSED or NAMED."""
    if not isinstance(x, Number) or x.rational is not None:
        return RATIONAL
    return CLOSED if x.decided else NAMED


def recomputed(*given: Any) -> Run:
    """An exact run from what `ExactRun.__reduce__` stores."""
    run = again(*given)
    run.compute_members(run.wanted)
    return run
