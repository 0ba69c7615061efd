"""Names of values as people write them: h counts the heads of grouped queries, as in questions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from viete.analysis.query_heads import query_heads
from viete.analysis.token_vectors import question_scope
from viete.errors import Text
from viete.graph.card import CardData
from viete.graph.conditions import unmet
from viete.notation.heads import Heads, group_of, head_of, joint, place_of
from viete.notation.letters import own_letters
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Expr, Idx, Num, Ref, num


def value_named(card: CardData, text: Text) -> Expr:
    """The value of a name; a head h of grouped queries is its group and its place in the group."""
    heads = query_heads(card)
    if heads is None:
        return parse(text, card.scope)
    scope = question_scope(card)
    asked = parse(text, scope.inside(own_letters(text, scope) & {heads.letter}))
    if not isinstance(asked, Ref):
        return asked
    check_heads(card, asked, text)
    h, each = Idx(heads.letter), heads.each
    at: dict[Expr, Expr] = {group_of(h, each): Idx(heads.group),
                            place_of(h, each): Idx(heads.member)}  # fmt: skip
    members = number(card, each)
    for x in asked.index:
        if (found := head_of(x)) is not None and isinstance(found[0], Num) and members is not None:
            group, place = divmod(found[0].value - 1, members)
            at |= {x: num(group + 1), place_of(found[0], each): num(place + 1)}
    return Ref(asked.symbol, tuple(at.get(x, x) for x in asked.index))


def heads_counted(card: CardData, name: str) -> Heads | None:
    """The letter that a name has for a group and a member of it; else None."""
    heads = query_heads(card)
    if heads is None or name in card.symbols:
        return None
    text = Text(name, "<name>")
    return heads if heads.letter in own_letters(text, question_scope(card)) else None


def check_heads(
    card: CardData, ref: Ref, text: Text, conditions: Sequence[Expr] = ()
) -> None:  # fmt: skip
    """Check that the heads of grouped queries that a name counts exist.

    Raises VieteError, in the letter that counts all heads.
    """
    heads = query_heads(card)
    if heads is None:
        return
    groups, each = number(card, card.ranges[heads.group][1]), number(card, heads.each)
    last = None if groups is None or each is None else groups * each
    for pair in pairwise(ref.index):
        head = joint(*pair)
        if head is None:
            continue
        if isinstance(head, Idx):
            ends = {head.name: (Fraction(1), last)}
            if unmet(conditions, ends, lambda e: number(card, e)) is not None:
                raise text.error(f"there is no {show(ref)} that these conditions admit: "
                                 f"{head.name} runs from 1 to {last}")  # fmt: skip
            continue
        found = number(card, head)
        if found is None and not head.constant:
            raise text.error(f"the index {show(head)} is neither a number nor the letter "
                             f"{heads.letter}")  # fmt: skip
        if found is not None and (
            found.denominator != 1 or found < 1 or (last is not None and found > last)
        ):
            raise text.error(f"there is no {show(ref)}: {heads.letter} runs from 1 to {last}")


def number(card: CardData, e: Expr) -> Fraction | None:
    """The value of a formula of dimensions."""
    size = card.size(e)
    return None if size is None else size.value(card.sizes)


__all__ = ["check_heads", "heads_counted", "value_named"]
