"""Converts text to tokens and back, by the names and conventions of TransformerLens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np

from viete.analysis.next_token import context_of
from viete.errors import VieteError
from viete.evaluate.inputs import host
from viete.graph.card import CardData
from viete.text.tokenizer import Tokenizer

Array = Any
Given = str | Sequence[str]


class Texts:
    """What a model with a tokenizer can do with text.

    Text begins with the token that begins a text (``prepend_bos``), where the tokenizer has one:
    models attend to it where they find nothing else, and without it the first word takes that role.
    `transformers` does so only for models that were trained in no other way; say
    ``prepend_bos=False`` for the text without it.
    """

    card: CardData  # for the class that is made of this: the model as equations

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

    def to_tokens(
        self, text: Given, prepend_bos: bool | None = None, truncate: bool = True
    ) -> Array:
        """Text as ids, (1, n), as in TransformerLens; several texts as (batch, n), padded.

        ``prepend_bos`` None puts the first token in front where the tokenizer has one. With
        ``truncate`` a text that is longer than the context is cut. A causal model does not see the
        padding; one that reads both ways does, unless its mask hides it.
        """
        rows = [self.tokenizer.framed(t, prepend_bos) for t in texts(text)]
        if truncate and self.card.inputs:
            most = context_of(self.card, self.card.inputs[0])
            rows = [row[:most] for row in rows]
        longest = max(map(len, rows), default=0)
        if not longest:
            raise VieteError("a text without tokens cannot be run; give at least one character")
        if any(len(row) < longest for row in rows):
            filler = self.filler()
            rows = [row + [filler] * (longest - len(row)) for row in rows]
        return self.in_its_arrays(np.array(rows, np.int64))

    def filler(self) -> int:
        """The token that pads the shorter texts of a batch."""
        known = self.tokenizer
        for found in (known.pad_token_id, known.eos_token_id, known.bos_token_id):
            if found is not None:
                return found
        raise VieteError("texts of different lengths need a padding token; run them one by one")

    def to_string(self, tokens: Array) -> str | list[str]:
        """The text of ids (n) or of a single id; a list of texts for (batch, n)."""
        ids = whole_numbers(tokens)
        if ids.ndim == 2:
            return [self.tokenizer.decode(row) for row in ids]
        return self.tokenizer.decode(np.atleast_1d(ids))

    def to_str_tokens(
        self, given: Given | Array, prepend_bos: bool | None = None
    ) -> list[str] | list[list[str]]:
        """The text of each token of a text or of ids (n) or (1, n); a list for each of several."""
        if isinstance(given, str):
            return self.each(self.tokenizer.framed(given, prepend_bos))
        if are_texts(given):
            return [self.each(self.tokenizer.framed(text, prepend_bos)) for text in given]
        ids = whole_numbers(given)
        if ids.ndim == 2 and len(ids) > 1:
            return [self.each(row) for row in ids]
        return self.each(ids.reshape(-1))

    def each(self, ids: Iterable[int]) -> list[str]:
        """The text of every single token."""
        return [self.tokenizer.decode([k]) for k in ids]

    def to_single_token(self, text: str) -> int:
        """The id of a text that is one token. Raises VieteError for any other."""
        ids = self.tokenizer.framed(text, bos=False)
        if len(ids) != 1:
            pieces = " ".join(repr(self.tokenizer.decode([k])) for k in ids[:8])
            raise VieteError(f"{text!r:.60} is {len(ids)} tokens, not one ({pieces})")
        return ids[0]

    def to_single_str_token(self, token: int) -> str:
        """The text of one id."""
        ids = whole_numbers(token)
        if ids.size != 1:
            raise VieteError(f"give one token, not {ids.size}")
        return self.tokenizer.decode(ids.reshape(-1))

    def get_token_position(
        self, token: str | int, given: str | Array, mode: str = "first",
        prepend_bos: bool | None = None,
    ) -> int:  # fmt: skip
        """The position of a token in a text or in ids: the ``first``, or the ``last``."""
        wanted = self.to_single_token(token) if isinstance(token, str) else int(token)
        if isinstance(given, str):
            row = np.array(self.tokenizer.framed(given, prepend_bos))
        else:
            row = whole_numbers(given).reshape(-1)
        if mode not in ("first", "last"):
            raise VieteError(f"mode must be 'first' or 'last', not {mode!r:.40}")
        places = np.flatnonzero(row == wanted)
        if not len(places):
            raise VieteError(f"the text has no token {token!r:.60}")
        return int(places[0 if mode == "first" else -1])

    def text_ids(self, text: str, prepend_bos: bool | None = None) -> Array:
        """All ids (n) of one text."""
        return self.to_tokens(text, prepend_bos, truncate=False)[0]

    def text_lengths(self, given: Any, prepend_bos: bool | None = None) -> list[int]:
        """The numbers of tokens of several texts; none of ids."""
        several = are_texts(given)
        return [len(self.tokenizer.framed(t, prepend_bos)) for t in given] if several else []

    def ids(self, given: Any, prepend_bos: bool | None = None) -> Any:
        """The ids (n) of a text, (batch, n) of a list of texts; any other argument as it is."""
        if isinstance(given, str):
            return self.text_ids(given, prepend_bos)
        return self.to_tokens(given, prepend_bos, truncate=False) if are_texts(given) else given


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


__all__ = ["Texts", "are_texts"]
