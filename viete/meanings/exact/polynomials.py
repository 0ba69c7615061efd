"""Polynomials in atoms with rational coefficients, and their quotients in lowest terms.

Powers of a prime stay below 1 and roots at the first power, since (√N)² = N; so equal polynomials
in primes and powers of e have equal terms. FLINT needs all variables in advance and whole powers,
while atoms appear during the computation. So terms are a dict here, and go to FLINT for common
divisors and roots.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from math import gcd, isqrt, lcm
from typing import Any

from flint import arb, fmpq, fmpq_mpoly, fmpq_mpoly_ctx

from viete.meanings.exact.atoms import Atom, Monomial, Power, Terms, age, enclosed

ONE: Terms = {(): fmpq(1)}
INVERTIBLE = ("e", "exp")  # never zero: the numerator may have negative powers
MOST_PRIMES = 3  # whose roots are moved out of one denominator
MOST_DEGREE = 1000  # above it no common divisor is computed: it could take too long


def atoms_of(*polynomials: Terms) -> set[Atom]:
    """The atoms in polynomials."""
    return {x for t in polynomials for m in t for x, _ in m}


class Exponent(Fraction):
    """A fraction that caches its hash: monomials are hashed far more often than made."""

    __slots__ = ("known",)
    known: int

    def __hash__(self) -> int:  # type: ignore[override]
        try:
            return self.known
        except AttributeError:
            self.known = super().__hash__()
            return self.known


def as_power(p: Power) -> Power:
    """The power, as an int if it is whole, so that equal powers are spelled alike."""
    if p.__class__ is int or p.__class__ is Exponent:
        return p
    if p.denominator == 1:
        return int(p)
    out = object.__new__(Exponent)
    out._numerator, out._denominator = p.numerator, p.denominator  # type: ignore[attr-defined]
    return out


def times(a: Monomial, b: Monomial) -> Monomial:
    """The product of two monomials, with squares of roots not yet replaced."""
    if not a or not b:
        return a or b
    if a[-1][0].age < b[0][0].age:
        return a + b
    if b[-1][0].age < a[0][0].age:
        return b + a
    out, j = [], 0
    for x, p in a:
        while j < len(b) and b[j][0].age < x.age:
            out.append(b[j])
            j += 1
        if j < len(b) and b[j][0] is x:
            if power := as_power(p + b[j][1]):
                out.append((x, power))
            j += 1
        else:
            out.append((x, p))
    return (*out, *b[j:])


def monomial(factors: Iterable[tuple[Atom, Power]]) -> Monomial:
    """The product of factors, as a monomial sorted by age."""
    return tuple(sorted(((x, as_power(p)) for x, p in factors if p), key=lambda f: f[0].age))


def reduced(terms: Terms) -> Terms:
    """Terms with squares of roots and whole powers of primes replaced by their values."""
    out: Terms = {}
    todo = list(terms.items())
    while todo:
        m, c = todo.pop()
        for k, (x, p) in enumerate(m):
            if x.kind == "prime" and not 0 < p < 1:
                up = int(p // 1)
                rest = ((x, p - up),) if p != up else ()
                todo.append((m[:k] + rest + m[k + 1 :], c * fmpq(x.of) ** up))
                break
            if x.kind == "root" and p > 1:
                rest = ((x, p - 2),) if p > 2 else ()
                low = m[:k] + rest + m[k + 1 :]
                todo += [(times(low, n), c * d) for n, d in x.of.num.items()]
                break
        else:
            out[m] = out.get(m, fmpq(0)) + c
    return {m: c for m, c in out.items() if c}


def multiplied(a: Terms, b: Terms) -> Terms:
    """The product of two polynomials, with squares of roots replaced."""
    if len(a) == 1 and () in a:
        return scaled(b, a[()])
    if len(b) == 1 and () in b:
        return scaled(a, b[()])
    out: Terms = {}
    for m, c in a.items():
        for n, d in b.items():
            key = times(m, n)
            out[key] = out[key] + c * d if key in out else c * d
    square = {x for x in atoms_of(a) if x.kind in ("prime", "root")} & atoms_of(b)
    return reduced(out) if square else {m: c for m, c in out.items() if c}


def added(polynomials: Iterable[Terms]) -> Terms:
    """The sum of polynomials."""
    out: Terms = {}
    for t in polynomials:
        for m, c in t.items():
            out[m] = out[m] + c if m in out else c
    return {m: c for m, c in out.items() if c}


Pair = tuple[Terms, Terms]  # a numerator and a denominator


def by_denominator(pairs: Iterable[Pair]) -> list[tuple[Terms, list[Terms]]]:
    """Each denominator with its numerators."""
    groups: list[tuple[Terms, list[Terms]]] = []
    for num, den in pairs:
        for other, nums in groups:
            if other is den or other == den:
                nums.append(num)
                break
        else:
            groups.append((den, [num]))
    return groups


def sum_of_quotients(pairs: Iterable[Pair]) -> Pair:
    """The sum of quotients, not reduced; numerators over the same denominator are added first."""
    num, den = None, ONE
    for under, nums in by_denominator(pairs):
        other = nums[0] if len(nums) == 1 else added(nums)
        if num is None:
            num, den = other, under
            continue
        num = added([multiplied(num, under), multiplied(other, den)])
        den = multiplied(den, under)
    return num or {}, den


def scaled(t: Terms, c: fmpq) -> Terms:
    """A polynomial times a non-zero number."""
    return t if c == 1 else {m: k * c for m, k in t.items()}


def shifted(t: Terms, by: Monomial) -> Terms:
    """A polynomial times a monomial, with roots not reduced."""
    return {times(m, by): c for m, c in t.items()} if by else t


def order(m: Monomial) -> tuple[object, ...]:
    """A fixed order of terms: by degree, then by the age of their atoms."""
    return sum(p for _, p in m), tuple((x.age, p) for x, p in m)


def ratio(a: Terms, b: Terms) -> fmpq | None:
    """The number c with a = c b; None if there is none."""
    if len(a) != len(b):
        return None
    c = None
    for m, d in b.items():
        if m not in a or (c is not None and a[m] != c * d):
            return None
        c = a[m] / d
    return c


# -- quotients -------------------------------------------------------------------------------------


def lowest(num: Terms, den: Terms) -> Pair:
    """The quotient in lowest terms, as far as found; the first coefficient of ``den`` is 1.

    Roots of primes and single terms move out of the denominator, common factors are cancelled. A
    factor e^m common to all terms is kept, so that e/(e + e²) reads as it was computed.
    """
    if not num:
        return {}, ONE
    if den is not ONE:
        c = ratio(num, den)
        if c is not None:
            return {(): c}, ONE
    if len(den) == 1:
        num, den = over_monomial(num, den)
    elif all(x.kind == "prime" for x in atoms_of(den)):
        num, den = rationalised(num, den)
    if len(den) > 1 and len(num) > 1:
        before, (num, den) = den, without_common(num, den)
        if den is not before:
            return lowest(num, den)  # the rest may be one term, or only roots of primes
    first = den[min(den, key=order)] if len(den) > 1 else next(iter(den.values()))
    if first != 1:
        num, den = scaled(num, 1 / first), scaled(den, 1 / first)
    return num, ONE if len(den) == 1 and () in den else den


def over_monomial(num: Terms, den: Terms) -> Pair:
    """A quotient by one term, moved into the numerator as far as possible."""
    ((m, c),) = den.items()
    root = next((f for f in m if f[0].kind == "root"), None)
    if root is not None:  # 1/√N = √N/N
        rest = {tuple(f for f in m if f is not root): c}
        return lowest(multiplied(num, {(root,): fmpq(1)}), multiplied(rest, root[0].of.num))
    num, stays = scaled(num, 1 / c), []
    for x, p in m:
        if x.kind in INVERTIBLE:
            num = shifted(num, ((x, -p),))
        elif x.kind == "prime":
            num = scaled(reduced(shifted(num, ((x, 1 - p),))), 1 / fmpq(x.of))
        else:
            low = min(int(p), *(int(dict(n).get(x, 0)) for n in num))
            if low:
                num = shifted(num, ((x, -low),))
            if p > low:
                stays.append((x, as_power(p - low)))
    return num, {tuple(stays): fmpq(1)} if stays else ONE


def rationalised(num: Terms, den: Terms) -> Pair:
    """A quotient with square roots of primes moved to the numerator, by conjugates.

    Each prime may double the terms, so with many primes the quotient is unchanged.
    """
    if len(atoms_of(den)) > MOST_PRIMES:
        return num, den
    for x in sorted(atoms_of(den), key=age):
        if all(dict(m).get(x, Fraction(1, 2)) == Fraction(1, 2) for m in den):
            conjugate = {m: -c if dict(m).get(x) else c for m, c in den.items()}
            num, den = multiplied(num, conjugate), multiplied(den, conjugate)
    if len(den) == 1:
        return over_monomial(num, den)
    return num, den


class Ring:
    """Converts polynomials to FLINT and back: atoms become variables with whole powers."""

    def __init__(self, *polynomials: Terms) -> None:
        seen: dict[Atom, list[Power]] = {}
        for t in polynomials:
            for m in t:
                for x, p in m:
                    seen.setdefault(x, []).append(p)
        count = sum(map(len, polynomials))
        self.atoms = sorted(seen, key=age)
        self.place = {x: k for k, x in enumerate(self.atoms)}
        self.unit: list[int] = []
        self.low: list[Power] = []  # only invertible atoms are shifted
        self.degree = 0
        for x in self.atoms:
            powers = seen[x]
            unit = lcm(*(p.denominator for p in powers))
            low = 0 if x.kind not in INVERTIBLE else min(powers)
            low = min(low, 0) if len(powers) < count else low
            self.unit.append(unit)
            self.low.append(low)
            self.degree = max(self.degree, int((max(powers) - low) * unit))
        self.base = [int(-low * unit) for low, unit in zip(self.low, self.unit, strict=True)]
        self.ring = fmpq_mpoly_ctx.get([f"x{k}" for k in range(len(self.atoms))], "lex")

    def there(self, t: Terms) -> fmpq_mpoly:
        entries = {}
        for m, c in t.items():
            row = self.base.copy()
            for x, p in m:
                k = self.place[x]
                row[k] += int(p) if self.unit[k] == 1 else int(p * self.unit[k])
            entries[tuple(row)] = c
        return self.ring.from_dict(entries)

    def back(self, p: fmpq_mpoly, shift: Fraction = Fraction(0)) -> Terms:
        """A polynomial in atoms; ``shift`` times the lowest powers of e^m are multiplied back."""
        moved = [shift * low for low in self.low]
        return {
            tuple(
                (x, power)
                for x, k, unit, by in zip(self.atoms, powers, self.unit, moved, strict=True)
                if (power := as_power(Fraction(int(k), unit) + by if unit > 1 or by else int(k)))
            ): c
            for powers, c in p.to_dict().items()
        }


def without_common(num: Terms, den: Terms) -> Pair:
    """Cancel the greatest common divisor, with atoms as variables."""
    if not atoms_of(num) & atoms_of(den):
        return num, den
    ring = Ring(num, den)
    if ring.degree > MOST_DEGREE:
        return num, den
    a, b = ring.there(num), ring.there(den)
    common = a.gcd(b)
    if common.is_constant():
        return num, den
    return reduced(ring.back(a / common)), reduced(ring.back(b / common))


def exact_root(t: Terms) -> Terms | None:
    """The square root of a polynomial, with atoms as variables; None if it is no square."""
    if t is ONE:
        return ONE
    if len(t) == 1 and () in t:
        p, q = int(t[()].p), int(t[()].q)
        if p < 0 or isqrt(p) ** 2 != p or isqrt(q) ** 2 != q:
            return None
        return {(): fmpq(isqrt(p), isqrt(q))}
    ring = Ring(t)
    try:
        found = ring.there(t).sqrt()
    except Exception:  # flint raises various exceptions for a polynomial that is no square
        return None
    return ring.back(found, Fraction(1, 2))


def height(t: Terms) -> int:
    """The bits of the longest coefficient."""
    return max((int(c.height_bits()) for c in t.values()), default=0)


def content(t: Terms) -> fmpq:
    """The greatest positive rational whose quotients with all coefficients are whole."""
    top, bottom = 0, 1
    for c in t.values():
        top, bottom = gcd(top, abs(int(c.p))), lcm(bottom, int(c.q))
    return fmpq(top, bottom)


def hashable(t: Terms) -> frozenset[tuple[Any, ...]]:
    """A polynomial as a key: FLINT hashes a quotient ten times slower than its two numbers."""
    return frozenset((m, c.p, c.q) for m, c in t.items())


def fraction(c: fmpq) -> Fraction:
    """A FLINT rational as a Python fraction."""
    return Fraction(int(c.p), int(c.q))


class Quotient:
    """``num / den`` in lowest terms, and properties that need no computation."""

    __slots__ = ("__dict__", "den", "num")

    def __init__(self, num: Terms, den: Terms = ONE) -> None:
        self.num, self.den = (num, ONE) if den is ONE else lowest(num, den)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """A key shared by numbers that are equal by construction."""
        num, den = self.num, self.den
        if den is not ONE:
            for x in atoms_of(den):
                if x.kind in INVERTIBLE and (low := min(dict(m).get(x, 0) for m in den)):
                    num, den = shifted(num, ((x, -low),)), shifted(den, ((x, -low),))
            first = den[min(den, key=order)]
            num, den = scaled(num, 1 / first), scaled(den, 1 / first)
        return hashable(num), hashable(den)

    @cached_property
    def rational(self) -> Fraction | None:
        """The number as a fraction; None if it is not rational by its form."""
        if not self.num:
            return Fraction(0)
        if self.den is ONE and len(self.num) == 1 and () in self.num:
            return fraction(self.num[()])
        return None

    def atoms(self) -> set[Atom]:
        """The atoms in the number's terms."""
        return atoms_of(self.num, self.den)

    @property
    def decided(self) -> bool:
        """Whether equality with other decided numbers is decided."""
        return all(x.decided for x in self.atoms())

    @property
    def name(self) -> Atom | None:
        """The name that the number consists of; None for any other number."""
        if self.den is ONE and len(self.num) == 1:
            ((m, c),) = self.num.items()
            if c == 1 and len(m) == 1 and m[0][1] == 1 and m[0][0].kind == "name":
                return m[0][0]
        return None

    @property
    def size(self) -> int:
        """The number of terms."""
        return len(self.num) + (0 if self.den is ONE else len(self.den))

    @property
    def length(self) -> int:
        """The approximate number of letters, including those of nested functions."""
        return sum(1 + sum(x.length for x, _ in m) for t in (self.num, self.den) for m in t)

    @property
    def bits(self) -> int:
        """The bits of the longest coefficient."""
        return max(height(self.num), height(self.den))

    def ball(self, bits: int) -> arb:
        """A ball of about ``bits`` bits that contains the number (Johansson 2017, Arb)."""
        return enclosed(self.num, self.den, bits)
