"""Exact numbers: enclosures hold, laws are proven, functions know their identities."""

from __future__ import annotations

import gc
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.exact.trees import (
    ALGEBRAIC,
    DECIDED,
    Pair,
    combine,
    inside,
    mp,
    number,
    pairs,
    proven,
    refused,
    small,
)
from viete.errors import VieteError
from viete.meanings.exact.atoms import Atom
from viete.meanings.exact.deciding import Undecided
from viete.meanings.exact.numbers import Number

N = Number.of
positive = small.filter(lambda q: q > 0)


# -- enclosures ------------------------------------------------------------------------------------


@given(pairs())
def test_an_enclosure_holds_the_value(x: Pair) -> None:
    for bits in (64, 128, 256):
        assert inside(x.exact.ball(bits), x.approx), (x, bits)


@given(pairs())
def test_enclosures_narrow(x: Pair) -> None:
    wide, narrow = x.exact.ball(64), x.exact.ball(512)
    assume(wide.is_finite())
    assert narrow.is_finite()
    assert wide.overlaps(narrow)
    assert narrow.rad() <= wide.rad()


@given(pairs())
def test_float_is_close(x: Pair) -> None:
    assume(abs(x.approx) > 1e-30 or proven(x.exact) is True)
    assert math.isclose(float(x.exact), float(x.approx), rel_tol=1e-14, abs_tol=1e-60)


def test_float_where_almost_all_cancels() -> None:
    x = N(10**60 + 1).sqrt() - 10**30
    assert math.isclose(float(x), 5e-31, rel_tol=1e-15)
    assert float(N(10) ** 400) == math.inf
    assert float(-(N(2) ** 5000)) == -math.inf


# -- laws, proven ----------------------------------------------------------------------------------


@settings(max_examples=60)
@given(pairs(DECIDED, 2), pairs(DECIDED, 2), pairs(DECIDED, 2))
def test_field_axioms(x: Pair, y: Pair, z: Pair) -> None:
    a, b, c = x.exact, y.exact, z.exact
    assert a + b == b + a
    assert a * b == b * a
    assert (a - b) * (a + b) == a * a - b * b
    assert a - a == 0
    assert proven((a + b) + c - (a + (b + c))) is True
    assert proven(a * (b + c) - a * b - a * c) is not False
    if abs(x.approx) > 1e-40:
        assert a / a == 1
        assert 1 / (1 / a) == a
        assert (b / a) * a == b


@given(pairs(depth=3), pairs(depth=3))
def test_what_is_not_decided_is_never_guessed(x: Pair, y: Pair) -> None:
    """Laws hold or are said to be unknown, for every kind of number."""
    a, b = x.exact, y.exact
    assert a - a == 0
    assert proven((a + b) * (a - b) - (a * a - b * b)) is not False
    assert proven((a + b) * b - b * a - b * b) is not False
    if abs(y.approx) > 1e-40:
        with refused():
            assert proven((a / b) * b - a) is not False


@settings(max_examples=100)
@given(pairs(depth=3), pairs(depth=3))
def test_equality_and_order_agree_with_mpmath(x: Pair, y: Pair) -> None:
    difference = x.exact - y.exact
    zero, apart = proven(difference), abs(x.approx - y.approx)
    if apart > 1e-60:
        assert zero is False
        assert (x.exact < y.exact) is bool(x.approx < y.approx)
    elif apart < 1e-100:
        assert zero is not False
        if zero:
            assert difference.sign() == 0


@given(pairs(DECIDED, 3))
def test_roots_squared(x: Pair) -> None:
    assume(x.approx > 1e-30)
    assert x.exact.sqrt() ** 2 == x.exact
    assert (x.exact**2).sqrt() == x.exact
    assert (x.exact * x.exact * 4).sqrt() == 2 * x.exact


@given(pairs(depth=3))
def test_exponentials_and_logarithms_undo_each_other(x: Pair) -> None:
    assume(abs(x.approx) < 100)
    assert x.exact.exp() * (-x.exact).exp() == 1
    assert proven(x.exact.exp().log() - x.exact) is not False  # log(e log 2) is not split
    assert x.exact.exp() ** 2 == (2 * x.exact).exp()
    assert x.exact.exp().sqrt() == (x.exact / 2).exp()
    if x.approx > 1e-30:
        assert x.exact.log().exp() == x.exact


@given(positive, positive)
def test_logarithms_of_fractions(p: Fraction, q: Fraction) -> None:
    assert N(p * q).log() == N(p).log() + N(q).log()
    assert (N(p).log() + N(q).log()).exp() == p * q
    assert (N(p).log() / 3).exp() == N(p) ** Fraction(1, 3)
    assert (N(p).log() + Fraction(1, 2)).exp() == p * N(Fraction(1, 2)).exp()


@given(small, small, small)
def test_exponentials_of_roots_of_fractions(p: Fraction, q: Fraction, r: Fraction) -> None:
    root = N(abs(r)).sqrt()
    a, b = p + q * root, q - p * root
    assert a.exp() * b.exp() == (a + b).exp()
    assert a.exp() ** 2 == (2 * a).exp()
    assert a.exp().sqrt() == (a / 2).exp()
    assert (a.exp() == b.exp()) is (a == b)


