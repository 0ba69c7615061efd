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
    """Interface of the training loop to engines; the last five methods default to one process.

    ``model`` is the card as it is trained, with masks for dropout. All weights lie in one array,
    ``flat``, and all gradients in another, so that the optimiser and the clipping see two arrays
    however many names the card has; ``weights`` and ``gradients`` are views into them, by the names
    of `parameter_shapes`.
    """

    model: CardData
    flat: Array
    flat_gradient: Array
    weights: dict[str, Array]
    gradients: dict[str, Array]

    def __call__(self, tokens: Array, /, **inputs: Array) -> float:
        """The mean loss over the sequences; sets ``flat_gradient`` to the mean of its gradients."""
        raise NotImplementedError

    def evaluate(self, tokens: Array, /, **inputs: Array) -> float:
        """The loss without gradients."""
        raise NotImplementedError

    def norm(self, gradient: Array) -> float:
        """The Euclidean norm of the gradient of all weights."""
        return norm(gradient, self.spread)

    def spread(self, f: Over, count: int) -> None:
        """Call ``f`` on stretches of a flat array, shared among the engine's threads."""
        at_once(f, count)

    def gather(self, views: Mapping[str, Array]) -> Mapping[str, Array]:
        """The whole arrays of which this process holds parts, by NAME, m/NAME or v/NAME.

        All processes must call this; the first may be the only one that gets the arrays.
        """
        return views

    def for_checkpoint(self, views: Mapping[str, Array]) -> Mapping[str, Array]:
        """As `gather`, for `save_safetensors`: arrays that may be gathered one by one."""
        return views

    def shard(self, name: str, array: Array) -> Array:
        """This process's part of the whole weight ``name``, or of a moment of it."""
        return array


class PlannedEngine(Engine, LossEngine):
    """The card's forward and derived backward equations, planned; see `viete.evaluate.plan`.

    ``model`` is the card to train, ``card`` the same without dropout.
    """

    def __init__(self, model: CardData, card: CardData, weights: Mapping[str, Array]) -> None:
        super().__init__(model, weights, mean="texts")  # their portions are in the card
        self.card = card

    def __call__(self, tokens: Array, /, **inputs: Array) -> float:
        with np.errstate(all="ignore"):  # the loop checks the results
            return super().__call__(tokens, **inputs)

    def spread(self, f: Over, count: int) -> None:
        self.workers.spread(f, count)

    def evaluate(self, tokens: Array, /, **inputs: Array) -> float:
        """As `LossEngine.evaluate`; each thread takes some of the sequences."""
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
