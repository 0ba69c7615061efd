"""An exact run: tokens and exact weights in, every named value out as exact numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.inputs import Feeding, check_names, host
from viete.evaluate.labelled import COL, ROW, Array, Value, is_float, permute
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Program, Step
from viete.graph.card import Equation
from viete.meanings.exact.atoms import Atom
from viete.meanings.exact.deciding import effort
from viete.meanings.exact.meaning import Exact
from viete.meanings.exact.namespace import ask
from viete.meanings.exact.numbers import Number
from viete.notation.tree import Expr, Num, Pick, Ref

MOST_TERMS = 12  # of an entry of a named value; a longer one is named after its place
MOST_LENGTH = 150  # letters of it: functions of functions could double in every block
RATIONAL, CLOSED, NAMED = range(3)


@dataclass(frozen=True)
class Status:
    """What a value is made of.

    ``level`` is RATIONAL (plain fractions), CLOSED (roots and powers of e, equality decided) or
    NAMED (what is not decided comes in). ``since`` are the members in which levels 1 and 2 were
    first reached on the way to it, ``bits`` the finest enclosure that a comparison in it took (0:
    none), ``ties`` sentences on proven ties.
    """

    level: int
    since: tuple[Member | None, Member | None]
    bits: int = 0
    ties: tuple[str, ...] = ()


class ExactRun(Run):
    """A run whose arrays hold `Number`; ``status`` says of each value what it is made of."""

    meaning = Exact
    arrays: Exact

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.status: dict[Member, Status] = {}
        self.made: list[tuple[Step, Value]] = []  # all that was computed, kept or not

    @property
    def names(self) -> list[Atom]:
        """The names given, in the order in which they came up."""
        return list(self.arrays.space.names.values())

    def value(self, step: Step) -> Value:
        """One equation for one turn of its loop; what is long in it gets the name of its place."""
        space = self.arrays.space
        effort.bits, space.ties = 0, []
        v = super().value(step)
        if not v.axes:
            v = Value(np.array(v.array, dtype=object), ())
        if v.array.dtype == object:
            v = self.short(v, step)
        self.status[step.makes] = self.judged(step, v)
        self.made.append((step, v))
        return v

    def full(self, v: Value, equation: Equation) -> Value:
        ask(v.array)
        return super().full(v, equation)

    def ordered(self, v: Value, letters: Iterable[str]) -> Array:
        ask(v.array)
        return super().ordered(v, letters)

    def short(self, v: Value, step: Step) -> Value:
        slots = step.equation.left.symbol.slots
        lead = [a for a in ("batch", *slots) if a in v.axes]
        axes = (*lead, *(a for a in (ROW, COL) if a in v.axes))
        array = np.array(permute(np, v.array, v.axes, axes), dtype=object)
        for place in np.ndindex(array.shape):
            x = array[place]
            if not isinstance(x, float):
                array[place] = self.named(Number.of(x), step, dict(zip(axes, place, strict=True)))
        return Value(array, axes)

    def named(self, x: Number, step: Step, place: dict[str, int]) -> Number:
        if x.size > MOST_TERMS or x.length > MOST_LENGTH:
            return self.arrays.space.named(x, self.place(step, place))
        if x.name is not None and self.inner(x.name):
            x.name.label = self.place(step, place)
        return x

    def inner(self, name: Atom) -> bool:
        return isinstance(name.label, Ref) and name.label.symbol.base == self.arrays.letter

    def place(self, step: Step, place: dict[str, int]) -> Expr:
        """One entry in the notation: ``A^{1,2}[0, 1]``, with block and head as index letters."""
        symbol, rest = step.equation.left.symbol, dict(place)
        loops = self.program.loops_of(symbol, step.makes[1])
        index = tuple(
            Num(Fraction(loops[s] if s in loops else
                rest.pop(s) + self.program.range_of(s).start)) for s in symbol.slots
        )  # fmt: skip
        items = tuple(Num(Fraction(k)) for k in rest.values())
        return Pick(Ref(symbol, index), items) if items else Ref(symbol, index)

    def places(self) -> dict[Any, Expr]:
        """Every entry that is no fraction, by its key: where it first stood."""
        out: dict[Any, Expr] = {}
        for step, v in self.made:
            for at in np.ndindex(v.array.shape):
                x = v.array[at]
                if isinstance(x, Number) and x.rational is None and x.key not in out:
                    out[x.key] = self.place(step, dict(zip(v.axes, at, strict=True)))
        return out

    def judged(self, step: Step, v: Value) -> Status:
        """The status of a value, from its entries and from what it was made of."""
        space = self.arrays.space
        level = max((level_of(x) for x in v.array.flat), default=RATIONAL)
        since: list[Member | None] = []
        for wanted in (CLOSED, NAMED):
            before = [
                s.since[wanted - 1]
                for m in self.order(step.needs)
                if (s := self.status.get(m)) is not None and s.since[wanted - 1] is not None
            ]
            since.append(next(iter(before), step.makes if level >= wanted else None))
        return Status(level, (since[0], since[1]), effort.bits, tuple(space.ties))

    def order(self, members: frozenset[Member]) -> list[Member]:
        place = {m: k for k, m in enumerate(self.status)}
        return sorted((m for m in members if m in place), key=lambda m: place[m])


def level_of(x: Any) -> int:
    """RATIONAL, CLOSED or NAMED."""
    if not isinstance(x, Number) or x.rational is not None:
        return RATIONAL
    return CLOSED if x.decided else NAMED


def run_exact(
    ready: Program, inputs: Mapping[str, Array], weights: Mapping[str, Any],
    names: Sequence[str] | None = None,
) -> ExactRun:  # fmt: skip
    """Run a program on exact numbers.

    ``weights`` are arrays or nested lists, in the shapes of `parameter_shapes`, of whole numbers,
    fractions or floats; a float is the dyadic fraction that it is. Raises VieteError for weights
    that do not fit or are not finite, for a division by exactly zero, and where a comparison
    cannot be decided.
    """
    if not isinstance(weights, Mapping):
        raise VieteError(
            f"weights are a mapping from names to arrays, not {type(weights).__name__}"
        )
    check_names(ready, weights)
    arrays = {name: exact_array(w, f"the weight {name}") for name, w in weights.items()}
    real = {i.name for i in ready.model.inputs if i.high is None}
    given = {k: exact_array(v, f"the input {k}") if k in real else v for k, v in inputs.items()}
    stand_in = {k: np.zeros(v.shape) if k in real else v for k, v in given.items()}
    fed = Feeding(ready, stand_in, arrays)
    for item in ready.model.inputs:
        held = fed.store.get((item.name, ()))
        if item.name in real and held is not None:
            if item.name in given:
                array = given[item.name]
            else:
                assert item.default is not None
                fill = ready.model.size(item.default)
                value = Number.of(0 if fill is None else fill.evaluate(fed.sizes))
                array = np.full(held.array.shape, value, dtype=object)
            fed.store[item.name, ()] = replace(held, array=array)
    ready = ready.at(fed.sizes)
    out = ExactRun(ready, fed.store, np.zeros(0, dtype=object), fed.sizes, False)
    out.compute(names)
    return out


def exact_array(given: Any, what: str) -> np.ndarray:
    """An array of `Number` from any library's array or from nested lists."""
    if hasattr(given, "detach"):  # PyTorch: wider floats hold bfloat16 exactly
        given = given.detach().cpu()
        given = given.double() if is_float(given) else given
    try:
        array = host(given) if hasattr(given, "dtype") else np.array(given, dtype=object)
    except ValueError:
        raise VieteError(f"{what} must be a rectangular list of numbers") from None
    out = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        try:
            out[place] = Number.of(array[place])
        except VieteError as error:
            raise VieteError(f"{what}{list(place) or ''}: {error.message}") from None
    return out
