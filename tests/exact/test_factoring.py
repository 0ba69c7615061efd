"""Simplest forms: what is written is the number itself, proven by the number system."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viete.meanings.exact.factoring import is_evident, reason, simplest
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.spelling import spelled
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Num, Ref

N = Number.of
e = N(1).exp()
OPERATIONS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "neg": lambda a: -a,
    "prod": lambda a, b: a * b, "times": lambda a, b: a * b, "div": lambda a, b: a / b,
    "sqrt": Number.sqrt, "log": Number.log, "exp": Number.exp, "pi": Number.pi,
}  # fmt: skip


def evaluated(x: Expr) -> Number:
    """A formula in exact numbers."""
    match x:
        case Num(q):
            return N(q)
        case Ref():
            return e
        case Apply("pow", (base, p)):
            n = evaluated(p)
            return n.exp() if isinstance(base, Ref) else evaluated(base) ** n
        case Apply(op, args):
            return OPERATIONS[op](*map(evaluated, args))
    raise TypeError(x)


def grown(random: Random) -> Number:
    """A quotient of products of short sums of powers of e and of another number."""

    def factor() -> Number:
        out, powers = N(0), random.sample([-1, 0, 1, 2, Fraction(1, 2)], random.randint(1, 3))
        for p in powers:
            out += N(Fraction(random.randint(-4, 4), random.randint(1, 3))) * N(p).exp()
        if random.random() < 0.2:
            out += random.choice([Number.pi(), N(2).sqrt(), N(3).log()])
        return N(1) if out.key == N(0).key else out

    out = N(random.choice([1, 2, Fraction(3, 4)]))
    for _ in range(random.randint(1, 3)):
        out *= factor() ** random.randint(1, 2)
    return out / (factor() ** random.randint(0, 2))


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
def test_the_simplest_form_is_the_number(seed: int) -> None:
    x = grown(Random(seed))
    found = simplest(x)
    assert evaluated(found) == x
    assert len(show(found)) <= len(show(spelled(x)))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_reason_is_true_and_decides_the_sign(seed: int) -> None:
    random = Random(seed)
    x = grown(random)
    if (found := reason(x)) is not None:
        left, sign, right = found
        gap = evaluated(left) - evaluated(right)
        assert (gap > 0) == (sign == ">") and gap != 0


@pytest.mark.parametrize(
    "number, text",
    [
        (e / (e + e * e), "1 / (1 + e)"),
        (e * e / (4 * e**2 + 8 * e**3 + 4 * e**4), "1 / (4 (1 + e)^2)"),
        ((3 * e + 4 * e**2) / (2 * e + 2 * e**2), "(3 + 4 e) / (2 (1 + e))"),
        (N(6).sqrt() / 2, "sqrt(6) / 2"),
        (N(Fraction(-2, 3)), "-2/3"),
    ],
)
def test_how_they_are_written(number: Number, text: str) -> None:
    assert show(simplest(number)) == text


def test_a_comparison_that_is_plain_to_see() -> None:
    found = reason((e - 2) / (1 + e))
    assert found is not None
    assert (show(found[0]), found[1], show(found[2])) == ("e", ">", "2")
    assert reason(1 / (1 + e)) is None


def test_a_comparison_of_sums() -> None:
    """Terms with a minus stand on the smaller side; a sign that is seen needs no comparison."""
    for number, text in (
        ((e**8 - e**4 - 1) / (1 + e**4) ** 2, "e^8 > 1 + e^4"),
        (1 + e - e**2, "e^2 > 1 + e"),
        (1 - e * Number.pi(), "pi e > 1"),
    ):
        found = reason(number)
        assert found is not None
        assert f"{show(found[0])} {found[1]} {show(found[2])}" == text
    assert reason(1 + e + e**2 - 2 * e**3 - 4 * e**4) is None  # too long to be seen
    assert is_evident(4 * e / (1 + e)) and is_evident(-((e - 3) ** 2)) and is_evident(N(3))
    assert is_evident((2 + e**3) / (1 + e**3)) and is_evident(-N(2).sqrt())
    assert not is_evident(N(Fraction(1, 2)).log()) and reason(N(3).log() - 1) is None
    assert not is_evident((e - 2) / (1 + e)) and not is_evident(N(6).sqrt() - 2)
