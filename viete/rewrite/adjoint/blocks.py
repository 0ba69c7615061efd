"""Inverts block references: which block reads a given block."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from viete.errors import Text, VieteError
from viete.graph.card import CardData
from viete.graph.sizes import Size
from viete.notation.parser import parse
from viete.notation.tree import Apply, Expr, Idx, Ref, num, transform
from viete.rewrite.simplify import simplified

MOST_SHARING = 16  # blocks that one block's weights serve, written out in a sum


@dataclass(frozen=True)
class Reading:
    """Which block a block reads: block ``i`` reads block ``⌊i/every + rest⌋`` (or ⌈⌉, or with −i).

    ``sign`` is that of i; ``rounds`` is −1 for ⌊⌋ and 1 for ⌈⌉, of no effect if ``every`` is 1.
    """

    sign: int
    every: int
    rest: Size
    rounds: int

    @staticmethod
    def of(at: Expr, letter: str, card: CardData) -> Reading | None:
        """The rule of the block number ``at``, with ``letter`` for i; None for another form."""
        inner, rounds = at, -1
        match at:
            case Apply("neg", (Apply("floor", (Apply("neg", (u,)),)),)):
                inner, rounds = u, 1
            case Apply("floor", (u,)):
                inner = u
        size = card.size(inner, Size.of)
        if size is None:
            return None
        slope = dict(size.terms).get(((letter, 1),), 0)
        rest = size - Size.of(letter) * Size.of(slope)
        every = slope.denominator
        whole = all((c * every).denominator == 1 for _, c in rest.terms)
        if abs(slope.numerator) != 1 or letter in rest.names() or not whole:
            return None
        if every > (1 if inner is at else MOST_SHARING):
            return None
        return Reading(slope.numerator, every, rest, rounds)

    def at(self, i: Size | None) -> Size | None:
        """The block that block i reads, if it is known."""
        if i is None:
            return None
        size = i * Size.of(Fraction(self.sign, self.every)) + self.rest
        if self.every == 1:
            return size
        value = size.number()
        if value is None:
            return None
        return Size.of(math.floor(value) if self.rounds < 0 else math.ceil(value))

    def readers(self, block: Size) -> list[Size]:
        """The blocks that read a block, whether or not they exist."""
        k, step = self.every, -self.sign * self.rounds
        first = (block - self.rest) * Size.of(self.sign * k)
        found = [first + Size.of(step * q) for q in range(k)]
        return found if step > 0 else found[::-1]


@dataclass(frozen=True)
class Readers:
    """The blocks ``letter`` = lower, …, upper, which read others by ``reading``.

    ``made``: their derivatives, or weights, have members for these blocks only.
    """

    reading: Reading
    letter: str
    lower: Expr
    upper: Expr
    made: bool

    def share(self, back: Expr, block: Expr, ends: tuple[Expr, Expr], card: CardData) -> Expr:
        """The sum of ``back`` over the blocks that read ``block``, within the loop's ends."""
        sizes = [card.size(x, Size.of) for x in (block, *ends, self.lower, self.upper)]
        place, first, last, lower, upper = (Size.of("?") if s is None else s for s in sizes)
        low, high = (first, last) if self.reading.sign > 0 else (last, first)
        least, most = self.reading.readers(low), self.reading.readers(high)
        total: Expr = num(0)
        for reader, a, b in zip(self.reading.readers(place), least, most, strict=True):
            number = block_expr(reader, card) or block
            early, late = negative(a - lower), negative(upper - b)
            tests = [Apply("le", (self.lower, number))] if early else []
            tests += [Apply("le", (number, self.upper))] if late else []
            if self.made:
                number = Apply("max", (number, self.lower)) if early else number
                number = Apply("min", (number, self.upper)) if late else number
            here = card.substitute(back, letters={self.letter: number})
            here = here if isinstance(number, Idx) else neat(here, card)
            for test in tests:
                here = Apply("where", (test, here, num(0)))
            total = simplified(Apply("add", (total, here))) if total != num(0) else here
        return total


def negative(size: Size) -> bool:
    """Whether a difference may be below 0."""
    number = size.number()
    return number is None or number < 0


def neat(e: Expr, card: CardData) -> Expr:
    """A formula with block numbers such as ``N - i + 1 - 1`` written as ``N - i``."""

    def rule(x: Expr) -> Expr | None:
        if not isinstance(x, Ref):
            return None
        sizes = [card.size(k, Size.of) if isinstance(k, Apply) else None for k in x.index]
        found = [None if s is None else block_expr(s, card) for s in sizes]
        return replace(x, index=tuple(f or k for f, k in zip(found, x.index, strict=True)))

    return transform(e, rule)


def block_expr(size: Size, card: CardData) -> Expr | None:
    """A block number as an expression over dimensions and index letters."""
    try:
        return parse(Text(str(size)), card.size_scope.inside(card.scope.indices))
    except VieteError:
        return None
