"""The step that all targets share: the model with its loss, and which equations are written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from viete.analysis.def_use import targets
from viete.errors import VieteError
from viete.evaluate.schedule import program
from viete.evaluate.shares import targets_of
from viete.graph.card import CardData, Equation, Input
from viete.graph.dependence import backward_slice, names_read
from viete.graph.distinct import distinct
from viete.notation.tree import Expr, Ref, Symbol, num
from viete.rewrite.adjoint import grad
from viete.rewrite.adjoint.double_where import double_where
from viete.rewrite.adjoint.grad import forward_pass, with_loss, with_own_loss


@dataclass(frozen=True)
class Prepared:
    """A card to export: ``forward`` computes ``output``; ``loss`` also needs equations ``more``.

    ``added``: the loss is not the card's. ``backward`` are the equations of all derivatives, of the
    model that has them too. ``count`` is the number of targets of a text, where the loss of a batch
    is a mean over all targets.
    """

    model: CardData
    output: Ref
    loss: Ref | None
    forward: tuple[Equation, ...]
    more: tuple[Equation, ...]
    backward: tuple[Equation, ...] = ()
    added: bool = False
    count: Ref | None = None

    @property
    def left_out(self) -> list[Equation]:
        """Forward equations that neither the output nor the loss needs."""
        there = {e.name for e in (*self.forward, *self.more, *self.backward)}
        return [e for e in self.model.equations if e.name not in there]

    def inputs(self, equations: tuple[Equation, ...]) -> list[Input]:
        """The inputs that equations need, directly or for a length; required ones first."""
        keys = names_read(equations)
        found = [i for i in self.model.inputs if i.name in keys]
        for length in self.model.lengths:
            ours = [i for i in self.model.inputs if not i.symbol.slots and any(
                isinstance(x, Ref) and x.key == length for x in i.shape)]  # fmt: skip
            if length in keys and ours and not any(i in found for i in ours):
                found.append(ours[0])
        return sorted(found, key=lambda i: i.default is not None)


def prepared(
    card: CardData, of: str | None, backward: bool, autograd: bool = False, mean: str = "texts"
) -> Prepared:
    """The model ready for export; with ``backward`` there is a loss and its derivatives.

    With ``autograd`` the target's library differentiates the equations. ``mean`` says whether the
    loss of a batch is a mean over 'targets' or 'texts'.

    Raises VieteError for a dimension without a value, for a card without a value to give back,
    and, with ``backward``, as `grad` does.
    """
    if not card.equations:
        raise VieteError(f"{card.title} has no equations to export")
    program(card)  # that every dimension has a value, and every block its values
    card = distinct(forward_pass(card))
    own = {e.name: e for e in card.equations}
    loss: Ref | None = None
    if of is not None or backward:
        card, loss = with_loss(card, of)
    elif (found := with_own_loss(card)) is not None:
        card, loss = found
    added = loss is not None and loss.key not in own
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
    out = Prepared(card, output, loss, tuple(first), tuple(second), back, added)
    number = targets_of(card, loss, always=True) if loss and mean == "targets" else None
    return out if number is None else with_count(out, number)


def lacking_targets(card: CardData) -> CardData:
    """The same card, whose targets may be -100, as PyTorch's users have them: no target."""
    wide = {i.name: replace(i, low=num(-100)) for i in card.inputs if i.low == num(0)}
    found = targets(replace(card, inputs=tuple(wide.get(i.name, i) for i in card.inputs)))
    return replace(card, inputs=tuple(
        wide.get(i.name, i) if i.name in found else i for i in card.inputs))  # fmt: skip


def with_count(p: Prepared, number: Expr) -> Prepared:
    """The same step, whose last equation counts the targets of a text."""
    left = Ref(Symbol("value", p.model.fresh("count", "number", "c", "m")))
    e = Equation(left, number, part=(p.more or p.forward)[-1].part)
    model = replace(p.model, equations=(*p.model.equations, e))
    return replace(p, model=model, more=(*p.more, e), count=left)
