"""Computes only the needed rows: ``logits_{-1, 5}`` needs the logits of one position.

A question about interventions computes its values again for each of them. With a large vocabulary,
the logits of all positions cost more than all blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from viete.analysis.linearity import linearity, repicked
from viete.analysis.rows import Rows
from viete.graph.card import CardData
from viete.graph.dependence import equations_by_name
from viete.notation.tree import Expr, Pick, Ref, transform, walk


def by_last_rows(card: CardData, e: Expr, anew: Callable[[str], bool]) -> Expr:
    """A formula in which a row of a value is replaced by that row of its equation's right side.

    This is done for values outside all loops that are computed ``anew``.
    """
    made = equations_by_name(card)

    def one_equation(x: Expr) -> bool:
        return isinstance(x, Ref) and anew(x.key) and len(made.get(x.key, ())) == 1 and (
            made[x.key][0].loop is None and not x.index
        )  # fmt: skip

    def is_row(x: Expr) -> bool:
        return isinstance(x, Pick) and one_equation(x.value) and not x.free

    if not any(map(is_row, walk(e))):
        return e
    rows = Rows(linearity(card))

    def opened(x: Expr) -> Expr | None:
        if not is_row(x):
            return None
        assert isinstance(x, Pick) and isinstance(x.value, Ref)
        return rows.pushed(repicked(x, made[x.value.key][0].right))

    return transform(e, opened)


__all__ = ["by_last_rows"]
