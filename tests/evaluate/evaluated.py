"""The derived backward equations evaluated one by one: what a plan of them is held to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from viete.evaluate.gradient import Backprop, Gradients
from viete.evaluate.inputs import Feeding
from viete.evaluate.labelled import Array
from viete.evaluate.schedule import Member
from viete.evaluate.spelling import by_own_names
from viete.graph.card import CardData


class EvaluatedGradients(Gradients):
    """The loss and the gradients of one model; ``piece`` positions go through at a time."""

    def __init__(self, card: CardData, of: str | None = None, piece: int = 2048) -> None:
        super().__init__(card, of)
        self.piece = piece

    def __call__(
        self, tokens: Any, weights: Mapping[str, Array], /, **inputs: Any
    ) -> tuple[Array, dict[str, Array]]:
        """The mean loss over the batch, and its gradients by the weights it depends on."""
        weights = by_own_names(self.model, weights, self.program.parameters)
        if tokens is not None:
            inputs = {self.model.inputs[0].name: tokens, **inputs}
        fed = Feeding(self.program, inputs, weights)
        count = next((v.size("batch") for v in fed.store.values() if "batch" in v.axes), 1)
        sums: dict[Member, Array] = {}
        wanted = {(self.loss.key, ()), *self.members.values()}
        ready = self.program.at(fed.sizes)
        for store in [store for _, store in fed.pieces(self.piece)] or [fed.store]:
            run = Backprop(ready, dict(store), fed.like, fed.sizes, True)
            run.compute_members(wanted)
            for member in wanted:
                found = run.ordered(run.batch_sum(member), ())
                sums[member] = sums[member] + found if member in sums else found
        loss = sums[self.loss.key, ()] / count
        return loss, {name: sums[member] / count for name, member in self.members.items()}
