"""Law 2 for intervals: the exact value lies between the bounds, and so does the float64 value."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.strategies import Card, cards, random_inputs, random_weights
from viete.meanings.exact.numbers import FUNCTIONS, Number
from viete.meanings.interval import RULES, IntervalRun, Intervals, bounds

floats = st.floats(allow_nan=False, allow_infinity=False)
SPACE = Intervals()
ONE = bounds(1.0, 1.0)


def holds(low: float, high: float, x: Any) -> bool:
    """Whether an exact number (or ±∞) is between two floats, proven."""
    if not isinstance(x, Number):
        return bool(low <= x <= high)
    if (q := x.rational) is not None:
        return low <= q <= high
    ball = x.ball(200)
    return bool(arb(low) <= ball) and bool(ball <= arb(high))


def check(run: IntervalRun, other: Any) -> None:
    """That the values of another run lie between the bounds.

    Floats may be off by units in the last place, since the functions of a library are not rounded
    right. They have no number (NaN) where a definition overflows on the way; the bounds have one.
    """
    for name in other:
        found, there = np.asarray(run[name]), np.asarray(other[name])
        assert found.shape == there.shape, name
        if there.dtype != object:
            slack = 4 * np.spacing(np.where(np.isfinite(there), abs(there), 0) * 1.0)
            none = np.isnan(there)
            assert (none | (found["lower"] - slack <= there)).all(), name
            assert (none | (there <= found["upper"] + slack)).all(), name
            continue
        for (low, high), x in zip(found.flat, there.flat, strict=True):
            assert holds(low, high, x), name


@settings(max_examples=15)
@given(cards(), st.integers(0, 99))
def test_random_cards_lie_between_their_bounds(card: Card, seed: int) -> None:
    w, given_ = random_weights(card.model, seed), random_inputs(card.model, seed)
    check(
        card.model.run(weights=w, meaning="interval", **given_),
        card.model.run(weights=w, exact_definitions=True, **given_),
    )


EXACT = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "had": lambda a, b: a * b,
    "div": lambda a, b: a / b, "max": max, "min": min,
}  # fmt: skip


@given(st.sampled_from(sorted(EXACT)), floats, floats)
def test_one_operation_is_rounded_outward_and_no_further(op: str, a: float, b: float) -> None:
    if op == "div" and not b:
        return
    exact = EXACT[op](Fraction(a), Fraction(b))
    found = SPACE.entrywise(op, [bounds(a, a), bounds(b, b)])
    low, high = float(found["lower"]), float(found["upper"])
    assert low <= exact <= high
    if 1e-280 < abs(exact) < 1e290 and 1e-280 < abs(a) < 1e290 and 1e-280 < abs(b) < 1e290:
        assert high <= math.nextafter(low, math.inf)
        assert (low == high) is (Fraction(float(exact)) == exact)


@given(st.sampled_from(sorted(FUNCTIONS)), st.floats(-50, 50), st.floats(0, 10))
def test_functions_hold_their_values(name: str, a: float, width: float) -> None:
    found = SPACE.entrywise(name, [bounds(a, a + width)])
    for x in (a, a + width, a + width / 2):
        if (name == "log" and x <= 0) or (name == "sqrt" and x < 0):
            continue
        assert holds(float(found["lower"]), float(found["upper"]), FUNCTIONS[name](Number.of(x)))


@given(floats.filter(lambda x: abs(x) < 1e6), st.floats(0, 3), st.integers(-5, 5), st.floats(0, 1))
def test_powers_hold_their_values(a: float, width: float, n: int, at: float) -> None:
    found = SPACE.entrywise("pow", [bounds(a, a + width), bounds(float(n), float(n))])
    x = Fraction(min(max(a + width * at, a), a + width))
    if x or n >= 0:
        assert found["lower"] <= x**n <= found["upper"]


def test_open_conditions_count_both_sides() -> None:
    x = bounds(np.array([-1.0, 1.0, 2.0]), np.array([0.5, 1.0, 2.0]))
    positive = SPACE.entrywise("gt", [x, bounds(0.0, 0.0)])
    assert positive.tolist() == [(0, 1), (1, 1), (1, 1)]
    assert RULES["where"](positive, bounds(5.0, 5.0), bounds(7.0, 7.0)).tolist() == [
        (5, 7), (5, 5), (5, 5),
    ]  # fmt: skip
    assert SPACE.fold("argmax", x, 0).tolist() == (2, 2)
    assert SPACE.fold("argmax", bounds(np.zeros(3), np.ones(3)), 0).tolist() == (0, 2)
    assert SPACE.fold("argmax", bounds(np.ones(3), np.ones(3)), 0).tolist() == (0, 0)


def test_what_bounds_cannot_tell_is_everything() -> None:
    zero = bounds(-1.0, 1.0)
    for op, args in (("div", [ONE, zero]), ("log", [bounds(-2.0, -1.0)])):
        assert SPACE.entrywise(op, args).tolist() == (-math.inf, math.inf)