@given(positive, st.integers(-7, 7), st.integers(1, 5))
def test_fractional_powers(q: Fraction, p: int, n: int) -> None:
    x = N(q) ** Fraction(p, n)
    assert x**n == N(q) ** p
    assert 1 / x == N(q) ** Fraction(-p, n)
    assert x * N(q) ** Fraction(1, 2) == N(q) ** (Fraction(p, n) + Fraction(1, 2))


@given(pairs(depth=3))
def test_odd_and_even_functions(x: Pair) -> None:
    for name in ("erf", "tanh", "sin"):
        assert x.exact.applied(name) + (-x.exact).applied(name) == 0
    assert x.exact.applied("cos") == (-x.exact).applied("cos")


def test_known_identities() -> None:
    e, root = N(1).exp(), lambda q: N(q).sqrt()
    assert (3 + 2 * root(2)).sqrt() == 1 + root(2)
    assert (5 + 2 * root(6)).sqrt() == root(2) + root(3)
    assert (e + 1).sqrt() + (e + 2).sqrt() == (2 * e + 3 + 2 * ((e + 1) * (e + 2)).sqrt()).sqrt()
    assert (1 / root(5)).exp() ** 2 == (2 / root(5)).exp()
    assert (e + 1).sqrt() - (e + 2).sqrt() != 0
    assert (e * e + 2 * e + 1).sqrt() == e + 1
    assert (e * e - 4 * e + 4).sqrt() == e - 2  # the positive root
    assert (e * e - 6 * e + 9).sqrt() == 3 - e
    assert ((root(2) - 2) ** 2).sqrt() == 2 - root(2)
    assert 1 / (root(2) + root(3)) == root(3) - root(2)
    assert 1 / (1 + N(2) ** Fraction(1, 3)) == (
        (1 - N(2) ** Fraction(1, 3) + N(2) ** Fraction(2, 3)) / 3
    )
    assert N(20).sqrt() == 2 * root(5)
    assert N(Fraction(2, 3)).sqrt() == root(6) / 3
    assert N(4) ** Fraction(1, 4) == root(2)
    assert (2 + root(5)) ** Fraction(1, 2) != (1 + root(5)) / 2
    assert N(10**60 + 1).sqrt() ** 2 == 10**60 + 1
    assert N(10**60 + 1).sqrt() != 10**30


def test_roots_of_a_hidden_zero() -> None:
    zero = (3 + 2 * N(2).sqrt()).sqrt() - 1 - N(2).sqrt()
    assert zero.num  # not empty, but proven to be zero
    assert zero.sqrt() == 0
    assert zero.sign() == 0
    assert abs(zero) == 0
    with pytest.raises(ZeroDivisionError):
        _ = 1 / zero


@settings(max_examples=15)
@given(pairs(ALGEBRAIC, 3), pairs(ALGEBRAIC, 3))
def test_algebraic_equality_agrees_with_sympy(x: Pair, y: Pair) -> None:
    """By minimal polynomials, which are another way than eliminating roots."""
    from sympy import Rational, minimal_polynomial, sqrt, sympify
    from sympy.abc import t

    a, b = N(2).sqrt(), N(3).sqrt()
    p, q = (z.exact.rational for z in (x, y))
    assume(p is not None and q is not None and abs(p) < 100 and abs(q) < 100)
    assert p is not None and q is not None
    mine = ((p + a) * (q + b) + a).sqrt() if p + a > 0 and q + b > 0 else (p + a) * (q - b)
    p, q = Rational(p.numerator, p.denominator), Rational(q.numerator, q.denominator)
    s2, s3 = sqrt(2), sqrt(3)
    inner = (p + s2) * (q + s3) + s2
    theirs = sqrt(inner) if p + s2 > 0 and q + s3 > 0 else (p + s2) * (q - s3)
    poly = minimal_polynomial(sympify(theirs), t, polys=True)
    value = N(0)
    for c in poly.all_coeffs():
        value = value * mine + Fraction(int(c.p), int(c.q))
    assert value == 0


# -- many roots, with the sign of each -------------------------------------------------------------


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from([-1, 1]), st.integers(1, 6)), min_size=1, max_size=4))
def test_sums_of_roots_of_transcendental_numbers(terms: list[tuple[int, int]]) -> None:
    """Σ ± √(e + k), written in two ways, is equal to itself and not to another choice of signs."""
    e = N(1).exp()
    one = sum((s * (e + k).sqrt() for s, k in terms), N(0))
    two = sum((s * (e * e + k * e).sqrt() / e.sqrt() for s, k in reversed(terms)), N(0))
    assert one - two == 0
    other = sum((-s * (e * e + k * e).sqrt() / e.sqrt() for s, k in terms[:1]), N(0))
    assert one - other - two != 0


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8))
def test_nested_roots_denest(a: int, b: int, c: int) -> None:
    e = N(c).exp()
    left = (a + b * e + 2 * (N(a * b) * e).sqrt()).sqrt()
    assert left == N(a).sqrt() + (b * e).sqrt()


