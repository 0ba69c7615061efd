"""The loss of a batch: the mean over the targets of all its texts.

A card's loss is that of one text. The losses of a batch are weighted by the texts' numbers of
targets, so that every target counts alike; a text without a target counts for nothing. Training
takes the weights as an input, a number for each text: ``loss = portion * L``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viete.analysis.def_use import losses, may_lack_targets, targets
from viete.errors import Text
from viete.evaluate.execution import execute
from viete.evaluate.schedule import program
from viete.graph.card import CardData, Equation, Input, memoised
from viete.graph.dependence import backward_slice
from viete.notation.tree import Apply, Expr, Ref, Symbol, num, refs
from viete.rewrite.adjoint.grad import with_loss

MEANS = ("targets", "texts")  # over which the loss of a batch is a mean


def targets_of(card: CardData, loss: Ref, always: bool = False) -> Expr | None:
    """The number of targets of one text, a formula of inputs; None if all texts count alike.

    That is so if every position has a target by its range, unless they are ``always`` looked at, if
    losses with different targets are added, and for a loss that weights its texts itself, by an
    input that is one number.
    """
    equations = backward_slice(card, [loss.key])
    read = frozenset[str]().union(*(e.reads for e in equations))
    inputs = {i.name: i for i in card.inputs}
    if any(not inputs[name].shape for name in read & inputs.keys()):
        return None
    found = {count(card, c, always) for e in equations for c in losses(card, e.right)}
    return next(iter(found)) if len(found) == 1 else None


def count(card: CardData, call: Apply, always: bool) -> Expr | None:
    """The number of targets of a cross-entropy; None if it is that of the positions."""
    _, t, *weights = call.args
    if any(x.symbol.kind not in ("input", "dim") for e in call.args[1:] for x in refs(e)):
        return None
    if not always and not weights and not t.keys & may_lack_targets(card):
        return None
    there = card.library("has_target", t)
    return Apply("sum", (Apply("had", (weights[0], there)) if weights else there,))


@dataclass(frozen=True)
class Shares:
    """A card whose ``loss`` is the original one times the input ``name``, a number for each text.

    ``counting`` is a card that counts the targets of a text, its value ``count``.
    """

    card: CardData
    loss: Ref
    name: str
    counting: CardData
    count: str

    def counts(self, given: Mapping[str, Any]) -> np.ndarray:
        """The number of targets of each text of a batch, or of the only text."""
        own = {i.name for i in self.counting.inputs}
        inputs = {name: x for name, x in given.items() if name in own}
        run = execute(program(self.counting), inputs, {}, [self.count], again=False)
        return np.asarray(run[self.count], float)

    def total(self, given: Mapping[str, Any]) -> float:
        """The number of targets of all texts of a batch."""
        rows, counts = next(len(x) for x in given.values()), self.counts(given)
        return float(counts.sum() if counts.ndim else counts * rows)

    def of(self, given: Mapping[str, Any], mean: float | None = None) -> dict[str, Any]:
        """The inputs with each text's share; ``mean`` is the mean number of targets of a text.

        A text without a target is given some, which its share of 0 takes out again.
        """
        counts = self.counts(given)
        if not counts.ndim:  # of one text, or the same for all
            return dict(given)
        with np.errstate(all="ignore"):
            share = counts / (counts.mean() if mean is None else mean)
        out = {**given, self.name: share}
        if (empty := counts == 0).any():
            marked = targets(self.counting)
            for name in given.keys() & {i.name for i in self.counting.inputs}:
                array = np.array(given[name])
                array[empty] = 0 if name in marked else 1
                out[name] = array
        return out


@memoised
def shares(card: CardData, of: str | None = None) -> Shares | None:
    """The card to train for the mean over targets; None if that is the mean over texts."""
    whole, loss = with_loss(card, of)
    number = targets_of(whole, loss)
    if number is None:
        return None
    portion = Symbol("input", whole.fresh("portion", "ratio", "factor", "omega"))
    left = Ref(Symbol("value", whole.fresh("objective", "J", "total", "loss")))
    item = Input(portion, (), None, None, num(1), "its targets, beside the mean of a text",
                 Text(portion.key))  # fmt: skip
    total = Equation(left, Apply("times", (Ref(portion), loss)), None, whole.equations[-1].part,
                     "every target counts alike")  # fmt: skip
    name = whole.fresh("count", "number", "c", "m")
    counting = replace(
        whole, inputs=tuple(i for i in whole.inputs if i.name in number.keys), parameters=(),
        equations=(Equation(Ref(Symbol("value", name)), number),), derived=(), operators=(),
        claims=(),
    )  # fmt: skip
    card = replace(whole, inputs=(*whole.inputs, item), equations=(*whole.equations, total))
    return Shares(card, left, portion.key, counting, name)


__all__ = ["MEANS", "Shares", "shares", "targets_of"]
