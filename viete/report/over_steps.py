"""Answers over a model's checkpoints: their numbers, when they hold, a picture, a document."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viete.document.displayed import Displayed
from viete.document.rendering import render
from viete.document.tree import Block, CodeBlock, paragraph
from viete.errors import VieteError
from viete.evaluate.inputs import in_numpy
from viete.report.answer_rows import AnswerRow, rows_table
from viete.report.checkpoint_rows import first_holding, is_comparison, steps_of, when_sentences

if TYPE_CHECKING:
    from viete.report.pictures.picture import Picture


@dataclass(frozen=True)
class OverSteps(Displayed):
    """Questions, and their answers in a row for each checkpoint.

    ``titles`` are the names of the questions, ``letters`` the axes that count parts of the model,
    as blocks and heads.
    """

    title: str
    titles: Sequence[str]
    letters: Collection[str]
    rows: Sequence[AnswerRow]

    @property
    def steps(self) -> list[int]:
        """The step of each row."""
        return steps_of(self.rows)

    def place(self, question: str) -> int:
        """The number of a question. Raises VieteError for an unknown one."""
        if question not in self.titles:
            raise VieteError(f"{question!r:.60} was not asked; there are {', '.join(self.titles)}")
        return list(self.titles).index(question)

    def __getitem__(self, question: str) -> np.ndarray:
        """The answers to a question, steps first."""
        k = self.place(question)
        return np.stack([in_numpy(row.answers[k].array) for row in self.rows])

    def first(self, question: str) -> int | None:
        """The first step at which a comparison holds for all its entries; None for no step.

        Raises VieteError for a question that is not a comparison.
        """
        k = self.place(question)
        if not is_comparison(self.rows, k):
            raise VieteError(f"{question} is not a comparison, such as F > 0.9")
        found = first_holding(self.rows, k)
        return None if found is None else self.steps[found[0]]

    def draw(self) -> Picture:
        """The picture: numbers as curves, tables as small multiples, matrices as strips of maps."""
        from viete.report.pictures.checkpoints import over_checkpoints

        return over_checkpoints(self.rows, self.titles, self.letters, self.title)

    def page(self, style: str = "unicode") -> list[Block]:
        """When comparisons begin to hold, the picture where pictures are shown, and the table."""
        out: list[Block] = [paragraph(x) for x in when_sentences(self.rows, self.titles)]
        numbers = any(not is_comparison(self.rows, k) for k in range(len(self.titles)))
        if style == "mathml" and numbers:
            drawn = self.draw()
            out.append(CodeBlock("\n".join(drawn.lines), picture=drawn.svg))
        return [*out, *rows_table(self.rows, self.titles)]

    def __str__(self) -> str:
        return render(self.page(), "text")


__all__ = ["OverSteps"]
