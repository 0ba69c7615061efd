"""Texts to run a model on, one after the other: of a file, one a line, or given as a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.text.data import checked, kind_of, records
from viete.text.files import lines

Encode = Callable[[str], Any]  # a text as ids, (n)
Given = str | Path | Sequence[Any]


@dataclass(frozen=True)
class TextReader:
    """Texts as ids (n), of a model with a tokenizer, or of a card with a vocabulary."""

    encode: Encode | None = None

    def ids(self, given: Given) -> list[np.ndarray]:
        """The ids of a file of texts, or of a list of texts and of ids.

        Raises VieteError for text where nothing makes ids of it.
        """
        if isinstance(given, str | Path):
            return self.file(str(given))
        out = [self.text(x) if isinstance(x, str) else np.asarray(x) for x in given]
        if not out:
            raise VieteError("there are no texts; give at least one")
        return out

    def file(self, path: str) -> list[np.ndarray]:
        """The ids of a file of texts. Blank lines are passed over."""
        texts = read_texts(Path(path))
        if not texts:
            raise VieteError(f"{path}: there is no text in it")
        return [self.text(text) for text in texts]

    def text(self, text: str) -> np.ndarray:
        """The ids of one text."""
        if self.encode is None:
            raise VieteError(
                "a text needs a model with a tokenizer; of a card give token ids (--tokens)"
            )
        return np.asarray(self.encode(text)).reshape(-1)


@dataclass(frozen=True)
class WordIds:
    """Words, with spaces between them, as their numbers in a card's vocabulary."""

    title: str
    words: Mapping[str, int]

    def __call__(self, text: str) -> list[int]:
        if strange := [word for word in text.split() if word not in self.words]:
            raise VieteError(f"{strange[0]!r:.60} is no word of the vocabulary of {self.title}")
        return [self.words[word] for word in text.split()]


def read_texts(path: Path) -> list[str]:
    """The texts of a file: one a line, or in JSON lines the field ``text`` of each."""
    if not path.is_file():
        raise VieteError(f"{path}: there is no such file of texts")
    if kind_of(path) == "jsonl":
        return [checked(record, here, "text") for here, record in records(path)]
    return [line for _, line in lines(path) if line.strip()]


__all__ = ["Encode", "Given", "TextReader", "WordIds", "read_texts"]
