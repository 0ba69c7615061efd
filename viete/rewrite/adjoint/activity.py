"""Activity: the values between what is differentiated by and the loss that a derivative passes."""

from __future__ import annotations

from collections.abc import Collection

from viete.analysis.kinds import FLAT, REAL
from viete.analysis.shapes import shapes_of
from viete.graph.card import CardData
from viete.graph.dependence import forward_slice
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, Table


def reached(card: CardData, wanted: Collection[str]) -> frozenset[str]:
    """The values that depend on what is wanted, and that a derivative can pass through."""
    types = shapes_of(card).types
    return frozenset(forward_slice(
        card, wanted, lambda e, name: types[e.name].kind == REAL and depends(e.right, (name,))
    ))  # fmt: skip


def depends(e: Expr, active: Collection[str]) -> bool:
    """Whether a derivative passes from ``e`` to such a value; none through indices and tests."""
    match e:
        case Ref():
            return e.key in active
        case Pick():
            return depends(e.value, active)
        case Bind() | Table():
            return depends(e.body, active)
        case Apply():
            args = e.args[1:] if e.op == "where" else e.args
            return e.op not in FLAT and any(depends(a, active) for a in args)
    return False
