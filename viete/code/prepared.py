"""What all targets share: the model with its loss, and which equations come out of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from viete.errors import Text, VieteError
from viete.evaluate.schedule import program
from viete.graph.dependence import backward_slice, names_read
from viete.graph.distinct import distinct
from viete.graph.model import Equation, Input, Model, memoised
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

    model: Model
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


def prepared(model: Model, of: str | None, backward: bool, autograd: bool = False) -> Prepared:
    """The model ready for export; with ``backward`` there is a loss and its derivatives.

    With ``autograd`` the target's library differentiates the equations.

    Raises VieteError for a dimension without a value, for a card without a value to give back,
    and, with ``backward``, for one that has neither a loss nor logits to take one of.
    """
    if not model.equations:
        raise VieteError(f"{model.title} has no equations to export")
    program(model)  # that every dimension has a value, and every block its values
    model = distinct(model)
    own = {e.name: e for e in model.equations}
    added = of is not None and of not in own
    found = loss_of(model)
    loss: Ref | None = None
    if of is not None:
        model, loss = with_loss(model, of)
    elif found is not None:
        loss = found.left
    elif "logits" in own:
        model, loss, added = *with_targets(model), True
    elif backward:
        raise VieteError(
            f"{model.title} has neither a loss nor a value called logits to take one of, so there "
            f"is nothing to differentiate; say what with --of"
        )
    rest = [e for e in model.equations if loss is None or e.name != loss.key]
    output = own["logits"].left if "logits" in own else (rest or list(model.equations))[-1].left
    if "logits" not in own and output.symbol.slots and rest[-1].loop is not None:
        at = tuple(rest[-1].loop.upper if s == rest[-1].loop.index else x for s, x in
                   zip(output.symbol.slots, output.index, strict=True))  # fmt: skip
        output = replace(output, index=at)
    back: tuple[Equation, ...] = ()
    model = double_where(model) if autograd else model
    if backward:
        assert loss is not None
        count = len(model.equations)
        model = grad(model, of=loss.key)
        back = model.equations[count:]
    ahead = replace(model, equations=model.equations[: len(model.equations) - len(back)])
    first = backward_slice(ahead, [output.key])
    both = backward_slice(ahead, [output.key] + ([loss.key] if loss else []))
    second = [e for e in both if e not in first]
    return Prepared(model, output, loss, tuple(first), tuple(second), back, added)


@memoised
def with_targets(model: Model) -> tuple[Model, Ref]:
    """The model with targets as an input and their cross-entropy as its loss."""
    logits = next(e for e in model.equations if e.name == "logits").left
    shape = model.shapes.types["logits"].shape
    if len(shape) != 2 or logits.symbol.slots:
        raise VieteError(
            f"{model.title} has no loss, and its logits are not one row for each position; say "
            f"what the loss is with --of"
        )
    rows, columns = map(model.size_expr, shape)
    name = model.fresh("y", "target", "targets", "wanted")
    loss = model.fresh("L", "loss", "objective")
    y = Symbol("input", name)
    item = Input(y, (rows,), num(0), Apply("sub", (columns, num(1))), None,
                 "targets, the tokens one further")  # fmt: skip
    left = Ref(Symbol("value", loss))
    right = model.library("cross_entropy", logits, Ref(y))
    part = "" if not model.equations[-1].part else "Loss"
    text = Text(show_equation(left, right), "<loss>")
    equation = Equation(left, right, part=part, text=text)
    return replace(
        model, inputs=(*model.inputs, item), equations=(*model.equations, equation)
    ), left  # fmt: skip
