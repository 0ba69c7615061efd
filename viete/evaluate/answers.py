"""Answers: what a question is worth on a run, with what its axes and their entries are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from viete.evaluate.labelled import Array


@dataclass(frozen=True)
class Answer:
    """An array, what each of its axes ranges over, and what the entries of each axis are called.

    As `Run.axes` and `Run.labels` have them.
    """

    question: str
    array: Array
    axes: tuple[str, ...]
    labels: tuple[Sequence[str], ...]

    @property
    def alone(self) -> Answer:
        """Without the axis of a batch of one text."""
        if self.axes[:1] != ("batch",) or self.array.shape[0] != 1:
            return self
        return Answer(self.question, self.array[0], self.axes[1:], self.labels[1:])
