"""Options of an expansion: how far it goes, what it holds fixed, and what it lists."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from viete.analysis.linearity import HELD
from viete.ask.terms import DEPTH
from viete.errors import Text, VieteError
from viete.notation.cursor import top_level
from viete.notation.lexer import tokenize


def words(said: str | Collection[str]) -> tuple[str, ...]:
    """Split ``"block, head"`` into its words."""
    return tuple(re.findall(r"\w+", said)) if isinstance(said, str) else tuple(said)


def formulas(said: str | Collection[str]) -> tuple[str, ...]:
    """Split ``"A, scale, m^{1}_{2}"`` into its formulas, at the commas outside brackets."""
    if not isinstance(said, str):
        return tuple(said)
    tokens = tokenize(Text(said))
    ends = [tokens[k].start for k in top_level(tokens, ",")]
    parts = (said[a:b].lstrip(",").strip() for a, b in pairwise([0, *ends, len(said)]))
    return tuple(filter(None, parts))


@dataclass(frozen=True)
class Options:
    """How far an expansion goes, what it holds and what it lists; see `Questions.expand`.

    ``held`` are kinds of factors, ``given`` the values that are held besides.
    """

    into: tuple[str, ...] = ("block",)
    top: int | None = None
    least: float = 0.0
    depth: int = DEPTH
    held: frozenset[str] = HELD
    given: tuple[str, ...] = ()
    cumulative: bool = False
    explain: float | None = None
    directions: tuple[str, ...] = ()


def options(
    into: str | Collection[str], top: int | None, least: float, depth: int,
    held: str | Collection[str], cumulative: bool = False, explain: float | None = None,
    directions: str | Collection[str] = (),
) -> Options:  # fmt: skip
    """Check options. Raises VieteError for a number that is out of range."""
    wanted = formulas(held)
    if top is not None and top < 1:
        raise VieteError(f"top, the number of terms to list, must be at least 1, not {top}")
    if explain is not None and not 0 < explain <= 1:
        raise VieteError(
            "explain, the share of the number to account for, must be between 0 and 1, not "
            f"{explain}"
        )
    given = tuple(x for x in wanted if x not in HELD)
    return Options(words(into), top, least, depth, HELD.intersection(wanted), given, cumulative,
                   explain, formulas(directions))  # fmt: skip


__all__ = ["Options", "options", "words"]
