"""Exact real numbers: quotients of polynomials in atoms.

A number stays a fraction as long as it is one. Exponentials and square roots introduce atoms with a
definition, and equal terms cancel. Whether two numbers are equal is proven, or reported as unknown.
See `atoms` for the atoms, `deciding` for what is decided, and docs/guides/exact.md for the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial, wraps
from math import isqrt
from numbers import Real
from typing import Any

from flint import arb, ctx, fmpq, fmpz

from viete.errors import VieteError
from viete.evaluate.labelled import as_fraction
from viete.meanings.exact.atoms import GUARD, Atom, Monomial, Terms, e_power, function, pi, prime
from viete.meanings.exact.deciding import (
    Undecided,
    decided_sign,
    decided_zero,
    enclosure_text,
    precisions,
)
from viete.meanings.exact.decimals import decimal
from viete.meanings.exact.polynomials import (
    INVERTIBLE,
    ONE,
    Quotient,
    added,
    as_power,
    content,
    exact_root,
    fraction,
    monomial,
    multiplied,
    order,
    ratio,
    scaled,
    sum_of_quotients,
)
from viete.meanings.exact.spelling import spell

FACTORED = 10**24  # square roots and logarithms of larger numbers are not factored
MOST_DIGITS = 1_000_000  # binary digits of a power that is written out
SHORT = 40  # terms of a power of a logarithm's argument
MOST_EXPONENT = 10**30  # beyond it no enclosure holds the exponential
ODD = ("erf", "tanh", "sin", "arctan")


def entrywise(operator: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator of two numbers that applies entry by entry to an array on the right."""

    @wraps(operator)
    def either(self: Any, other: Any) -> Any:
        return NotImplemented if getattr(other, "ndim", 0) else operator(self, other)

    return either


