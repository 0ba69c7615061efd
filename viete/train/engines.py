"""Engines: what computes a loss and its gradients for the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from viete.evaluate.execution import execute
from viete.evaluate.plan.engine import Engine
from viete.evaluate.plan.workers import Over, at_once
from viete.evaluate.schedule import program
from viete.graph.card import CardData
from viete.train.optimiser import norm

Array = Any  # NumPy's or PyTorch's


class LossEngine:
    """What the loop asks of whoever computes; the last five are for one process with all weights.

    ``model`` is the card as it is trained, with masks where it says dropout. All weights lie in one
    array, ``flat``, and all gradients in another, so that the optimiser and the clipping see two
    arrays however many names the card has; ``weights`` and ``gradients`` are views into them, by
    the names of `parameter_shapes`.
    """

    model: CardData
    flat: Array
    flat_gradient: Array
    weights: dict[str, Array]
    gradients: dict[str, Array]

    def __call__(self, tokens: Array, /, **inputs: Array) -> float:
        """The mean loss over the sequences; ``flat_gradient`` is then the mean of its gradients."""
        raise NotImplementedError

    def evaluate(self, tokens: Array, /, **inputs: Array) -> float:
        """The loss alone."""
        raise NotImplementedError

    def norm(self, gradient: Array) -> float:
        """The length of the gradient of all weights."""
        return norm(gradient, self.spread)

    def spread(self, f: Over, count: int) -> None:
        """``f`` over the stretches of a flat array that threads of this engine take."""
        at_once(f, count)

    def gather(self, views: Mapping[str, Array]) -> Mapping[str, Array]:
        """All of what this process has a part of, by NAME, m/NAME or v/NAME.

        All processes have to ask; the first may be the only one to get it.
        """
        return views

    def for_checkpoint(self, views: Mapping[str, Array]) -> Mapping[str, Array]:
        """As `gather`, for `save_safetensors`: arrays whose numbers may come one by one."""
        return views

    def shard(self, name: str, array: Array) -> Array:
        """This process's part of all of the weight ``name``, or of a moment of it."""
        return array


class PlannedEngine(Engine, LossEngine):
    """The card's forward and derived backward equations, planned: see `viete.evaluate.plan`.

    ``model`` is what is trained, ``card`` the same without dropout.
    """

    def __init__(self, model: CardData, card: CardData, weights: Mapping[str, Array]) -> None:
        super().__init__(model, weights)
        self.card = card

    def __call__(self, tokens: Array, /, **inputs: Array) -> float:
        with np.errstate(all="ignore"):  # the loop looks at what comes out
            return super().__call__(tokens, **inputs)

    def spread(self, f: Over, count: int) -> None:
        self.workers.spread(f, count)

    def evaluate(self, tokens: Array, /, **inputs: Array) -> float:
        """Each thread takes some of the sequences."""
        given = {self.card.inputs[0].name: tokens, **inputs}
        rows, shares = len(tokens), min(self.workers.count, len(tokens))
        parts = [slice(rows * k // shares, rows * (k + 1) // shares) for k in range(shares)]
        losses = [0.0] * shares

        def loss(k: int) -> None:
            some = {name: array[parts[k]] for name, array in given.items()}
            run = execute(program(self.card), some, self.weights, [self.loss.key])
            losses[k] = float(run[self.loss.key].sum())

        self.workers.run([partial(loss, k) for k in range(shares)])
        return sum(losses) / rows


__all__ = ["LossEngine", "PlannedEngine"]
