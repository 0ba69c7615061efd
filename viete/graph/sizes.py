"""Symbolic sizes: Laurent polynomials with rational coefficients, such as d/H, 4 d and 2 n^2 d.

They are compared by normal form, and cover every shape and every cost of a transformer. A size that
is not such a polynomial (a quotient by a sum, for example) has no symbolic form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, cached_property, lru_cache

from viete.errors import VieteError
from viete.notation.tree import Apply, Expr, Idx, Interned, Num, Ref, interned

Monomial = tuple[tuple[str, int], ...]
Coefficient = int | Fraction  # whole numbers are ints, which are ten times as fast
# No model comes near these; without them a few lines could ask for more than any computer has.
MOST_TERMS, MOST_BITS, HIGHEST_DEGREE = 500, 4000, 64
SEEN = 10_000  # sums, products and texts kept: a card makes the same few again and again


@interned
class Size(Interned):
    """A polynomial in dimension names; ``terms`` maps a sorted monomial to its coefficient."""

    terms: tuple[tuple[Monomial, Coefficient], ...]

    @staticmethod
    @cache
    def of(value: int | Fraction | str) -> Size:
        """A number, or the dimension of that name."""
        if isinstance(value, str):
            return Size(((((value, 1),), 1),))
        return Size((((), as_integer(value)),)) if value else Size(())

    @staticmethod
    def make(terms: Mapping[Monomial, Coefficient]) -> Size:
        if len(terms) > MOST_TERMS or any(
            c.numerator.bit_length() + c.denominator.bit_length() > MOST_BITS
            or sum(abs(p) for _, p in m) > HIGHEST_DEGREE
            for m, c in terms.items()
        ):
            raise VieteError("the dimensions of this card multiply to a size that is too large")
        return Size(tuple(sorted((m, as_integer(c)) for m, c in terms.items() if c)))

    @lru_cache(SEEN)  # noqa: B019 (what it holds is values, and bounded)
    def __add__(self, other: Size) -> Size:
        out = dict(self.terms)
        for m, c in other.terms:
            out[m] = out.get(m, 0) + c
        return Size.make(out)

    def __neg__(self) -> Size:
        return Size(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Size) -> Size:
        return self + -other

    @lru_cache(SEEN)  # noqa: B019 (what it holds is values, and bounded)
    def __mul__(self, other: Size) -> Size:
        out: dict[Monomial, Coefficient] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                key = times(m, n)
                out[key] = out.get(key, 0) + c * d
        return Size.make(out)

    def inverse(self) -> Size | None:
        """1/self where self is a single term, else None."""
        if len(self.terms) != 1:
            return None
        ((m, c),) = self.terms
        return Size(((tuple((n, -p) for n, p in m), as_integer(1 / Fraction(c))),))

    def number(self) -> Fraction | None:
        """The value, if no dimension name is left."""
        if not self.terms:
            return Fraction(0)
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return Fraction(self.terms[0][1])
        return None

    def names(self) -> frozenset[str]:
        return self.own_names

    @cached_property
    def own_names(self) -> frozenset[str]:
        return frozenset(n for m, _ in self.terms for n, _ in m)

    def substitute(self, values: Mapping[str, Size]) -> Size:
        """Replace dimension names; a name replaced by a sum must not stand below a line."""
        if not self.names() & values.keys():
            return self
        total = Size(())
        for m, c in self.terms:
            term = Size.of(c)
            for n, p in m:
                factor = values.get(n, Size.of(n))
                if p < 0:
                    factor = factor.inverse() or Size(((((n, -1),), 1),))
                term *= math.prod([factor] * abs(p), start=ONE)
            total = total + term
        return total

    def evaluate(self, values: Mapping[str, Fraction]) -> Fraction:
        """The number for given values of the names; KeyError for a name without one."""
        total: Coefficient = 0
        for m, c in self.terms:
            for n, p in m:
                c *= as_integer(values[n]) ** p if p > 0 else values[n] ** p
            total += c
        if total.numerator.bit_length() + total.denominator.bit_length() > MOST_BITS:
            raise VieteError(f"the size {self} has more digits than any computer can use")
        return Fraction(total)

    def value(self, values: Mapping[str, Fraction]) -> Fraction | None:
        """As `evaluate`; None for a name without a number, and where it divides by zero."""
        try:
            return self.evaluate(values)
        except (KeyError, ZeroDivisionError):
            return None

    def __str__(self) -> str:
        return self.show("plain")

    @lru_cache(SEEN)  # noqa: B019 (what it holds is values, and bounded)
    def show(self, style: str) -> str:
        """The size in one of the three spellings or in MathML, highest degree first."""
        if not self.terms:
            return "0"
        shown = []
        for m, c in sorted(self.terms, key=lambda t: (-sum(p for _, p in t[0]), t[0])):
            above = [(n, p) for n, p in m if p > 0]
            below = [(n, -p) for n, p in m if p < 0]
            top = " ".join(power(n, p, style) for n, p in above)
            if abs(c.numerator) != 1 or not top:
                top = f"{abs(c.numerator)} {top}".strip()
            bottom = [power(n, p, style) for n, p in below]
            if c.denominator != 1:
                bottom.insert(0, str(c.denominator))
            if bottom:
                joined = " ".join(bottom)
                if style == "mathml":
                    top = f"<mfrac><mrow>{top}</mrow><mrow>{joined}</mrow></mfrac>"
                elif style == "latex":
                    top = f"\\frac{{{top}}}{{{joined}}}"
                else:
                    top += f"/({joined})" if len(bottom) > 1 else f"/{joined}"
            shown.append(("-" if c < 0 else "+", top))
        text = " ".join(f"{sign} {term}" for sign, term in shown)
        return text[2:] if text[0] == "+" else "-" + text[2:]


def as_integer(c: Coefficient) -> Coefficient:
    """The same number, as an int where it is whole."""
    return c.numerator if c.denominator == 1 else c


ZERO, ONE = Size(()), Size.of(1)


def times(a: Monomial, b: Monomial) -> Monomial:
    """The product, sorted, without the names whose powers cancel."""
    if not (a and b):
        return a or b
    powers = dict(a)
    for n, p in b:
        powers[n] = powers.get(n, 0) + p
    return tuple(sorted((n, p) for n, p in powers.items() if p))


@cache
def power(name: str, p: int, style: str) -> str:
    """``name^p`` in a spelling; the first power is the bare name."""
    base = spell(name, style)
    if p == 1:
        return base
    if style == "mathml":
        return f"<msup>{base}<mn>{p}</mn></msup>"
    if style == "unicode":
        return base + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(d)] for d in str(p))
    return f"{base}^{p}" if p < 10 else f"{base}^{{{p}}}"


@cache
def spell(name: str, style: str) -> str:
    """A dimension's plain key (``d_k``, ``vocab_size``) in a spelling."""
    from viete.errors import Text
    from viete.notation.cursor import parse_name
    from viete.notation.printer import show_symbol

    return show_symbol(parse_name(Text(name), "dim", set()), style)


