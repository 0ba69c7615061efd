"""Texts to run a model on, one after the other: from a file with one a line, or from a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from viete.ask.example_list import Example, example_of, read_examples
from viete.errors import VieteError

Encode = Callable[[str], Any]  # a text as ids, (n)
Given = str | Path | Sequence[Any]


@dataclass(frozen=True)
class TextReader:
    """Reads texts as ids (n), for a model with a tokenizer or a card with a vocabulary."""

    encode: Encode | None = None

    def ids(self, given: Given) -> list[Example]:
        """The ids of a file of texts, or of a list of texts, of ids, and of objects with a text.

        Raises VieteError for text without a tokenizer.
        """
        if isinstance(given, str | Path):
            return self.file(str(given))
        if not len(given):
            raise VieteError("give at least one text")
        return [self.example(example_of(x)) for x in given]

    def file(self, path: str) -> list[Example]:
        """The ids of a file of texts, with each line's other values. Blank lines are skipped."""
        if not Path(path).is_file():
            raise VieteError(f"{path}: the file of texts does not exist")
        return [self.line(x) for x in read_examples(Path(path))]

    def line(self, given: Example) -> Example:
        """The example of a line. Raises VieteError, with the line, if it cannot be encoded."""
        try:
            return self.example(given)
        except VieteError as error:
            raise given.place.error(error.message) from None

    def example(self, given: Example) -> Example:
        """An example with its text as ids."""
        text = given.text
        return replace(given, text=self.text(text) if isinstance(text, str) else np.asarray(text))

    def text(self, text: str) -> np.ndarray:
        """The ids of one text."""
        if self.encode is None:
            raise VieteError(
                "a text needs a model with a tokenizer; of a card give token ids (--tokens)"
            )
        return np.asarray(self.encode(text)).reshape(-1)


@dataclass(frozen=True)
class WordIds:
    """Encodes words, separated by spaces, as their numbers in a card's vocabulary."""

    title: str
    words: Mapping[str, int]

    def __call__(self, text: str) -> list[int]:
        if strange := [word for word in text.split() if word not in self.words]:
            raise VieteError(f"{strange[0]!r:.60} is not a word of the vocabulary of {self.title}")
        return [self.words[word] for word in text.split()]


__all__ = ["Encode", "Given", "TextReader", "WordIds"]
