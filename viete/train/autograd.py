"""The engine ``module``: a card as a PyTorch module, with gradients by autograd.

The parameters are views of one flat block of memory and their gradients of another, so the
optimiser and gradient clipping work as with any engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from viete.code.body import measured
from viete.code.torch_module import Placement
from viete.evaluate.inputs import writable
from viete.evaluate.plan.layout import split
from viete.evaluate.schedule import program
from viete.graph.card import CardData, Input
from viete.train.engines import LossEngine
from viete.train.module import to_torch


class ModuleEngine(LossEngine):
    """A loss and its gradients by `viete.train.module.to_torch`.

    ``bf16``: matrix products in bfloat16 (autocast), with weights and gradients unchanged;
    ``compiled``: by ``torch.compile``. ``model`` may have masks of dropout, which ``card`` lacks.
    """

    cached = True  # whether autocast holds on to the weights in bfloat16 through a pass

    def __init__(
        self, model: CardData, card: CardData, weights: Mapping[str, Tensor], bf16: bool = False,
        compiled: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.inputs = model, program(model).inputs
        self.masks = {i.name for i in model.inputs} - {i.name for i in card.inputs}
        self.net = self.build(weights, compiled)
        self.bf16, self.compiled = bf16, compiled
        self.factor = 1.0  # of the loss that is differentiated
        self.places: dict[str, Placement] = self.net.places
        self.parameters: dict[str, nn.Parameter] = {
            name: self.net.held(place) for name, place in self.places.items()
        }
        self.flatten()
        self.call = self.compile(self.net)

    def build(self, weights: Mapping[str, Tensor], compiled: bool) -> nn.Module:
        return to_torch(self.model, weights, mean="texts")  # their portions are in the card

    def flatten(self) -> None:
        """Move all parameters into one vector, and allocate one for their gradients."""
        first = next(iter(self.parameters.values()))
        shapes = {name: tuple(p.shape) for name, p in self.parameters.items()}
        self.flat = torch.cat([p.detach().reshape(-1) for p in self.parameters.values()])
        self.flat_gradient = torch.zeros_like(self.flat)
        held, slopes = split(self.flat, shapes), split(self.flat_gradient, shapes)
        self.device, self.dtype = first.device, first.dtype
        for name, p in self.parameters.items():
            p.data, p.grad = held[name], slopes[name]
        self.weights, self.gradients = (
            {name: self.places[name].view(x) for name, x in arrays.items()}
            for arrays in (held, slopes)
        )

    def compile(self, net: nn.Module) -> Any:
        return torch.compile(net) if self.compiled else net

    def __call__(self, tokens: Any, /, **inputs: Any) -> float:
        self.flat_gradient.zero_()  # autograd adds to the present gradient
        loss = self.loss(tokens, inputs)
        (loss * self.factor).backward()
        return float(loss.detach())

    def evaluate(self, tokens: Any, /, **inputs: Any) -> float:
        with torch.no_grad():
            return float(self.loss(tokens, inputs))

    def loss(self, tokens: Any, inputs: Mapping[str, Any]) -> Tensor:
        """The mean loss over the sequences."""
        given = self.arguments({self.model.inputs[0].name: tokens, **inputs})
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16,
                            cache_enabled=self.cached):  # fmt: skip
            loss: Tensor = self.call(**given)[1]
        return loss

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The card's inputs as arguments of ``forward``; those of single blocks by block number.

        A mask that is not given keeps all entries.
        """
        out: dict[str, Any] = {}
        sizes = dict(program(self.model).sizes)
        for length in self.model.lengths:
            found = measured(length, [item for name, (item, _) in self.inputs.items()
                                      if name in given])  # fmt: skip
            if found is not None:
                item, axis = found
                sizes[length] = Fraction(np.shape(given[item.name])[axis])
        for name, (item, loops) in self.inputs.items():
            if name not in given and item.name not in self.masks:
                continue
            value = self.tensor(given[name]) if name in given else self.open_mask(item, sizes)
            there = self.net.arguments[item.name]
            if loops:
                out.setdefault(there, {})[loops[0] if len(loops) == 1 else loops] = value
            else:
                out[there] = value
        return out

    def tensor(self, array: Any) -> Tensor:
        value = torch.as_tensor(writable(array))
        dtype = self.dtype if value.is_floating_point() else value.dtype
        return value.to(self.device, dtype, non_blocking=True)

    def open_mask(self, item: Input, sizes: Mapping[str, Fraction]) -> Tensor:
        """A mask of ones, one number in memory."""
        shape = [len(program(self.model).range_of(h)) for h in self.model.heads_of(item.symbol)]
        for e in item.shape:
            size = self.model.size(e)
            assert size is not None
            shape.append(int(size.evaluate(sizes)))
        return self.flat.new_ones(()).expand(1, *shape)

    def distribute(self, tokens: Any, inputs: Mapping[str, Any]) -> None:
        """Make backward passes return the mean of all processes' gradients from now on.

        A first pass finds the parameters without influence on the loss, since DDP would wait for
        them.
        """
        found = torch.autograd.grad(self.loss(tokens, inputs), list(self.parameters.values()),
                                    allow_unused=True)  # fmt: skip
        for p, g in zip(self.parameters.values(), found, strict=True):
            p.requires_grad_(g is not None)
        self.call = self.compile(DistributedDataParallel(self.net))

    def leave_group(self) -> None:
        """Undo `distribute`: DDP must end before the process group does."""
        self.call = self.net


__all__ = ["ModuleEngine"]
