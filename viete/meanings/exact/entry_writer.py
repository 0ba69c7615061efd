"""Writes an unevaluated entry as a formula, with the numbers put in.

The written form follows four rules, the same for every card:

- a mean, a sum, a product or a function inside a formula is written as a number if it is a
  fraction; otherwise it is written out if that is short, and else as its number; a matrix product
  that is added to something stays written out;
- entries that a mask hides (e^{−∞}) are not written, nor are factors 1 and terms 0 that come from a
  function's definition (γ = 1, β = 0, ε = 0). A 0 or 1 of the data is written;
- a sum of more than `MOST` terms is written as its first terms, … and its last;
- a number too long to read is written by its first digits and …
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction

from viete.meanings.exact.factoring import simplest
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.spelling import E, first_digits, short, spelled
from viete.meanings.exact.unevaluated import UNARY, Unevaluated
from viete.notation.tree import Apply, Expr, Num, Ref, Symbol

MOST, FIRST = 8, 3  # terms that are written, and of a longer sum those before the dots
MOST_PAIRS = 3  # products of a sum that is written with those that are 0
SHORT = 12  # numbers in a formula that is written out inside another
LONG = 28  # letters above which a number is written by its first digits
DOTS = Ref(Symbol("value", "…"))
ARITHMETIC = ("add", "sub", "neg", "div", "times", "had", "prod")
OPEN = ("leaf", *ARITHMETIC, "pow", "mod")  # written out, unless long


def spelled_out(
    x: Unevaluated, cut: bool = True, plain: bool = False, known: Collection[int] = ()
) -> Expr:
    """The formula that computed an entry; without ``cut`` nothing is abbreviated.

    ``plain`` also leaves out neutral factors 1 and terms 0 of the data, such as scales and shifts
    without effect, and writes numbers in their simplest form. ``known`` are the `id` of entries
    that were written out before, and are not written out again.
    """
    return EntryWriter(cut, plain, known).outermost(x)


class EntryWriter:
    """Writes entries; `spelled_out` describes what is left out."""

    def __init__(self, cut: bool = True, plain: bool = False, known: Collection[int] = ()) -> None:
        self.cut, self.plain, self.known = cut, plain, known

    def outermost(self, x: Unevaluated) -> Expr:
        """An entry with its outermost operation written out."""
        if id(x) in self.known:
            return self.leaf(x)
        return self.open(x, self.operand if x.op in ARITHMETIC else self.inside)

    def operand(self, x: Unevaluated) -> Expr:
        """An operand of the outermost arithmetic operation."""
        if id(x) in self.known:
            return self.leaf(x)
        arithmetic = x.op in (*ARITHMETIC, "dot") and not x.part
        return self.outermost(x) if arithmetic else self.inside(x)

    def inside(self, x: Unevaluated) -> Expr:
        """A part within a formula: its number, or the formula that computed it."""
        if id(x) in self.known:
            return self.leaf(x)
        if x.rational is not None and (x.part or x.op not in OPEN):
            return self.leaf(x)
        if x.op in OPEN and not x.part:
            return self.open(x, self.inside)
        if x.op in ("sum", *UNARY) and weight(x) <= SHORT:
            return self.open(x, self.inside)
        return self.leaf(x)

    def leaf(self, x: Unevaluated) -> Expr:
        """A number; if it is too long to read or contains a name, its first digits."""
        found = x.number
        if isinstance(found, float):
            return INFINITY if found > 0 else Apply("neg", (INFINITY,))
        return self.number(found)

    def number(self, found: Number) -> Expr:
        """A number as written within a formula."""
        if not self.cut:
            return spelled(found)
        named = any(a.named for a in found.atoms())
        e = None if named else short(found, LONG, simplest if self.plain else spelled)
        return first_digits(found) if e is None else e

    def open(self, x: Unevaluated, inner: Callable[[Unevaluated], Expr]) -> Expr:
        if x.op == "leaf":
            return self.leaf(x)
        if x.gone:
            return Num(Fraction(0))
        if x.op == "sum":
            return self.terms([inner(a) for a in x.args if not a.gone])
        if x.op == "mean":
            return Apply("div", (self.terms([inner(a) for a in x.args if not a.gone]),
                                 Num(Fraction(len(x.args)))))  # fmt: skip
        if x.op == "dot":
            half = len(x.args) // 2
            pairs = [(a, b) for a, b in zip(x.args[:half], x.args[half:], strict=True)
                     if not (a.gone or b.gone)]  # fmt: skip
            if self.plain and len(pairs) > MOST_PAIRS:  # of a long sum what is not 0
                pairs = [p for p in pairs if 0 not in (p[0].rational, p[1].rational)] or pairs[:1]
            return self.terms([Apply("times", (self.inside(a), self.inside(b))) for a, b in pairs])
        if x.op == "exp":
            power = self.inside(x.args[0])
            if power == Num(Fraction(1)):
                return E
            return Apply("pow", (E, power)) if weight(x.args[0]) <= 3 else Apply("exp", (power,))
        if x.op in ("max", "min", "argmax") and len(x.args) > MOST and self.cut:
            args = [inner(a) for a in x.args]
            return Apply(x.op, (*args[:FIRST], DOTS, args[-1]))
        if x.op in ("add", "sub") and x.args[1].gone:
            return inner(x.args[0])
        if x.op == "add" and x.args[0].gone:
            return inner(x.args[1])
        op = "times" if x.op in ("had", "prod") else x.op
        if self.plain and len(x.args) == 2 and (k := idle(op, x.args)) is not None:
            return inner(x.args[k])
        return Apply(op, tuple(inner(a) for a in x.args))

    def terms(self, terms: list[Expr]) -> Expr:
        if not terms:
            return Num(Fraction(0))
        if self.cut and len(terms) > MOST:
            terms = [*terms[:FIRST], DOTS, terms[-1]]
        out = terms[0]
        for t in terms[1:]:
            out = Apply("add", (out, t))
        return out


INFINITY = Apply("inf", ())


def idle(op: str, args: Sequence[Unevaluated]) -> int | None:
    """The index of the operand that is the result, if the other is a neutral 1 or 0."""
    nothing = {"add": 0, "times": 1, "sub": 0, "div": 1}.get(op)
    sides = (1, 0) if op in ("add", "times") else (1,)
    return next((1 - k for k in sides if nothing is not None and args[k].op != "dot"
                 and args[k].rational == nothing), None)  # fmt: skip


def weight(x: Unevaluated, most: int = SHORT) -> int:
    """The number of numbers in a formula, counted up to ``most``."""
    if x.op == "leaf" or (x.op not in UNARY and x.rational is not None):
        return 1
    count = 0
    for a in x.args:
        if not a.gone:
            count += weight(a, most)
            if count > most:
                break
    return count


__all__ = ["DOTS", "LONG", "MOST_PAIRS", "EntryWriter", "spelled_out"]
