"""How far each position of the text stays rational, and which positions a lesson follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viete.evaluate.labelled import COL, ROW, Value
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step
from viete.meanings.exact.run import RATIONAL, ExactRun, level_of

FEW = 4  # positions that are all followed


def followed_length(run: Run) -> str:
    """The length whose positions are followed: that of the last equation with a length."""
    for step in reversed(run.program.steps):
        found = position_size(run, step)
        if found:
            return found
    return next(iter(run.program.model.lengths), "")


def position_size(run: Run, step: Step) -> str:
    """The length of an equation's rows (or of a vector's entries), or ''."""
    shape = run.program.shapes.types[step.equation.name].shape
    if not shape or len(shape[0].names()) != 1:
        return ""
    (name,) = shape[0].names()
    return name if name in run.program.model.lengths else ""


def at_position(v: Value, j: int) -> Value:
    """One position of a value: a row, or an entry of a vector, for all heads."""
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
            if v is None or position_size(run, step) != length or v.array.dtype != object:
                continue
            entries = (at_position(v, j) if v.axes else v).array
            level = max((level_of(x) for x in np.asarray(entries).flat), default=RATIONAL)
            levels.append((step, level))
        out.append(Track(j, tuple(levels)))
    return out


def followed_positions(found: list[Track]) -> list[int]:
    """All positions of a short text; of a longer one the last that leaves the fractions furthest.

    Before it comes the first that never leaves them: its numbers can be checked by hand.
    """
    if len(found) <= FEW:
        return [t.position for t in found]
    furthest = max(t.highest for t in found)
    last = max(t.position for t in found if t.highest == furthest)
    plain = [t.position for t in found if t.highest == RATIONAL and t.position != last]
    return ([plain[0]] if furthest > RATIONAL and plain else []) + [last]


def exercise_positions(found: list[Track], text: Sequence[int]) -> list[int]:
    """The position that a worksheet asks for, after one that is worked out: another token's."""
    last = followed_positions(found)[-1]
    tokens = text[: last + 1] if len(text) > last else []
    others = [j for j, token in enumerate(tokens) if token != tokens[last]]
    return [*(others or range(last))[-1:], last]
