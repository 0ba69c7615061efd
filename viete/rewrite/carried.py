"""Carries values of other blocks into the equations of a loop.

A change in block 3 may read ``x^1``, while an equation of the loop only reads its own turn or the
one before. So an extra equation carries the value along, and each block computes one branch of it:
``x_{at1}^i = where(i = 1, x^i, x_{at1}^{i-1})``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial

from viete.analysis.shapes import shapes_of
from viete.errors import Text
from viete.graph.card import CardData, Equation, Loop, restated
from viete.notation.printer import show
from viete.notation.substitution import LETTERS
from viete.notation.tree import (
    Apply,
    Expr,
    Idx,
    Ref,
    Slot,
    Symbol,
    Table,
    num,
    refs,
    replaced,
    transform,
)


def with_carried(
    card: CardData, right: Expr, key: str, blocks: Mapping[str, Expr], source: Text
) -> tuple[CardData, Expr]:
    """A right side for the equations of ``key``, which means the blocks ``blocks`` of their loops.

    A value of the same block gets the loop's letter, ``x^3`` in block 3, and a value of an earlier
    block is carried. Raises VieteError for a value of a later block.
    """
    loops = [e.loop for e in card.equations if e.name == key and e.loop is not None]
    for loop in dict.fromkeys(loops):
        here = blocks.get(loop.index, Idx(loop.index))
        if not (here == Idx(loop.index) or inside(card, here, loop)):
            continue  # x^0 is made before the loop
        right = transform(right, partial(in_turn, card, loop.index, here))
        made = {e.name: e for e in card.equations if e.loop == loop}
        for x in dict.fromkeys(refs(right)):
            at = block_of(card, x, loop)
            if x.key not in made or at is None or at < (number(card, loop.lower) or 0):
                continue
            if (k := number(card, here)) is not None and at > k:
                own = show(Ref(x.symbol, with_block(x, loop, here)))
                raise source.error(f"{show(x)} is computed from {own}, so this change is circular")
            turn: Expr = Idx(loop.index)
            before = Apply("sub", (turn, num(1)))
            new = x.symbol
            if k is not None and at == k - 1 and starts(card, x, loop):
                turn = before
            else:
                card, new = carried(card, made[x.key], at)
                turn = before if x.key == key else turn  # which is about to be made
            right = replaced(right, {x: Ref(new, with_block(x, loop, turn))})
    return card, right


def in_turn(card: CardData, letter: str, here: Expr, x: Expr) -> Expr | None:
    """A reference to block ``here`` as one to the loop's current block."""
    if not isinstance(x, Ref) or letter not in x.symbol.slots:
        return None
    index = tuple(Idx(letter) if slot == letter and same(card, at, here) else at
                  for slot, at in zip(x.symbol.slots, x.index, strict=True))  # fmt: skip
    return replace(x, index=index)


def with_block(x: Ref, loop: Loop, block: Expr) -> tuple[Expr, ...]:
    """The index of a reference, with another block."""
    return tuple(block if slot == loop.index else at
                 for slot, at in zip(x.symbol.slots, x.index, strict=True))  # fmt: skip


def inside(card: CardData, block: Expr, loop: Loop) -> bool:
    """Whether a loop is known to have this block, or may have it."""
    k, lower, upper = (number(card, x) for x in (block, loop.lower, loop.upper))
    return k is None or lower is None or upper is None or lower <= k <= upper


def starts(card: CardData, x: Ref, loop: Loop) -> bool:
    """Whether a value has a member before the loop's first block."""
    first = number(card, Apply("sub", (loop.lower, num(1))))
    return any(e.name == x.key and e.loop is None and block_of(card, e.left, loop) == first
               for e in card.equations)  # fmt: skip


def block_of(card: CardData, x: Ref, loop: Loop) -> int | None:
    """The number of the block in a reference."""
    at = next((a for s, a in zip(x.symbol.slots, x.index, strict=True) if s == loop.index), None)
    value = None if at is None else number(card, at)
    return None if value is None else int(value)


def number(card: CardData, e: Expr) -> Fraction | None:
    """The value of a formula of dimensions."""
    size = card.size(e)
    return None if size is None else size.value(card.sizes)


def same(card: CardData, a: Expr, b: Expr) -> bool:
    """Whether two indices are the same number."""
    return a == b or (number(card, a) is not None and number(card, a) == number(card, b))


def carried(card: CardData, made: Equation, block: int) -> tuple[CardData, Symbol]:
    """The card with an equation that keeps a value of block ``block`` for all later blocks."""
    old, loop = made.left.symbol, made.loop
    assert loop is not None
    symbol = replace(old, sub=(*old.sub, Slot(f"at{block}")))
    if symbol.key in card.symbols:
        return card, symbol
    own, before = (Ref(symbol, with_block(old.member, loop, x)) for x in (
        Idx(loop.index), Apply("sub", (Idx(loop.index), num(1)))))  # fmt: skip
    test = Apply("eq", (Idx(loop.index), num(block)))
    keeps = restated(made, own, Apply("where", (test, old.member, before)))
    shape = shapes_of(card).types[old.key].shape
    letters = [x for x in LETTERS if x not in card.names]
    ranges = tuple((x, card.size_expr(s)) for x, s in zip(letters, shape, strict=False))
    first = num(number(card, loop.lower) - 1)  # type: ignore[operator]
    zero = Ref(symbol, with_block(old.member, loop, first))
    meaning = (
        f"${show(Ref(old, with_block(old.member, loop, num(block))), 'latex')}$ for later blocks"
    )
    start = next(k for k, e in enumerate(card.equations) if e.loop == loop)
    end = card.equations.index(made) + 1
    none = restated(replace(made, loop=None, part=card.equations[max(start - 1, 0)].part), zero,
                    Table(ranges, num(0)) if ranges else num(0))  # fmt: skip
    equations = (
        *card.equations[:start], replace(none, meaning="", stated=None),
        *card.equations[start:end], replace(keeps, meaning=meaning), *card.equations[end:],
    )  # fmt: skip
    return replace(card, equations=equations), symbol


__all__ = ["with_carried"]
