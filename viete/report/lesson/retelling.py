"""How a run came to one prediction, in three or four sentences with its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from viete.analysis import roles as role
from viete.document.tree import capital, listed
from viete.evaluate.inputs import host
from viete.evaluate.labelled import COL, ROW
from viete.evaluate.schedule import Member
from viete.evaluate.schedule import Step as Turn
from viete.notation.tree import Apply
from viete.report.lesson.outline import block_of
from viete.report.lesson.positions import followed_length, position_size
from viete.report.lesson.summaries import Summaries, percent

MOST_BLOCKS = 3  # that are told one by one
SHORT = 4  # entries of a row that is written
FEW_HEADS = 2  # of a block, told one by one; more are told by their mean


class Retelling:
    """Retells a run by the roles of its ``turns``."""

    def __init__(self, summaries: Summaries, turns: Sequence[Turn]) -> None:
        self.of, self.words = summaries, summaries.words
        self.run = run = summaries.run
        length = followed_length(run)
        self.turns = [t for t in turns
                      if t.makes in run.store and position_size(run, t) == length]  # fmt: skip

    def sentences(self, j: int) -> list[str]:
        """How position j got from its token to its scores."""
        return [*self.began(j), *self.read(j), *self.added(j)]

    def playing(self, found: str) -> list[Turn]:
        """The turns with a role."""
        return [t for t in self.turns if found in self.words.roles(t.equation)]

    def began(self, j: int) -> Iterator[str]:
        """The first row of a position, in words."""
        for turn in self.playing(role.EMBED)[-1:]:
            table = self.words.parameter(turn.equation, "position")
            more = f" plus row {j} of {table}" if table else ""
            yield (f"{self.of.subject(j)} started as the row of its token in "
                   f"{self.words.parameter(turn.equation, 'token')}{more}.")  # fmt: skip

    def read(self, j: int) -> Iterator[str]:
        """The positions that attention read from, block by block."""
        told: list[str] = []
        turns = [t for t in self.playing(role.WEIGHTS) if self.of.attention(t, j)]
        for turn in few(turns):
            where = self.where(turn, turns)
            rows = np.asarray(self.of.weights(turn, j), dtype=float)
            if len(rows) == 1:
                told.append(f"{self.of.shares(rows[0])}{where}")
            elif len(rows) <= FEW_HEADS:
                told += [f"{self.most(row)} (head {h}{where})"
                         for h, row in enumerate(rows, 1)]  # fmt: skip
            else:
                told.append(f"{self.most(rows.mean(axis=0))} (the mean of {len(rows)} heads"
                            f"{where})")  # fmt: skip
        if told:
            yield f"Attention read {'; '.join(told)}."

    def where(self, turn: Turn, turns: Sequence[Turn]) -> str:
        """`` in block 2``, or `` in A_c^2`` where several equations of a block play one part.

        An encoder's and a decoder's blocks have equal numbers, and a decoder has two attentions.
        """
        if len({t.equation.name for t in turns}) > 1:
            return f" in {self.of.name(turn)}"
        return in_block(turn)

    def most(self, row: np.ndarray) -> str:
        """The position that a row of weights reads most from, and its share."""
        best = int(row.argmax())
        return f"{percent(row[best])} from position {self.of.place(best)}"

    def added(self, j: int) -> Iterator[str]:
        """The term added to the stream: its numbers, or for a long row its length."""
        sums = {t.makes: found for t in self.playing(role.RESIDUAL)
                if (found := self.terms(t, j)) is not None}  # fmt: skip
        told: dict[str, list[str]] = {}
        alike: dict[str, list[Turn]] = {}  # by what they add
        for turn in few([t for t in self.turns if t.makes in sums]):
            alike.setdefault(self.words.added(turn.equation), []).append(turn)
        for what, turns in alike.items():
            for turn in turns:
                kept, more = sums[turn.makes]
                if len(more) <= SHORT:
                    size = listed_row(more)
                else:
                    size = f"about {length(more) / max(length(kept), 1e-300):.2g} times"
                parts = told.setdefault(what, [])
                size += " as long as that row" if len(more) > SHORT and not parts else ""
                parts.append(f"{size}{self.where(turn, turns)}")
        for what, parts in told.items():
            verb = "were" if " and " in what else "was"
            yield f"{capital(what)} {verb} added to its row: {listed(parts)}."

    def terms(self, turn: Turn, j: int) -> tuple[np.ndarray, np.ndarray] | None:
        """The row that a sum keeps, and the one it adds; None for an equation that does more."""
        kept = {r.key for r in self.words.residuals(turn.equation)}
        before = [m for m in turn.needs if m[0] in kept]
        right = turn.equation.right
        if len(before) != 1 or not (isinstance(right, Apply) and right.op == "add"):
            return None
        if any(self.run.store[m].axes != (ROW, COL) for m in (before[0], turn.makes)):
            return None
        old, new = (self.row(m, j) for m in (before[0], turn.makes))
        return old, new - old

    def row(self, member: Member, j: int) -> np.ndarray:
        """The row of one position, as floats."""
        array = np.asarray(host(self.run.arrays.array(self.run.store[member])))
        return np.asarray(array[j], dtype=float)


def listed_row(row: np.ndarray) -> str:
    """``(1, 0)``, or ``about (0.333, 0.667)`` where digits are rounded."""
    shown = [f"{x:.3g}" for x in row]
    about = "about " * any(float(s) != x for s, x in zip(shown, row, strict=True))
    return f"{about}({', '.join(shown)})".replace("-", "−")


def length(row: np.ndarray) -> float:
    """The length of a row, as a vector."""
    return float(np.linalg.norm(row))


def in_block(turn: Turn) -> str:
    """`` in block 2``; empty outside of a loop."""
    block = block_of(turn)
    return f" in {block}" if block else ""


def few(turns: list[Turn]) -> list[Turn]:
    """All turns, or of many only the first and the last."""
    return turns if len(turns) <= 2 * MOST_BLOCKS else [turns[0], turns[-1]]
