"""Words of a vocabulary: the token id of a quoted text, and the text of a token id."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_ESCAPE = re.compile(r'\\(?:([ntr"\\])|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8}))')
SHORT = {c: letter for letter, c in ESCAPES.items()}
MOST = 12  # words that an error lists


def quoted(text: str) -> str:
    """A text as the notation writes it: in quotes, with unprintable characters escaped."""
    return f'"{"".join(map(escaped, text))}"'


def escaped(c: str) -> str:
    """A character within quotes."""
    if c in SHORT:
        return f"\\{SHORT[c]}"
    return c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 1 << 16 else f"\\U{ord(c):08x}"


def unquoted(text: str) -> str:
    """The contents of quotes; a backslash that escapes nothing is kept."""
    return _ESCAPE.sub(
        lambda m: ESCAPES[m[1]] if m[1] else chr(min(int(m[2] or m[3], 16), sys.maxunicode)),
        text[1:-1],
    )


class Words(Mapping[str, int]):
    """The words that a card lists, by their ids.

    A vocabulary that is not a list, as a tokenizer's, is a class of its own. ``bare``: a word may
    stand in brackets without quotes, ``E[a]``.
    """

    bare = True
    __hash__ = object.__hash__

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.words = tuple(words)
        self.number = {word: k for k, word in enumerate(self.words)}

    def __eq__(self, other: object) -> bool:
        return self is other

    def __getitem__(self, word: str) -> int:
        return self.number[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self.number)

    def __len__(self) -> int:
        return len(self.number)

    def name(self, k: int) -> str | None:
        """The word of an id; None if it has none."""
        return self.words[k] if 0 <= k < len(self.words) else None

    def unknown(self, text: str) -> str:
        """The sentence for a text that is not a word: what it is, and similar words."""
        what = f"{quoted(text[:60])} is not a word of the vocabulary"
        if not self.words:
            why = "for the card has none, and there is no tokenizer"
            row = f", such as the row E[{text}]" * text.isdigit()
            return f"{what}, {why}; write the number of the token{row}"
        near = difflib.get_close_matches(text, self.number, 3)
        near = near or [word for word in self.number if word.strip() == text.strip()]
        hint = f"did you mean {' or '.join(map(quoted, near))}?" if near else (
            f"it has {' '.join(list(self)[:MOST])}{' …' if len(self) > MOST else ''}")  # fmt: skip
        return f"{what}; {hint}"


class WordLabels(Sequence[str]):
    """Labels of the entries of an axis over a vocabulary, each looked up when it is needed."""

    def __init__(self, words: Words, size: int) -> None:
        self.words, self.size = words, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, k):  # type: ignore[no-untyped-def]
        """The word in quotes, or the number if it has no word."""
        if isinstance(k, slice):
            return [self[i] for i in range(self.size)[k]]
        k = range(self.size)[k]
        word = self.words.name(k)
        return str(k) if word is None else quoted(word)

    def __repr__(self) -> str:
        shown = ", ".join(self[i] for i in range(min(self.size, 4)))
        return f"<{self.size} labels: {shown}{', …' if self.size > 4 else ''}>"


__all__ = ["WordLabels", "Words", "quoted", "unquoted"]
