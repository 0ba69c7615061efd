"""Zero or not: proven, refuted by an enclosure, or said to be unknown. Never a wrong answer."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from flint import fmpq
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.exact.trees import DECIDED, Pair, mp, pairs, proven, small
from viete.meanings.exact import deciding
from viete.meanings.exact.atoms import Atom, Terms
from viete.meanings.exact.deciding import Undecided
from viete.meanings.exact.namespace import Numbers
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.polynomials import (
    ONE,
    added,
    exact_root,
    lowest,
    multiplied,
    over_monomial,
    rationalised,
    scaled,
    without_common,
)
from viete.notation.tree import Num

N = Number.of
ROOTS = [N(2).sqrt(), N(3).sqrt(), N(6) ** Fraction(1, 3), N(Fraction(1, 2)) ** Fraction(3, 4)]
POWERS = [N(1).exp(), N(-2).exp(), N(Fraction(1, 3)).exp(), N(2).sqrt().exp()]
DEEP = [N(1).applied("erf"), Number.pi(), N(1).exp().exp(), (N(1).exp() + 1).sqrt(), N(2).log()]


def named(x: Number) -> Number:
    """Under a name of its own, as a run carries on what is long."""
    return Number.atom(Atom("name", x, x.atoms(), Num(Fraction(7))))


@st.composite
def polynomials(draw: st.DrawFn, of: list[Number], most: int = 4) -> Number:
    """A sum of products of the numbers given, with small coefficients."""
    out = N(0)
    for _ in range(draw(st.integers(1, most))):
        term = N(draw(small))
        for x in draw(st.lists(st.sampled_from(of), max_size=3)):
            term = term * x
        out = out + term
    return out


def same(x: tuple[Terms, Terms], y: tuple[Terms, Terms]) -> bool:
    """Whether two quotients are one value, by enclosures of 1000 bits alone."""
    a, b = (deciding.enclosed(*z, 1000) for z in (x, y))
    return bool(a.overlaps(b)) and float(a.rad()) < 1e-200 * (1 + abs(float(a.mid())))


# -- zero or not -----------------------------------------------------------------------------------


@settings(max_examples=60)
@given(pairs(depth=3), pairs(depth=3), st.sampled_from(["same", "other", "squares"]))
def test_zero_is_never_wrong(x: Pair, y: Pair, how: str) -> None:
    a, b = x.exact, y.exact
    zero = {"same": a - b, "other": a * b - b * a * 1, "squares": (a + b) ** 2 - (a - b) ** 2}[how]
    approx = {"same": x.approx - y.approx, "other": 0,
              "squares": (x.approx + y.approx) ** 2 - (x.approx - y.approx) ** 2}[how]  # fmt: skip
    found = proven(zero)
    size = 1 + abs(x.approx) ** 2 + abs(y.approx) ** 2
    if found is True:
        assert abs(approx) < 1e-80 * size
    if abs(approx) > 1e-60 * size:
        assert found is False


@given(polynomials(ROOTS + POWERS), polynomials(ROOTS + POWERS))
def test_roots_and_powers_of_e_are_always_decided(a: Number, b: Number) -> None:
    assert (a == b) is (not (a - b).num or (a - b).is_zero())
    assert a * b == b * a
    if not b.is_zero():
        assert a / b * b == a
        assert (a / b).decided


@given(polynomials(ROOTS + POWERS, 3), polynomials(ROOTS, 2), st.integers(1, 3))
def test_square_roots_are_decided(a: Number, b: Number, k: int) -> None:
    """√(a²) = |a|, and Σ of roots with other signs is not taken for it."""
    r = (a * a + k).sqrt()
    s = (b * b + k).sqrt()
    assert r * r - a * a == k
    assert ((r + s) ** 2).sqrt() == r + s
    assert (r - s) * (r + s) == a * a - b * b
    assert ((r - s) ** 2).sqrt() == abs(r - s)
    assert ((r + s) == 0) is False


@given(polynomials(ROOTS + POWERS + DEEP), polynomials(ROOTS + POWERS + DEEP))
def test_names_are_written_out(a: Number, b: Number) -> None:
    x, y = named(a), named(b)
    assert x == a
    assert x * y + y == (a + 1) * b
    assert proven(x - y) is proven(a - b)
    if proven(y) is False:
        z = named(x / y)
        assert z * y == a
        assert named(z - a / b + 1) == 1


@settings(max_examples=30)
@given(polynomials(ROOTS + POWERS, 2), polynomials(POWERS, 2))
def test_roots_of_names(a: Number, b: Number) -> None:
    """A root over a name meets the root of what the name stands for."""
    x = named(a * a + 1)
    assert x.sqrt() == (a * a + 1).sqrt()
    assert named(x.sqrt() * b) == b * (a * a + 1).sqrt()
    if a.sign() > 0 and (a - b).sign() != 0:
        assert (named(a) ** 2 + 2 * a + 1).sqrt() == a + 1
        assert abs(named(a - b)) == ((a - b) ** 2).sqrt()


def test_the_root_with_the_other_sign() -> None:
    """P + Q √N with P² = Q² N: only one of the two signs is zero."""
    e = N(1).exp()
    r = (e * e + 2 * e + 1 + 0 * e).sqrt()
    s = named((e + 1) ** 2).sqrt()  # a root that is not seen to be e + 1
    assert s.num != r.num
    assert s - e - 1 == 0
    assert (s + e + 1 == 0) is False
    assert (e - 3 + named((e - 3) ** 2).sqrt() == 0) is True  # e < 3
    assert (e - 3 - named((e - 3) ** 2).sqrt() == 0) is False
    assert ((e - 2) - named((e - 2) ** 2).sqrt() == 0) is True
    both = named((e + 1) ** 2).sqrt() * (e - named(e)) + (named(e) - e)  # P = 0 and Q = 0
    assert both == 0


def test_a_long_chain_of_names_is_written_out_without_recursion() -> None:
    x, root = N(0), N(2).sqrt()
    for _ in range(3000):
        x = named(x + root)
    assert x == 3000 * root
    assert x - 3000 * root != 1
    assert float(x) == pytest.approx(3000 * 2**0.5)
    assert x.decimal(6) == "4242.64"


def test_numbers_that_square_again_and_again_do_not_hang() -> None:
    """Coefficients that would have 2⁶⁰ digits are given up, not computed."""
    x = y = N(3)
    for _ in range(60):
        x, y = named(x * x / 2), named(y * y / 2)
    assert proven(x - y) in (True, None)
    assert x > 10**1000


def test_undecidable_is_undecided() -> None:
    x = N(1).applied("tanh")
    one = x.applied("sin") ** 2 + x.applied("cos") ** 2
    for ask in (lambda: one == 1, lambda: one > 1, lambda: abs(one - 1), lambda: 1 / (one - 1)):
        with pytest.raises(Undecided) as error:
            ask()
        assert "\n" not in str(error.value)
    assert one != 2
    assert one < 1 + Fraction(1, 10**300)


@given(pairs(DECIDED, 3))
def test_signs(x: Pair) -> None:
    assume(abs(x.approx) > 1e-40)
    assert x.exact.sign() == (1 if x.approx > 0 else -1)
    assert (x.exact - x.exact).sign() == 0


def test_signs_of_what_is_very_small() -> None:
    tiny = N(-5000).exp()
    assert (1 + tiny).sqrt() - 1 > 0
    assert (1 + tiny).sqrt() - 1 - tiny / 2 < 0
    assert N(10**20).exp() > N(10**20 - 1).exp()
    assert (N(-(10**20)).exp()).sign() == 1


# -- the normal form -------------------------------------------------------------------------------


@given(polynomials(ROOTS + POWERS + DEEP), polynomials(ROOTS + POWERS + DEEP))
def test_lowest_terms_keep_the_value(a: Number, b: Number) -> None:
    assume(proven(b) is False)
    given_ = multiplied(a.num, b.den), multiplied(a.den, b.num)
    for num, den in (given_, (a.num, b.num), (multiplied(a.num, b.num), b.num)):
        found = lowest(num, den)
        assert same((num, den), found)
        assert found[1] is ONE or found[1] != ONE
        if found[0]:
            assert min(found[1].values(), key=lambda c: c != 1) == 1
        common = without_common(num, den)
        assert same((num, den), common)


@given(polynomials(ROOTS + POWERS), polynomials(ROOTS[:2], 3))
def test_conjugates(a: Number, b: Number) -> None:
    assume(b.num and not b.is_zero())
    num, den = rationalised(a.num, b.num)
    assert same((a.num, b.num), (num, den))
    assert not any(x.kind == "prime" for x in Number(num, den).atoms() if x in dict_of(den))


def dict_of(t: Terms) -> set[Atom]:
    return {x for m in t for x, _ in m}


@given(polynomials(ROOTS + POWERS + DEEP), st.lists(st.sampled_from(ROOTS + POWERS + DEEP)), small)
def test_a_quotient_by_one_term(a: Number, factors: list[Number], c: Fraction) -> None:
    assume(c)
    b = N(c)
    for x in factors[:4]:
        b = b * x
    assume(len(b.num) == 1 and a.den is ONE and a.num)
    assert same((a.num, b.num), over_monomial(a.num, b.num))


@given(polynomials(ROOTS + POWERS + DEEP, 3))
def test_perfect_squares_come_out(a: Number) -> None:
    assume(a.num and a.den is ONE and proven(a) is False)
    found = exact_root(multiplied(a.num, a.num))
    if found is not None:  # in roots of primes a square need not look like one
        assert same((multiplied(found, found), ONE), (multiplied(a.num, a.num), ONE))
    assert (a * a).sqrt() == abs(a)


@given(polynomials(ROOTS + POWERS + DEEP), polynomials(ROOTS + POWERS + DEEP))
def test_ring_laws_of_terms(a: Number, b: Number) -> None:
    minus = scaled(b.num, fmpq(-1))
    assert added([a.num, b.num, minus]) == a.num
    assert multiplied(a.num, b.num) == multiplied(b.num, a.num)
    assert multiplied(a.num, added([b.num, a.num])) == added(
        [multiplied(a.num, b.num), multiplied(a.num, a.num)]
    )


@given(polynomials(ROOTS + POWERS + DEEP), polynomials(ROOTS + POWERS + DEEP, 2))
def test_a_common_factor_leaves_the_same_key(a: Number, b: Number) -> None:
    """(a b)/(c b) is written as a/c where one term is left below, so that functions of it agree."""
    assume(a.den is ONE and b.den is ONE and a.num and proven(b) is False)
    for c in (*ROOTS, *POWERS):
        left = Number(multiplied(a.num, b.num), multiplied(c.num, b.num))
        assert left == a / c
        if (
            len(b.num) > 1
            and len(a.num) > 1
            and not any(x.kind in ("prime", "root") for x in b.atoms())
        ):
            assert left.key == (a / c).key


def test_namespace_names_are_shared() -> None:
    space = Numbers("u")
    e = N(1).exp()
    long = sum((N(p).sqrt() * e**p for p in (2, 3, 5, 7, 11)), N(0))
    assert space.named(long).num == space.named(long + 0).num
    assert len(space.names) == 1
    assert space.named(long) == long


def test_chains_of_comparisons() -> None:
    values = [N(2).sqrt(), N(Fraction(3, 2)), N(1).exp() - 1, N(3).sqrt(), Number.pi() - 1]
    assert all(a < b for a, b in pairwise(values))
    assert all(a <= b and b >= a and a != b for a, b in pairwise(values))
    assert mp.sqrt(2) < 1.5
