"""The outline of a lesson: its pipeline of stages, and what it has shown at the end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from viete.document.tree import Chip, listed
from viete.errors import VieteError
from viete.evaluate.schedule import Step as Turn
from viete.meanings.exact.run import CLOSED, NAMED, RATIONAL, ExactRun
from viete.report.lesson.positions import Track


class Stages:
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


def conclusions(
    run: ExactRun, tracks: list[Track], name: Callable[[Turn], str], stopped: VieteError | None
) -> list[str]:
    """Sentences derived from the run."""
    turns = [t for t in run.program.steps if t.makes in run.status]
    made = {level: [t for t in turns if run.status[t.makes].level == level]
            for level in (RATIONAL, CLOSED, NAMED)}  # fmt: skip
    out = []
    if turns and len(made[RATIONAL]) == len(turns):
        out.append("Every number here is a fraction, computed exactly. Nothing was rounded.")
    else:
        out.append(
            f"{some(made[RATIONAL], name)} made of fractions only, computed exactly."
            if made[RATIONAL]
            else "No value consists of fractions only."
        )
        if made[CLOSED]:
            out.append(
                f"{some(made[CLOSED], name)} made of roots and powers of e, for which "
                "equality is decided (Besicovitch 1940; Lindemann–Weierstrass)."
            )
        if made[NAMED]:
            out.append(
                f"{some(made[NAMED], name)} named, from {name(made[NAMED][0])} on: defined "
                "exactly, with enclosures of any precision. Where two such numbers differ, that is "
                "proven; where two are equal, only if it follows from how they are made."
            )
    if len(run.names):
        out.append(
            f"{len(run.names)} intermediate quantities have names, so that no formula grows "
            "too long to hold."
        )
    decided = [t for t in turns if run.status[t.makes].bits]
    if decided:
        bits = max(run.status[t.makes].bits for t in decided)
        places = "Comparisons in " + ", ".join(dict.fromkeys(name(t) for t in decided[:6]))
        more = f" and {len(decided) - 6} more" if len(decided) > 6 else ""
        out.append(
            f"{places}{more} were decided by enclosures of at most {bits} bits, which are "
            "certain to contain the numbers."
        )
    for t in turns:
        out += [f"In {name(t)}, {tie}." for tie in run.status[t.makes].ties]
    if stopped is not None:
        out.append(f"The run ended early: {stopped.message}.")
    if len(made[RATIONAL]) < len(turns):
        out.append("All digits after ≈ are proven; the last one is rounded.")
    claims = "This lesson claims nothing about what a computation in floating point would give"
    if made[NAMED]:
        claims += ", nor that the named quantities are independent of each other"
    out.append(claims + ", nor about weights or inputs other than these.")
    return out


def some(turns: list[Turn], name: Callable[[Turn], str], most: int = 8) -> str:
    """``x, Q and K are``."""
    names = list(dict.fromkeys(name(t) for t in turns))
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return f"{listed([*names[:most], *more])} {'is' if len(names) == 1 else 'are'}"