class Number(Quotient):
    """An exact real number ``num / den``, both polynomials in atoms.

    ``==``, ``<`` and other comparisons are decided, or raise `Undecided`. So a number cannot be
    hashed; two with the same ``key`` are equal by construction.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def of(value: Any) -> Number:
        """The exact value of a whole number, a fraction or a float (a dyadic fraction).

        Raises VieteError for a value that is not a finite number.
        """
        if isinstance(value, Number):
            return value
        if isinstance(value, fmpq):
            return Number({(): value} if value else {})
        f = as_fraction(value)
        return Number({(): fmpq(f.numerator, f.denominator)} if f else {})

    @staticmethod
    def atom(atom: Atom) -> Number:
        return Number({((atom, 1),): fmpq(1)})

    @staticmethod
    def pi() -> Number:
        """The number π."""
        return Number.atom(pi())

    def __repr__(self) -> str:
        return spell(self)

    # -- arithmetic --------------------------------------------------------------------------------

    @entrywise
    def __add__(self, other: Any) -> Number:
        return total((self, Number.of(other)))

    def __neg__(self) -> Number:
        out = Number(scaled(self.num, fmpq(-1)))
        out.den = self.den
        return out

    @entrywise
    def __sub__(self, other: Any) -> Number:
        return self + -Number.of(other)

    def __rsub__(self, other: Any) -> Number:
        return Number.of(other) - self

    @entrywise
    def __mul__(self, other: Any) -> Number:
        other = Number.of(other)
        num, den = self.num, self.den
        over, under = other.num, other.den
        if den is not ONE and (c := ratio(over, den)):
            den, over = ONE, {(): c}
        if under is not ONE and (c := ratio(num, under)):
            under, num = ONE, {(): c}
        below = multiplied(den, under)
        return Number(multiplied(num, over), below)

    __radd__, __rmul__ = __add__, __mul__

    @entrywise
    def __truediv__(self, other: Any) -> Number:
        return self * Number.of(other).inverse()

    def __rtruediv__(self, other: Any) -> Number:
        return Number.of(other) * self.inverse()

    def inverse(self) -> Number:
        """1/x. Raises ZeroDivisionError for zero, Undecided if that is unknown."""
        if self.is_zero():
            raise ZeroDivisionError("a division by exactly zero")
        return Number(self.den, self.num)

    def __pow__(self, power: Any) -> Number:
        power = Number.of(power)
        p = power.rational
        if p is not None and p.denominator == 1:
            return self.whole_power(int(p))
        if p is not None and p.denominator == 2:
            return self.sqrt().whole_power(p.numerator)
        base = self.rational
        if base == 0:
            if power.sign() > 0:
                return self
            raise ZeroDivisionError("a division by exactly zero")
        if base is not None and p is not None and base > 0:
            return power_of_rational(base, p)
        return (power * self.log()).exp()

    def whole_power(self, n: int) -> Number:
        q = self.rational
        if q is not None:
            if (
                abs(q) not in (0, 1)
                and abs(n) * (q.numerator.bit_length() + q.denominator.bit_length()) > MOST_DIGITS
            ):
                raise VieteError(f"a power here has more than {MOST_DIGITS:,} binary digits")
            if q == 0 and n < 0:
                raise ZeroDivisionError("a division by exactly zero")
            return Number.of(q**n)
        base = self if n >= 0 else self.inverse()
        if abs(n) > 1000:
            raise VieteError(f"the power {n} of a number that is not a fraction is not written out")
        out = Number.of(1)
        for _ in range(abs(n)):
            out = out * base
        return out

    def __rpow__(self, base: Any) -> Number:
        return Number.of(base) ** self

    def __abs__(self) -> Number:
        return -self if self.sign() < 0 else self

    def __floor__(self) -> int:
        q = self.rational
        if q is not None:
            return math.floor(q)
        for bits in precisions():
            ball = self.ball(bits)
            with ctx.workprec(bits + GUARD):
                n = ball.floor().unique_fmpz() if ball.is_finite() else None
            if n is not None:
                return int(n)
            near = ball.unique_fmpz() if ball.is_finite() else None
            if near is not None and bits >= 256 and self == int(near):
                return int(near)
        raise Undecided(f"the whole part of a number in {self.ball(64)} cannot be told")

    def __mod__(self, other: Any) -> Number:
        other = Number.of(other)
        return self - other * math.floor(self / other)

    # -- functions ---------------------------------------------------------------------------------

    def sqrt(self) -> Number:
        """√x: perfect squares are taken out, and roots of rationals split into roots of primes.

        Raises ArithmeticError for a negative number.
        """
        q, sign = self.rational, self.sign()
        if sign < 0:
            raise ArithmeticError("the square root of a negative number")
        if sign == 0:  # proven: no enclosure of the root could be found later
            return Number({})
        if q is not None:
            return root(q.numerator * q.denominator) * Fraction(1, q.denominator)
        num, den = exact_root(self.num), exact_root(self.den)
        if den is None:  # √(N/D) = √(N D) / |D|
            return radical(multiplied(self.num, self.den)) / abs(Number(self.den))
        if num is None:
            return radical(self.num) / abs(Number(den))
        return abs(Number(num, den))

    def exp(self) -> Number:
        """``e^x``; ``e^{q + r√p + …}`` splits into powers of ``e``, ``e^√p``, …"""
        q = self.rational
        if q is not None and abs(q) > MOST_EXPONENT:
            raise VieteError(
                f"the exponential of {Number.of(q).decimal(3)} is too large to be worked with"
            )
        if self.den is ONE and all(x.kind == "prime" for x in self.atoms()):
            powers = [(e_power(m), fraction(c)) for m, c in self.num.items()]
            return Number({monomial(powers): fmpq(1)})
        if self.den is ONE:
            split = ((m, exponential_of_term(m, c)) for m, c in self.num.items())
            factors = {m: f for m, f in split if f is not None}
            if factors:  # e^{x + √2 + c log y} = e^x e^{√2} y^c
                out = Number({m: c for m, c in self.num.items() if m not in factors}).exp()
                for factor in factors.values():
                    out *= factor
                return out
        # One atom for e^x, e^{−x} and e^{x/2}, so that they cancel.
        c = content(self.num) / content(self.den)
        c = -c if self.num[min(self.num, key=order)] < 0 else c
        power = as_power(fraction(c))
        return Number({((function("exp", self * (1 / c)), power),): fmpq(1)})

    def log(self) -> Number:
        """The natural logarithm. Raises ArithmeticError unless the number is positive."""
        if self.sign() <= 0:
            raise ArithmeticError("the logarithm of a number that is not positive")
        q = self.rational
        if q is not None:
            return log_of(q.numerator) - log_of(q.denominator)
        if self.den is ONE and len(self.num) == 1:
            ((m, c),) = self.num.items()
            if all(x.kind in (*INVERTIBLE, "prime") for x, _ in m):  # then c is positive
                return total([Number.of(c).log(), *(log_of_atom(x) * p for x, p in m)])
        return Number.atom(function("log", self))

    def applied(self, name: str) -> Number:
        """erf, tanh, sin, …, with the sign taken out, so that f(−x) and f(x) use one atom."""
        if not self.num:
            return Number.of(int(name == "cos"))
        negative = self.num[min(self.num, key=order)] < 0
        found = Number.atom(function(name, -self if negative else self))
        return -found if negative and name in ODD else found

    # -- comparison --------------------------------------------------------------------------------

    def is_zero(self) -> bool:
        """Whether the number is zero. Raises Undecided if that is unknown."""
        return decided_zero(self)

    def sign(self) -> int:
        """The sign, −1, 0 or 1. Raises Undecided if it is unknown."""
        return decided_sign(self)

    def __bool__(self) -> bool:
        return not self.is_zero()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Number | Real):
            return NotImplemented
        if isinstance(other, float) and not math.isfinite(other):
            return False
        return (self - other).is_zero()

    def __lt__(self, other: Any) -> bool:
        return (self - other).sign() < 0

    def __le__(self, other: Any) -> bool:
        return (self - other).sign() <= 0

    def __gt__(self, other: Any) -> bool:
        return (self - other).sign() > 0

    def __ge__(self, other: Any) -> bool:
        return (self - other).sign() >= 0

    # -- enclosures --------------------------------------------------------------------------------

    def decimal(self, digits: int) -> str:
        """``digits`` significant digits, the last one proven to be rounded correctly.

        Raises Undecided if no enclosure proves it.
        """
        return decimal(self, digits)

    def __float__(self) -> float:
        q = self.rational
        if q is not None:
            try:
                return float(q)
            except OverflowError:
                return math.inf if q > 0 else -math.inf
        for bits in precisions():
            ball = self.ball(bits)
            if ball.rel_accuracy_bits() > 60 or abs(ball) < arb(2) ** -1100:
                break
        if not ball.is_finite():
            raise Undecided(f"a number in {enclosure_text(self)} has no decimal value")
        return float(ball.mid())


FUNCTIONS: dict[str, Callable[[Number], Number]] = {
    "exp": Number.exp, "log": Number.log, "sqrt": Number.sqrt, "abs": abs,
    **{name: partial(Number.applied, name=name) for name in (*ODD, "cos")},
    "floor": lambda x: Number.of(math.floor(x)),
}  # fmt: skip


def total(numbers: Iterable[Number]) -> Number:
    """The sum, reduced to lowest terms once."""
    return Number(*sum_of_quotients((x.num, x.den) for x in numbers))


def total_over(den: Terms, nums: Sequence[Terms]) -> Number:
    """The sum of numerators over a common denominator."""
    return Number(nums[0] if len(nums) == 1 else added(nums), den)


def exponential_of_term(m: Monomial, c: fmpq) -> Number | None:
    """e^{c m} if known: a power of e for roots of primes, y^c for m = log y if short; else None."""
    if all(x.kind == "prime" for x, _ in m):
        return Number({monomial([(e_power(m), fraction(c))]): fmpq(1)})
    if len(m) != 1 or m[0][0].kind != "log" or m[0][1] != 1:
        return None
    y, p = m[0][0].of, fraction(c)
    if y.rational is not None and y.rational <= FACTORED and abs(p) <= 1000:
        return power_of_rational(y.rational, p)
    if p.denominator <= 2 and abs(p) <= 1000 and y.size ** abs(p) <= SHORT:
        found: Number = y**p  # y was proven positive when its logarithm was taken
        return found
    return None


def root(n: int) -> Number:
    """√n for a whole number: squares are taken out, the rest splits into roots of primes."""
    if isqrt(n) ** 2 == n:
        return Number.of(isqrt(n))
    if n > FACTORED:
        return Number.atom(function("root", Number.of(n)))
    return power_of_rational(Fraction(n), Fraction(1, 2))


def power_of_rational(base: Fraction, p: Fraction) -> Number:
    """base^p for a positive base, as a product of powers of primes."""
    if max(base.numerator, base.denominator) > FACTORED:
        return (Number.of(base).log() * p).exp()
    factor, powers = fmpq(1), []
    for n, s in ((base.numerator, 1), (base.denominator, -1)):
        for q, k in fmpz(n).factor():
            up = s * int(k) * p
            if abs(up) * int(q).bit_length() > MOST_DIGITS:
                raise VieteError(f"a power here has more than {MOST_DIGITS:,} binary digits")
            factor *= fmpq(q) ** math.floor(up)
            if up.denominator > 1:
                powers.append((prime(int(q)), up - math.floor(up)))
    return Number({monomial(powers): factor})


def radical(t: Terms) -> Number:
    """√N of a polynomial, with rational squares taken out."""
    c = content(t)
    out = fmpq(1)
    if max(int(c.p), int(c.q)) <= FACTORED:
        for n, s in ((c.p, 1), (c.q, -1)):
            for q, k in n.factor():
                # In the denominator √(1/3) = √3/3: the radicand stays whole.
                out *= fmpq(q) ** (s * (int(k) // 2 if s > 0 else (int(k) + 1) // 2))
    return Number.atom(function("root", Number(scaled(t, 1 / (out * out))))) * Number.of(out)


def log_of_atom(x: Atom) -> Number:
    """The logarithm of an atom: log p, or the exponent of e^m or exp(…)."""
    if x.kind == "prime":
        return log_of(x.of)
    found: Number = Number({x.of: fmpq(1)}) if x.kind == "e" else x.of
    return found


def log_of(n: int) -> Number:
    """log n for a whole number, as a sum over its primes."""
    if n == 1:
        return Number.of(0)
    if n > FACTORED:
        return Number.atom(function("log", Number.of(n)))
    return total([
        Number({((function("log", Number.of(int(q))), 1),): fmpq(int(k))})
        for q, k in fmpz(n).factor()
    ])  # fmt: skip
