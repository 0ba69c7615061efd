"""Arrays whose entries are not floats: the evaluator over a namespace, and a run of it.

Such a meaning is one file: a `Namespace`, which defines about a dozen operations on arrays of its
entries. Operations that only move entries (reshape, take, concat, …) are NumPy's, with a dtype that
holds the entries: objects for `exact`, a record of two floats for `interval`. Weights and inputs
come in as fractions, whole numbers or floats; a float is the dyadic fraction that it stores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from viete.analysis.kinds import Interval
from viete.errors import VieteError
from viete.evaluate.array import Arrays, Lookup
from viete.evaluate.inputs import Feeding, check_names, host
from viete.evaluate.interventions import Intervention
from viete.evaluate.labelled import Array, Value, as_fraction, expand, is_float
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Program
from viete.graph.card import CardData
from viete.graph.evaluator import COL, REDUCTIONS, Env
from viete.notation.tree import Apply


class Namespace(ABC):
    """Replaces NumPy for arrays of one dtype (``dtype``); conditions may be plain bools."""

    __name__ = "entries"
    dtype: Any
    bool = np.bool_
    read: Callable[[Any], Any] = staticmethod(as_fraction)  # an entry that is given

    @classmethod
    def of(cls, card: CardData) -> Self:
        """The namespace for one run of a card."""
        return cls()

    def __getattr__(self, name: str) -> Any:
        if name in REDUCTIONS:
            return partial(self.fold, name)
        return self.dtype if name == "float64" else getattr(np, name)

    @abstractmethod
    def lifted(self, x: Any) -> Any:
        """An array or a plain number as entries; conditions are unchanged."""

    @abstractmethod
    def alone(self, x: Any) -> Any:
        """An entry without axes: a fraction if it equals one, since sizes and bounds must be."""

    def scalar(self, op: str, args: list[Any]) -> Any:
        """One primitive on entries without axes."""
        return self.alone(self.entrywise(op, [self.lifted(a) for a in args]))

    @abstractmethod
    def places(self, x: np.ndarray) -> np.ndarray:
        """Entries as whole numbers, for use as indices."""

    @abstractmethod
    def pi(self) -> Any:
        """The number π."""

    @abstractmethod
    def entrywise(self, op: str, arrays: list[Any]) -> Any:
        """One primitive on aligned arrays (or entries)."""

    @abstractmethod
    def fold(self, op: str, array: np.ndarray, axis: int) -> Any:
        """An axis reduced by ``sum``, ``mean``, ``max``, ``min`` or ``argmax``."""

    @abstractmethod
    def matmul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Matrix products, one for each place of the leading axes."""


class Entries(Arrays):
    """The evaluator of arrays, with a namespace's operations and no fast versions."""

    divides = False  # a quotient is divided, and then rounded down
    numbers: ClassVar[type[Namespace]]

    def __init__(
        self, card: CardData, sizes: Mapping[str, Fraction], like: Array, lookup: Lookup,
        quick: bool = False, memo: dict[Any, Any] | None = None, space: Namespace | None = None,
    ) -> None:  # fmt: skip
        super().__init__(card, sizes, like, lookup, quick=False)  # the memo belongs to this run
        self.space = self.numbers.of(card) if space is None else space
        self.xp: Any = self.space
        self.numpy, self.writes = False, False

    def lift(self, v: Value) -> Array:
        return self.space.lifted(v.array)

    def alone(self, v: Value) -> tuple[Any, Array, bool]:
        return self.space, self.lift(v), v.const

    def column(self, v: Value) -> Value:
        if v.axes:
            return super().column(v)
        entry = np.empty(1, self.space.dtype)  # of a number, which is no array
        entry[0] = self.lift(v)
        return Value(entry, (COL,), v.const, False, v.interval)

    def array(self, v: Value) -> Array:
        return np.asarray(self.lift(v), dtype=self.space.dtype)

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

    def apply(self, e: Apply, env: Env[Value]) -> Value:
        return Value(self.space.pi(), (), True) if e.op == "pi" else super().apply(e, env)

    def entrywise(self, op: str, args: list[Value]) -> Value:
        const = all(v.const for v in args)
        if not any(v.axes for v in args):
            return Value(self.space.scalar(op, [v.array for v in args]), (), const)
        axes = max((v.axes for v in args), key=len)
        axes = (*dict.fromkeys(a for v in args for a in v.axes if a not in axes), *axes)
        arrays = [
            expand(self.space, self.lift(v), v.axes, axes) if v.axes else self.lift(v) for v in args
        ]
        return Value(self.space.entrywise(op, arrays), axes, const)

    def gathered(self, v: Value, label: str, at: Value, first: int) -> Value:
        if at.array.dtype == self.space.dtype:
            at = replace(at, array=self.space.places(at.array))
        return super().gathered(v, label, at, first)


