"""The kinds of an array's entries: whole numbers, truth values or real numbers; and constants.

An operation on whole numbers stays whole while the library can represent its result.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from viete.analysis.kinds import BIT, COMPARISONS, Interval, interval_of
from viete.evaluate.backends import Backend, backend_of
from viete.evaluate.labelled import Array, Value, device_of, number
from viete.evaluate.memos import remembered

EXACT = (-(2**53), 2**53)  # whole numbers among float64, as constants are computed
USUAL = (1 - 2**31, 2**31 - 1)  # of an array of whole numbers without an interval


class ArrayKinds:
    """Converts values between constants and arrays, and between kinds; ``like`` as in `Arrays`."""

    def __init__(self, like: Array, memo: dict[Any, Any] | None) -> None:
        self.like = like
        self.backend: Backend = backend_of(like)
        self.xp = self.backend.xp
        self.numpy = is_numpy_array(like)
        self.writes = self.backend.writes
        self.int64, self.within = self.backend.int64, self.backend.within
        # An array made while a function is transformed belongs to that transformation.
        self.memo = {} if memo is None or self.backend.transforming() else memo
        # An array in the memo must not reach a run on arrays of another kind.
        self.kind = (self.xp.__name__, str(like.dtype), str(device_of(like)))

    def interval(self, v: Value) -> Interval | None:
        """The bounds of whole numbers or truth values; None for real numbers."""
        if v.interval is not None:
            return v.interval
        a = v.array
        if (dtype := getattr(a, "dtype", None)) is not None:
            if dtype == self.like.dtype:
                return None
            kind = str(dtype)
            return BIT if "bool" in kind else USUAL if "int" in kind else None
        if isinstance(a, bool):
            return BIT
        if isinstance(a, float):
            return None
        return (int(a), int(a)) if a.denominator == 1 else None

    def lift(self, v: Value) -> Array:
        """A constant as an array or number of its kind: whole, truth or real."""
        if not v.const:
            return v.array
        if isinstance(v.array, Fraction | int | float):
            return weak(v.array)
        if v.array.dtype == bool:
            return self.constant(v, self.xp.bool)
        return self.constant(v, self.like.dtype if v.interval is None else self.int64)

    def array(self, v: Value) -> Array:
        """A value as an array of its kind, even if it is a plain number."""
        found = self.lift(v)
        if hasattr(found, "shape"):
            return found
        there = {} if self.numpy else {"device": device_of(self.like)}
        interval = interval_of("floor", [self.interval(v)], self.within)
        dtype = self.like.dtype if interval is None else self.int64
        dtype = self.xp.bool if isinstance(found, bool) else dtype
        return self.xp.asarray(found, dtype=dtype, **there)

    def constant(self, v: Value, dtype: Any) -> Array:
        """A constant as an array of the run's library, converted once."""
        memo = ("lift", id(v.array), str(dtype), self.kind)

        def moved() -> tuple[Array, Array]:
            if self.numpy:
                return v.array, v.array.astype(dtype, copy=False)
            device = device_of(self.like)
            return v.array, self.xp.asarray(v.array.copy(), dtype=dtype, device=device)

        return remembered(self.memo, memo, moved)[1]

    def truth(self, v: Value) -> bool:
        """Whether a value holds truth values rather than numbers."""
        return isinstance(v.array, bool) or "bool" in str(getattr(v.array, "dtype", ""))

    def real(self, v: Value) -> Value:
        """Whole numbers and truth values as real numbers of the run's dtype."""
        if v.const or self.interval(v) is None:
            return v
        return Value(self.xp.astype(v.array, self.like.dtype), v.axes, False, True)

    def reals(self, v: Value) -> Array:
        """A value as an array (or number) of the run's float dtype."""
        if not v.const:
            return self.real(v).array
        if isinstance(v.array, Fraction | int | float):
            return weak(v.array)
        return self.constant(v, self.like.dtype)

    def wholes(self, v: Value) -> Array:
        """A value as an array (or number) of whole numbers."""
        if isinstance(v.array, Fraction | int | float):
            return int(v.array)
        if v.const:
            return self.constant(v, self.int64)
        if self.truth(v):
            return self.xp.astype(v.array, self.int64)
        return v.array

    def alone(self, v: Value) -> tuple[Any, Array, bool]:
        """The library for one value, its unconverted array, and whether it is constant."""
        if v.const:
            return np, number(v.array), True
        return self.xp, v.array, False

    def namespace(
        self, values: list[Value], op: str, count: int = 1, const: bool | None = None
    ) -> tuple[Any, list[Array], bool, Interval | None]:  # fmt: skip
        """An operation's library, its arrays, whether the result is constant, and its interval.

        The operands are all whole numbers if the library can represent the result as one, or else
        all real.
        """
        const = all(v.const for v in values) if const is None else const
        of = [self.interval(v) for v in values]
        within = EXACT if const else self.within
        interval = BIT if op in COMPARISONS else interval_of(op, of, within, count)
        if const:
            return np, [plain(v.array) for v in values], True, interval
        whole = interval is not None and None not in of
        if op in COMPARISONS and whole:  # whose operands must be whole numbers there
            whole = all(interval_of("floor", [x], within) is not None for x in of)
        rule = self.wholes if whole else self.reals
        return self.xp, [rule(v) for v in values], False, interval


def plain(a: Array) -> Array:
    """A constant's exact fractions or truth values as floats."""
    return a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype == np.bool_ else number(a)


def weak(a: Array) -> Array:
    """A constant number as a Python number, which takes the dtype of the array it meets."""
    return a.item() if isinstance(a, np.generic) else number(a)


__all__ = ["ArrayKinds", "plain", "weak"]
