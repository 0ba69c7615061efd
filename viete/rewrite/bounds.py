"""Bounds: a card and a formula in, two numbers out between which all its entries lie.

They hold for all weights, inputs and letters, wherever the numbers are finite. A name has the
bounds of its equations, in every block. A function has the bounds of its definition, except for a
few with known bounds: a softmax lies from 0 to 1, a cosine from -1 to 1 (Cauchy–Schwarz).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor, inf
from typing import Any

from viete.graph.card import CardData, memoised
from viete.library.functions import inlined
from viete.notation.printer import show_symbol
from viete.notation.tree import MEASURES, Apply, Bind, Expr, Num, Pick, Ref, Symbol, Table
from viete.rewrite.proof_rules import DEFINITION, ProofRule, averages, shape

Number = Fraction | float  # of floats only the two infinities
DEEPEST = 40  # definitions within definitions
MOST_POWER = 64


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest possible number, and the facts that show it, in words."""

    least: Number = -inf
    most: Number = inf
    facts: tuple[str, ...] = field(default=(), compare=False)

    @property
    def unknown(self) -> bool:
        """Whether neither bound is known."""
        return self.least == -inf and self.most == inf


def known(least: int, most: Number, rule: ProofRule) -> Bounds:
    """The bounds of a function, by a rule."""
    return Bounds(Fraction(least), Fraction(most) if most != inf else inf, (rule,))


FREE, POSITIVE = Bounds(), known(0, inf, ProofRule.RANGES)
SIZE, SQUARE = known(0, inf, ProofRule.SIZES), known(0, inf, ProofRule.SQUARES)
KNOWN: Mapping[str, Bounds] = {
    "softmax": known(0, 1, ProofRule.SOFTMAX), "cosine": known(-1, 1, ProofRule.COSINE),
    "exp": POSITIVE, "sqrt": POSITIVE, "argmax": SIZE,
    "arctan": known(-2, 2, ProofRule.RANGES), "pi": known(3, 4, ProofRule.RANGES),
    **dict.fromkeys(("tanh", "erf", "sin", "cos"), known(-1, 1, ProofRule.RANGES)),
    **dict.fromkeys(MEASURES, SIZE),
}  # fmt: skip
SAME = frozenset(("T", "mean"))  # of which no entry is beyond those of the argument
EQUAL = frozenset(("had", "times", "inner"))  # whose product of equal factors is a square


class Bounding:
    """Finds the bounds of one card's formulas."""

    def __init__(self, card: CardData) -> None:
        self.card = card
        self.made: dict[str, list[Expr]] = {}
        for e in (*card.equations, *card.derived):
            self.made.setdefault(e.name, []).append(e.right)
        self.found: dict[Expr, Bounds] = {}
        self.names: dict[str, Bounds] = {}

    def of(self, e: Expr, depth: int = 0) -> Bounds:
        """The bounds of a formula."""
        if depth > DEEPEST:
            return FREE
        if e not in self.found:
            self.found[e] = self.read(e, depth)
        return self.found[e]

    def read(self, e: Expr, depth: int) -> Bounds:
        """The bounds of a formula, without the cache of `of`."""
        match e:
            case Num(value):
                return Bounds(value, value)
            case Ref():
                return self.name(e, depth)
            case Pick(value):
                return self.of(value, depth + 1)
            case Table():
                return self.of(e.body, depth + 1)
            case Bind(op) if op in ("max", "min", "mean", "concat"):
                return self.of(e.body, depth + 1)
            case Bind("sum"):
                return summed(self.of(e.body, depth + 1))
            case Apply():
                return self.apply(e, depth)
        return FREE

    def name(self, e: Ref, depth: int) -> Bounds:
        """The bounds of a name: of all its equations, of an input's integers, of a size."""
        if e.symbol.kind == "dim":
            return self.size(e) or (SIZE if e.key in self.card.lengths else FREE)
        item = next((i for i in self.card.inputs if i.name == e.key), None)
        if item is not None and item.low is not None and item.high is not None:
            low, high = self.size(item.low), self.size(item.high)
            return (
                FREE
                if low is None or high is None
                else Bounds(low.least, high.most, (ProofRule.INPUTS,))
            )
        if e.key not in self.names:
            self.names[e.key] = FREE  # while its own equations are read
            self.names[e.key] = self.defined(e.symbol, depth)
        return self.names[e.key]

    def defined(self, symbol: Symbol, depth: int) -> Bounds:
        """The bounds of a name by its equations."""
        out = union(self.of(right, depth + 1) for right in self.made.get(symbol.key, ()))
        if out.unknown:
            return FREE
        facts = (*out.facts, f"{DEFINITION}{show_symbol(symbol, 'unicode')}")
        return Bounds(out.least, out.most, facts)

    def size(self, e: Expr) -> Bounds | None:
        """The bounds of a number made of sizes, if these are known."""
        found = self.card.size(e)
        if found is None or not found.names() <= self.card.sizes.keys():
            return None
        value = Fraction(found.evaluate(self.card.sizes))
        return Bounds(value, value)

    def apply(self, e: Apply, depth: int) -> Bounds:
        """The bounds of an operation or a call."""
        name = self.card.library_name(e)
        if name in KNOWN and (name != "cosine" or self.one_length(*e.args)):
            return KNOWN[name]
        if e.op in self.card.function:
            return self.of(inlined(e, self.card.function, taken=self.card.names), depth + 1)
        if not e.args:
            return FREE
        args = e.args[1:] if e.op == "where" else e.args
        a, *rest = [self.of(x, depth + 1) for x in args]
        match e.op:
            case "where" | "concat":
                return union((a, *rest))
            case "neg":
                return Bounds(-a.most, -a.least, a.facts)
            case "add":
                return plus(a, rest[0])
            case "sub":
                return plus(a, Bounds(-rest[0].most, -rest[0].least, rest[0].facts))
            case "abs":
                ends = a.least, -a.most, Fraction(0)
                return Bounds(max(ends), max(-a.least, a.most), a.facts)
            case "floor":
                least, most = (x if x in (-inf, inf) else Fraction(floor(x))
                               for x in (a.least, a.most))  # fmt: skip
                return Bounds(least, most, a.facts)
            case "max" | "min":
                return extreme(max if e.op == "max" else min, (a, *rest))
            case "pow":
                return power(a, e.args[1])
            case "div":
                return times(a, reciprocal(rest[0]))
            case "sum" if averages(self.card, e.args[0]):
                return Bounds(Fraction(1), Fraction(1), averages(self.card, e.args[0]))
            case "sum":
                return summed(a)
            case op if op in EQUAL and e.args[0] == e.args[1]:
                return SQUARE
            case "had" | "times":
                return times(a, rest[0])
            case "inner":
                return summed(times(a, rest[0]))
            case "prod" if averages(self.card, e.args[0]) and shape(self.card, e.args[1]):
                facts = (*averages(self.card, e.args[0]), ProofRule.AVERAGES, *rest[0].facts)
                return Bounds(rest[0].least, rest[0].most, facts)
            case "prod":
                return summed(times(a, rest[0]))
            case op if op in SAME:
                return a
        return FREE

    def one_length(self, *args: Expr) -> bool:
        """Whether the rows of some formulas surely have as many entries each."""
        found = [shape(self.card, x) for x in args]
        return all(found) and len({x[-1] for x in found if x}) == 1


