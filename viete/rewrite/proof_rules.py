"""The rules of proofs: what each one is called, and what it says, in the notation.

`normal_form.py` and `bounds.py` prove by nothing else, and every proof lists the rules that it
used. Each statement is tested by itself, on weights that are zero, equal, huge or of one entry.
"""

from __future__ import annotations

from enum import StrEnum

from viete.analysis.kinds import COMPARISONS
from viete.analysis.shapes import shapes_of
from viete.analysis.types import Mismatch, Shape
from viete.graph.card import CardData, memoised
from viete.notation.printer import show_symbol
from viete.notation.tree import Apply, Expr, Pick, Ref

DEFINITION = "the definition of "  # with which a fact begins that is no rule


class ProofRule(StrEnum):
    """A rule of proofs, by what it says."""

    ALGEBRA = "sums and products are multiplied out"
    MATRICES = "products of matrices are multiplied out"
    INNER = "inner products are multiplied out"
    TRANSPOSES = "transposes are multiplied out"
    POWERS = "powers of products are multiplied out"
    MEANS = "a mean is a sum divided by its length"
    ENTRIES = "entries of sums and products are multiplied out"
    SUMS = "constants leave a sum"
    TELESCOPE = "a sum of differences telescopes"
    ANGLES = "cosines and sines of sums are multiplied out"
    CIRCLE = "sin² + cos² is 1"
    ROWS = "rows of a softmax sum to 1"
    AVERAGES = "an average lies among what it averages"
    SOFTMAX = "a softmax lies between 0 and 1"
    COSINE = "a cosine lies between −1 and 1"
    SQUARES = "squares are not negative"
    RANGES = "exp, tanh and their like have known ranges"
    SIZES = "sizes and places are not negative"
    INPUTS = "inputs lie in their ranges"
    INTERVALS = "bounds of sums, products and powers"


COMPARING = COMPARISONS | {"argmax"}

# What is not worth a word to a reader who sees the equations.
PLAIN = frozenset((
    ProofRule.ALGEBRA, ProofRule.MATRICES, ProofRule.INNER, ProofRule.TRANSPOSES,
    ProofRule.POWERS, ProofRule.MEANS, ProofRule.ENTRIES, ProofRule.SUMS, ProofRule.INTERVALS,
))  # fmt: skip


def averages(card: CardData, e: Expr) -> tuple[str, ...]:
    """The facts by which every row of a formula is a whole row of a softmax, so that it sums to 1.

    Such are a softmax, a value defined as one, and rows of such a matrix, but no part of a row; for
    all else there are no facts.
    """
    facts: tuple[str, ...] = (ProofRule.ROWS,)
    if isinstance(e, Pick) and len(e.items) == 1 and len(shape(card, e.value) or ()) == 2:
        e = e.value
    if isinstance(e, Ref):
        made = [x.right for x in (*card.equations, *card.derived) if x.name == e.key]
        facts = (ProofRule.ROWS, f"{DEFINITION}{show_symbol(e.symbol, 'unicode')}")
        e = made[0] if len(made) == 1 else e
    return facts if card.library_name(e) == "softmax" and wide(card, e) else ()


def wide(card: CardData, e: Expr) -> bool:
    """Whether the rows of a formula surely have an entry: the sum of none is 0."""
    found = shape(card, e)
    if not found:
        return False
    value = found[-1].value(card.sizes)
    return value >= 1 if value is not None else len(found[-1].terms) == 1


def shape(card: CardData, e: Expr) -> Shape | None:
    """The shape of a formula; None where its letters are bound outside of it."""
    types = shapes_of(card)
    if not e.free <= types.env.ranges.keys():
        return None
    try:
        return types.of(e, types.env).shape
    except Mismatch:
        return None


def compared(card: CardData, e: Expr) -> frozenset[int]:
    """Which children of a formula are compared, or may be, by it or by a function that it calls.

    A comparison of a missing number (0/0) is false, and so has a value. There ``a/a`` is not 1:
    ``where(a/a ≥ 0, 1, 0)`` is 0 where a is 0. What is compared is not rewritten.
    """
    if not isinstance(e, Apply):
        return frozenset()
    if e.op in COMPARING:
        return frozenset(range(len(e.args)))
    if e.op not in card.function:
        return frozenset()
    function = card.function[e.op]
    names = compared_names(card, function.body)
    return frozenset(k for k, a in enumerate(function.arguments) if a.symbol.key in names)


def compared_names(card: CardData, e: Expr) -> frozenset[str]:
    """The names within what a formula compares."""
    known = comparisons(card)
    if e not in known:
        parts, at = e.children, compared(card, e)
        known[e] = frozenset[str]().union(
            *(x.keys if k in at else compared_names(card, x) for k, x in enumerate(parts))
        )
    return known[e]


@memoised
def comparisons(card: CardData) -> dict[Expr, frozenset[str]]:
    """The cache of `compared_names`."""
    return {}


__all__ = ["DEFINITION", "PLAIN", "ProofRule", "averages", "compared", "shape"]
