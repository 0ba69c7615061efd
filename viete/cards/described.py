"""Finds the shipped card that a document without equations describes, by its names and numbers."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import cache

from viete.cards.catalogue import shipped
from viete.errors import VieteError

NAME = re.compile(r"[^\W\d_]\w*|\d+(?:\.\d+)?")
TELLING = re.compile(r"\d{2}|_|[a-z][A-Z]|[A-Z]{2}")  # W_Q, head_size, SimpleTransformer, 772
ENOUGH = 3.0, 6  # of the score of `nearest`, and of shared names: prose has less of one of them
BEGINNING = 1000  # characters of a document, in which its title stands
PRINTED = re.compile(r"\A\s*(.+)\n═+\s*$", re.M)  # a title as the text format sets it


class NoEquations(VieteError):
    """A document in which no equation stands."""


def no_equations(content: str, file: str) -> NoEquations:
    """The error for a document without equations: how a card has them, and which card is meant."""
    missing = f"{file}: no equations; a card lists them under a heading 'Forward pass'"
    if printed := PRINTED.match(content):
        card = next((k for k, p in shipped().items() if title(p.read_text("utf-8")) == printed[1]),
                    "CARD")  # fmt: skip
        return NoEquations(f"{missing}. This is a card as the terminal shows it, which cannot be "
                           f"read back: write it by viete show {card} -f md")  # fmt: skip
    if card := nearest(content):
        return NoEquations(
            f"{missing}. It reads like a description of the shipped card {card}: viete show "
            f"{card}. The guide Write a card (docs/guides/write-a-card.md) says how to write one"
        )
    return NoEquations(missing)


def nearest(content: str) -> str:
    """The shipped card that a document describes; empty if none is near.

    A card that quotes the document's title in its source is near. So is one that shares names and
    numbers that few other cards have: the score is the projection of the document on the card,
    each name with its weight log(cards / cards that have the name).
    """
    cards = names_of_cards()
    own, words = names(content), " ".join(content[:BEGINNING].lower().split())
    quoting = {card for card in cards if any(x in words for x in titles()[card])}
    count = Counter(name for other in cards.values() for name in other)
    weight = {name: math.log(len(cards) / k) ** 2 for name, k in count.items()}

    def score(card: str) -> float:
        of = cards[card]
        shared, whole = (sum(weight[name] for name in some) for some in (of & own, of))
        return shared / math.sqrt(whole) if whole else 0.0

    best = max(quoting or cards, key=score)
    enough = score(best) >= ENOUGH[0] and len(own & cards[best]) >= ENOUGH[1]
    return best if quoting or enough else ""


def names(content: str) -> frozenset[str]:
    """The telling names and numbers of a text, without the signs of Markdown and LaTeX."""
    found = NAME.findall(re.sub(r"[{}$\\`*]", "", content))
    return frozenset(name for name in found if TELLING.search(name))


@cache
def names_of_cards() -> dict[str, frozenset[str]]:
    return {card: names(path.read_text("utf-8")) for card, path in shipped().items()}


@cache
def titles() -> dict[str, list[str]]:
    """What the source of each shipped card quotes in italics, of two words or more.

    The sources of Viète's own cards are pages about them, which may be about much else.
    """
    out = {}
    for card, path in shipped().items():
        source = re.search(r"^Source: (?!Viète's own).*$", path.read_text("utf-8"), re.M)
        quoted = re.findall(r"\*([^*]+)\*", source[0]) if source else []
        out[card] = [x.lower() for x in quoted if len(re.split(r"[ _]", x)) > 1]
    return out


def title(content: str) -> str:
    return content.partition("\n")[0].removeprefix("# ").strip()


__all__ = ["NoEquations", "nearest", "no_equations"]
