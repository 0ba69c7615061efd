"""What computes a loss and its gradients for the loop: the card's own equations, or a module.

An engine keeps all weights in one flat array and all gradients in another, in one order, so that
the optimiser and the clipping see two arrays however many names the card has.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import numpy as np

from viete.errors import VieteError
from viete.evaluate.inputs import writable
from viete.evaluate.plan.engine import Engine as Plan
from viete.evaluate.plan.workers import Over, at_once
from viete.evaluate.run import execute
from viete.evaluate.schedule import program
from viete.graph.card import CardData
from viete.train.optimiser import norm
from viete.train.processes import Shared, own_device, team
from viete.train.settings import ENGINES

Array = Any  # NumPy's or PyTorch's


class Engine(Protocol):
    """What the loop asks of whoever computes.

    ``weights`` and ``gradients`` are views into ``flat`` and ``flat_gradient``, by the names of
    `viete.parameter_shapes`. A call returns the loss, the mean over the batch's sequences, and
    overwrites ``flat_gradient`` with the mean of their gradients; ``evaluate`` returns the loss.
    `Whole` says what the last five do where one process has all weights.
    """

    model: CardData  # as it is trained, with masks where the card says dropout
    flat: Array
    flat_gradient: Array
    weights: dict[str, Array]
    gradients: dict[str, Array]

    def __call__(self, tokens: Array, /, **inputs: Array) -> float: ...

    def evaluate(self, tokens: Array, /, **inputs: Array) -> float: ...

    def norm(self, gradient: Array) -> float: ...

    def spread(self, f: Over, count: int) -> None: ...

    def whole(self, views: Mapping[str, Array]) -> Mapping[str, Array]: ...

    def stored(self, views: Mapping[str, Array]) -> Mapping[str, Array]: ...

    def part(self, name: str, array: Array) -> Array: ...


class Whole:
    """What an engine with all weights in this process makes of parts and wholes."""

    def norm(self, gradient: Array) -> float:
        """The length of the gradient of all weights."""
        return norm(gradient, self.spread)

    def spread(self, f: Over, count: int) -> None:
        """``f`` over the stretches of a flat array that threads of this engine take."""
        at_once(f, count)

    def whole(self, views: Mapping[str, Array]) -> Mapping[str, Array]:
        """All of what this process has a part of, by NAME, m/NAME or v/NAME.

        All processes have to ask; the first may be the only one to get it.
        """
        return views

    def stored(self, views: Mapping[str, Array]) -> Mapping[str, Array]:
        """As `whole`, for `viete.save_safetensors`: arrays whose numbers may come one by one."""
        return views

    def part(self, name: str, array: Array) -> Array:
        """This process's part of all of the weight ``name``, or of a moment of it."""
        return array


class Planned(Plan, Whole):
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
        """The loss alone; each thread takes some of the sequences."""
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


def make_engine(
    kind: str, model: CardData, card: CardData, weights: Mapping[str, np.ndarray],
    device: str | None = None, bf16: bool = False, compiled: bool = False, shard: bool = False,
) -> Engine:  # fmt: skip
    """The engine of that name, starting from copies of these weights, in their dtype.

    In several processes it is each one's own, or with ``shard`` its part, joined to the others';
    of ``weights`` it then asks for one array after another.
    """
    us = team()
    made = own_engine(kind, model, card, weights, own_device(device), bf16, compiled, shard)
    return made if us.size == 1 else Shared(made, us)


def own_engine(
    kind: str, model: CardData, card: CardData, weights: Mapping[str, np.ndarray],
    device: str | None, bf16: bool, compiled: bool, shard: bool,
) -> Engine:  # fmt: skip
    if kind not in ENGINES:
        raise VieteError(f"the engine is one of {', '.join(ENGINES)}, not {kind}")
    if kind == "numpy":
        return Planned(model, card, dict(weights))
    torch = import_torch()
    divided, there = shard and team().size > 1, {}
    try:
        float(torch.ones((), device=device))  # which a device for shapes alone cannot say
        for name in () if divided else weights:
            there[name] = torch.as_tensor(writable(weights[name])).to(device or "cpu")
    except (RuntimeError, AssertionError) as error:
        raise VieteError(f"PyTorch cannot use {device}: {str(error).splitlines()[0]}") from None
    if divided:
        from viete.train.sharded import Sharded

        return Sharded(team(), model, card, weights, device, bf16, compiled)
    if kind == "torch":
        return Planned(model, card, there)
    from viete.train.autograd import Module

    return Module(model, card, there, bf16, compiled)


def import_torch() -> Any:
    try:
        import torch
    except ImportError:
        raise VieteError("this engine needs PyTorch: pip install 'viete[torch]'") from None
    return torch


__all__ = ["Engine", "Planned", "Whole", "make_engine"]
