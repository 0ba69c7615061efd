"""The literals of a card's `value` column: cut into their entries, and read as exact numbers.

A literal is a matrix `[1 0; 0 1; 1 1]` (semicolons separate rows), `I`, or one number that fills
the shape. Numbers are whole, decimal or fractions such as `-1/2`. A cell holds one literal for all
blocks and heads, or one for each, separated by commas: `I, 0`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import accumulate, pairwise

from viete.errors import Text

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?(?:/\d+)?", re.I)


def literals_of(cell: Text) -> list[Text]:
    """The literals in a cell: its parts between commas outside brackets."""
    depths = accumulate((c == "[") - (c == "]") for c in cell.text)
    cuts = [k for k, (c, depth) in enumerate(zip(cell.text, depths, strict=True))
            if c == "," and not depth]  # fmt: skip
    return between(cell, [-1, *cuts, len(cell.text)])


def is_matrix(literal: Text) -> bool:
    """Whether a literal has brackets: a matrix or a vector."""
    return literal.text.startswith("[")


def entries_of(literal: Text) -> list[list[Text]]:
    """The entries of a literal in brackets, row by row."""
    text = literal.text
    if not text.endswith("]"):
        raise literal.error("this [ is never closed; a matrix is written [1 0; 0 1]", 0, 1)
    cuts = [k for k, c in enumerate(text) if c == ";"]
    return [
        [row.cut(*m.span()) for m in re.finditer(r"[^\s,]+", row.text)]
        for row in between(literal, [0, *cuts, len(text) - 1])
    ]


def between(text: Text, cuts: list[int]) -> list[Text]:
    """The parts of a text between neighbouring cuts."""
    return [text.cut(a + 1, b) for a, b in pairwise(cuts)]


def number(text: Text) -> Fraction:
    """The exact value of ``2``, ``-0.5``, ``1e-3`` or ``1/2``."""
    plain = re.sub(r"\s*/\s*", "/", text.text.replace("−", "-"))
    if not _NUMBER.fullmatch(plain):
        raise text.error(
            "a literal is a number such as 2, -0.5 or 1/2, a matrix such as [1 0; 0 1], or I"
        )
    above, _, below = plain.partition("/")
    if below and not int(below):
        raise text.error("this fraction divides by zero")
    return Fraction(above) / Fraction(below or 1)


__all__ = ["entries_of", "is_matrix", "literals_of", "number"]
