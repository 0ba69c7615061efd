"""The ordered pipeline: the card's parts, the current one opened, with this step's stage marked."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from viete.document.tree import Chip
from viete.evaluate.schedule import Step as Turn


class Pipeline:
    """Chips for the turns of a run, in order; ``name`` writes what a turn makes."""

    def __init__(self, turns: list[Turn], name: Callable[[Turn], str]) -> None:
        self.name = name
        keyed = groupby(turns, key=lambda t: (t.equation.part or t.makes, *t.loops.items()))
        self.groups = [list(group) for _, group in keyed]

    def chips(self, now: Turn | None) -> list[Chip]:
        """``tokens``, then a chip for every part; the current part is a chip for each equation."""
        out = [Chip("tokens", now is None, now is not None)]
        here = next((k for k, g in enumerate(self.groups) if now in g), -1)
        last = ""
        for k, group in enumerate(self.groups):
            if k == here:
                place = group.index(now) if now in group else 0
                out += [Chip(self.name(t), n == place, n < place) for n, t in enumerate(group)]
                last = ""
                continue
            title = self.titled(group, here)
            if title != last:
                out.append(Chip(title, False, k < here))
            last = title
        return out

    def titled(self, group: list[Turn], here: int) -> str:
        """A part's title; of another block only the block's number."""
        first = group[0]
        loops = dict(first.loops)
        current = dict(self.groups[here][0].loops) if here >= 0 else {}
        if loops and loops != current:
            return "block " + ", ".join(str(k) for k in loops.values())
        return first.equation.part or self.name(first)
