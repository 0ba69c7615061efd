"""How far each position of the text stays rational, and which positions a lesson follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from viete.evaluate.labelled import COL, ROW, Value
from viete.evaluate.schedule import Step
from viete.meanings.exact.run import CLOSED, NAMED, RATIONAL, ExactRun, level_of


def followed_length(run: ExactRun) -> str:
    """The length whose positions are followed: that of the last equation that has one."""
    for step in reversed(run.program.steps):
        found = position_size(run, step)
        if found:
            return found
    return next(iter(run.program.model.lengths), "")


def position_size(run: ExactRun, step: Step) -> str:
    """The length that an equation's rows (or, of a vector, its entries) count; or nothing."""
    shape = run.program.shapes.types[step.equation.name].shape
    if not shape or len(shape[0].names()) != 1:
        return ""
    (name,) = shape[0].names()
    return name if name in run.program.model.lengths else ""


def at_position(v: Value, j: int) -> Value:
    """One position of a value: a row, or an entry of a vector, in all heads."""
    axis = v.axes.index(ROW if ROW in v.axes else COL)
    array = np.take(v.array, min(j, v.array.shape[axis] - 1), axis=axis)
    return Value(array, v.axes[:axis] + v.axes[axis + 1 :])


@dataclass(frozen=True)
class Track:
    """One position: the level of its values, equation by equation."""

    position: int
    levels: tuple[tuple[Step, int], ...]

    @property
    def highest(self) -> int:
        return max((level for _, level in self.levels), default=RATIONAL)


def tracks(run: ExactRun) -> list[Track]:
    """A track for every position of the followed length."""
    length = followed_length(run)
    count = int(run.sizes.get(length, 1)) if length else 1
    out = []
    for j in range(count):
        levels = []
        for step in run.program.steps:
            v = run.store.get(step.makes)
            if v is None or position_size(run, step) != length:
                continue
            entries = (at_position(v, j) if v.axes else v).array
            level = max((level_of(x) for x in np.asarray(entries).flat), default=RATIONAL)
            levels.append((step, level))
        out.append(Track(j, tuple(levels)))
    return out


def followed_positions(found: list[Track]) -> list[int]:
    """The last position that goes furthest from the fractions; before it the first that never
    leaves them, where there is one: its numbers can be checked by hand."""
    furthest = max(t.highest for t in found)
    last = max(t.position for t in found if t.highest == furthest)
    plain = [t.position for t in found if t.highest == RATIONAL and t.position != last]
    return ([plain[0]] if furthest > RATIONAL and plain else []) + [last]


WORDS = {
    RATIONAL: "fractions", CLOSED: "roots and powers of e (exact, equality decided)",
    NAMED: "named quantities (exact, with certified digits)",
}  # fmt: skip


def sentence(track: Track, name: Callable[[Step], str], end: str = "to the end") -> str:
    """``Position 1: fractions up to $S$; …``; ``name`` writes a step's value.

    ``end`` says how far there is anything: not to the end where the run was refused.
    """
    runs = [(level, [s for s, _ in group])
            for level, group in groupby(track.levels, key=lambda x: x[1])]  # fmt: skip
    if len(runs) == 1:
        return f"Position {track.position}: {WORDS[runs[0][0]]} {end}."
    parts = []
    for k, (level, steps) in enumerate(runs):
        first, last = name(steps[0]), name(steps[-1])
        again = " again" if level == RATIONAL and k else ""
        if k == 0:
            parts.append(f"{WORDS[level]} up to {last}")
        elif k == len(runs) - 1:
            parts.append(f"{WORDS[level]}{again} from {first} {end}")
        elif len(steps) == 1:
            parts.append(f"{WORDS[level]}{again} in {first}")
        else:
            parts.append(f"{WORDS[level]}{again} from {first} to {last}")
    return f"Position {track.position}: {'; '.join(parts)}."
