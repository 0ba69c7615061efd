"""Samples as text: prompts, stopping texts, and which part of an unfinished text can be shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from viete.analysis.next_token import vocabulary_size
from viete.errors import VieteError
from viete.evaluate.labelled import Array
from viete.graph.card import CardData
from viete.sampling.generation import sample
from viete.text.vocabulary import Vocabulary

HALF = "\ufffd"  # a decoder's result for a character with missing bytes


def sample_texts(
    card: CardData, weights: Mapping[str, Array], vocabulary: Vocabulary,
    prompt: str | Sequence[int], *,
    stop: Sequence[str] = (), stop_tokens: Sequence[str] = (), count: int = 1, **options: Any,
) -> Iterator[tuple[int, str]]:  # fmt: skip
    """Continue a text: yields (sample, piece of text) as the pieces are drawn, all samples at once.

    A sample ends with the first of the texts ``stop``, or of the tokens ``stop_tokens``; both are
    part of it. Other options are those of `sample`. An empty prompt begins after the vocabulary's
    end-of-text token, if it has one. A prompt with tokens that no text spells is given as ids.

    Raises VieteError for a prompt or an end that the vocabulary cannot spell, and as `sample` does.
    """
    if isinstance(prompt, str):
        fits(card, vocabulary)
        prompt = prompt_ids(prompt, vocabulary)
    last = {token_of(text, vocabulary) for text in stop_tokens}
    for text in stop:
        if not text:
            raise VieteError("a text to stop at cannot be empty")
        spelled(text, vocabulary, "the text to stop at")
    texts = GrowingTexts(vocabulary, count, tuple(stop), last)
    options["stop"] = texts.ended
    drawn = sample(card, weights, prompt, count=count, **options)
    return texts.pieces(drawn)


def fits(card: CardData, vocabulary: Vocabulary) -> None:
    """Check that a vocabulary has no more tokens than the card has scores."""
    size = vocabulary_size(card)
    if len(vocabulary) > size:
        raise VieteError(f"the vocabulary has {len(vocabulary)} tokens, but the card only {size}")


def prompt_ids(prompt: str, vocabulary: Vocabulary) -> list[int]:
    """The ids of a prompt."""
    if prompt:
        return [int(k) for k in spelled(prompt, vocabulary, "the prompt")]
    if vocabulary.end is None:
        raise VieteError(
            "the prompt is empty, and the vocabulary has no token that begins a text; give at "
            "least one character"
        )
    return [vocabulary.end]


def spelled(text: str, vocabulary: Vocabulary, what: str) -> Iterable[int]:
    try:
        return vocabulary.encode(text)
    except VieteError as error:
        raise VieteError(f"{what} cannot be spelled: {error.message}") from None


def token_of(text: str, vocabulary: Vocabulary) -> int:
    """The single token that spells a text."""
    ids = list(spelled(text, vocabulary, "the stop token")) if text else []
    if len(ids) != 1:
        raise VieteError(f"{text!r} is not a single token; give a longer text to stop at as --stop")
    return int(ids[0])


class GrowingTexts:
    """The texts of several samples as they grow.

    ``last`` are the tokens that end a sample. A text to stop at may end within a token; the rest of
    the token is left out.
    """

    def __init__(
        self, vocabulary: Vocabulary, count: int, stop: tuple[str, ...], last: set[int]
    ) -> None:
        self.vocabulary, self.stop, self.last = vocabulary, stop, last
        self.ids: list[list[int]] = [[] for _ in range(count)]
        self.shown = [0] * count  # characters of each text yielded so far

    def text(self, ids: Sequence[int]) -> tuple[str, bool]:
        """The text of ids, and whether it contains a text to stop at."""
        text = self.vocabulary.decode(ids)
        ends = [text.find(s) + len(s) for s in self.stop if s in text]
        return (text[: min(ends)], True) if ends else (text, False)

    def ended(self, ids: Sequence[int]) -> bool:
        return ids[-1] in self.last or (bool(self.stop) and self.text(ids)[1])

    def pieces(self, drawn: Iterable[tuple[int | None, ...]]) -> Iterator[tuple[int, str]]:
        for tokens in drawn:
            for k, token in enumerate(tokens):
                if token is not None:
                    self.ids[k].append(token)
                    if piece := self.grown(k, self.text(self.ids[k])[0], False):
                        yield k, piece
        for k, ids in enumerate(self.ids):
            if piece := self.grown(k, self.text(ids)[0], True):
                yield k, piece

    def grown(self, k: int, text: str, whole: bool) -> str:
        """The new part of a text; an incomplete character is withheld until it is complete."""
        if not whole:
            text = text.rstrip(HALF)
        new = text[self.shown[k] :]
        self.shown[k] = max(self.shown[k], len(text))
        return new


def separate_words(
    tokens: Iterable[tuple[int | None, ...]], words: Sequence[str]
) -> Iterator[tuple[int, str]]:  # fmt: skip
    """Tokens of a model without a tokenizer as text: the card's ``words``, else their ids."""
    for found in tokens:
        for k, token in enumerate(found):
            if token is not None:
                yield k, f"{words[token] if words else token} "


def transcript(pieces: Iterable[tuple[int, str]], count: int, before: str) -> Iterator[str]:
    """The output for several growing texts: the first as it grows, the others afterwards.

    ``before`` precedes each; of several, each follows a line with its number.
    """
    rest = [""] * count
    yield before if count == 1 else f"--- 1\n{before}"
    for k, piece in pieces:
        if k == 0:
            yield piece
        rest[k] += piece
    for k in range(1, count):
        yield f"\n--- {k + 1}\n{before}{rest[k]}"
    yield "\n"


__all__ = ["sample_texts", "separate_words", "transcript"]