def size_of(
    e: Expr, lookup: Callable[[Ref], Size | None],
    letter: Callable[[str], Size | None] | None = None,
    measure: Callable[[Apply], Size | None] | None = None,
) -> Size | None:  # fmt: skip
    """An expression over dimensions as a Size; None where it is not one.

    ``letter`` gives the size that an index letter is taken for, ``measure`` that of ``rows(x)`` and
    ``cols(x)``.
    """
    match e:
        case Apply("rows" | "cols" | "len") if measure is not None:
            return measure(e)
        case Num():
            return size_of_number(e)
        case Ref():
            return lookup(e)
        case Idx(name) if letter is not None:
            return letter(name)
        case Apply(op, args):
            return calculated(op, [size_of(a, lookup, letter, measure) for a in args])
    return None


@lru_cache(SEEN)
def size_of_number(e: Num) -> Size:
    """A number as a size, cached by its node."""
    return Size.of(e.value)


def calculated(op: str, sizes: Sequence[Size | None]) -> Size | None:
    """An operation on sizes; None where one of them is not known, or the result is not a Size."""
    match op, sizes:
        case _, [*_] if None in sizes:
            return None
        case "add", [Size() as a, Size() as b]:
            return a + b
        case "sub", [Size() as a, Size() as b]:
            return a - b
        case (("prod" | "times" | "had"), [Size() as a, Size() as b]):
            return a * b
        case "neg", [Size() as a]:
            return -a
        case "div", [Size() as a, Size() as b]:
            inverse = b.inverse()
            return None if inverse is None else a * inverse
        case "pow", [Size() as a, Size() as b]:
            n = b.number()
            if n is None or n.denominator != 1 or abs(n) > 8:
                return None
            base = a if n >= 0 else a.inverse()
            return None if base is None else math.prod([base] * abs(int(n)), start=ONE)
    return None
