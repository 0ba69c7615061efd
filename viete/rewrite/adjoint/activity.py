"""Activity: the values between what is differentiated by and the loss that a derivative passes."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from viete.analysis.kinds import FLAT, REAL
from viete.analysis.shapes import shapes_of
from viete.graph.card import CardData
from viete.graph.dependence import forward_slice
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, Table


def reached(card: CardData, wanted: Collection[str]) -> frozenset[str]:
    """The values that depend on what is wanted, and that a derivative can pass through."""
    types = shapes_of(card).types
    return frozenset(forward_slice(
        card, wanted, lambda e, name: types[e.name].kind == REAL and name in passed_to(e.right)
    ))  # fmt: skip


def depends(e: Expr, active: Collection[str]) -> bool:
    """Whether a derivative passes from ``e`` to such a value."""
    return not passed_to(e).isdisjoint(active)


@lru_cache(maxsize=1 << 15)
def passed_to(e: Expr) -> frozenset[str]:
    """The names to which a derivative passes from ``e``; none through indices and tests."""
    match e:
        case Ref():
            return frozenset((e.key,))
        case Pick():
            return passed_to(e.value)
        case Bind() | Table():
            return passed_to(e.body)
        case Apply() if e.op not in FLAT:
            args = e.args[1:] if e.op == "where" else e.args
            return frozenset[str]().union(*map(passed_to, args))
    return frozenset()
