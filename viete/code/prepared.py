"""What all targets share: the model with its loss, and which equations come out of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from viete.analysis.shapes import shapes_of
from viete.errors import Text, VieteError
from viete.evaluate.schedule import program
from viete.graph.card import CardData, Equation, Input, memoised
from viete.graph.dependence import backward_slice, names_read
from viete.graph.distinct import distinct
from viete.notation.printer import show_equation
from viete.notation.tree import Apply, Ref, Symbol, num
from viete.rewrite.adjoint import grad
from viete.rewrite.adjoint.double_where import double_where
from viete.rewrite.adjoint.grad import loss_of, with_loss


@dataclass(frozen=True)
class Prepared:
    """A model to export: ``forward`` gives ``output``; ``loss`` needs the equations ``more``.

    ``added``: the loss is not the card's. ``backward`` are the equations of all derivatives, of
    the model that has them too.
    """

    model: CardData
    output: Ref
    loss: Ref | None
    forward: tuple[Equation, ...]
    more: tuple[Equation, ...]
    backward: tuple[Equation, ...] = ()
    added: bool = False

    @property
    def left_out(self) -> list[Equation]:
        """Forward equations that neither the output nor the loss needs."""
        there = {e.name for e in (*self.forward, *self.more, *self.backward)}
        return [e for e in self.model.equations if e.name not in there]

    def inputs(self, equations: tuple[Equation, ...]) -> list[Input]:
        """The inputs that equations need, or whose length they do; without a default first."""
        keys = names_read(equations)
        found = [i for i in self.model.inputs if i.name in keys]
        return sorted(found, key=lambda i: i.default is not None)


def prepared(card: CardData, of: str | None, backward: bool, autograd: bool = False) -> Prepared:
    """The model ready for export; with ``backward`` there is a loss and its derivatives.

    With ``autograd`` the target's library differentiates the equations.

    Raises VieteError for a dimension without a value, for a card without a value to give back,
    and, with ``backward``, for one that has neither a loss nor logits to take one of.
    """
    if not card.equations:
        raise VieteError(f"{card.title} has no equations to export")
    program(card)  # that every dimension has a value, and every block its values
    card = distinct(card)
    own = {e.name: e for e in card.equations}
    added = of is not None and of not in own
    found = loss_of(card)
    loss: Ref | None = None
    if of is not None:
        card, loss = with_loss(card, of)
    elif found is not None:
        loss = found.left
    elif "logits" in own:
        card, loss, added = *with_targets(card), True
    elif backward:
        raise VieteError(
            f"{card.title} has neither a loss nor a value called logits to take one of, so there "
            f"is nothing to differentiate; say what with --of"
        )
    rest = [e for e in card.equations if loss is None or e.name != loss.key]
    output = own["logits"].left if "logits" in own else (rest or list(card.equations))[-1].left
    if "logits" not in own and output.symbol.slots and rest[-1].loop is not None:
        at = tuple(rest[-1].loop.upper if s == rest[-1].loop.index else x for s, x in
                   zip(output.symbol.slots, output.index, strict=True))  # fmt: skip
        output = replace(output, index=at)
    back: tuple[Equation, ...] = ()
    card = double_where(card) if autograd else card
    if backward:
        assert loss is not None
        count = len(card.equations)
        card = grad(card, of=loss.key)
        back = card.equations[count:]
    ahead = replace(card, equations=card.equations[: len(card.equations) - len(back)])
    first = backward_slice(ahead, [output.key])
    both = backward_slice(ahead, [output.key] + ([loss.key] if loss else []))
    second = [e for e in both if e not in first]
    return Prepared(card, output, loss, tuple(first), tuple(second), back, added)


@memoised
def with_targets(card: CardData) -> tuple[CardData, Ref]:
    """The model with targets as an input and their cross-entropy as its loss."""
    logits = next(e for e in card.equations if e.name == "logits").left
    shape = shapes_of(card).types["logits"].shape
    if len(shape) != 2 or logits.symbol.slots:
        raise VieteError(
            f"{card.title} has no loss, and its logits are not one row for each position; say "
            f"what the loss is with --of"
        )
    rows, columns = map(card.size_expr, shape)
    name = card.fresh("y", "target", "targets", "wanted")
    loss = card.fresh("L", "loss", "objective")
    y = Symbol("input", name)
    item = Input(y, (rows,), num(0), Apply("sub", (columns, num(1))), None,
                 "targets, the tokens one further")  # fmt: skip
    left = Ref(Symbol("value", loss))
    right = card.library("cross_entropy", logits, Ref(y))
    part = "" if not card.equations[-1].part else "Loss"
    text = Text(show_equation(left, right), "<loss>")
    equation = Equation(left, right, part=part, text=text)
    return replace(
        card, inputs=(*card.inputs, item), equations=(*card.equations, equation)
    ), left  # fmt: skip
