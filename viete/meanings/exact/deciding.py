"""Decides whether a number is zero, and its sign: True, False or *unknown*, never a guess.

A polynomial in powers of primes and of e^m is zero only if it has no terms: roots of primes and
their products are linearly independent over ℚ (Besicovitch 1940), and exponentials of algebraic
numbers that are linearly independent over ℚ are algebraically independent (Lindemann–Weierstrass;
Baker 1975, thm. 1.4). A square root r of an older number is eliminated: P + Q r = 0 needs P² = Q²
N, and where that holds, an enclosure tells the two roots apart. Names are expanded. So numbers made
of roots of rationals, exponentials of sums of those, and square roots of all of these are decided,
as far as the work stays bounded. For other numbers (nobody knows whether e^e is algebraic over e),
having no terms proves zero, and an enclosure proves non-zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from flint import arb, fmpq

from viete.errors import VieteError
from viete.meanings.exact.atoms import Atom, Monomial, Terms, age, enclosed
from viete.meanings.exact.polynomials import (
    ONE,
    Quotient,
    added,
    atoms_of,
    height,
    multiplied,
    scaled,
)

MOST_BITS = 4096  # the precision at which an open comparison is given up
SIGN_BITS = 2**20  # and that for the sign of a number proven not to be zero
MOST_WORK = 200_000  # products of terms in one elimination
MOST_HEIGHT = 1_000_000  # bits of a coefficient that are still multiplied out
MOST_POWER = 1000  # of a name that is written out
FIRST_BITS = 64


class Undecided(VieteError):
    """Raised for a comparison that neither proof nor enclosure decides at the precision reached."""


def enclosure_text(x: Quotient, bits: int = FIRST_BITS) -> str:
    """An enclosure of this precision as text, for an error message."""
    ball = x.ball(bits)
    return ball.str(8) if ball.is_finite() else "(-∞, ∞)"


class Effort:
    """The highest precision that a comparison needed since ``bits`` was last set to 0."""

    bits = 0


effort = Effort()


def precisions(most: int = MOST_BITS) -> Iterator[int]:
    """Precisions of 64, 128, … bits."""
    bits = FIRST_BITS
    while bits <= most:
        yield bits
        bits *= 2


def is_zero(t: Terms) -> bool | None:
    """Whether a polynomial in atoms is zero; None if unknown."""
    if not t:
        return True
    if all(x.kind in ("prime", "e") for x in atoms_of(t)):
        return False
    if apart(t, MOST_BITS, narrow):
        return False
    found, bits = proof(frozenset(t.items()))
    effort.bits = max(effort.bits, bits)
    return False if found is None and apart(t, MOST_BITS) else found


@lru_cache(maxsize=1000)
def proof(items: frozenset[tuple[Monomial, fmpq]]) -> tuple[bool | None, int]:
    """`zero_by_elimination` and the bits it needed, cached: a lesson repeats the same questions."""
    before, effort.bits = effort.bits, 0
    try:
        return zero_by_elimination(dict(items)), effort.bits
    finally:
        effort.bits = before


def apart(t: Terms, most: int, enough: Callable[[arb, int], bool] | None = None) -> bool:
    """Whether an enclosure proves that a polynomial is not zero; ``enough`` says when to stop."""
    for bits in precisions(most):
        ball = enclosed(t, ONE, bits)
        if not ball.contains(0):
            effort.bits = max(effort.bits, bits)
            return True
        if enough is not None and enough(ball, bits):
            break
    return False


def narrow(ball: arb, bits: int) -> bool:
    """Whether a ball around 0 is so small that attempting a proof of zero is worthwhile.

    After many blocks the first enclosures are wide, or have no bounds at all.
    """
    return bits >= 4 * FIRST_BITS and (abs(ball) < arb(2) ** -128 or bits >= MOST_BITS // 2)


def zero_by_elimination(t: Terms) -> bool | None:
    """As `is_zero`, by eliminating the youngest root or name until only decided atoms are left."""
    while True:
        if not t:
            return True
        if height(t) > MOST_HEIGHT:
            return None
        atoms = atoms_of(t)
        x = max((a for a in atoms if a.kind in ("root", "name")), key=age, default=None)
        if x is None:
            return False if all(a.decided for a in atoms) else None
        if x.kind == "root":
            break
        found = with_definition(t, x)
        if found is None:
            return None
        t = found
    plain = {m: c for m, c in t.items() if (x, 1) not in m}
    factor = {tuple(f for f in m if f[0] is not x): c for m, c in t.items() if (x, 1) in m}
    if len(plain) ** 2 + len(factor) ** 2 * len(x.of.num) > MOST_WORK:
        return None
    square = multiplied(multiplied(factor, factor), x.of.num)
    norm = zero_by_elimination(added([multiplied(plain, plain), scaled(square, fmpq(-1))]))
    if norm is not True:
        return norm  # where P² ≠ Q² N, P + Q r is not zero either
    with_root = multiplied(factor, {((x, 1),): fmpq(1)})
    if apart(added([plain, scaled(with_root, fmpq(-1))]), MOST_BITS):
        return True  # the other one, P − Q r, is not zero
    return True if zero_by_elimination(plain) and zero_by_elimination(factor) else None


def with_definition(t: Terms, name: Atom) -> Terms | None:
    """A name replaced by its definition, with all names over the same denominator at once.

    So (Σ y_k² − d v)/v for y_k = c_k/√v is multiplied by v once, not once for each y_k. None if the
    result grows too large.
    """
    den = name.of.den
    names = {name}
    if den is not ONE:
        names |= {x for x in atoms_of(t) if x.kind == "name" and x.of.den == den}
    parts: dict[Monomial, Terms] = {}
    for m, c in t.items():
        of = tuple(f for f in m if f[0] in names)
        parts.setdefault(of, {})[tuple(f for f in m if f[0] not in names)] = c
    top = max(degree(of) for of in parts)
    if top > MOST_POWER:
        return None
    out = []
    for of, rest in parts.items():
        factors = [x.of.num for x, p in of for _ in range(int(p))]
        part = rest
        for factor in (*factors, *([den] * (top - degree(of)))):
            if len(part) * len(factor) > MOST_WORK:
                return None
            part = multiplied(part, factor)
        out.append(part)
    return added(out)


def degree(m: Monomial) -> int:
    """The degree of a product of names, which have whole powers."""
    return sum(int(p) for _, p in m)


def sign(num: Terms, den: Terms) -> int | None:
    """−1, 0 or 1; None if unknown."""
    if not num:
        return 0
    if den is ONE and len(num) == 1 and () in num:
        return 1 if num[()] > 0 else -1
    zero, tried = None, False
    for bits in precisions(SIGN_BITS):
        ball = enclosed(num, den, bits)
        found = sign_of(ball)
        if found:
            effort.bits = max(effort.bits, bits)
            return found
        if not tried and narrow(ball, bits):
            zero, tried = is_zero(num), True
            if zero:
                return 0
        if zero is None and bits >= MOST_BITS:
            break
    return None


def sign_of(ball: arb) -> int:
    """The common sign of all numbers in a ball; 0 if they differ."""
    return 1 if ball > 0 else -1 if ball < 0 else 0


def decided_zero(x: Quotient) -> bool:
    """Whether a number is zero. Raises Undecided if that is unknown."""
    found = is_zero(x.num)
    if found is None:
        raise Undecided(
            f"it is undecided whether a number is zero: {MOST_BITS} bits say that it is in "
            f"{enclosure_text(x, MOST_BITS)}, and no rule proves that it is zero"
        )
    return found


def decided_sign(x: Quotient) -> int:
    """The sign, −1, 0 or 1. Raises Undecided if it is unknown."""
    found = sign(x.num, x.den)
    if found is None:
        raise Undecided(
            f"the sign of a number is undecided: {MOST_BITS} bits say that it is in "
            f"{enclosure_text(x, MOST_BITS)}, and no rule proves that it is zero"
        )
    return found
