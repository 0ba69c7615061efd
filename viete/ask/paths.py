"""Paths through heads where there are too many to compute all: the largest are opened first.

A head has one term for each source position, and what it reads there is again a sum over heads and
positions. So the number of paths through three heads is the third power of the number of terms.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viete.ask.expansion import Expansion, Term

MOST = 1_000_000  # terms that are computed all at once
OPENED = 100  # heads of which is opened what they read


def best_first(e: Expansion, depth: int) -> tuple[list[Term], int]:
    """The terms of paths through ``depth`` more heads, the largest opened, and the number unopened.

    ``e`` has one head in each term. An unopened term is one for all paths that go on from it, so
    that the terms add up to the same.
    """
    order = count()
    final: list[Term] = []
    waiting: list[tuple[float, int, int, Term]] = []

    def put(terms: list[Term], level: int) -> None:
        for t in terms:
            if level < depth and t.size and t.marks and t.marks[-1].word in ("head", "source"):
                heapq.heappush(waiting, (-t.size, next(order), level, t))
            else:
                final.append(t)

    put(e.every_term(), 0)
    for _ in range(OPENED):
        if not waiting:
            break
        _, _, level, term = heapq.heappop(waiting)
        put(term.expand(e.options.into, depth=0, top=None, least=0.0).every_term(), level + 1)
    return [*final, *(t for *_, t in waiting)], len(waiting)


__all__ = ["MOST", "OPENED", "best_first"]
