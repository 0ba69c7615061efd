"""The notation's names as Python identifiers: ``W^Q`` is W_Q, ``∂γ_1`` dgamma_1, ``x̃`` x_tilde."""

from __future__ import annotations

import builtins
import keyword
import re

from viete.notation.lexer import PREFIXES, accent_of, unprimed
from viete.notation.tree import Symbol

TAKEN = frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | frozenset(dir(builtins))


def identifier(symbol: Symbol) -> str:
    """A name close to the notation, without index letters; it may not be unique yet."""
    labels = [s.text for s in symbol.sub + symbol.sup if not s.index]
    return plain("_".join([spelled(symbol.base), *labels]))


def spelled(base: str) -> str:
    """A base followed by its accents, with a d in front for a derivative."""
    base, primes = unprimed(base)
    if primes:
        return spelled(base) + "_prime" * len(primes)
    accent, under = accent_of(base)
    if not accent:
        return base
    if accent in PREFIXES:
        return ("d" if accent == "partial" else f"{accent}_") + spelled(under)
    return f"{spelled(under)}_{accent}"


def plain(text: str) -> str:
    """The text with only its letters, digits and underscores."""
    text = re.sub(r"\W+", "_", text).strip("_") or "value"
    return f"_{text}" if text[0].isdigit() else text


def plain_letter(letter: str) -> str:
    """An index letter as a Python name."""
    letter = letter.replace("'", "_prime")
    return f"{letter}_" if letter in TAKEN else letter


class Identifiers:
    """Unique identifiers; those in ``taken`` are never used."""

    def __init__(self, taken: frozenset[str] | set[str] = frozenset()) -> None:
        self.given: dict[str, str] = {}
        self.used = set(TAKEN | taken)

    def name(self, key: str, wish: str) -> str:
        """The identifier of ``key``, the same on every call."""
        if key not in self.given:
            while wish in self.used:
                wish += "_"
            self.used.add(wish)
            self.given[key] = wish
        return self.given[key]

    def symbol(self, symbol: Symbol) -> str:
        """The identifier of a declared name."""
        return self.name(symbol.key, identifier(symbol))
