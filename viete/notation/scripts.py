"""Scripts that are not part of a name: rows and entries below, a transpose or powers above."""

from __future__ import annotations

from fractions import Fraction
from itertools import takewhile
from typing import TYPE_CHECKING

from viete.notation.cursor import TRANSPOSE, Script
from viete.notation.lexer import Token
from viete.notation.tree import Apply, Expr, Num, Pick, place_from_end

if TYPE_CHECKING:
    from viete.notation.parser import Parser


def scripted(parser: Parser, e: Expr, items: list[Script], t: Token | Expr) -> Expr:
    """``e`` with its scripts: rows or entries below, a transpose or powers above."""
    below = [s for s in items if s.sign == "_"]
    above = [s for s in items if s.sign == "^"]
    if len(below) > 2:
        raise parser.error("a matrix has rows and columns: at most two indices", below[2])
    if below:
        e = parser.node(picked(parser, e, list(map(parser.inside, below))), t)
    while above:
        if above[0].label in TRANSPOSE:
            e = parser.node(Apply("T", (e,)), t)
            above = above[1:]
            continue
        powers = list(takewhile(lambda item: item.label not in TRANSPOSE, above))
        above = above[len(powers) :]
        power = tower(parser, powers)
        if e == Num(Fraction(10)) and isinstance(power, Num):
            e = ten_to(parser, power, t)
        else:
            e = parser.node(Apply("pow", (e, power)), t)
    return e


def tower(parser: Parser, items: list[Script]) -> Expr:
    """Stacked powers, evaluated from the top: ``2^3^2`` is 2^9, as in print."""
    *below, top = items
    power = parser.inside(top)
    for item in reversed(below):
        power = parser.node(Apply("pow", (parser.inside(item), power)), power)
    return power


def ten_to(parser: Parser, power: Num, t: Token | Expr) -> Expr:
    """``10^{-5}`` as a number, like ``1e-5``."""
    if power.value.denominator != 1 or abs(power.value) > 400:
        return parser.node(Apply("pow", (Num(Fraction(10)), power)), t)
    return parser.node(Num(Fraction(10) ** int(power.value)), t)


def picked(parser: Parser, value: Expr, items: list[Expr]) -> Pick:
    """Rows or entries of a value; an index written as a negative number counts from the end."""
    for axis, item in enumerate(items):
        if isinstance(item, Num) and parser.is_word(item):
            fits = parser.scope.over_tokens
            if fits is not None and not fits(value, axis):
                raise parser.error("a token cannot be an index here: this axis does not run over "
                                 "the vocabulary", item)  # fmt: skip
        elif isinstance(item, Num) and item.value < 0 and item.value.denominator == 1:
            items[axis] = parser.node(place_from_end(value, axis, -int(item.value)), item)
    return Pick(value, tuple(items))


__all__ = ["picked", "scripted", "tower"]
