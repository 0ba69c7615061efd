"""The exact meaning: the rules of the array meaning, on arrays of exact numbers.

Nothing here says how attention or layer norm work: an expression means what `Arrays` says, with
the exact namespace in place of NumPy's, and no fast versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from viete.analysis.kinds import Interval
from viete.evaluate.array import Arrays, Lookup, check_places
from viete.evaluate.labelled import Array, Value, expand
from viete.graph.card import CardData
from viete.graph.evaluator import Env
from viete.meanings.exact.namespace import Namespace, Undefined, ask, entry
from viete.meanings.exact.numbers import Number
from viete.notation.tree import Apply, Idx, Ref, Slot, Symbol

LETTERS = ("u", "w", "q", "c", "g", "z", "name")  # for names made within an equation


class Exact(Arrays):
    """Evaluates expressions on arrays of `Number`; a plain fraction stays one."""

    divides = False  # a quotient is exact, and what is exact is rounded down

    def __init__(
        self, card: CardData, sizes: Mapping[str, Fraction], like: Array, lookup: Lookup,
        quick: bool = False, memo: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(card, sizes, like, lookup, quick=False)  # names are this run's own
        taken = self.card.scope.symbols
        self.letter = next(x for x in LETTERS if x not in taken)
        self.space = Namespace(self.label)
        self.xp: Any = self.space
        self.numpy, self.writes = False, False

    def label(self, k: int) -> Ref:
        """``u_7``: the seventh name made within an equation."""
        return Ref(Symbol("value", self.letter, (Slot(str(k)),)))

    def lift(self, v: Value) -> Array:
        whole = hasattr(v.array, "shape") or isinstance(v.array, Undefined)
        return v.array if whole else entry(v.array)

    def alone(self, v: Value) -> tuple[Any, Array, bool]:
        return self.space, self.lift(v), v.const

    def array(self, v: Value) -> Array:
        return np.asarray(self.lift(v), dtype=object)

    def reals(self, v: Value) -> Array:
        return self.lift(v)

    def real(self, v: Value) -> Value:
        return v

    def interval(self, v: Value) -> Interval | None:
        return None

    def namespace(
        self, values: list[Value], op: str, count: int = 1, const: bool | None = None
    ) -> tuple[Any, list[Array], bool, Interval | None]:  # fmt: skip
        return self.space, [self.lift(v) for v in values], all(v.const for v in values), None

    def idx(self, e: Idx, env: Env) -> Value:
        v = super().idx(e, env)
        if not v.axes:
            return v
        key = "exact", id(v.array)
        if key not in self.memo:
            numbers = np.array([Number.of(int(k)) for k in v.array], dtype=object)
            self.memo[key] = v.array, numbers
        return Value(self.memo[key][1], v.axes, True, False, v.interval)

    def apply(self, e: Apply, env: Env) -> Value:
        if e.op == "pi":
            return Value(Number.pi(), (), True)
        return super().apply(e, env)

    def entrywise(self, op: str, args: list[Value]) -> Value:
        axes = max((v.axes for v in args), key=len)
        axes = (*dict.fromkeys(a for v in args for a in v.axes if a not in axes), *axes)
        arrays = [
            expand(self.space, self.lift(v), v.axes, axes) if v.axes else self.lift(v) for v in args
        ]
        found = self.space.entrywise(op, arrays)
        return Value(found if axes else plain(found), axes, all(v.const for v in args))

    def gathered(self, v: Value, label: str, at: Value, first: int) -> Value:
        if at.array.dtype == object:
            whole = np.vectorize(place, otypes=[np.int64])(at.array)
            at = Value(whole, at.axes, at.const)
        check_places(at, first, v.size(label))
        return super().gathered(v, label, at, first)


def place(x: Number | int) -> int:
    """An index; one that is not whole is left to be refused."""
    ask(x)
    if not isinstance(x, Number):  # an input's
        return int(x)
    q = x.rational
    return int(q) if q is not None and q.denominator == 1 else -(2**62)


def plain(x: Any) -> Any:
    """A number by itself: a fraction where it is one, since sizes and bounds must be."""
    if isinstance(x, np.ndarray):
        x = x.item()
    q = x.rational if isinstance(x, Number) else None
    return x if q is None else q
