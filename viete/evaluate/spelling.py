"""Names of inputs and weights in any spelling: ``γ_1`` and ``\\gamma_1`` for ``gamma_1``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from viete.errors import VieteError
from viete.graph.card import CardData
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.symbols import Scope
from viete.notation.tree import Idx, Num, Ref


def by_own_names(card: CardData, given: Any, known: Collection[str]) -> Any:
    """A mapping by the card's own names; the mapping itself if those are its keys already.

    A key that is not in ``known`` stays as it is. Raises VieteError for two spellings of one name.
    """
    if not isinstance(given, Mapping) or all(name in known for name in given):
        return given
    scope = declared(card)
    out: dict[str, Any] = {}
    for name, value in given.items():
        own = name
        if isinstance(name, str) and name not in known:
            own = plain(name, scope, card.loop_letters)
        own = own if own in known else name
        if own in out:
            raise VieteError(f"{own} is given twice, in two spellings")
        out[own] = value
    return out


def declared(card: CardData) -> Scope:
    """The inputs and parameters of a card, with their index letters."""
    symbols = [i.symbol for i in card.inputs] + [p.symbol for p in card.parameters]
    scope = Scope(indices={s for symbol in symbols for s in symbol.slots})
    for symbol in symbols:
        scope.declare(symbol)
    return scope


def plain(name: str, scope: Scope, blocks: frozenset[str]) -> str:
    """The plain spelling of the name of one whole input or weight, or an empty string."""
    try:
        e = parse(name, scope)
    except VieteError:
        return ""
    if not isinstance(e, Ref):
        return ""
    for slot, index in zip(e.symbol.slots, e.index, strict=True):
        if not (isinstance(index, Num) if slot in blocks else index == Idx(slot)):
            return ""
    return show(e)


__all__ = ["by_own_names", "declared", "plain"]
