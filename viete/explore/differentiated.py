"""What a page differentiates: the card's loss, or else the first entry of its output."""

from __future__ import annotations

from viete.analysis.shapes import shapes_of
from viete.analysis.token_vectors import question_scope
from viete.errors import Text, VieteError
from viete.explore.formulas import mathml
from viete.graph.card import CardData
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Pick, num
from viete.rewrite.adjoint.grad import forward_pass, with_loss


def default_of(card: CardData) -> str | None:
    """None for the loss; the first entry of the last value for a card without a loss."""
    try:
        with_loss(card, None)
    except VieteError:
        e = forward_pass(card).equations[-1]
        letters = {x: card.ranges[x][1] for x in e.left.symbol.slots}
        last, shape = card.substitute(e.left, letters=letters), shapes_of(card).types[e.name].shape
        return show(Pick(last, (num(0),) * len(shape)) if shape else last)
    return None


def of_math(card: CardData, of: str | None) -> str:
    """The differentiated value, as MathML."""
    if of is None:
        return mathml(with_loss(card, None)[1])
    return mathml(parse(Text(of), question_scope(card)))


__all__ = ["default_of", "of_math"]
