"""The derivative of a card: the request checked, and the backward equations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from viete.analysis.kinds import REAL, WHOLE
from viete.analysis.shapes import shapes_of
from viete.analysis.token_vectors import question_scope
from viete.analysis.types import text
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Equation, Input, memoised
from viete.graph.dependence import backward_slice
from viete.graph.distinct import distinct
from viete.notation.cursor import parse_name
from viete.notation.parser import parse
from viete.notation.printer import show, show_equation
from viete.notation.tree import Apply, Expr, Ref, Symbol, num
from viete.rewrite.adjoint.activity import reached
from viete.rewrite.adjoint.backward import Backward
from viete.rewrite.adjoint.double_where import doubled
from viete.rewrite.adjoint.tidy import tidied
from viete.rewrite.opening import underived

OF = "of=… (--of on the command line)"


def grad(
    card: CardData, of: str | Expr | None = None, by: Sequence[str] | None = None
) -> CardData:  # fmt: skip
    """The model with its backward equations: ``∂X`` for every X on the way to the loss.

    ``of`` is the loss, a value of the card or a formula that is one number. By default it is the
    last value that is one number and has a derivative, else the cross-entropy of the logits and
    targets (the tokens one further, which are then an input). ``by`` are the names of parameters or
    real inputs of the derivatives, by default all parameters. In a run with a batch, every
    sequence has separate derivatives. Existing backward equations are derived anew.

    Raises VieteError for a card without a loss and without logits, a loss that is not a single real
    number, and where no derivative can pass (an argmax, a token id).
    """
    if not isinstance(of, str | Expr | None) or isinstance(by, str):
        raise VieteError("of must be a formula as text, and by a list of names: by=['W_Q^h']")
    return derived(card, of, None if by is None else tuple(by))


@memoised
def derived(card: CardData, of: str | Expr | None, by: Sequence[str] | None) -> CardData:
    """Compute `grad`, given arguments of the right kind."""
    card, loss = with_loss(card, of)
    card = distinct(card)
    leaves = {p.name for p in card.parameters}
    real = {i.name for i in card.inputs if i.high is None}
    if by is not None:
        letters = set(card.scope.indices)
        by = [
            name if name in leaves | real else
            parse_name(Text(name, "<by>"), "parameter", letters).key for name in by
        ]  # fmt: skip
    for name in by or ():
        if name in leaves | real:
            continue
        kind = next((i for i in card.inputs if i.name == name), None)
        raise VieteError(
            f"{name} holds whole numbers, which have no derivative" if kind else
            f"derivatives are taken with respect to parameters or real inputs, and {name} is "
            f"neither in {card.title}; it has {', '.join(sorted(leaves | real))}"
        )  # fmt: skip
    wanted = frozenset(by) if by is not None else frozenset(leaves)
    double = doubled(card)
    found = Backward(double, loss, wanted)
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
    """The card's loss: the last value that is one real number and has a derivative.

    An accuracy after the loss, ``mean(argmax(logits) = y)``, has none.
    """
    card = forward_pass(card)
    leaves = {p.name for p in card.parameters} | {i.name for i in card.inputs if i.high is None}
    active = reached(card, leaves)
    return next((e for e in reversed(numbers(card)) if e.name in active), None)


def numbers(card: CardData) -> list[Equation]:
    """The equations whose value is one number and not a condition."""
    types = shapes_of(card).types
    return [e for e in card.equations if not types[e.name].shape and not types[e.name].family
            and not e.left.symbol.slots and types[e.name].kind in (REAL, WHOLE)]  # fmt: skip


@memoised
def forward_pass(card: CardData) -> CardData:
    """The model without the backward equations that `grad` added.

    Backward equations that others read, as in a loss made of a derivative, stay.
    """
    derivatives = {e.name for e in card.equations if e.name.startswith("partial{")}
    if not derivatives:
        return card
    own = [e.name for e in card.equations
           if e.name not in derivatives and not re.match(r"Backward(:|$)", e.part)]  # fmt: skip
    needed = {e.name for e in backward_slice(card, own)}
    return replace(card, equations=tuple(e for e in card.equations if e.name in needed))


@memoised
def with_loss(card: CardData, of: str | Expr | None) -> tuple[CardData, Ref]:
    """The forward pass and its loss; a formula gets an equation.

    By default the loss is that of `with_own_loss`.
    """
    card = forward_pass(card)
    shapes = shapes_of(card)
    if of is None:
        if (default := with_own_loss(card)) is not None:
            return default
        # Of a number that cannot be differentiated is said why; of a real one before a whole one.
        rest = sorted(numbers(card), key=lambda e: shapes.types[e.name].kind == REAL)
        if not rest:
            raise VieteError(
                f"{card.title} has no loss: no value is one number, and no value is called "
                f"logits; add an equation such as L = cross_entropy(logits; y), or name the "
                f"loss with {OF}"
            )
        return card, rest[-1].left
    source = Text(show(of) if isinstance(of, Expr) else of, "<loss>")
    e = of if isinstance(of, Expr) else parse(source, question_scope(card))
    found = shapes.located(source, e, frozenset())
    if found.shape or found.family or found.kind != REAL:
        raise source.error(
            "only one real number can be differentiated, and this is "
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
    loss = Equation(left, underived(card, e), None, part, "what is differentiated", text=source)
    return replace(card, equations=(*card.equations, loss)), left


@memoised
def with_own_loss(card: CardData, called: str = "L") -> tuple[CardData, Ref] | None:
    """The model and its loss, or else the cross-entropy of its logits and targets, an input.

    That is ``called`` by this name, if it is free.

    None where it has neither. Raises VieteError for logits that are not a row for each position.
    """
    if (own := loss_of(card)) is not None:
        return card, own.left
    logits = next((e.left for e in card.equations if e.name == "logits"), None)
    if logits is None:
        return None
    shape = shapes_of(card).types["logits"].shape
    if len(shape) != 2 or logits.symbol.slots:
        raise VieteError(
            f"{card.title} has no loss, and its logits are not one row for each position; say "
            f"what the loss is with {OF}"
        )
    rows, columns = map(card.size_expr, shape)
    name = card.fresh("y", "target", "targets", "wanted")
    loss = card.fresh(called, "loss", "objective")
    y = Symbol("input", name)
    item = Input(y, (rows,), num(0), Apply("sub", (columns, num(1))), None,
                 "targets: the next tokens")  # fmt: skip
    left = Ref(Symbol("value", loss))
    right = card.library("cross_entropy", logits, Ref(y))
    part = "" if not card.equations[-1].part else "Loss"
    text = Text(show_equation(left, right), "<loss>")
    equation = Equation(left, right, part=part, text=text)
    model = replace(card, inputs=(*card.inputs, item), equations=(*card.equations, equation))
    return model, left


def blocked(found: Backward, card: CardData, loss: Ref) -> str:
    """The reason why no derivative reaches the wanted names: the equation that stops it."""
    for e in reversed(backward_slice(card, [loss.key])):
        if e.reads & (found.active | found.wanted):
            where = f" (line {e.text.line} of {e.text.file})" if e.text.file else ""
            return (
                f"no derivative of {loss.key} reaches the parameters: "
                f"{show(e.left)} = {show(e.right)}{where} is not differentiable"
            )
    return f"{loss.key} does not depend on any of the names that were asked for"
