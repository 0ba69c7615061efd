"""Sums of products: terms with coefficients, each a product of powers of factors, in one order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from math import isqrt

from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Num, Ref

Term = tuple[tuple[Expr, Fraction], ...]  # factors with their powers, in order
Form = dict[Term, Fraction]
ONE = Fraction(1)


def added(a: Form, b: Form) -> Form:
    """The sum of two forms."""
    out = dict(a)
    for term, c in b.items():
        if total := out.pop(term, Fraction(0)) + c:
            out[term] = total
    return out


def scaled(a: Form, c: Fraction) -> Form:
    """A form times a number."""
    return {term: c * x for term, x in a.items()} if c else {}


def ordered(factors: Iterable[tuple[Expr, Fraction]]) -> Term:
    """Factors in a fixed order."""
    return tuple(sorted(factors, key=lambda x: (spelled(x[0]), x[1])))


@lru_cache(maxsize=1 << 14)
def spelled(e: Expr) -> str:
    """A formula as text, for sorting."""
    return show(e)


def matrix_product(factors: Sequence[Expr]) -> Expr:
    """``(A B) C``."""
    return reduce(lambda a, b: Apply("prod", (a, b)), factors)


def entrywise_product(factors: Sequence[Expr]) -> Expr:
    """``(a ⊙ b) ⊙ c``."""
    return reduce(lambda a, b: Apply("had", (a, b)), factors)


def entrywise(e: Expr) -> list[Expr]:
    """The factors of an entrywise product."""
    match e:
        case Num(value) if value == 1:
            return []
        case Apply("had", (a, b)):
            return [*entrywise(a), *entrywise(b)]
        case Apply("pow", (a, Num(k))) if k.denominator == 1 and 1 < k <= 4:
            return entrywise(a) * int(k)
    return [e]


def content(form: Form) -> tuple[Form, Form]:
    """The common factor of all terms, from numbers and dimensions, as a term; and the rest."""
    if not form:
        return {(): ONE}, form
    terms = sorted(form, key=lambda t: [(spelled(x), p) for x, p in t])
    dims = {x for t in terms for x, _ in t if positive(x)}
    least = {x: min(dict(t).get(x, Fraction(0)) for t in terms) for x in dims}
    c = abs(form[terms[0]])
    rest = {
        ordered((x, q) for x, p in {**dict.fromkeys(dims, Fraction(0)), **dict(t)}.items()
                if (q := p - least.get(x, 0))): k / c
        for t, k in form.items()
    }  # fmt: skip
    return {ordered((x, p) for x, p in least.items() if p): c}, rest


def rational_power(c: Fraction, p: Fraction) -> Fraction | None:
    """A number to a power, if the result is rational."""
    if p.denominator == 1:
        return c ** int(p) if c else None
    if p.denominator != 2 or c <= 0:
        return None
    root = Fraction(isqrt(c.numerator), isqrt(c.denominator))
    return root**p.numerator if root**2 == c else None


def positive(e: Expr) -> bool:
    """Whether a factor is a dimension."""
    return isinstance(e, Ref) and e.symbol.kind == "dim"


__all__ = [
    "ONE", "Form", "Term", "added", "content", "entrywise", "entrywise_product", "matrix_product",
    "ordered", "rational_power", "scaled", "spelled",
]  # fmt: skip
