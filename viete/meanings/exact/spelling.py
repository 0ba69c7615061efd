"""Exact numbers as expressions of the notation: ``e / (e + e^2)``, ``sqrt(6) / 3``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from flint import fmpq

from viete.meanings.exact.atoms import Atom, Monomial, Power, Terms
from viete.meanings.exact.deciding import Undecided, decided_sign
from viete.meanings.exact.decimals import enclosure, truncated
from viete.meanings.exact.polynomials import (
    ONE,
    Pair,
    Quotient,
    content,
    fraction,
    ratio,
    scaled,
    sum_of_quotients,
)
from viete.notation.lexer import ELEMENTARY
from viete.notation.printer import digits, show
from viete.notation.tree import Apply, Expr, Num, Ref, Symbol, num

E = Ref(Symbol("value", "e"))
LONG = 24  # digits above which an exponent is written as the name of its place, if it has one
IN_EXPONENT = 4  # most terms of an exponent set above e; a longer one is written exp(…)
Places = Mapping[Any, Expr]
MOST_TERMS, MOST_DIGITS = 16, 24  # of a sum and of a whole number, if room is limited
RANK = {"name": 0, **dict.fromkeys(ELEMENTARY, 1), "pi": 1, "exp": 2, "e": 2, "root": 3, "prime": 4}


def spell(x: Quotient, levels: int = 0, style: str = "plain") -> str:
    """The number in one of the notation's spellings, with names written out ``levels`` deep."""
    return show(spelled(x, levels), style)


def spelled(x: Quotient, levels: int = 0, places: Places | None = None) -> Expr:
    """The number as an expression; names are written out ``levels`` deep.

    ``places`` maps keys of numbers to names, for numbers in an exponent or under a root that are
    too long to be written there.
    """
    if levels or places:
        return Speller(levels, places or {}).number(x)
    if "_spelled" not in x.__dict__:  # a lesson asks again for the numbers of a row
        x.__dict__["_spelled"] = Speller(0, {}).number(x)
    found: Expr = x.__dict__["_spelled"]
    return found


class Speller:
    """Writes numbers, with names written out ``levels`` deep.

    With ``room`` for that many terms, long sums and long whole numbers are cut, and names are
    written out only while room is left; ``cut`` says whether anything was left out.
    """

    def __init__(self, levels: int, places: Places, room: int | None = None) -> None:
        self.levels, self.places, self.room = levels, places, room
        self.cut = False

    def number(self, x: Quotient) -> Expr:
        num, den = x.num, x.den
        if not num:
            return Num(Fraction(0))
        num, den = with_root_below(num, den)
        c = content(num) / content(den)
        num, den = scaled(num, 1 / content(num)), scaled(den, 1 / content(den))
        above, below = Fraction(int(c.p)), Fraction(int(c.q))
        if len(den) == 1 and () in den:
            if len(num) == 1 and () in num:
                return self.fraction(above * int(num[()].p) / below)
            bottom: Expr | None = None if below == 1 else self.fraction(below)
        else:
            bottom = self.polynomial(scaled(den, fmpq(int(below))))
        top = self.polynomial(scaled(num, fmpq(int(above))))
        if bottom is None:
            return top
        if isinstance(top, Apply) and top.op == "neg":
            return Apply("neg", (Apply("div", (top.args[0], bottom)),))
        return Apply("div", (top, bottom))

    def fraction(self, c: Fraction) -> Expr:
        """A fraction; if ``room`` is limited, a very long one is cut to its first digits."""
        longest = max(len(digits(n)) for n in abs(c).as_integer_ratio())
        if self.room is None or longest <= MOST_DIGITS:
            return Num(c)
        above, below = (self.integer(n) for n in (abs(c.numerator), c.denominator))
        e = above if c.denominator == 1 else Apply("div", (above, below))
        return e if c > 0 else Apply("neg", (e,))

    def integer(self, n: int) -> Expr:
        text = digits(n)
        if len(text) <= MOST_DIGITS:
            return Num(Fraction(n))
        self.cut = True
        return Ref(Symbol("value", f"{text[:6]}…{text[-3:]}"))

    def inside(self, x: Quotient) -> Expr:
        """An exponent or a radicand; if long, the name of its place."""
        place = self.places.get(x.key)
        return self.number(x) if place is None or length(x) < LONG else place

    def polynomial(self, t: Terms) -> Expr:
        """A sum of terms that begins with a positive one."""
        terms = sorted(t.items(), key=lambda item: term_key(item[0]))
        first = next((k for k, (_, c) in enumerate(terms) if c > 0), 0)
        terms = [terms[first], *terms[:first], *terms[first + 1 :]]
        left_out = 0
        if self.room is not None:
            left_out = max(0, len(terms) - MOST_TERMS)
            terms = terms[: len(terms) - left_out]
            self.room -= len(terms)
        out: Expr | None = None
        for m, c in terms:
            e = self.term(m, abs(fraction(c)))
            if out is None:
                out = e if c > 0 else Apply("neg", (e,))
            else:
                out = Apply("add" if c > 0 else "sub", (out, e))
        assert out is not None
        if left_out:
            self.cut = True
            out = Apply("add", (out, Ref(Symbol("value", f"…({left_out})"))))
        return out

    def term(self, m: Monomial, c: Fraction) -> Expr:
        """A coefficient and factors written side by side."""
        factors: list[Expr] = []
        for x, p in sorted((f for f in m if RANK[f[0].kind] < 2), key=lambda f: term_key((f,))):
            factors.append(raised(self.atom(x), p))
        exponent = [(x, p) for x, p in m if RANK[x.kind] == 2]
        if exponent:
            factors.append(self.exponential(exponent))
        factors += self.roots([(x, p) for x, p in m if RANK[x.kind] > 2])
        if c != 1 or not factors:
            factors.insert(0, self.fraction(c))
        out = factors[0]
        for f in factors[1:]:  # two numbers side by side would be read as one
            out = Apply("times" if begins_with_number(f) else "prod", (out, f))
        return out

    def atom(self, x: Atom) -> Expr:
        """A name, or a function of a number."""
        if x.kind == "name":
            assert x.label is not None
            if self.levels <= 0 or (self.room is not None and self.room <= 0):
                return x.label
            deeper = Speller(self.levels - 1, self.places, self.room)
            e = deeper.number(x.of)
            self.room, self.cut = deeper.room, self.cut or deeper.cut
            return e
        if x.kind == "pi":
            return Apply("pi", ())
        return Apply("sqrt" if x.kind == "root" else x.kind, (self.inside(x.of),))

    def exponential(self, factors: list[tuple[Atom, Power]]) -> Expr:
        """All powers of e in one term, combined into one."""
        pairs = [({x.of: fmpq(1)}, ONE) if x.kind == "e" else (x.of.num, x.of.den)
                 for x, _ in factors]  # fmt: skip
        powers = [fmpq(p.numerator, p.denominator) for _, p in factors]
        of = Quotient(*sum_of_quotients(
            (scaled(num, p), den) for (num, den), p in zip(pairs, powers, strict=True)
        ))  # fmt: skip
        exponent = self.inside(of)
        if exponent == num(1):
            return E
        if of.size <= IN_EXPONENT:
            return Apply("pow", (E, exponent))
        return Apply("exp", (exponent,))

    def roots(self, factors: list[tuple[Atom, Power]]) -> list[Expr]:
        """Powers of primes, combined: √2 √3 is √6, 2^{2/3} 5^{2/3} is 10^{2/3}."""
        out = [self.atom(x) for x, p in factors if x.kind == "root"]
        together: dict[Power, int] = {}
        for x, p in factors:
            if x.kind == "prime":
                together[p] = together.get(p, 1) * x.of
        powers = [
            Apply("sqrt", (Num(Fraction(n)),)) if p == Fraction(1, 2)
            else raised(Num(Fraction(n)), p)
            for p, n in sorted(together.items())
        ]  # fmt: skip
        return powers + out


