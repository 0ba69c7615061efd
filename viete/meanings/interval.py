"""Certified intervals: every value as two float64 numbers that enclose the exact one.

Interval arithmetic with outward rounding (Moore 1966; IEEE 1788). The error of a float64 sum or
product is itself a float64 (Dekker 1971), so a bound only moves outward where it was rounded, and
everything that floats hold exactly stays exact: positions, masks, a 0 behind a mask. Arb encloses
functions. A truth value is the interval of its possible values 0 and 1; if a condition is
undecided, both sides count. A value that is undefined, or that these bounds cannot tell, lies
between −∞ and ∞.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from flint import arb, ctx

from viete.errors import VieteError
from viete.evaluate.scalars import exact_scalar
from viete.meanings.entries import Entries, EntryRun, Namespace

INTERVAL = np.dtype([("lower", np.float64), ("upper", np.float64)])
BITS = 80  # of an enclosure by Arb, before it is rounded to float64
SPLIT = 2.0**27 + 1
SMALL = 2.0**-960  # below it the error of a product may be too small for a float64
Bounds = np.ndarray  # of INTERVAL


# -- bounds ----------------------------------------------------------------------------------------


def bounds(lower: Any, upper: Any) -> Bounds:
    """An array of intervals; a NaN bound gives (−∞, ∞)."""
    unknown = np.isnan(lower) | np.isnan(upper)
    out = np.empty(np.shape(unknown), INTERVAL)
    out["lower"], out["upper"] = np.where(unknown, -np.inf, lower), np.where(unknown, np.inf, upper)
    return out


def ends(x: Bounds) -> tuple[np.ndarray, np.ndarray]:
    return x["lower"], x["upper"]


def down(x: np.ndarray, error: np.ndarray) -> np.ndarray:
    """A lower bound of x + error, for an error below one unit in the last place."""
    return np.where(error >= 0, x, np.nextafter(x, -np.inf))


def up(x: np.ndarray, error: np.ndarray) -> np.ndarray:
    return np.where(error <= 0, x, np.nextafter(x, np.inf))


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum and its error, NaN if unknown (Knuth 1969)."""
    s = a + b
    z = s - a
    return s, np.where(np.isinf(a) | np.isinf(b), 0, (a - (s - z)) + (b - z))


def split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two halves of a number's digits, with exact products."""
    y = SPLIT * x
    high = y - (y - x)
    return high, x - high


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The product and its error, NaN if unknown (Dekker 1971). 0 times ∞ is 0."""
    zero = (a == 0) | (b == 0)
    p = np.where(zero, 0.0, a * b)
    (a1, a2), (b1, b2) = split(a), split(b)
    error = a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2)
    error = np.where(abs(p) < SMALL, np.nan, error)
    return p, np.where(zero | np.isinf(a) | np.isinf(b), 0, error)


def quotient(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The quotient, and a number with the sign of its error."""
    q = a / b
    p, error = two_product(q, b)
    left = np.where(abs(a) < SMALL, np.nan, (a - p) - error) * np.sign(b)
    return q, np.where((a == 0) | np.isinf(a) | np.isinf(b), 0, left)


# -- operations ------------------------------------------------------------------------------------


def add(x: Bounds, y: Bounds) -> Bounds:
    return bounds(
        *(way(*two_sum(a, b)) for way, a, b in zip((down, up), ends(x), ends(y), strict=True))
    )


def neg(x: Bounds) -> Bounds:
    return bounds(-x["upper"], -x["lower"])


def of_corners(rule: Callable[..., tuple[np.ndarray, np.ndarray]], x: Bounds, y: Bounds) -> Bounds:
    """The least and greatest of the four results at the ends of two intervals."""
    found = [rule(a, b) for a in ends(x) for b in ends(y)]
    lower = np.minimum.reduce([down(*f) for f in found])
    return bounds(lower, np.maximum.reduce([up(*f) for f in found]))


def mul(x: Bounds, y: Bounds) -> Bounds:
    return of_corners(two_product, x, y)


def div(x: Bounds, y: Bounds) -> Bounds:
    by_zero = (y["lower"] <= 0) & (y["upper"] >= 0)
    found = of_corners(quotient, x, y)
    return np.where(by_zero, bounds(-np.inf, np.inf), found)


def absolute(x: Bounds) -> Bounds:
    a, b = ends(x)
    return bounds(np.maximum(np.maximum(a, -b), 0), np.maximum(-a, b))


def floor(x: Bounds) -> Bounds:
    return bounds(np.floor(x["lower"]), np.floor(x["upper"]))


def mod(x: Bounds, y: Bounds) -> Bounds:
    times = floor(div(x, y))
    within = bounds(np.minimum(y["lower"], 0), np.maximum(y["upper"], 0))
    return np.where(certain(times), add(x, neg(mul(y, times))), within)


