"""What each part of a model has computed, and what is predicted: sentences from a run's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from viete.analysis import roles as role
from viete.document.tree import listed
from viete.errors import VieteError
from viete.evaluate.inputs import host
from viete.evaluate.labelled import COL, ROW, permute
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step as Turn
from viete.meanings.exact.numbers import Number, total
from viete.report.lesson.formulas import NumberFormulas
from viete.report.lesson.outline import Station
from viete.report.lesson.words import StepWords
from viete.rewrite.blocks import at_block

MOST_SEEN = 4  # positions whose weights are told


class Summaries:
    """Writes the summaries of one run.

    ``place`` gives the name of a position, ``token`` of a token, ``name`` of a turn's result.
    """

    def __init__(
        self, run: Run, words: StepWords, formulas: NumberFormulas,
        place: Callable[[int], str], token: Callable[[int], str], name: Callable[[Turn], str],
    ) -> None:  # fmt: skip
        self.run, self.words, self.formulas = run, words, formulas
        self.place, self.token, self.name = place, token, name
        self.alike: list[list[int]] = []  # positions with the same row, as far as it was told

    def of(self, station: Station, followed: Sequence[int]) -> list[str]:
        """Sentences on a part: its result, and which position read which."""
        out = list(dict.fromkeys(
            s for t in station.turns for s in self.words.outcome(
                t.equation, partial(at_block, loops=t.loops, sizes=self.run.sizes))
        ))  # fmt: skip
        for turn in station.turns:
            if turn.makes in self.run.store and role.WEIGHTS in self.words.roles(turn.equation):
                out += [s for j in followed if (s := self.attention(turn, j))]
        return out + self.same_rows(station.turns[-1], followed)

    def same_rows(self, turn: Turn, followed: Sequence[int]) -> list[str]:
        """The positions that have the same row from here on."""
        v = self.run.store.get(turn.makes)
        if v is None or v.axes != (ROW, COL) or v.size(ROW) <= max(followed, default=0):
            return []
        rows = dict[tuple[Any, ...], list[int]]()
        array = self.entries(turn)
        for j in followed:
            key = tuple(x.key if isinstance(x, Number) else float(x) for x in array[j])
            rows.setdefault(key, []).append(j)
        alike = [found for found in rows.values() if found[1:]]
        new, self.alike = [found for found in alike if found not in self.alike], alike
        why = ""
        if v.size(COL) == 2 and role.NORM in self.words.roles(turn.equation):
            why = ": of two numbers, a norm keeps only which one is greater"
        return [f"Positions {listed(map(self.place, found))} now have the same row{why}."
                for found in new]  # fmt: skip

    def told_of(self, positions: Sequence[int]) -> list[str]:
        """The predictions, as sentences."""
        return [s[0].upper() + s[1:] + "." for s in self.predictions(positions)]

    def entries(self, turn: Turn) -> np.ndarray:
        """A turn's result, as a NumPy array."""
        v = self.run.store[turn.makes]
        return np.asarray(host(self.run.arrays.array(v)))

    # -- attention ---------------------------------------------------------------------------------

    def attention(self, turn: Turn, j: int) -> str:
        """``Position 1, b, reads 27% from a and 73% from b.``"""
        v = self.run.store[turn.makes]
        if ROW not in v.axes or v.size(ROW) <= j or v.size(ROW) != v.size(COL):
            return ""
        rows = self.weights(turn, j)
        shares = [self.shares(row, j) for row in rows]
        if len(set(shares)) == 1:
            return f"{self.subject(j)} reads {shares[0]}."
        heads = [f"head {k} reads {s}" for k, s in enumerate(shares, 1)][:MOST_SEEN]
        if (rest := len(shares) - len(heads)) > 0:
            heads.append(f"{rest} more heads read other shares")
        return f"{self.subject(j)}: {'; '.join(heads)}."

    def weights(self, turn: Turn, j: int) -> np.ndarray:
        """The weights of one position, a row for each head."""
        v = self.run.store[turn.makes]
        order = (*(a for a in v.axes if a not in (ROW, COL)), ROW, COL)
        array = permute(np, self.entries(turn), v.axes, order)
        return np.asarray(array.reshape(-1, *array.shape[-2:])[:, j, :])

    def shares(self, row: Any, reader: int = -1) -> str:
        """The positions that a row of weights reads from; the ``reader`` itself is called so."""

        def source(k: int) -> str:
            return "itself" if k == reader else f"position {self.place(k)}"

        parts = [(float(x), k) for k, x in enumerate(row) if float(x) > 0]
        if len(parts) == 1:
            return f"only from {source(parts[0][1])}"
        best = sorted(parts, key=lambda p: (-p[0], p[1]))[:MOST_SEEN]
        best.sort(key=lambda p: p[1])
        told = [f"{percent(x)} from {source(k)}" for x, k in best]
        rest = len(parts) - len(best)
        return listed([*told, *[f"the rest from {rest} more"] * (rest > 0)])

    def subject(self, j: int) -> str:
        return f"Position {self.place(j)}"

    # -- what is predicted -------------------------------------------------------------------------

    def predictions(self, followed: Sequence[int]) -> Iterator[str]:
        """``b, because e > 2``: the greatest score of each position, and why it is the greatest."""
        found = self.scores()
        for row, j in zip(found[followed], followed, strict=True) if found is not None else ():
            try:
                best, second = sorted(range(len(row)), key=lambda k: (-float(row[k]), k))[:2]
                greatest, next_one = exactly(row[best]), exactly(row[second])
                gap = total([greatest, -next_one])
                sign = gap.sign()
            except (VieteError, ValueError, OverflowError):
                continue
            a, b, at = self.token(best), self.token(second), f"at position {self.place(j)}"
            if sign == 0:
                yield f"{at} {a} and {b} have exactly the same score"
            else:
                why = self.because(greatest, next_one, gap)
                scores = self.scored(a, b, greatest, next_one, why)
                yield f"{at} the model predicts {a}, {why}. {scores}"

    def scored(self, first: str, second: str, best: Number, next_one: Number, why: str) -> str:
        """The two greatest scores, unless they stand already in the reason ``why``."""
        one, two = self.formulas.plain_number(best), self.formulas.plain_number(next_one)
        if one in why and two in why:
            return f"The token with the second greatest score is {second}"
        return f"The score of {first} is ${one}$; {second} comes second with ${two}$"

    def because(self, best: Number, second: Number, gap: Number) -> str:
        return self.formulas.compared(self.formulas.near(best), self.formulas.near(second))

    def scores(self) -> np.ndarray | None:
        """The scores of the tokens at each position."""
        for turn in reversed(self.run.program.steps):
            v = self.run.store.get(turn.makes)
            if role.UNEMBED in self.words.roles(turn.equation) and v is not None:
                return self.entries(turn) if v.axes == (ROW, COL) else None
        return None


def percent(share: float) -> str:
    """One of several shares in per cent; never rounded to 0 or 100."""
    if share < 0.005:
        return "under 1%"
    return "over 99%" if share > 0.995 else f"{100 * share:.0f}%"


def exactly(x: Any) -> Number:
    """A score as an exact number; a float as the fraction that it is."""
    return x if isinstance(x, Number) else Number.of(Fraction(float(x)))


__all__ = ["MOST_SEEN", "Summaries"]
