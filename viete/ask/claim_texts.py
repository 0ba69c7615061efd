"""The texts that a claim is about: ``repeated(16)``, ``random(32)``, or the texts of a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from viete.ask.example_list import Example
from viete.errors import VieteError
from viete.graph.card import CardData

TEXTS = 12  # that are drawn
Texts = Sequence[Example]  # with ids
ReadTexts = Callable[[str], Texts]  # those of a file
_DRAWN = re.compile(r"(repeated|random)\((\d{1,7})\)")


def is_drawn(source: str) -> bool:
    """Whether the texts of a name are drawn instead of read from a file."""
    return _DRAWN.fullmatch(source) is not None


def texts_of(
    source: str, card: CardData, seed: int, read: ReadTexts | None = None, count: int = 0
) -> Texts:  # fmt: skip
    """The texts of a name, as ids (n) of the card's first input.

    ``random(32)`` are texts of 32 tokens, ``repeated(16)`` texts of 16 tokens that are repeated
    once; these 16 differ where the vocabulary is large enough. ``count`` of them, or `TEXTS`, are
    drawn with ``seed``. Any other name is a file, which ``read`` reads, and of which the first
    ``count`` are taken. Raises VieteError for a card whose first input is not text, and for a file
    with fewer texts.
    """
    found = _DRAWN.fullmatch(source)
    if found is None:
        if read is None:
            raise VieteError(
                f"texts of {source}: write texts of repeated(16) or random(32), or name a file of "
                f"texts if the model has a tokenizer"
            )
        texts = read(source)
        if len(texts) < count:
            raise VieteError(f"{source} has {len(texts)} texts, but the claim is about {count}")
        return texts[: count or None]
    low, high = vocabulary_of(card)
    kind, length = found[1], int(found[2])
    if not length:
        raise VieteError(f"texts of {source} have no token")
    draw = np.random.default_rng([seed, length])
    out: list[Example] = []
    for _ in range(count or TEXTS):
        different = kind == "repeated" and length <= high - low + 1
        if different:
            ids = low + draw.choice(high - low + 1, length, replace=False)
        else:
            ids = draw.integers(low, high, length, endpoint=True)
        out.append(Example(np.concatenate([ids, ids]) if kind == "repeated" else ids))
    return out


def vocabulary_of(card: CardData) -> tuple[int, int]:
    """The smallest and the largest token of a card's first input."""
    item = card.inputs[0] if card.inputs else None
    sizes = [] if item is None or len(item.shape) != 1 else [item.low, item.high]
    found = [card.size(e) for e in sizes if e is not None]
    if len(found) < 2 or any(x is None or not x.names() <= card.sizes.keys() for x in found):
        raise VieteError(f"a claim about texts needs a text as first input; {card.title} has none")
    low, high = (int(x.evaluate(card.sizes)) for x in found if x is not None)
    return low, high


__all__ = ["TEXTS", "Texts", "is_drawn", "texts_of"]