def certain(x: Bounds) -> np.ndarray:
    """Whether each interval is a single number."""
    return np.asarray((x["lower"] == x["upper"]) & np.isfinite(x["lower"]))


def power(x: Bounds, p: Bounds) -> Bounds:
    """x^p: by products for whole p, by a root for half-integers, else as e^(p log x)."""
    twice = 2 * p["lower"]
    if p.shape or not certain(p) or twice != np.floor(twice) or abs(twice) > 128:
        return FUNCTIONS["exp"](mul(p, FUNCTIONS["log"](x)))
    if twice % 2:
        x, twice = FUNCTIONS["sqrt"](x), 2 * twice
    n = abs(int(twice)) // 2
    size, out = absolute(x), (x if n % 2 else np.broadcast_to(ONE, x.shape))
    for _ in range(n // 2):
        out = mul(out, mul(size, size))
    return out if twice >= 0 else div(ONE, out)


def hull(x: Bounds, y: Bounds) -> Bounds:
    return bounds(np.minimum(x["lower"], y["lower"]), np.maximum(x["upper"], y["upper"]))


def where(c: Bounds, x: Bounds, y: Bounds) -> Bounds:
    return np.where(c["lower"] == 1, x, np.where(c["upper"] == 0, y, hull(x, y)))


def less(x: Bounds, y: Bounds) -> Bounds:
    return bounds((x["upper"] < y["lower"]) * 1.0, (x["lower"] < y["upper"]) * 1.0)


def equal(x: Bounds, y: Bounds) -> Bounds:
    same = (x["lower"] == x["upper"]) & (x["lower"] == y["lower"]) & (x["upper"] == y["upper"])
    return bounds(same * 1.0, ((x["lower"] <= y["upper"]) & (y["lower"] <= x["upper"])) * 1.0)


def negation(x: Bounds) -> Bounds:
    return bounds(1 - x["upper"], 1 - x["lower"])


def least(x: Bounds, y: Bounds) -> Bounds:
    return bounds(np.minimum(x["lower"], y["lower"]), np.minimum(x["upper"], y["upper"]))


def greatest(x: Bounds, y: Bounds) -> Bounds:
    return neg(least(neg(x), neg(y)))


def float_below(x: arb) -> float:
    """The lower end of a ball, rounded down to a float."""
    low = x.lower()
    found = float(low) if x.is_finite() else -math.inf
    return found if found == -math.inf or arb(found) <= low else math.nextafter(found, -math.inf)


def outward(
    rule: Callable[..., float], lower: Sequence[np.ndarray], upper: Sequence[np.ndarray]
) -> Bounds:
    """Intervals by a rule on floats: ``rule(1, …)`` for lower ends, ``rule(-1, …)`` for upper."""
    ways = (np.frompyfunc(partial(rule, way), len(of), 1)(*of)
            for way, of in ((1, lower), (-1, upper)))  # fmt: skip
    return bounds(*(np.asarray(x, np.float64) for x in ways))


def increasing(
    rule: Callable[[arb], arb], least: float, low: float, high: float
) -> Callable[[Bounds], Bounds]:  # fmt: skip
    """A non-decreasing function, evaluated by Arb at both ends of an interval.

    It is defined from ``least`` on, and increases from ``low`` to ``high``.
    """

    def at(way: int, x: float) -> float:
        if x <= least or math.isinf(x):
            return low if x <= least else high
        with ctx.workprec(BITS):
            return way * float_below(way * rule(arb(x)))

    def of(x: Bounds) -> Bounds:
        found = outward(at, [x["lower"]], [x["upper"]])
        return np.where(x["upper"] < least, bounds(-np.inf, np.inf), found)

    return of


def turning(rule: Callable[[arb], arb]) -> Callable[[Bounds], Bounds]:
    """Sine or cosine, evaluated by Arb on a ball around the interval."""

    def at(way: int, a: float, b: float) -> float:
        if math.isinf(a) or math.isinf(b):
            return -way * 1.0
        with ctx.workprec(BITS):
            return way * max(float_below(way * rule(arb(a).union(arb(b)))), -1.0)

    return lambda x: outward(at, ends(x), ends(x))


FUNCTIONS: dict[str, Callable[[Bounds], Bounds]] = {
    "exp": increasing(arb.exp, -math.inf, 0.0, math.inf),
    "log": increasing(arb.log, 0.0, -math.inf, math.inf),
    "sqrt": increasing(arb.sqrt, 0.0, 0.0, math.inf),
    "tanh": increasing(arb.tanh, -math.inf, -1.0, 1.0),
    "erf": increasing(arb.erf, -math.inf, -1.0, 1.0),
    "arctan": increasing(arb.atan, -math.inf, -1.5707963267948968, 1.5707963267948968),
    "sin": turning(arb.sin), "cos": turning(arb.cos),
}  # fmt: skip
ONE, ZERO = bounds(1.0, 1.0), bounds(0.0, 0.0)
RULES: Mapping[str, Callable[..., Bounds]] = FUNCTIONS | {
    "add": add, "sub": lambda x, y: add(x, neg(y)), "neg": neg, "abs": absolute, "floor": floor,
    "had": mul, "times": mul, "prod": mul, "div": div, "mod": mod, "pow": power,
    "max": greatest, "min": least, "where": where,
    "lt": less, "gt": lambda x, y: less(y, x), "eq": equal,
    "le": lambda x, y: negation(less(y, x)), "ge": lambda x, y: negation(less(x, y)),
    "ne": lambda x, y: negation(equal(x, y)),
    "and": least, "or": greatest, "not": negation,
}  # fmt: skip


# -- the namespace, and a run of it ----------------------------------------------------------------


class Intervals(Namespace):
    """Arrays of intervals; see `viete.meanings.entries.Namespace`."""

    __name__ = "interval"
    dtype = INTERVAL

    def lifted(self, x: Any) -> Any:
        kind = getattr(x, "dtype", None)
        if kind == INTERVAL:
            return x
        if kind is not None and kind.kind in "bf":
            return bounds(x.astype(np.float64), x.astype(np.float64))
        return outward(nearest, [x], [x])

    def alone(self, x: Any) -> Any:
        return Fraction(float(x["lower"])) if certain(x) else x

    def places(self, x: np.ndarray) -> np.ndarray:
        if not certain(x).all():
            low, high = next((a, b) for a, b in zip(*map(np.ravel, ends(x)), strict=True) if a < b)
            raise VieteError(
                f"an index lies between {low:g} and {high:g}: these bounds are too wide"
            )
        return np.asarray(x["lower"])

    def pi(self) -> Any:
        with ctx.workprec(BITS):
            return bounds(float_below(arb.pi()), -float_below(-arb.pi()))

    def scalar(self, op: str, args: list[Any]) -> Any:
        """As `Namespace.scalar`, but fractions, which may be sizes or indices, stay exact."""
        found = exact_scalar(op, args)
        return super().scalar(op, args) if found is None else found

    def entrywise(self, op: str, arrays: list[Any]) -> Any:
        with np.errstate(all="ignore"):
            return RULES[op](*arrays)

    def fold(self, op: str, array: np.ndarray, axis: int) -> Any:
        rows = np.moveaxis(array, axis, 0)
        if op == "argmax":
            return argmax(rows)
        rule = {"max": "max", "min": "min"}.get(op, "add")
        out = rows[0] if len(rows) else np.full(rows.shape[1:], ZERO)
        for row in rows[1:]:
            out = self.entrywise(rule, [out, row])
        return self.entrywise("div", [out, self.lifted(len(rows))]) if op == "mean" else out

    def matmul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = np.full((*x.shape[:-1], y.shape[-1]), ZERO)
        for k in range(y.shape[-2]):
            product = self.entrywise("prod", [x[..., :, k, None], y[..., k, None, :]])
            out = self.entrywise("add", [out, product])
        return out


def nearest(way: int, a: Any) -> float:
    """A number as a float, rounded down if ``way`` is 1 and up if it is −1."""
    if isinstance(a, float):
        return a
    try:
        found = float(a)
    except OverflowError:
        found = math.inf if a > 0 else -math.inf
    wrong = found > a if way > 0 else found < a
    return math.nextafter(found, -way * math.inf) if wrong else found


def argmax(rows: Bounds) -> Bounds:
    """The range of indices that may be greatest, from first to last; the first of equals counts."""
    may = rows["upper"] >= rows["lower"].max(axis=0)
    first, last = may.argmax(axis=0), len(rows) - 1 - may[::-1].argmax(axis=0)
    others = np.where(np.arange(len(rows)).reshape(-1, *[1] * first.ndim) == first, -np.inf,
                      rows["upper"]).max(axis=0)  # fmt: skip
    sure = np.take_along_axis(rows["lower"], first[None], axis=0)[0] >= others
    return bounds(first * 1.0, np.where(sure, first, last) * 1.0)


class IntervalArrays(Entries):
    """The evaluator of arrays, on intervals."""

    numbers = Intervals


class IntervalRun(EntryRun):
    """A run of arrays of intervals: ``run[name]["lower"]`` and ``run[name]["upper"]``."""

    meaning = IntervalArrays


__all__ = ["INTERVAL", "IntervalRun", "Intervals"]
