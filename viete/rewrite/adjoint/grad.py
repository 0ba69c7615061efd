"""The derivative of a model: what is asked of it, checked, and the backward equations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viete.analysis.kinds import REAL, WHOLE
from viete.analysis.shapes import shapes_of
from viete.analysis.types import text
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Equation, memoised
from viete.graph.dependence import backward_slice
from viete.graph.distinct import distinct
from viete.notation.cursor import parse_name
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Ref, Symbol
from viete.rewrite.adjoint.activity import reached
from viete.rewrite.adjoint.backward import Backward
from viete.rewrite.adjoint.double_where import doubled
from viete.rewrite.adjoint.tidy import tidied


def grad(card: CardData, of: str | None = None, by: Sequence[str] | None = None) -> CardData:
    """The model with its backward equations: ``∂X`` for every X on the way to the loss.

    ``of`` is the loss, a value of the card or a formula that is one number (by default the last
    value that is and that has a derivative); ``by`` are the names of parameters or real inputs to
    differentiate by (by default all parameters). Run with a batch, every sequence has derivatives
    of its own.

    Raises VieteError for a card without a loss, a loss that is no single real number, and where
    no derivative can pass (an argmax, a token id).
    """
    if not isinstance(of, str | None) or isinstance(by, str):
        raise VieteError("of is a formula as text, and by a list of names: by=['W_Q^h']")
    return derived(card, of, None if by is None else tuple(by))


@memoised
def derived(card: CardData, of: str | None, by: Sequence[str] | None) -> CardData:
    """`grad`, of arguments of the right kind."""
    card, loss = with_loss(card, of)
    card = distinct(card)
    leaves = {p.name for p in card.parameters}
    real = {i.name for i in card.inputs if i.high is None}
    if by is not None:
        letters = set(card.scope.indices)
        by = [parse_name(Text(name, "<by>"), "parameter", letters).key for name in by]
    for name in by or ():
        if name in leaves | real:
            continue
        kind = next((i for i in card.inputs if i.name == name), None)
        raise VieteError(
            f"{name} holds whole numbers, and there is no derivative by those" if kind else
            f"a derivative is taken by a parameter or a real input, and {name} is none of "
            f"{card.title}"
        )  # fmt: skip
    wanted = frozenset(by) if by is not None else frozenset(leaves)
    double = doubled(card)
    found = Backward(double.model, loss, wanted, double.single)
    if loss.key not in found.active:
        raise VieteError(blocked(found, card, loss))
    back = tidied(double.on_paper(found.derive()), found.helpers)
    return replace(card, equations=(*card.equations, *in_order(card, double.on_paper(back))))


def in_order(card: CardData, equations: Sequence[Equation]) -> list[Equation]:
    """The backward equations with their loops numbered after the model's."""
    loops = dict.fromkeys(e.loop for e in equations if e.loop is not None)
    first = len(card.loops)
    order = {loop: replace(loop, order=first + k) for k, loop in enumerate(loops)}
    return [replace(e, loop=e.loop and order[e.loop]) for e in equations]


@memoised
def loss_of(card: CardData) -> Equation | None:
    """The card's loss: the last value that is one real number with a derivative.

    An accuracy behind the loss, ``mean(argmax(logits) = y)``, has none.
    """
    leaves = {p.name for p in card.parameters} | {i.name for i in card.inputs if i.high is None}
    active = reached(card, leaves)
    return next((e for e in reversed(numbers(card)) if e.name in active), None)


def numbers(card: CardData) -> list[Equation]:
    """The equations whose value is one number, no condition."""
    types = shapes_of(card).types
    return [e for e in card.equations if not types[e.name].shape and not types[e.name].family
            and not e.left.symbol.slots and types[e.name].kind in (REAL, WHOLE)]  # fmt: skip


@memoised
def with_loss(card: CardData, of: str | None) -> tuple[CardData, Ref]:
    """The model and its loss; a formula gets an equation of its own."""
    shapes = shapes_of(card)
    if of is None:
        # Of a number that cannot be differentiated is said why; of a real one before a whole one.
        rest = sorted(numbers(card), key=lambda e: shapes.types[e.name].kind == REAL)
        loss = loss_of(card) or (rest[-1] if rest else None)
        if loss is None:
            raise VieteError(
                f"{card.title} has no loss: no value of it is one number; add an equation such as "
                f"L = cross_entropy(logits; y), or say which with --of"
            )
        return card, loss.left
    source = Text(of, "<loss>")
    e = parse(source, card.scope)
    found = shapes.located(source, e, frozenset())
    if found.shape or found.family or found.kind != REAL:
        raise source.error(
            "a loss is one real number, and this is "
            + (
                text(found.shape)
                if found.shape
                else f"one for each {' and '.join(sorted(found.family))}"
                if found.family
                else "a whole number, which has no derivative"
                if found.kind == WHOLE
                else "a condition"
            )
        )
    if isinstance(e, Ref) and not e.index and any(x.name == e.key for x in card.equations):
        return card, e
    base = card.fresh("L", "loss", "objective")
    left = Ref(Symbol("value", base))
    part = "Loss" if card.equations[-1].part else ""
    loss = Equation(left, e, None, part, "what is differentiated", text=source)
    return replace(card, equations=(*card.equations, loss)), left


def blocked(found: Backward, card: CardData, loss: Ref) -> str:
    """Why no derivative reaches what is wanted: the equation that stops it."""
    for e in reversed(backward_slice(card, [loss.key])):
        if e.reads & (found.active | found.wanted):
            where = f" (line {e.text.line} of {e.text.file})" if e.text.file else ""
            return (
                f"no derivative of {loss.key} reaches the parameters: "
                f"{show(e.left)} = {show(e.right)}{where} is not differentiable"
            )
    return f"{loss.key} does not depend on what the derivative is asked by"
