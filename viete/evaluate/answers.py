"""Answers: the value of a question on a run, with names for its axes and their entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from viete.document.displayed import Displayed
from viete.evaluate.inputs import host
from viete.evaluate.labelled import Array

if TYPE_CHECKING:
    from viete.document.tree import Block


@dataclass(frozen=True)
class Answer(Displayed):
    """An array, the range of each of its axes, and the names of the entries of each axis.

    ``axes`` and ``labels`` are as in `Run.axes` and `Run.labels`. ``names`` gives each entry a name
    where the entries of an axis share none, as the greatest ones of each row.
    """

    question: str
    array: Array
    axes: tuple[str, ...]
    labels: tuple[Sequence[str], ...]
    names: Array | None = None

    def page(self, style: str = "unicode") -> Sequence[Block]:
        """The numbers as tables, without the middle of large ones."""
        return self.blocks()

    def __str__(self) -> str:
        """The tables that `viete ask` prints."""
        from viete.document.text import write_text

        return write_text(self.blocks()).rstrip("\n")

    def blocks(self, width: int = 100, title: str | None = None) -> list[Block]:
        """The tables, at most ``width`` columns wide, under another title."""
        from viete.evaluate.answer_page import answer_blocks

        return answer_blocks(self, width, title)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(host(self.array), dtype=dtype)

    @property
    def arrays(self) -> Mapping[str, Array]:
        """All arrays of this answer, by their names in a file."""
        return {self.question: self.array}

    @property
    def alone(self) -> Self:
        """This answer without the batch axis if the batch is one text."""
        one = self.axes[:1] == ("batch",) and self.array.shape[0] == 1
        return self.part((0,)) if one else self

    def part(self, place: tuple[int, ...]) -> Self:
        """The part of this answer at a place of its first axes."""
        count = len(place)
        return replace(
            self, array=self.array[place], axes=self.axes[count:], labels=self.labels[count:],
            names=None if self.names is None else self.names[place],
        )  # fmt: skip
