"""Sizes of one card: which sizes are equal, what they are as numbers, and that they are whole.

A constant such as ρ = 1/4 or ε = 1e-5 may be any number, as long as no axis has it as its length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from viete.analysis.kinds import MOST, REAL, WHOLE, Interval, interval_of
from viete.analysis.types import Shape, Type
from viete.errors import Text
from viete.graph.card import CardData, Dimension, Input, Parameter
from viete.graph.sizes import ONE, Size
from viete.notation.printer import show
from viete.notation.tree import Expr

MEANT = "must be a whole number, at least"


class CardSizes:
    """Compares the sizes of a card, and gives their numbers."""

    def __init__(self, card: CardData) -> None:
        self.model, self.numbers = card, card.sizes
        self.named = [Size.of(d.name) for d in card.dims]
        self.as_numbers: dict[Size, Type] = {}

    def normal(self, size: Size) -> Size:
        return size.substitute(self.model.definitions)

    def valued(self, size: Size) -> str:
        """``d = 6`` or ``6``."""
        value = self.number(size)
        return str(size) if value is None or str(value) == str(size) else f"{size} = {value}"

    def number(self, size: Size) -> Fraction | None:
        """The number of a size, if it has one."""
        return size.value(self.numbers)

    def same(self, a: Size, b: Size) -> bool:
        """Whether sizes are equal as formulas; a written number also equals the symbol it is of.

        A 4 beside H in ``H d / 4`` may be the value of H; d and V are two sizes even if both are 8.
        """
        if a == b or (one := self.normal(a)) == (other := self.normal(b)):
            return True
        bare = a.number() is not None or b.number() is not None
        if bare or {c for _, c in one.terms} != {c for _, c in other.terms}:
            return (value := self.number(a)) is not None and value == self.number(b)
        return False

    def same_number(self, a: Size, b: Size) -> bool:
        """As `same`; in a shape that a card states, any name of equal value counts."""
        return self.same(a, b) or (
            (value := self.number(a)) is not None and value == self.number(b)
        )

    def same_shape(self, a: Shape, b: Shape) -> bool:
        return len(a) == len(b) and all(map(self.same, a, b))

    def better(self, a: Size, b: Size) -> Size:
        """The one of two equal sizes to show: symbols before numbers, then the shorter."""
        if a.number() is not None:
            return b
        return a if b.number() is not None or len(str(a)) <= len(str(b)) else b

    def simplest(self, size: Size) -> Size:
        """A composite size as the name of an equal dimension: H d_k is d."""
        if len(size.names()) < 2 and len(size.terms) < 2:
            return size
        normal = self.normal(size)
        return next((d for d in self.named if self.normal(d) == normal), size)

    def broadcast(self, a: Size, b: Size) -> Size | None:
        """The size of a pair of axes combined entry by entry, or None."""
        if self.same(a, b):
            return self.better(a, b)
        if a == ONE:
            return b
        return a if b == ONE else None

    def as_number(self, size: Size) -> Type:
        """A size as a number: an integer if its value is one, or may be one."""
        if size not in self.as_numbers:
            self.as_numbers[size] = self.to_number(size)
        return self.as_numbers[size]

    def to_number(self, size: Size) -> Type:
        value = self.number(size)
        if value is not None:
            whole = (int(value), int(value)) if value.denominator == 1 else None
            return Type(kind=REAL if whole is None else WHOLE, size=size,
                        interval=interval_of("floor", [whole]))  # fmt: skip
        total: Interval | None = (0, 0)
        for monomial, c in size.terms:
            if c.denominator != 1 or any(p < 0 for _, p in monomial):
                return Type(size=size)
            term: Interval | None = (int(c), int(c))
            for name, power in monomial:
                known = self.model.greatest.get(name)
                if known is not None and known.denominator != 1:
                    return Type(size=size)
                least = int(self.numbers.get(name, 1))
                for _ in range(power):
                    term = interval_of("times", [term, (least, int(known or MOST))])
            total = interval_of("add", [total, term])
        return Type(kind=WHOLE, size=size, interval=total)

    def most(self, size: Size) -> int:
        """The greatest possible value of a size."""
        interval = self.as_number(size).interval
        return MOST if interval is None else max(interval[1], 0)


# -- that they are whole numbers ------------------------------------------------------------------


@dataclass(frozen=True)
class Sized:
    """A size in a card: what has it, where, and its least value."""

    size: Size
    what: str
    text: Text
    least: int = 1


def check_sizes(card: CardData) -> None:
    """Raise VieteError for a size or a range that is not an integer of 1 or more.

    Only a loop may have no turns. The error is placed at the dimension's row if a single dimension
    is the size, else where the size is used.
    """
    found = [u for u in sizes_used(card) if not possible(u.size.value(card.greatest), u.least)]
    for dim in card.dims:
        for use in found:
            if use.size == Size.of(dim.name):
                raise dim.text.error(
                    f"{dimension_in_numbers(card, dim)}, but {use.what} {MEANT} {use.least}"
                )
    for use in found:
        raise use.text.error(
            f"{use.what} is {in_numbers(card, use.size)}, but it {MEANT} {use.least}"
        )


def sizes_used(card: CardData) -> Iterator[Sized]:
    """Every size of the declarations, and the length of every range."""
    for dim in card.dims:
        if dim.at_most is not None:
            yield Sized(Size.of(dim.name), f"the greatest length {dim.name}", dim.text)
    for index in card.indices:
        what = f"the number of values of the index {index.name}"
        yield from ranged(card, index.lower, index.upper, what, index.text, 1)
    for loop in card.loops:
        inside = next(e for e in card.equations if e.loop == loop)
        what = f"the number of blocks {loop.index}"
        yield from ranged(card, loop.lower, loop.upper, what, inside.text, 0)
    declared: tuple[Input | Parameter, ...] = (*card.inputs, *card.parameters)
    for item in declared:
        for e in item.shape:
            if (size := card.size(e)) is not None:
                yield Sized(size, f"a size of {item.name}", item.text)
    for told in card.inputs:
        if told.low is not None and told.high is not None:
            what = f"the number of values of {told.name}"
            yield from ranged(card, told.low, told.high, what, told.text, 1)


def ranged(
    card: CardData, lower: Expr, upper: Expr, what: str, text: Text, least: int
) -> Iterator[Sized]:
    """The length of a range, both ends included."""
    a, b = card.size(lower), card.size(upper)
    if a is not None and b is not None:
        yield Sized(b - a + Size.of(1), what, text, least)


def possible(number: Fraction | None, least: int) -> bool:
    """Whether a size may have this number, or has none yet."""
    return number is None or (number.denominator == 1 and number >= least)


def dimension_in_numbers(card: CardData, dim: Dimension) -> str:
    """``d_k = d / H is 512/7 with d = 512, H = 7``, or ``H is -1``."""
    formula = dim.value if dim.at_most is None else dim.at_most
    assert formula is not None  # it has a number
    size = card.size(formula)
    number = f"{card.greatest[dim.name]!s:.60}"
    if size is None or not size.names():
        return f"{dim.name} is {number}"
    relation = "=" if dim.at_most is None else "≤"
    return f"{dim.name} {relation} {show(formula)} is {number}{with_numbers(card, size)}"


def in_numbers(card: CardData, size: Size) -> str:
    """``H/G = 32/5 with H = 32, G = 5``, or ``5/2``."""
    number = f"{size.value(card.greatest)!s:.60}"
    return f"{size} = {number}{with_numbers(card, size)}" if size.names() else number


def with_numbers(card: CardData, size: Size) -> str:
    """`` with d = 512, H = 7``: the numbers in a size."""
    numbers = card.greatest
    names = [d.name for d in card.dims if d.name in size.names() and d.name in numbers]
    return " with " + ", ".join(f"{n} = {numbers[n]!s:.60}" for n in names)
