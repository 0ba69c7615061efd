"""Simplest forms: an exact number factored, powers of e cancelled: ``1 / (4 (1 + e)²)``.

A number itself stays as it was computed, ``e² / (4 e² + 8 e³ + 4 e⁴)``; this module writes it for
people. Common powers of e in numerator and denominator cancel, and FLINT factors the rest into
polynomials with whole coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import fmpq

from viete.meanings.exact import deciding
from viete.meanings.exact.atoms import Atom, Monomial, Terms
from viete.meanings.exact.polynomials import (
    INVERTIBLE,
    ONE,
    Quotient,
    Ring,
    as_power,
    atoms_of,
    content,
    fraction,
    order,
    reduced,
    scaled,
    shifted,
)
from viete.meanings.exact.spelling import Speller, spelled
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Num

MOST_FACTORED, MOST_DEGREE = 12, 40  # terms and degree of a polynomial that is factored
MOST_COMPARED = 4  # terms on the two sides of a comparison
POSITIVE = ("e", "exp", "pi", "root", "prime")  # kinds of atoms: a logarithm may be negative


@dataclass(frozen=True)
class Factored:
    """``above / below`` times a monomial times polynomials, each to a non-zero power.

    The polynomials have whole coefficients without a common divisor, and more than one term.
    """

    above: int
    below: int
    single: Monomial
    powers: tuple[tuple[Terms, int], ...]


def factored(x: Quotient) -> Factored | None:
    """A number in factors; None for zero, a number that is too long, or one with roots."""
    num, den = x.num, x.den
    if not num or max(len(num), len(den)) > MOST_FACTORED:
        return None
    if any(a.kind in ("root", "prime") for a in atoms_of(num, den)):
        return None  # whose squares are other polynomials: FLINT treats atoms as variables
    c = content(num) / content(den)
    sign, powers = 1, list[tuple[Terms, int]]()
    single: dict[Atom, Fraction] = {}
    for terms, turn in ((num, 1), (den, -1)):
        shared, rest = apart(terms)
        found = factors(rest)
        if found is None:
            return None
        sign *= found[0]
        powers += [(t, turn * p) for t, p in found[1]]
        for a, p in shared:
            single[a] = single.get(a, Fraction(0)) + turn * p
    monomial = tuple((a, as_power(p)) for a, p in single.items() if p)
    return Factored(sign * int(c.p), int(c.q), monomial, tuple(powers))


def apart(t: Terms) -> tuple[Monomial, Terms]:
    """The lowest power of each atom that all terms share, and the polynomial without it."""
    lowest = ((a, min(dict(m).get(a, 0) for m in t)) for a in atoms_of(t))
    shared = [(a, low) for a, low in lowest if low and (a.kind in INVERTIBLE or low > 0)]
    away = tuple((a, as_power(-low)) for a, low in shared)
    return tuple(shared), scaled(shifted(t, away), 1 / content(t))


def factors(t: Terms) -> tuple[int, list[tuple[Terms, int]]] | None:
    """A sign, and the irreducible factors of a whole-coefficient polynomial with multiplicities."""
    if len(t) == 1:
        (c,) = t.values()
        return (1 if c > 0 else -1), []
    ring = Ring(t)
    if ring.degree > MOST_DEGREE or any(ring.low):
        return None
    unit, found = ring.there(t).factor()
    sign, out = (1 if unit > 0 else -1), []
    for p, k in found:
        f = reduced(ring.back(p))
        if f[min(f, key=order)] < 0:
            f, sign = scaled(f, fmpq(-1)), sign * (-1) ** int(k)
        out.append((scaled(f, 1 / content(f)), int(k)))
    return sign, sorted(out, key=lambda f: (len(f[0]), show(Speller(0, {}).polynomial(f[0]))))


def simplest(x: Quotient) -> Expr:
    """The number as an expression, factored if that takes fewer letters."""
    if x.rational is not None:
        return spelled(x)
    if "_simplest" not in x.__dict__:
        x.__dict__["_simplest"] = shorter(x)
    found: Expr = x.__dict__["_simplest"]
    return found


def shorter(x: Quotient) -> Expr:
    plain, found = spelled(x), factored(x)
    e = None if found is None else quotient_of(found)
    return plain if e is None or len(show(e)) >= len(show(plain)) else e


def quotient_of(f: Factored) -> Expr:
    """A quotient of two products of factors."""
    speller = Speller(0, {})
    up = tuple((a, p) for a, p in f.single if p > 0)
    down = tuple((a, as_power(-p)) for a, p in f.single if p < 0)
    top = product(speller, abs(f.above), up, [(t, p) for t, p in f.powers if p > 0])
    bottom = product(speller, f.below, down, [(t, -p) for t, p in f.powers if p < 0])
    e = top if bottom == Num(Fraction(1)) else Apply("div", (top, bottom))
    return e if f.above > 0 else Apply("neg", (e,))


def product(speller: Speller, c: int, m: Monomial, powers: list[tuple[Terms, int]]) -> Expr:
    factors = [speller.term(m, Fraction(c))] if m or c != 1 or not powers else []
    for t, p in powers:
        e = speller.polynomial(t)
        factors.append(e if p == 1 else Apply("pow", (e, Num(Fraction(p)))))
    out = factors[0]
    for e in factors[1:]:
        out = Apply("prod", (out, e))
    return out


def reason(x: Quotient) -> tuple[Expr, str, Expr] | None:
    """A reason for a number's sign, as an evident comparison: ``e > 2``, ``e^8 > 1 + e^4``.

    Factors whose terms are all positive are left out; None unless a single short factor decides.
    """
    open_ = undecided(x)
    if open_ is None or len(open_) != 1 or len(open_[0]) > MOST_COMPARED:
        return None
    t = open_[0]
    if len(t) > 2 or () not in t:
        return sides(t)
    (m,) = (m for m in t if m)
    bound = fraction(-t[()] / t[m])
    value = Quotient({m: fmpq(1)}, ONE)
    above = bool(value.ball(128) > fmpq(bound.numerator, bound.denominator))
    return spelled(value), ">" if above else "<", Num(bound)


def sides(t: Terms) -> tuple[Expr, str, Expr] | None:
    """A polynomial's terms with a plus and those with a minus, the greater sum first."""
    found = deciding.sign(t, ONE)
    if not found:
        return None
    up, down = ({m: k * c for m, c in t.items() if k * c > 0} for k in (found, -found))
    write = Speller(0, {}).polynomial
    return write(up), ">", write(down)


def is_evident(x: Quotient) -> bool:
    """Whether a number's sign can be seen: its factors have terms of one sign, or even powers."""
    return x.rational is not None or undecided(x) == []


def undecided(x: Quotient) -> list[Terms] | None:
    """The factors on which a number's sign depends; None for a number without factors."""
    if any(a.kind not in POSITIVE for a in atoms_of(x.num, x.den)):
        return None
    if all(len({c > 0 for c in t.values()}) == 1 for t in (x.num, x.den)):
        return []
    found = factored(x)
    if found is None:
        return None
    return [t for t, p in found.powers if p % 2 and any(c < 0 for c in t.values())]


__all__ = ["Factored", "factored", "is_evident", "reason", "simplest"]