def joined(parts: Iterable[Bounds]) -> tuple[str, ...]:
    """The facts of several bounds, each once."""
    return tuple(dict.fromkeys(fact for x in parts for fact in x.facts))


def union(parts: Iterable[Bounds]) -> Bounds:
    """The bounds of a number that is one of several."""
    found = list(parts) or [FREE]
    return Bounds(min(x.least for x in found), max(x.most for x in found), joined(found))


def extreme(of: Callable[[Any], Number], parts: Sequence[Bounds]) -> Bounds:
    """The bounds of the maximum, or of the minimum, of some numbers."""
    return Bounds(of([x.least for x in parts]), of([x.most for x in parts]), joined(parts))


def plus(a: Bounds, b: Bounds) -> Bounds:
    """The bounds of a sum."""
    return Bounds(a.least + b.least, a.most + b.most, joined((a, b)))


def summed(a: Bounds) -> Bounds:
    """The bounds of a sum of any number of terms with these bounds."""
    least = Fraction(0) if a.least >= 0 else -inf
    return Bounds(least, Fraction(0) if a.most <= 0 else inf, a.facts)


def times(a: Bounds, b: Bounds) -> Bounds:
    """The bounds of a product."""
    ends = [0 if 0 in (x, y) else x * y for x in (a.least, a.most) for y in (b.least, b.most)]
    return Bounds(min(ends), max(ends), joined((a, b)))


def reciprocal(a: Bounds) -> Bounds:
    """The bounds of 1 / x for nonnegative x."""
    if a.least < 0:
        return FREE
    return Bounds(1 / a.most if a.most else inf, 1 / a.least if a.least else inf, a.facts)


def power(a: Bounds, k: Expr) -> Bounds:
    """The bounds of a power."""
    if isinstance(k, Num) and 0 < k.value <= MOST_POWER and k.value.denominator == 1:
        n = int(k.value)
        low, high = a.least**n, a.most**n
        if a.least >= 0 or n % 2:
            return Bounds(low, high, a.facts)
        return Bounds(Fraction(0), max(low, high), (*a.facts, ProofRule.SQUARES))
    if isinstance(k, Num) and k.value % 2 == 0:
        return SQUARE
    return Bounds(Fraction(0), inf, a.facts) if a.least >= 0 else FREE


@memoised
def bounding(card: CardData) -> Bounding:
    """The cached `Bounding` of a card."""
    return Bounding(card)


__all__ = ["Bounds", "bounding"]
