"""Parses questions that wrap formulas: ``top_5(…)``, ``svd_3(…)``, ``pca_2(…)``, ``cosines(…)``.

They are not formulas, since their answers are names and pictures as well as numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from viete.errors import Text
from viete.evaluate.run import Run
from viete.notation.cursor import top_level
from viete.notation.lexer import tokenize


@dataclass(frozen=True)
class Headed:
    """A question's word, the number below it, if any, and the formulas in its parentheses."""

    word: str
    count: int | None
    formulas: tuple[str, ...]


def headed(run: Run, question: object, words: Collection[str]) -> Headed | None:
    """A question that begins with one of some words; None for any other question.

    Raises VieteError where text follows its parentheses, and for a number below the word that is
    not a positive integer.
    """
    if not isinstance(question, str) or not any(w in question for w in words):
        return None
    source = Text(question, "<name>")
    tokens = tokenize(source)
    word = tokens[0].text
    if word not in words or word in run.scope.symbols:
        return None
    at, number = 1, None
    if tokens[1].text == "_":
        braced = tokens[2].text == "{"
        number, at = tokens[2 + braced], 3 + 2 * braced
        if number.kind != "num":
            return None
    if at >= len(tokens) or tokens[at].text != "(":
        return None
    if number is None and word in run.scope.functions:
        return None  # the library's top(z; k)
    end = next(top_level(tokens, ")", start=at + 1), None)
    if end is None:
        raise source.error("this ( is never closed; expected )", tokens[at].start, tokens[at].end)
    if tokens[end + 1].kind != "end":
        behind = tokens[end + 1]
        name = question[: tokens[at].start].strip()
        raise source.error(
            f"{name} is a whole question, so nothing can follow it",
            behind.start, behind.end,
        )  # fmt: skip
    if number is not None and (not number.text.isdigit() or int(number.text) == 0):
        raise source.error(
            "the number of entries must be at least 1, as in top_5", number.start, number.end
        )
    cuts = [at, *top_level(tokens[:end], ",", start=at + 1), end]
    parts = (question[tokens[a].end : tokens[b].start].strip()
             for a, b in pairwise(cuts))  # fmt: skip
    return Headed(word, None if number is None else int(number.text), tuple(parts))


__all__ = ["Headed", "headed"]
