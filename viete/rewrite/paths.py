"""Path interventions: a change that only some readers see, ``x^3 = 0 in Q^{5,1}``.

The values between the changed value and these readers get a second equation each, ``u_{via}^i``
beside ``u^i``, computed from the changed value; the readers use the second ones. All other values
stay as they were. With other values held fixed by `cut`, this is path patching.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from viete.graph.card import CardData, Equation, restated
from viete.graph.dependence import backward_slice, forward_slice, reachable
from viete.notation.printer import show
from viete.notation.tree import Expr, Idx, Ref, Symbol, refs, transform
from viete.rewrite.carried import number
from viete.rewrite.folding_in import FoldingIn, labelled
from viete.rewrite.ordering import ordered, same_turn
from viete.rewrite.replacement import Replacement


@dataclass(frozen=True)
class Paths:
    """A card with second equations, the changes of these and of the readers, and the copies."""

    card: CardData
    changes: tuple[Replacement, ...]
    copies: Mapping[str, str]  # of a second value, what it is a second one of


def seen_by_readers(card: CardData, change: Replacement) -> CardData:
    """The card in which only the readers of a change see it.

    Raises VieteError for a reader that does not depend on the changed value.
    """
    check_order(card, change)
    found = paths(card, change)
    moved, *readers = found.changes
    card = FoldingIn(found.card, moved, base=change.left.symbol).card()
    for reader in readers:
        second = reader.right
        assert isinstance(second, Ref)
        index = (Idx(slot) if slot in card.loop_letters and not isinstance(x, Idx) else x
                 for slot, x in zip(second.symbol.slots, second.index, strict=True))  # fmt: skip
        own = replace(reader, right=Ref(second.symbol, tuple(index)))
        card = ordered(FoldingIn(card, own).card(), change.text)
    return card


def paths(card: CardData, change: Replacement) -> Paths:
    """A second copy of the values between the changed one and readers, as two kinds of changes.

    One changes the second copy of the value; then each reader becomes its second copy. Raises
    VieteError for a reader that does not depend on the changed value.
    """
    key = change.left.key
    after = forward_slice(card, [key])
    for reader in change.readers:
        if reader.key not in after or reader.key == key:
            raise change.text.error(f"{show(reader)} does not read {show(change.left)}")
    made = {e.name: e.left.symbol for e in card.equations}
    before = {e.name for e in backward_slice(card, [r.key for r in change.readers])}
    via = {name: labelled(card, made[name], "via") for name in made if name in after & before}
    equations: list[Equation] = []
    for e in card.equations:  # a reader reads its second value, and that of the sender the first
        both = [copied(e, via), e] if e.name in via else [e]
        equations += both[::-1] if e.name == key else both
    moved = replace(change, left=Ref(via[key], change.left.index), readers=())
    readers = (
        replace(change, left=r, items=(), conditions=(), readers=(), right=Ref(via[r.key], r.index))
        for r in change.readers
    )
    copies = {symbol.key: name for name, symbol in via.items()}
    return Paths(replace(card, equations=tuple(equations)), (moved, *readers), copies)


def check_order(card: CardData, change: Replacement) -> None:
    """Check that each reader comes after the changed value."""
    key = change.left.key
    for reader in change.readers:
        blocks = [dict(zip(x.symbol.slots, x.index, strict=True)) for x in (reader, change.left)]
        for slot in blocks[0].keys() & blocks[1].keys() & card.loop_letters:
            one, other = (number(card, at[slot]) for at in blocks)
            later = one is not None and other is not None and one > other
            if not (later or reader.key in same_block(card, key)):
                raise change.text.error(f"{show(reader)} is computed before {show(change.left)}")


def same_block(card: CardData, key: str) -> Collection[str]:
    """The values that depend on one in the same block, or in a later one of unknown number."""
    made = {e.name: e for e in card.equations if e.loop is not None}

    def read(name: str) -> Iterator[str]:
        for e in made.values():
            if any(x.key == name and same_turn(x, made[name]) for x in refs(e.right)):
                yield e.name

    return reachable([key], read) if key in made else made


def copied(e: Equation, via: dict[str, Symbol]) -> Equation:
    """The equation with the same formula, over the second values."""

    def rule(x: Expr) -> Expr | None:
        return Ref(via[x.key], x.index) if isinstance(x, Ref) and x.key in via else None

    meaning = f"${show(e.left, 'latex')}$ as some readers see it"
    copy = restated(e, Ref(via[e.name], e.left.index), transform(e.right, rule))
    return replace(copy, meaning=meaning)


__all__ = ["check_order", "paths", "seen_by_readers"]