def short(x: Quotient, letters: int, write: Callable[[Quotient], Expr] = spelled) -> Expr | None:
    """The number written in at most ``letters`` letters; None if it takes more."""
    if x.length > 2 * letters:  # known without writing it, which may take seconds
        return None
    e = write(x)
    return e if len(show(e)) <= letters else None


def first_digits(x: Quotient, places: int = 6) -> Expr:
    """The first digits, truncated, with dots: ``0.333333…``.

    If these are undecided (is it 0.5, or just below?) an enclosure is written.
    """
    try:
        digits, _, exponent = truncated(x, places).partition("e")
        e: Expr = Ref(Symbol("value", digits))
        if exponent:
            e = Apply("times", (e, Apply("pow", (num(10), num(int(exponent))))))
        return Apply("neg", (e,)) if decided_sign(x) < 0 else e
    except Undecided:
        return Ref(Symbol("value", f"({enclosure(x, places)})"))


def length(x: Quotient) -> int:
    """The approximate number of digits in a written number."""
    bits = sum(abs(int(c.p)).bit_length() + int(c.q).bit_length()
               for t in (x.num, x.den) for c in t.values())  # fmt: skip
    return bits * 3 // 10 + 4 * x.size


def with_root_below(num: Terms, den: Terms) -> Pair:
    """√N/N as 1/√N."""
    if den is not ONE:
        for x, _ in next(iter(num)):
            if x.kind == "root" and all((x, 1) in m for m in num):
                c = ratio(den, x.of.num)
                if c is not None:
                    less = {tuple(f for f in m if f[0] is not x): k for m, k in num.items()}
                    return less, {((x, 1),): c}
    return num, den


def term_key(m: Monomial) -> tuple[object, ...]:
    """A key that sorts terms independently of what else has been computed."""
    return tuple(sorted(((RANK[x.kind], atom_key(x), float(p)) for x, p in m)))


def atom_key(x: Atom) -> str:
    """The sort key of an atom among those of its rank."""
    if x.kind == "name" and x.label is not None:
        return show(x.label)
    if x.kind == "prime":
        return f"{x.of:030d}"
    return x.kind + (repr(term_key(x.of)) if x.kind == "e" else "")


def begins_with_number(e: Expr) -> bool:
    """Whether the printed form begins with a digit, as a power of a number does."""
    while isinstance(e, Apply) and e.op in ("pow", "T"):
        e = e.args[0]
    return isinstance(e, Num)


def raised(e: Expr, p: Power) -> Expr:
    """A power; the exponent 1 is left out."""
    return e if p == 1 else Apply("pow", (e, Num(Fraction(p))))
