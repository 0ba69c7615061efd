"""Opens the largest terms of an expansion until terms that open no further carry a given share."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from viete.analysis.linearity import CONSTANT

if TYPE_CHECKING:
    from viete.ask.expansion import Expansion, Term

LADDER = ("sublayer", "head", "source", "neuron")  # into what a term is opened, in this order
LAST = frozenset(("source", "neuron", "feature", "error"))  # which open no further
MOST = 200  # terms that are opened


def explained(e: Expansion, share: float) -> list[Term]:
    """All terms, opened until those that go no further have this share of all sizes.

    A block is opened into its sub-layers, these into heads or neurons, a head into its sources.
    """
    final: list[Term] = []
    waiting: list[tuple[float, int, Term]] = []

    def put(terms: Sequence[Term]) -> None:
        for t in terms:
            if t.kind != CONSTANT:
                heapq.heappush(waiting, (-t.size, id(t), t))
            else:
                final.append(t)

    put(e.every_term())
    for _ in range(MOST):
        done, left = sum(t.size for t in final), sum(-size for size, *_ in waiting)
        if not waiting or done >= share * (done + left):
            break
        term = heapq.heappop(waiting)[2]
        finer = opened(term)
        if finer:
            put(finer)
        else:
            final.append(term)
    return [replace(t, among=e) for t in (*final, *(t for *_, t in waiting))]


def opened(term: Term) -> list[Term]:
    """The terms of a term by the first word that gives several; empty if no word does."""
    finer = finer_expansion(term, top=None, least=0.0)
    return [] if finer is None else finer.every_term()


def finer_expansion(term: Term, **changes: Any) -> Expansion | None:
    """The expansion of a term by the first word that gives several terms; None if no word does."""
    if term.family.marks and term.family.marks[-1].word in LAST:
        return None
    for word in LADDER:
        found = term.expand(word, explain=None, cumulative=False, **changes)
        if len(found.families) > 1 or found.families[0].letters:
            return found
    return None


__all__ = ["explained", "finer_expansion"]
