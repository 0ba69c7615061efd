"""The residual streams of a card: which values are stretches of the same stream.

``y = x + a`` and ``x' = y + m`` are stretches of one stream: the stream enters each sum, and the
sum continues it. The equations decide: a sum continues the value from which all its other terms
were computed, and a value is continued by the last sum that adds to it.
"""

from __future__ import annotations

from viete.analysis.def_use import Use, def_use
from viete.graph.card import CardData, Loop, memoised
from viete.notation.tree import Ref


@memoised
def streams(card: CardData) -> frozenset[Use]:
    """The uses that continue the streams: each is one of ``def_use(card).all`` and ``added``."""
    uses = def_use(card)
    out: set[Use] = set()
    taken: set[tuple[Ref, Loop | None]] = set()
    for k in reversed(range(len(card.equations))):
        added = [u for u in uses.all if u.reader == k and u.added]
        refs = [*dict.fromkeys(u.ref for u in added)]
        first = next(
            (r for r in refs if not any(uses.comes_from(k, r, o) for o in refs if o != r)), None
        )
        if first is not None and (first, card.equations[k].loop) not in taken:
            taken.add((first, card.equations[k].loop))
            out.update(u for u in added if u.ref == first)
    return frozenset(out)


__all__ = ["streams"]
