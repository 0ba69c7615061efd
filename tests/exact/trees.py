"""Random formulas over small fractions, each as an exact number and as mpmath computes it.

mpmath (120 digits, floating) shares nothing with the exact numbers, which enclose by FLINT's Arb.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import mpmath
from flint import arb
from hypothesis import assume
from hypothesis import strategies as st

from viete.errors import VieteError
from viete.meanings.exact.deciding import Undecided
from viete.meanings.exact.numbers import FUNCTIONS, Number

DIGITS = 120
ALGEBRAIC = ("add", "sub", "mul", "div", "sqrt", "power")
DECIDED = (*ALGEBRAIC, "exp")
ALL = (*DECIDED, "log", "erf", "tanh", "sin", "cos", "abs")
EXPONENTS = (2, 3, -1, -2, Fraction(1, 2), Fraction(-3, 2))
HUGE = 10**4  # arguments of exp beyond it only cost time

small = st.builds(Fraction, st.integers(-9, 9), st.integers(1, 6))
mp = mpmath.MPContext()
mp.dps = DIGITS


@dataclass
class Pair:
    """One value in both worlds, and how it was made."""

    exact: Number
    approx: Any
    text: str

    def __repr__(self) -> str:
        return self.text


def real(q: Fraction) -> Any:
    return mp.mpf(q.numerator) / q.denominator


def leaf(q: Fraction) -> Pair:
    return Pair(Number.of(q), real(q), str(q))


def pairs(ops: tuple[str, ...] = ALL, depth: int = 4) -> st.SearchStrategy[Pair]:
    """A random formula: small ones, which shrink well, and bushy ones grown from a seed."""
    return st.one_of(
        formulas(ops, depth),
        st.builds(lambda seed: grown(Random(seed), ops, depth + 2), st.integers(0, 2**32)),
    )


@st.composite
def formulas(draw: st.DrawFn, ops: tuple[str, ...], depth: int) -> Pair:
    """Drawn part by part. Those without a value (1/0, √−1) are thrown away."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return leaf(draw(small))
    op = draw(st.sampled_from(ops))
    x = draw(formulas(ops, depth - 1))
    y = draw(formulas(ops, depth - 1)) if op in ALGEBRAIC[:4] else None
    with refused():
        return made(op, x, y, draw(st.sampled_from(EXPONENTS)))


def grown(random: Random, ops: tuple[str, ...], depth: int) -> Pair:
    """Sums and products above all; a part without a value is left out."""
    if depth == 0 or random.random() < 0.1:
        return leaf(Fraction(random.randint(-9, 9), random.randint(1, 6)))
    op = random.choice((*ops, *ALGEBRAIC[:4], *ALGEBRAIC[:3]))
    x = grown(random, ops, depth - 1)
    y = grown(random, ops, depth - 1) if op in ALGEBRAIC[:4] else None
    try:
        return made(op, x, y, random.choice(EXPONENTS))
    except (ArithmeticError, VieteError):
        return x


def made(op: str, x: Pair, y: Pair | None, p: int | Fraction) -> Pair:
    """One operation. Raises ArithmeticError or VieteError where it has no value."""
    if y is not None:
        return combine(op, x, y)
    return raised(x, p) if op == "power" else applied(op, x)


@contextmanager
def refused() -> Iterator[None]:
    """What has no value is not an example."""
    try:
        yield
    except (ArithmeticError, VieteError):
        assume(False)


def defined(condition: Any) -> None:
    """What mpmath's own digits would not bear is left out too."""
    if not condition:
        raise ArithmeticError("no value, or none that mpmath could compute")


def combine(op: str, x: Pair, y: Pair) -> Pair:
    """x op y."""
    text = f"({x} {op} {y})"
    match op:
        case "add":
            return Pair(x.exact + y.exact, x.approx + y.approx, text)
        case "sub":
            return Pair(x.exact - y.exact, x.approx - y.approx, text)
        case "mul":
            return Pair(x.exact * y.exact, x.approx * y.approx, text)
    defined(abs(y.approx) > 1e-40)
    return Pair(x.exact / y.exact, x.approx / y.approx, text)


def raised(x: Pair, p: int | Fraction) -> Pair:
    """x^p."""
    defined(abs(x.approx) > 1e-40)
    defined(isinstance(p, int) or x.approx > 0)
    return Pair(x.exact**p, x.approx ** (p if isinstance(p, int) else real(p)), f"({x})^({p})")


def applied(op: str, x: Pair) -> Pair:
    """A function of one number."""
    defined(op != "exp" or abs(x.approx) < HUGE)
    defined(op not in ("sin", "cos") or abs(x.approx) < HUGE)  # mpmath's digits go into the turns
    defined(op not in ("sqrt", "log") or x.approx > 1e-40)
    approx = abs(x.approx) if op == "abs" else getattr(mp, op)(x.approx)
    return Pair(FUNCTIONS[op](x.exact), approx, f"{op}({x})")


def inside(ball: arb, approx: Any, digits: int = 50) -> bool:
    """Whether a ball holds what mpmath found, with room for mpmath's own rounding."""
    if not ball.is_finite():
        return True  # an honest answer, if a useless one
    error = (abs(approx) + 1) * mp.mpf(10) ** -digits
    return bool(abs(approx - number(ball.mid())) <= number(ball.rad()) + error)


def number(x: arb) -> Any:
    """A point of FLINT's as one of mpmath's, exactly up to 120 digits."""
    mantissa, exponent = x.man_exp()
    return mp.ldexp(mp.mpf(int(mantissa)), int(exponent))


def proven(x: Number) -> bool | None:
    """True, False, or None where it is said to be undecided."""
    try:
        return x.is_zero()
    except Undecided:
        return None
