"""Names of values as people write them: h counts the heads of grouped queries, as in questions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from viete.analysis.query_heads import query_heads
from viete.analysis.token_vectors import question_scope
from viete.analysis.weight_formulas import of_weights
from viete.errors import Text
from viete.graph.card import CardData
from viete.graph.conditions import unmet
from viete.notation.heads import Heads, group_of, head_of, joint, place_of
from viete.notation.letters import own_letters
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Expr, Idx, Num, Ref, Symbol, num, refs


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


def check_own(card: CardData, ref: Ref, text: Text, by_number: bool = True) -> None:
    """Check that a change of one head, also ``by_number``, names what that head has alone.

    Raises VieteError for a key, a value or a weight that the heads of a group share, by the letter
    or the number of a head, with the two ways to write what may be meant.
    """
    heads = query_heads(card)
    if heads is None or not heads.shared(ref.symbol) or number(card, heads.each) == 1:
        return
    index = dict(zip(ref.symbol.slots, ref.index, strict=True))
    found = head_of(index[heads.group])
    if found is None and not (by_number and isinstance(index[heads.group], Num)):
        return
    h = found[0] if found else index[heads.group]
    group = group_number(card, heads, h, counts_heads=found is not None)
    whole = show(Ref(ref.symbol, tuple((index | {heads.group: Idx(heads.group)}).values())))
    where = "" if group is None else f" for {heads.group} = {show(group)}"
    ways = f"write {whole}{where} to mean all of them"
    if (reader := one_heads_own(card, heads, ref.key)) is not None:
        at = index | {heads.group: group_of(h, heads.each), heads.member: place_of(h, heads.each)}
        own = show(Ref(reader, tuple(at.get(s, Idx(s)) for s in reader.slots)))
        ways += f", or {own} for what one head makes of it"
    raise text.error(f"{text.text.strip()} is what all heads of a group have in common: {ways}")


def check_groups(card: CardData, e: Expr, text: Text) -> None:
    """Check that the groups of heads that a formula counts exist.

    Raises VieteError, with the group of the head that may be meant.
    """
    heads = query_heads(card)
    if heads is None:
        return
    groups, members = (number(card, x) for x in (card.ranges[heads.group][1], heads.each))
    if groups is None or members is None:
        return
    for ref in refs(e):
        at = dict(zip(ref.symbol.slots, ref.index, strict=True)).get(heads.group)
        if heads.shared(ref.symbol) and isinstance(at, Num) and groups < at.value:
            k = (at.value - 1) // members + 1
            also = f", and head {at.value} has that of group {k}" if k <= groups else ""
            ends = f"{heads.group} runs from 1 to {groups}{also}"
            raise text.error(f"there is no {show(ref)}: {ends}")


def group_number(card: CardData, heads: Heads, e: Expr, counts_heads: bool) -> Expr | None:
    """The number of a group, or of a head's group; a group that there is not is a head.

    None for a letter.
    """
    members, groups = (number(card, x) for x in (heads.each, card.ranges[heads.group][1]))
    if not isinstance(e, Num) or members is None or groups is None:
        return None
    return num((e.value - 1) // members + 1) if counts_heads or e.value > groups else e


def one_heads_own(card: CardData, heads: Heads, key: str) -> Symbol | None:
    """The first value that each head of a group makes of what they share."""
    shared, made = {key}, (*card.derived, *card.equations)
    for _ in card.equations:
        readers = [e for e in made if shared & e.reads and e.name not in shared]
        for e in readers:
            if heads.member in e.left.symbol.slots and not of_weights(card, e.right):
                return e.left.symbol
        more = {e.name for e in readers if heads.shared(e.left.symbol)}
        if not more:
            return None
        shared |= more
    return None


def number(card: CardData, e: Expr) -> Fraction | None:
    """The value of a formula of dimensions."""
    size = card.size(e)
    return None if size is None else size.value(card.sizes)


__all__ = ["check_groups", "check_heads", "check_own", "heads_counted", "value_named"]
