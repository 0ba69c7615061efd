"""That every size and every range comes out as a whole number, where the card gives the numbers.

A constant such as ρ = 1/4 or ε = 1e-5 is free to be anything as long as it is no size itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from viete.errors import Text
from viete.graph.card import CardData, Dimension, Input, Parameter
from viete.graph.sizes import Size
from viete.notation.printer import show
from viete.notation.tree import Expr

MEANT = "must be a whole number, at least"


@dataclass(frozen=True)
class Use:
    """A size that stands somewhere: what it is the size of, where, and the least it may be."""

    size: Size
    what: str
    text: Text
    least: int = 1


def check_sizes(card: CardData) -> None:
    """Raises VieteError for a size or a range that is not a whole number, 1 or more.

    A loop alone may have no turns. The error stands at the dimension's own row where a dimension
    by itself is the size, else where the size is used.
    """
    found = [u for u in uses(card) if not possible(number_of(card, u.size), u.least)]
    for dim in card.dims:
        for use in found:
            if use.size == Size.of(dim.name):
                raise dim.text.error(f"{said(card, dim)}, but {use.what} {MEANT} {use.least}")
    for use in found:
        raise use.text.error(f"{use.what} is {shown(card, use.size)}, but it {MEANT} {use.least}")


def uses(card: CardData) -> Iterator[Use]:
    """Every size of the declarations, and the length of every range."""
    for dim in card.dims:
        if dim.at_most is not None:
            yield Use(Size.of(dim.name), f"the greatest length {dim.name}", dim.text)
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
                yield Use(size, f"a size of {item.name}", item.text)
    for told in card.inputs:
        if told.low is not None and told.high is not None:
            what = f"the number of values of {told.name}"
            yield from ranged(card, told.low, told.high, what, told.text, 1)


def ranged(
    card: CardData, lower: Expr, upper: Expr, what: str, text: Text, least: int
) -> Iterator[Use]:
    """The length of a range, both ends included."""
    a, b = card.size(lower), card.size(upper)
    if a is not None and b is not None:
        yield Use(b - a + Size.of(1), what, text, least)


def number_of(card: CardData, size: Size) -> Fraction | None:
    """The number behind a size, with lengths at their greatest; None while it has none."""
    try:
        return size.evaluate(card.greatest)
    except (KeyError, ZeroDivisionError):
        return None


def possible(number: Fraction | None, least: int) -> bool:
    """Whether a size may have this number, or has none yet."""
    return number is None or (number.denominator == 1 and number >= least)


def said(card: CardData, dim: Dimension) -> str:
    """``d_k = d / H is 512/7 with d = 512, H = 7``, or ``H is -1``."""
    formula = dim.value if dim.at_most is None else dim.at_most
    assert formula is not None  # it has a number
    size = card.size(formula)
    number = f"{card.greatest[dim.name]!s:.60}"
    if size is None or not size.names():
        return f"{dim.name} is {number}"
    relation = "=" if dim.at_most is None else "≤"
    return f"{dim.name} {relation} {show(formula)} is {number}{given(card, size)}"


def shown(card: CardData, size: Size) -> str:
    """``H/G = 32/5 with H = 32, G = 5``, or ``5/2``."""
    number = f"{number_of(card, size)!s:.60}"
    return f"{size} = {number}{given(card, size)}" if size.names() else number


def given(card: CardData, size: Size) -> str:
    """`` with d = 512, H = 7``: the numbers behind a size."""
    numbers = card.greatest
    names = [d.name for d in card.dims if d.name in size.names() and d.name in numbers]
    return " with " + ", ".join(f"{n} = {numbers[n]!s:.60}" for n in names)
