"""Orders equations: each after the equations whose values it reads in the same turn of its loop."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from viete.errors import Text
from viete.graph.card import CardData, Equation
from viete.notation.tree import Ref, refs


def ordered(card: CardData, source: Text) -> CardData:
    """The card with equations moved down after the values they read; others stay in place.

    Raises VieteError, at ``source``, where a value would depend on itself.
    """
    out: list[Equation] = []
    for _, group in groupby(card.equations, lambda e: e.loop):
        out += stretch(list(group), source)
    return card if tuple(out) == card.equations else replace(card, equations=tuple(out))


def stretch(equations: list[Equation], source: Text) -> list[Equation]:
    """A loop's equations, or those between loops, in order."""
    waiting = list(range(len(equations)))
    reads = [
        {k for k, other in enumerate(equations) if k != at and any(
            same_turn(x, other) for x in refs(e.right))}
        for at, e in enumerate(equations)
    ]  # fmt: skip
    if all(max(r, default=-1) < k for k, r in enumerate(reads)):
        return equations
    out: list[int] = []
    while waiting:
        free = next((k for k in waiting if reads[k] <= {*out}), None)
        if free is None:
            raise source.error(f"these equations are circular: {circle(equations, reads, waiting)}")
        waiting.remove(free)
        out.append(free)
    return [equations[k] for k in out]


def same_turn(x: Ref, made: Equation) -> bool:
    """Whether a reference is to an equation's value, in a loop to that of the same turn."""
    if x.key != made.name:
        return False
    if made.loop is None:
        return x.index == made.left.index
    pairs = zip(x.symbol.slots, x.index, made.left.index, strict=True)
    return all(a == b for slot, a, b in pairs if slot == made.loop.index)


def circle(equations: list[Equation], reads: list[set[int]], waiting: list[int]) -> str:
    """``x needs a needs x``."""
    path = [waiting[0]]
    while True:
        after = min(reads[path[-1]] & {*waiting})
        if after in path:
            names = [equations[k].name for k in (*path[path.index(after) :], after)]
            return " needs ".join(names)
        path.append(after)


__all__ = ["ordered", "same_turn"]
