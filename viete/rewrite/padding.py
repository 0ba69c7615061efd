"""A model for texts of different lengths in one batch: no other position sees the padding.

Every softmax over the positions of the text takes ``unpadded(…; a)``, with an input ``a`` that is 0
at padding. The rows of a table of positions, ``W_P[:n]``, and of ``sinusoidal(n, d)`` are those
that the text would have on its own, unless padding is to count as before.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from viete.analysis.flows import flows_of
from viete.analysis.next_token import text_of
from viete.analysis.shapes import Shapes, shapes_of
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Equation, Input, with_right
from viete.notation.substitution import fresh
from viete.notation.tree import Apply, Expr, Num, Pick, Ref, Slice, Symbol, num, transform

NAMES = "a seen padding".split()


def padded(card: CardData, counts: bool = False) -> CardData:
    """The model with an input ``a ∈ {0, 1}^n = 1`` that says which positions are not padding.

    With ``counts`` padding counts as a position, as in a bare forward pass of `transformers`. Rows
    of values at padding are meaningless. Raises VieteError for a model without a softmax over the
    text's positions, such as an encoder with a padding mask, and for a model that picks a position
    by the text's length, ``x_{-1}``, where padding may stand.
    """
    tokens = text_of(card)
    (n,) = tokens.shape
    assert isinstance(n, Ref)
    taken = card.plain_names | card.scope.indices | card.bound_letters
    mask = Symbol("input", fresh(taken, NAMES))
    shapes = shapes_of(card)
    if any(i.default is not None and i.shape == tokens.shape and i.high == num(1)
           for i in card.inputs):  # fmt: skip
        raise VieteError(f"{card.title} already has a padding mask")
    if by_length := flows_of(card).by_length:
        raise VieteError(
            f"{card.title} takes no padding: {by_length[0]} picks a position counted from the end "
            f"of the text, where padding may stand"
        )
    equations = [with_padding_masked(card, shapes, n, mask, e) for e in card.equations]
    derived = card.derived
    if not counts:
        equations = [with_padding_uncounted(card, n, mask, e) for e in equations]
        derived = tuple(with_padding_uncounted(card, n, mask, e) for e in derived)
    if equations == list(card.equations):
        raise VieteError(f"{card.title} has no softmax over the positions of a text to mask")
    item = Input(mask, tokens.shape, num(0), num(1), num(1), "0 at positions that are padding",
                 Text(mask.key))  # fmt: skip
    return replace(card, inputs=(*card.inputs, item), equations=tuple(equations),
                   derived=derived)  # fmt: skip


def with_padding_masked(
    card: CardData, shapes: Shapes, n: Ref, mask: Symbol, e: Equation
) -> Equation:
    """The equation with padding hidden from every softmax over positions in it."""

    def rule(x: Expr) -> Expr | None:
        if not isinstance(x, Apply) or not card.applies(x, "softmax"):
            return None
        shape = shapes.located(e.text, x.args[0], x.args[0].free, loops=True).shape
        if len(shape) < 2 or shape[1] != card.size(n):
            return None
        return replace(x, args=(card.library("unpadded", x.args[0], Ref(mask)), *x.args[1:]))

    return with_right(e, transform(e.right, rule))


def with_padding_uncounted(card: CardData, n: Ref, mask: Symbol, e: Equation) -> Equation:
    """The equation with rows ``k:n + k`` picked by the number of non-padding positions."""
    counted = card.library("counted", Ref(mask))

    def place(k: Fraction) -> Expr:
        """Rows from k on; padding takes the first one, whatever stands there."""
        if k > 0:
            return counted if k == 1 else Apply("add", (counted, num(k - 1)))
        return Apply("max", (Apply("sub", (counted, num(1))), num(0)))

    def rule(x: Expr) -> Expr | None:
        match x:
            case Pick(items=(Slice(start=None, stop=stop),)) if stop == n:
                return replace(x, items=(place(Fraction(0)),))
            case Pick(items=(Slice(start=Num() as k, stop=stop),)):
                if stop == Apply("add", (n, k)):
                    return replace(x, items=(place(k.value),))
            case Apply(args=(length, _)) if length == n and card.applies(x, "sinusoidal"):
                return Pick(x, (place(Fraction(0)),))
        return None

    return with_right(e, transform(e.right, rule))
