"""Formulas made of weights only."""

from __future__ import annotations

from viete.graph.card import CardData
from viete.notation.tree import Expr, Num, refs


def of_weights(card: CardData, e: Expr) -> bool:
    """Whether a formula consists only of weights, through derived names."""
    derived = {d.name: d.right for d in card.derived}
    names = [x for x in refs(e) if x.symbol.kind != "dim"]
    return not isinstance(e, Num) and all(
        x.symbol.kind == "parameter" or (x.key in derived and of_weights(card, derived[x.key]))
        for x in names
    )
