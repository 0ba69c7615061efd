"""Decimals: every digit that is written is right, rounded to nearest."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.exact.trees import Pair, mp, pairs, proven, small
from viete.errors import VieteError
from viete.meanings.exact.deciding import Undecided
from viete.meanings.exact.numbers import Number

N = Number.of


def right(text: str, value: object, digits: int) -> bool:
    """Whether the text is within half a unit of its last place, and has so many digits."""
    mantissa, _, power = text.lstrip("-").partition("e")
    whole, _, after = mantissa.partition(".")
    count = len((whole + after).lstrip("0"))
    unit = mp.mpf(10) ** (int(power or 0) - len(after))
    off = abs(mp.mpf(text) - value)
    return count == digits and off <= unit / 2 + abs(value) * mp.mpf(10) ** -90


@settings(max_examples=80)
@given(pairs(), st.integers(1, 60))
def test_all_digits_are_right(x: Pair, digits: int) -> None:
    assume(x.exact.rational is None)
    try:
        text = x.exact.decimal(digits)
    except Undecided:
        assume(False)
    if text == "0":
        assert proven(x.exact) is True
        assert abs(x.approx) < 1e-90
    elif proven(x.exact - Fraction(text)) is True:
        assert abs(mp.mpf(text) - x.approx) < 1e-90  # a fraction in disguise may end sooner
    else:
        assert right(text, x.approx, digits), text


@given(st.fractions(), st.integers(1, 25))
def test_fractions_are_rounded_half_to_even(q: Fraction, digits: int) -> None:
    """By Python's own decimals, which round so."""
    import decimal

    context = decimal.Context(prec=digits, rounding=decimal.ROUND_HALF_EVEN)
    expected = context.divide(decimal.Decimal(q.numerator), decimal.Decimal(q.denominator))
    assert decimal.Decimal(N(q).decimal(digits)) == expected


@given(small, st.integers(-400, 400), st.integers(1, 20))
def test_huge_and_tiny(q: Fraction, power: int, digits: int) -> None:
    assume(q)
    x = N(q) * N(10) ** power
    text = x.decimal(digits)
    assert abs(Fraction(text) / (q * Fraction(10) ** power) - 1) <= Fraction(5, 10**digits)
    root = (N(2).sqrt() * x).decimal(digits)
    ratio = mp.mpf(root) / (mp.sqrt(2) * mp.mpf(q.numerator) / q.denominator * mp.mpf(10) ** power)
    assert abs(ratio - 1) <= mp.mpf(5) * mp.mpf(10) ** -digits


@pytest.mark.parametrize("n", [10**20, -(10**20), 10**6 + 1, -(10**9)])
def test_exponentials_beyond_floats(n: int) -> None:
    text = N(n).exp().decimal(30)
    with mpmath.workdps(80):
        assert text.replace("e", "e+" if n > 0 else "e") == mpmath.nstr(
            mpmath.exp(n), 30, strip_zeros=False
        )


@pytest.mark.parametrize(
    "value, digits, text",
    [
        (0, 5, "0"), (1, 5, "1"), (-1, 1, "-1"), (Fraction(1, 8), 2, "0.12"),
        (Fraction(3, 8), 2, "0.38"), (Fraction(5, 2), 1, "2"), (Fraction(7, 2), 1, "4"),
        (Fraction(1, 3), 4, "0.3333"), (100, 1, "1e2"), (100, 3, "100"), (12345, 3, "1.23e4"),
        (Fraction(99996, 10**4), 4, "10.00"), (Fraction(1, 10**7), 3, "1e-7"),
        (Fraction(-2, 3), 5, "-0.66667"), (Fraction(1, 10**5), 3, "0.00001"),
    ],
)  # fmt: skip
def test_how_decimals_are_written(value: Fraction, digits: int, text: str) -> None:
    assert N(value).decimal(digits) == text


def test_a_fraction_in_disguise() -> None:
    one = (3 + 2 * N(2).sqrt()).sqrt() - N(2).sqrt()
    assert one.decimal(20) == "1"
    assert (one / 8).decimal(2) == "0.12"
    assert (one * 3 / 8).decimal(2) == "0.38"
    assert (one - 1).decimal(3) == "0"
    assert (1000 * one).decimal(2) == "1e3"


def test_thousands_of_digits() -> None:
    with mpmath.workdps(5010):
        assert N(2).sqrt().decimal(5000)[:-1] == mpmath.nstr(mpmath.sqrt(2), 5005)[:5000]
    assert N(Fraction(1, 3)).decimal(6000) == "0." + "3" * 6000
    assert N(7**20000).decimal(5) == "9.1369e16901"


def test_a_number_close_to_half_a_unit() -> None:
    """1/4 + 10^{-40}: the digits wait for an enclosure that tells it from the half."""
    x = Fraction(1, 4) + (N(-92)).exp()
    assert x.decimal(1) == "0.3"
    assert (Fraction(1, 4) - (N(-92)).exp()).decimal(1) == "0.2"


@pytest.mark.parametrize("digits", [0, -3])
def test_no_digits(digits: int) -> None:
    with pytest.raises(VieteError, match="at least 1"):
        N(2).sqrt().decimal(digits)


def test_undecided_digits() -> None:
    x = N(1).applied("erf")
    zero = x.applied("sin") ** 2 + x.applied("cos") ** 2 - 1
    with pytest.raises(Undecided):
        zero.decimal(3)
    with pytest.raises(Undecided):
        (zero + Fraction(1, 4)).decimal(1)
