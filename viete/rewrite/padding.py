"""A model for texts of different lengths in one batch: no other position sees the padding.

Wherever a position reads others, an input ``a`` that is 0 at padding hides that: a softmax over the
positions takes ``unpadded(…; a)``, a sum passes padding over, and a mean counts the rest. The rows
of a table of positions, ``W_P[:n]``, and of ``sinusoidal(n, d)`` are those that the text would have
on its own, unless padding is to count as before.
"""

from __future__ import annotations

from dataclasses import replace

from viete.analysis.flows import flows_of
from viete.analysis.next_token import padding_mask, text_of
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Input
from viete.notation.substitution import fresh
from viete.notation.tree import Ref, Symbol, num
from viete.rewrite.hiding import Hiding

NAMES = "a seen padding".split()


def padded(card: CardData, counts: bool = False) -> CardData:
    """The model with an input ``a ∈ {0, 1}^n = 1`` that says which positions are not padding.

    With ``counts`` padding counts as a position, as in a bare forward pass of `transformers`. Rows
    of values at padding are meaningless. Raises VieteError for a model in which no position reads
    another, for an encoder with a padding mask, and, at the equation, for a model that picks a
    position, ``x_{-1}`` or ``x_{j-1}``, where padding may stand.
    """
    tokens = text_of(card)
    (n,) = tokens.shape
    assert isinstance(n, Ref)
    taken = card.plain_names | card.scope.indices | card.bound_letters
    mask = Symbol("input", fresh(taken, NAMES))
    if padding_mask(card, tokens) is not None:
        raise VieteError(f"{card.title} already has a padding mask")
    if by_length := flows_of(card).by_length:
        raise VieteError(
            f"{card.title} takes no padding: {by_length[0]} picks a position counted from the end "
            f"of the text, where padding may stand"
        )
    item = Input(mask, tokens.shape, num(0), num(1), num(1), "0 at positions that are padding",
                 Text(mask.key))  # fmt: skip
    card = replace(card, inputs=(*card.inputs, item))
    hiding = Hiding(card, n, Ref(mask), counts)
    equations = tuple(hiding.equation(e) for e in card.equations)
    if equations == card.equations:
        raise VieteError(f"{card.title} has nothing to mask: no position reads another")
    return replace(card, equations=equations, derived=tuple(map(hiding.equation, card.derived)))
