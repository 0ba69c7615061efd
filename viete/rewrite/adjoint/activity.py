"""Activity analysis: the values between parameters and loss through which a derivative passes."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from viete.analysis.kinds import FLAT, REAL
from viete.analysis.shapes import shapes_of
from viete.graph.card import CardData
from viete.graph.dependence import forward_slice
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, Table, num


def reached(card: CardData, wanted: Collection[str]) -> frozenset[str]:
    """The values that depend on the wanted ones, and that a derivative can pass through."""
    types = shapes_of(card).types
    stop = held(card)
    return frozenset(forward_slice(
        card, wanted, lambda e, name: types[e.name].kind == REAL
        and name in passed_to(e.right, stop)
    ))  # fmt: skip


def held(card: CardData) -> str:
    """The card's name for the library function that stops derivatives."""
    return card.library("held", num(0)).op


def depends(e: Expr, active: Collection[str], stop: str) -> bool:
    """Whether a derivative passes from ``e`` to an active value, not through ``stop``."""
    return not passed_to(e, stop).isdisjoint(active)


@lru_cache(maxsize=1 << 15)
def passed_to(e: Expr, stop: str) -> frozenset[str]:
    """The names to which a derivative passes; none in indices, tests and ``stop``."""
    match e:
        case Ref():
            return frozenset((e.key,))
        case Pick():
            return passed_to(e.value, stop)
        case Bind() | Table():
            return passed_to(e.body, stop)
        case Apply() if e.op not in FLAT and e.op != stop:
            args = e.args[1:] if e.op == "where" else e.args
            return frozenset[str]().union(*(passed_to(a, stop) for a in args))
    return frozenset()