class EntryRun(Run):
    """A run of `Entries`."""

    meaning: type[Entries]
    arrays: Entries

    def taken(self, array: Any, like: Array, what: str) -> Array:
        kind = getattr(array, "dtype", None)
        own = kind != np.dtype(object) and kind in (like.dtype, np.dtype(self.arrays.space.dtype))
        return array if own else entries(self.arrays.space, array, what)


R = TypeVar("R", bound=EntryRun)


def run_entries(
    kind: type[R], ready: Program, inputs: Mapping[str, Array], weights: Mapping[str, Any],
    names: Sequence[str] | None = None, put: Mapping[Member, Intervention] | None = None,
) -> R:  # fmt: skip
    """Run a program on entries of one kind.

    ``weights`` are arrays or nested lists, in the shapes of `parameter_shapes`, of whole numbers,
    fractions or floats; a float is the dyadic fraction that it stores, also where an intervention
    in ``put`` returns it. Raises VieteError for weights that do not fit or are not finite.
    """
    if not isinstance(weights, Mapping):
        raise VieteError(
            f"weights must be a mapping from names to arrays, not {type(weights).__name__}"
        )
    check_names(ready, weights)
    space = kind.meaning.numbers.of(ready.model)
    arrays = {k: entries(space, w, f"the weight {k}") for k, w in weights.items()}
    real = {i.name: i for i in ready.model.inputs if i.high is None}
    given = {k: entries(space, v, f"the input {k}") if k in real else v for k, v in inputs.items()}
    # Lengths and families are checked on floats that replace real inputs.
    stand_in = {k: np.zeros(v.shape) if k in real else v for k, v in given.items()}
    fed = Feeding(ready, stand_in, arrays)
    for name, item in real.items():
        held = fed.store.get((name, ()))
        if held is None:
            continue
        if name not in given:
            assert item.default is not None
            size = ready.model.size(item.default)
            fill = Fraction(0) if size is None else size.evaluate(fed.sizes)
            given[name] = space.lifted(np.full(held.array.shape, fill, dtype=object))
        fed.store[name, ()] = replace(held, array=given[name])
    out = kind(ready.at(fed.sizes), fed.store, fed.like, fed.sizes, False, put)
    out.compute(names)
    return out


def entries(space: Namespace, given: Any, what: str) -> np.ndarray:
    """Any library's array, or nested lists, as the entries of a namespace."""
    return space.lifted(exact_array(given, what, space.read))


def exact_array(given: Any, what: str, read: Callable[[Any], Any] = as_fraction) -> np.ndarray:
    """Any library's array, or nested lists, as finite floats, or as results of ``read``."""
    if hasattr(given, "detach"):  # PyTorch: wider floats hold bfloat16 exactly
        given = given.detach().cpu()
        given = given.double() if is_float(given) else given
    try:
        array = host(given) if hasattr(given, "dtype") else np.array(given, dtype=object)
    except ValueError:
        raise VieteError(f"{what} must be a rectangular list of numbers") from None
    if array.dtype.kind == "f" and np.isfinite(array).all():
        return array
    out = np.empty(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        try:
            out[place] = read(array[place])
        except VieteError as error:
            raise VieteError(f"{what}{list(place) or ''}: {error.message}") from None
    return out
