"""A tokenizer's vocabulary for quoted words in questions: looked up one by one, never listed."""

from __future__ import annotations

from collections.abc import Iterator

from viete.errors import VieteError
from viete.notation.words import MOST, Words, quoted
from viete.text.vocabulary import Vocabulary


class TokenizerWords(Words):
    """The tokens of a tokenizer by their spelling: ``" Mary"`` is the token with its space.

    A text means the token that spells it. If no token does, it means the only token that the
    tokenizer makes of it, as ``"Dublin"`` where a tokenizer begins every text with a space, or
    lowercases all letters.
    """

    bare = False

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def __getitem__(self, word: str) -> int:
        found = self.find(word)
        if found is None:
            raise KeyError(word)
        return found

    def find(self, text: str) -> int | None:
        """The token of a text, or None."""
        spelled = self.vocabulary.number(text)
        if spelled is not None and self.vocabulary.spelling(spelled) == text:
            return spelled
        pieces = self.pieces(text)
        return pieces[0] if len(pieces) == 1 else spelled

    def pieces(self, text: str) -> list[int]:
        """The tokens of a text; empty if it cannot be encoded."""
        try:
            return [int(k) for k in self.vocabulary.encode(text)]
        except VieteError:
            return []

    def __iter__(self) -> Iterator[str]:
        return (name for k in range(len(self)) if (name := self.name(k)) is not None)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def name(self, k: int) -> str | None:
        """As `Words.name`."""
        return self.vocabulary.spelling(k) if 0 <= k < len(self) else None

    def unknown(self, text: str) -> str:
        """As `Words.unknown`: the tokens of the text, and whether a space makes it one token."""
        ids = self.pieces(text)
        pieces = " ".join(quoted(self.name(k) or str(k)) for k in ids[:MOST])
        what = f"{len(ids)} tokens and not one: {pieces}" if ids else "no token of the tokenizer"
        other = text[1:] if text[:1] == " " else f" {text}"
        near = f"; {quoted(other)} is one" if ids and self.find(other) is not None else ""
        return f"{quoted(text[:60])} is {what}{near}"


__all__ = ["TokenizerWords"]
