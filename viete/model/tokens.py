"""The text of a model: its tokenizer, and ids of texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np

from viete.errors import VieteError
from viete.evaluate.inputs import host
from viete.text.tokenizer import Tokenizer

Array = Any
Given = str | Sequence[str]


class Texts:
    """A model with a tokenizer.

    Text begins with the token that begins a text (``prepend_bos``), where the tokenizer has one:
    models attend to it where they find nothing else, and without it the first word takes that role.
    `transformers` does so only for models that were trained in no other way; say
    ``prepend_bos=False`` for the text without it.
    """

    def read_tokenizer(self) -> Tokenizer | None:
        """The tokenizer, if the model has one; the class that inherits this defines it."""
        raise NotImplementedError

    def in_its_arrays(self, ids: np.ndarray) -> Array:
        """Ids as arrays of the model's library; the class that inherits this defines it."""
        raise NotImplementedError

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer. Raises VieteError for a model without one."""
        found = self.read_tokenizer()
        if found is None:
            raise VieteError(
                f"{self!r} has no tokenizer: there is no tokenizer.json beside its weights; give "
                f"token ids"
            )
        return found

    def text_ids(self, text: str, prepend_bos: bool | None = None) -> Array:
        """All ids (n) of one text."""
        return self.in_its_arrays(ids_of(self.tokenizer, text, prepend_bos)[0])

    def ids(self, given: Any, prepend_bos: bool | None = None) -> Any:
        """The ids (n) of a text, (batch, n) of a list of texts; any other argument as it is."""
        if isinstance(given, str):
            return self.text_ids(given, prepend_bos)
        if not are_texts(given):
            return given
        return self.in_its_arrays(ids_of(self.tokenizer, given, prepend_bos))


def ids_of(
    tokenizer: Tokenizer, text: Given, bos: bool | None = None, most: int | None = None,
    left: bool = False,
) -> np.ndarray:  # fmt: skip
    """Texts as ids (batch, n), at ``most`` so many of each; padded at the end, or on the left.

    Raises VieteError for texts without tokens, and where nothing pads texts of different lengths.
    """
    rows = [tokenizer.framed(t, bos)[:most] for t in texts(text)]
    longest = max(map(len, rows), default=0)
    if not longest:
        raise VieteError("a text without tokens cannot be run; give at least one character")
    if any(len(row) < longest for row in rows):
        pads = [[filler(tokenizer)] * (longest - len(row)) for row in rows]
        rows = [pad + row if left else row + pad for row, pad in zip(rows, pads, strict=True)]
    return np.array(rows, np.int64)


def filler(tokenizer: Tokenizer) -> int:
    """The token that pads the shorter texts of a batch."""
    for found in (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.bos_token_id):
        if found is not None:
            return found
    raise VieteError("texts of different lengths need a padding token; run them one by one")


def are_texts(given: Any) -> TypeGuard[Sequence[str]]:
    """Whether these are several texts, and not ids."""
    return isinstance(given, list | tuple) and bool(given) and isinstance(given[0], str)


def texts(given: Given) -> list[str]:
    """A list of texts from one text or several."""
    found = [given] if isinstance(given, str) else list(given)
    if not found or not all(isinstance(t, str) for t in found):
        raise VieteError(f"text must be a string or a list of strings, not {given!r:.60}")
    return found


def whole_numbers(given: Any) -> np.ndarray:
    """Ids of any library, as a NumPy array."""
    ids = np.asarray(host(given) if hasattr(given, "dtype") else given)
    if not ids.size:
        ids = ids.astype(np.int64)
    if ids.dtype.kind not in "iu" or ids.ndim > 2:
        raise VieteError(f"ids must be whole numbers, (n) or (batch, n), not {given!r:.60}")
    return ids


__all__ = ["Texts", "are_texts", "ids_of", "whole_numbers"]
