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
    """An array, what each of its axes ranges over, and what the entries of each axis are called.

    As `Run.axes` and `Run.labels` have them. ``names`` is what each entry is called where the
    entries of an axis have no names in common, as the greatest ones of each row.
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
        """The same tables as `viete ask` prints."""
        from viete.document.text import write_text

        return write_text(self.blocks()).rstrip("\n")

    def blocks(self, width: int = 100, title: str | None = None) -> list[Block]:
        """The same, not wider than so many columns, under another title."""
        from viete.evaluate.answer_page import answer_blocks

        return answer_blocks(self, width, title)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(host(self.array), dtype=dtype)

    @property
    def arrays(self) -> Mapping[str, Array]:
        """All arrays of it by what they are called in a file."""
        return {self.question: self.array}

    @property
    def alone(self) -> Self:
        """Without the axis of a batch of one text."""
        one = self.axes[:1] == ("batch",) and self.array.shape[0] == 1
        return self.part((0,)) if one else self

    def part(self, place: tuple[int, ...]) -> Self:
        """What stands at a place of the first axes."""
        count = len(place)
        return replace(
            self, array=self.array[place], axes=self.axes[count:], labels=self.labels[count:],
            names=None if self.names is None else self.names[place],
        )  # fmt: skip
