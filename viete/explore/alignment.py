"""Aligns the backward pass of a varied card with the original: the same part has the same name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from difflib import SequenceMatcher

from viete.graph.card import CardData, Equation, memoised, restated
from viete.notation.tree import Expr, Ref, Slot, Symbol, transform
from viete.rewrite.adjoint.grad import forward_pass

Place = tuple[str, ...]


@memoised
def aligned(card: CardData, before: CardData, taken: frozenset[str]) -> CardData:
    """The card with the part names, such as G_1, of the parts in the same place in ``before``.

    A part that is new there has a name that is neither in ``before`` nor ``taken``.
    """
    one, other = parts(before), parts(card)
    first, second = (
        [place(e, own) for e in c.equations] for c, own in ((before, one), (card, other))
    )
    pairs = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    names: dict[str, Symbol] = {}
    for i, j, count in pairs:
        for k in range(count):
            old, new = before.equations[i + k].left.symbol, card.equations[j + k].left.symbol
            if new.key in other:
                names.setdefault(new.key, old)
    used = {*before.symbols, *taken}
    for e in card.equations:
        if e.name in other and e.name not in names:
            names[e.name] = new = numbered(e.left.symbol, used)
            used.add(new.key)
    if all(key == new.key for key, new in names.items()):
        return card

    def of(x: Expr) -> Expr | None:
        return Ref(names[x.key], x.index) if isinstance(x, Ref) and x.key in names else None

    def equation(e: Equation) -> Equation:
        left = transform(e.left, of)
        assert isinstance(left, Ref)
        return restated(e, left, transform(e.right, of))

    return replace(card, equations=tuple(map(equation, card.equations)))


def parts(card: CardData) -> dict[str, Symbol]:
    """The values of a backward pass with numbered names."""
    ahead = {e.name for e in forward_pass(card).equations}
    found = (e.left.symbol for e in card.equations)
    return {s.key: s for s in found if s.key not in ahead and count(s) is not None}


def count(s: Symbol) -> int | None:
    """The place of the number among the slots of a name."""
    return next((k for k, x in enumerate(s.sub) if not x.index and x.text.isdigit()), None)


def place(e: Equation, counted: Collection[str]) -> Place:
    """The properties that equations in the same place share."""
    s = e.left.symbol
    if e.name not in counted:
        return e.name, e.part
    return s.base, *s.slots, e.part, e.meaning


def numbered(s: Symbol, used: Collection[str]) -> Symbol:
    """The name with the first free number."""
    k, n = count(s), 1
    assert k is not None
    while (new := replace_slot(s, k, n)).key in used:
        n += 1
    return new


def replace_slot(s: Symbol, k: int, n: int) -> Symbol:
    """The name with another number."""
    return Symbol(s.kind, s.base, (*s.sub[:k], Slot(str(n)), *s.sub[k + 1 :]), s.sup)


__all__ = ["aligned"]