# -- names for what is kept once -------------------------------------------------------------------


@given(pairs(depth=3))
def test_the_same_definition_is_the_same_atom(x: Pair) -> None:
    one = x.exact.applied("erf")
    assert one.key == x.exact.applied("erf").key
    assert one - x.exact.applied("erf") == 0


def test_atoms_that_nobody_holds_are_forgotten() -> None:
    gc.freeze()  # what other tests have left is not to be looked through
    before = len(Atom.interned)
    held = [(N(Fraction(k, 997)).exp() + k).sqrt() for k in range(2, 60)]
    assert len(Atom.interned) > before
    del held
    gc.collect()
    assert len(Atom.interned) <= before


@given(pairs(DECIDED, 2), pairs(DECIDED, 2))
def test_what_is_equal_does_not_hang_on_age(x: Pair, y: Pair) -> None:
    """The order in which atoms came up changes no answer."""
    a = combine("add", x, y)
    b = combine("add", y, x)
    assert a.exact == b.exact
    assert a.exact.key == b.exact.key


# -- reading numbers -------------------------------------------------------------------------------


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_the_fraction_that_it_is(x: float) -> None:
    assert N(x).rational == Fraction(x)
    assert float(N(x)) == x
    assert N(np.float64(x)) == Fraction(x)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.float32, np.float16, np.uint8])
def test_numpy_numbers(kind: type) -> None:
    x = kind(3)
    assert N(x) == x
    assert N(4) != x
    assert N(4) - x == 1
    assert x + N(4) == 7
    assert N(4) > x


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, None, "1/2", "nan", 1j, [1], np.float32("nan")]
)
def test_what_is_no_number(value: object) -> None:
    with pytest.raises(VieteError):
        N(value)


# -- functions without a value ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: N(-1).log(), lambda: N(0).log(), lambda: N(-2).sqrt(),
        lambda: (1 - N(2).sqrt()).sqrt(), lambda: 1 / N(0), lambda: N(0) ** -1,
        lambda: N(-8) ** Fraction(1, 3), lambda: N(0) ** Fraction(-1, 2),
    ],
)  # fmt: skip
def test_no_value(wrong) -> None:
    with pytest.raises(ArithmeticError):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: N(10**40).exp(), lambda: N(2) ** 10**9, lambda: N(1).exp() ** 10**9,
        lambda: (N(10**20).exp().exp()).sign(), lambda: float(N(10**20).exp().exp()),
        lambda: N(10**20).exp().exp().decimal(5), lambda: (-N(40).exp().exp().exp()).exp() > 1,
    ],
)  # fmt: skip
def test_beyond_any_enclosure(wrong) -> None:
    with pytest.raises(VieteError) as error:
        wrong()
    assert "\n" not in str(error.value)
    assert "nan" not in str(error.value)


def test_ones_and_zeros_have_every_power() -> None:
    assert N(1) ** 10**9 == 1
    assert N(-1) ** (10**9 + 1) == -1
    assert N(0) ** 10**9 == 0
    assert N(0) ** 0 == 1


def test_undecided_is_said() -> None:
    x = N(1).applied("erf")
    with pytest.raises(Undecided):
        (x.applied("sin") ** 2 + x.applied("cos") ** 2 - 1).is_zero()
    with pytest.raises(Undecided):
        (x.applied("sin") ** 2 + x.applied("cos") ** 2 - 1).sign()
    with pytest.raises(Undecided):
        _ = 1 / (Number.pi().applied("sin"))


@given(pairs(depth=3))
def test_floor_and_remainder(x: Pair) -> None:
    assume(abs(x.approx) < 1e6 and abs(x.approx - round(float(x.approx))) > 1e-30)
    assert math.floor(x.exact) == int(mp.floor(x.approx))
    rest = x.exact % Fraction(1, 2)
    assert 0 <= rest < Fraction(1, 2)


def test_floor_of_a_hidden_whole_number() -> None:
    one = (3 + 2 * N(2).sqrt()).sqrt() - N(2).sqrt()
    assert math.floor(one) == 1
    assert math.floor(-one) == -1
    assert one % 1 == 0


def test_the_pair_helpers_are_honest() -> None:
    """The checker itself: a wrong value is outside."""
    ball, e = N(1).exp().ball(64), mp.e
    assert inside(ball, e)
    assert not inside(ball, e + number(ball.rad()) * 3)


def test_arrays_of_numbers_take_a_number_on_either_side():
    root = Number.of(2).sqrt()
    array = np.array([root, Number.of(3)], dtype=object)
    assert list(array * root) == list(root * array) == [Number.of(2), 3 * root]
    assert list(root - np.array([1.0, 2.0])) == [root - 1, root - 2]
    assert root != float("inf")


def test_a_number_of_very_many_digits_is_spelled_whole():
    assert repr(Number.of(10**6000 + 1)) == "1" + "0" * 5999 + "1"
    assert repr(Number.of(Fraction(1, 3**10000))).startswith("1/1631350185")
