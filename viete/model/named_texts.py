"""Text to tokens and back, by the names and conventions of TransformerLens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from viete.analysis.next_token import context_of
from viete.errors import VieteError
from viete.evaluate.labelled import Array
from viete.model.tokens import Given, are_texts, ids_of, whole_numbers
from viete.model.weights import NamedWeights
from viete.text.tokenizer import Tokenizer


class NamedTexts(NamedWeights):
    """What TransformerLens does with text. Texts begin as `viete.model.tokens.Texts` says."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer; None if it has none."""
        return self.model.own_tokenizer()

    def to_tokens(
        self, input: Given, prepend_bos: bool | None = None, padding_side: str | None = None,
        move_to_device: bool = True, truncate: bool = True,
    ) -> Array:  # fmt: skip
        """Text as ids, (1, n); several texts as (batch, n), padded on the "right" or the "left".

        ``prepend_bos`` None puts the first token in front where the tokenizer has one. With
        ``truncate`` a text that is longer than the context is cut. A causal model does not see
        padding on the right; any other needs an ``attention_mask``.
        """
        if padding_side not in (None, "left", "right"):
            raise VieteError(f"padding_side is 'left' or 'right', not {padding_side!r:.40}")
        inputs = self.card.inputs[:1] if truncate else ()
        most = next((context_of(self.card, i) for i in inputs), None)
        ids = ids_of(self.model.tokenizer, input, prepend_bos, most, padding_side == "left")
        return self.model.in_its_arrays(ids)

    def to_string(self, tokens: Array) -> str | list[str]:
        """The text of ids (n) or of a single id; a list of texts for (batch, n)."""
        ids, tokenizer = whole_numbers(tokens), self.model.tokenizer
        if ids.ndim == 2:
            return [tokenizer.decode(row) for row in ids]
        return tokenizer.decode(np.atleast_1d(ids))

    def to_str_tokens(
        self, input: Given | Array, prepend_bos: bool | None = None, padding_side: Any = None
    ) -> list[str] | list[list[str]]:
        """The text of each token of a text or of ids (n) or (1, n); a list for each of several."""
        if isinstance(input, str):
            return self.each(self.model.tokenizer.framed(input, prepend_bos))
        if are_texts(input):
            return [self.each(self.model.tokenizer.framed(text, prepend_bos)) for text in input]
        ids = whole_numbers(input)
        if ids.ndim == 2 and len(ids) > 1:
            return [self.each(row) for row in ids]
        return self.each(ids.reshape(-1))

    def each(self, ids: Iterable[int]) -> list[str]:
        """The text of every single token."""
        return [self.model.tokenizer.decode([k]) for k in ids]

    def to_single_token(self, string: str) -> int:
        """The id of a text that is one token. Raises VieteError for any other."""
        tokenizer = self.model.tokenizer
        ids = tokenizer.framed(string, bos=False)
        if len(ids) != 1:
            pieces = " ".join(repr(tokenizer.decode([k])) for k in ids[:8])
            raise VieteError(f"{string!r:.60} is {len(ids)} tokens, not one ({pieces})")
        return ids[0]

    def to_single_str_token(self, int_token: int) -> str:
        """The text of one id."""
        ids = whole_numbers(int_token)
        if ids.size != 1:
            raise VieteError(f"give one token, not {ids.size}")
        return self.model.tokenizer.decode(ids.reshape(-1))

    def get_token_position(
        self, single_token: str | int, input: str | Array, mode: str = "first",
        prepend_bos: bool | None = None, padding_side: Any = None,
    ) -> int:  # fmt: skip
        """The position of a token in a text or in ids: the ``first``, or the ``last``."""
        text = isinstance(single_token, str)
        wanted = self.to_single_token(str(single_token)) if text else int(single_token)
        if isinstance(input, str):
            row = np.array(self.model.tokenizer.framed(input, prepend_bos))
        else:
            row = whole_numbers(input).reshape(-1)
        if mode not in ("first", "last"):
            raise VieteError(f"mode must be 'first' or 'last', not {mode!r:.40}")
        places = np.flatnonzero(row == wanted)
        if not len(places):
            raise VieteError(f"the text has no token {single_token!r:.60}")
        return int(places[0 if mode == "first" else -1])

    def text_lengths(self, given: Any, prepend_bos: bool | None = None) -> list[int]:
        """The numbers of tokens of several texts; none of ids."""
        framed = self.model.tokenizer.framed if are_texts(given) else None
        return [] if framed is None else [len(framed(t, prepend_bos)) for t in given]


__all__ = ["NamedTexts"]
