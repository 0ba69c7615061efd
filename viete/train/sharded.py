"""The engine ``module`` with ``--shard``: weights, gradients and moments divided among processes.

FSDP2 (`torch.distributed.fsdp.fully_shard`): each process keeps a part of every parameter along its
first axis, of its gradient and of its moments. Every block is a unit: its parameters are gathered
when its ``forward`` begins and again for its backward pass, and freed after each. All other
parameters are one more unit, which stays gathered for the whole step.

No process ever holds the whole model. The module is made without memory, its parameters are read or
drawn one by one, and each process keeps its part; for a checkpoint they are gathered one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from viete.code.torch_module import Placement
from viete.errors import VieteError
from viete.evaluate.inputs import host, writable
from viete.evaluate.plan.layout import split
from viete.graph.card import CardData
from viete.train.autograd import ModuleEngine
from viete.train.module import empty
from viete.train.optimiser import norm
from viete.train.processes import Team, collective

PRODUCTS = ("aten.mm.", "aten.bmm.", "aten.addmm.", "aten.baddbmm.", "aten._scaled_dot_product")


class ShardedEngine(ModuleEngine):
    """As `ModuleEngine`; ``flat`` and ``flat_gradient`` hold this process's part.

    Every part has as many rows as the first process's, the last of which may be padding: PyTorch
    needs parts of one size, and can then use those in ``flat`` as its own. ``weights`` makes one
    array at a time. The parts are those of the module's tensors, in their order of axes.
    """

    cached = False

    def __init__(
        self, team: Team, model: CardData, card: CardData, weights: Mapping[str, Any],
        device: str | None = None, bf16: bool = False, compiled: bool = False,
    ) -> None:  # fmt: skip
        self.team, self.device = team, torch.device(device or "cpu")
        super().__init__(model, card, weights, bf16, compiled)

    def build(self, weights: Mapping[str, Any], compiled: bool) -> nn.Module:
        """The module, with this process's parts of the weights."""
        self.dtype = tensor(next(iter(weights.values()))).dtype
        net = empty(self.model, mean="texts").to(self.dtype)
        self.places = net.places
        whole = {name: tuple(net.held(place).shape) for name, place in self.places.items()}
        if single := [name for name, shape in whole.items() if not shape]:
            raise VieteError(
                f"{single[0]} is one number, which --shard cannot divide; leave out --shard, and "
                f"every process has all weights"
            )
        mesh = init_device_mesh(self.device.type, (self.team.size,))
        for block in blocks_of(net):
            if not compiled:  # a compiler itself chooses what to keep
                block.forward = keeping_products(block.forward)
            fully_shard(block, mesh=mesh)
        fully_shard(net, mesh=mesh)
        each = {name: -(-rows // self.team.size) for name, (rows, *_) in whole.items()}
        self.rows = {name: slice(n * self.team.rank, n * (self.team.rank + 1))
                     for name, n in each.items()}  # fmt: skip
        shapes = {name: (each[name], *rest) for name, (_, *rest) in whole.items()}
        self.flat = torch.zeros(sum(map(math.prod, shapes.values())), dtype=self.dtype,
                                device=self.device)  # fmt: skip
        self.flat_gradient = torch.zeros_like(self.flat)
        self.weights, self.gradients = split(self.flat, shapes), split(self.flat_gradient, shapes)
        parts: dict[str, nn.Parameter] = {}
        for name, place in self.places.items():
            p = net.held(place)
            self.load_shard(name, weights[name])
            part = DTensor.from_local(
                self.weights[name], p.device_mesh, p.placements, run_check=False, shape=p.shape,
                stride=p.stride(),
            )  # fmt: skip
            parts |= dict.fromkeys(place.names, nn.Parameter(part))
        net.load_state_dict(parts, assign=True)
        return net

    def load_shard(self, name: str, whole: Any) -> None:
        """Copy this process's part of a weight."""
        own = self.places[name].held(tensor(whole))[self.rows[name]]
        self.weights[name][: len(own)] = own

    def flatten(self) -> None:
        """Collect each gradient as soon as it is computed, which frees its unit's memory."""
        for name, p in self.parameters.items():
            p.register_post_accumulate_grad_hook(partial(self.collect_gradient, name))

    def collect_gradient(self, name: str, p: Tensor) -> None:
        assert isinstance(p.grad, DTensor)
        own = p.grad.to_local()
        self.gradients[name][: len(own)] = own
        p.grad = None

    def distribute(self, tokens: Any, inputs: Mapping[str, Any]) -> None:
        """Do nothing: FSDP2 already averages gradients."""

    # -- what is divided, together -----------------------------------------------------------------

    def norm(self, gradient: Tensor) -> float:
        return math.sqrt(self.team.sum(norm(gradient) ** 2))

    def for_checkpoint(self, views: Mapping[str, Tensor]) -> dict[str, Any]:
        """The first process must read all arrays, in this order; the others send their parts."""
        weights = {name: name.split("/", 1)[-1] for name in sorted(views)}
        found = {name: Divided(views[name], len(self.parameters[w]), self.places[w], self.team)
                 for name, w in weights.items()}  # fmt: skip
        if self.team.leads:
            return found
        for part in found.values():
            part.gathered()
        return {}

    def gather(self, views: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: part.gathered() for name, part in self.for_checkpoint(views).items()}

    def shard(self, name: str, array: Any) -> Tensor:
        own = self.places[name].held(tensor(array))[self.rows[name]]
        out = own.new_zeros(self.weights[name].shape)
        out[: len(own)] = own
        return out


@dataclass(frozen=True)
class Divided:
    """A weight of which each process holds a part, gathered when its numbers are needed.

    The parts together have ``rows`` rows, without padding.
    """

    part: Tensor
    rows: int
    place: Placement
    team: Team

    @property
    def shape(self) -> tuple[int, ...]:
        return self.place.shape

    @property
    def dtype(self) -> np.dtype:
        return host(self.part[:0]).dtype

    def gathered(self) -> Tensor:
        """The whole array on the first process; all processes must call this at once."""
        parts = [torch.empty_like(self.part) for _ in range(self.team.size * self.team.leads)]
        with collective():
            torch.distributed.gather(self.part, parts or None)
        return self.place.view(torch.cat(parts)[: self.rows]) if parts else self.part

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(host(self.gathered()), dtype)


def blocks_of(net: nn.Module) -> list[nn.Module]:
    """The modules that each compute one block.

    A card whose loop keeps the values of all blocks has its blocks' equations in the net's own
    ``forward``; for such a card the list is empty.
    """
    lists = [x for x in net.children() if isinstance(x, nn.ModuleList)]
    return [b for blocks in lists for b in blocks if "forward" in vars(type(b))]


def keeping_products(forward: Callable[..., Any]) -> Callable[..., Any]:
    """A block's ``forward`` that keeps only its products for the backward pass.

    Autograd would also keep the block's weights, whole, in the order or precision in which a
    product took them: those of all blocks at once. They are computed again, at little cost.
    """
    contexts = partial(create_selective_checkpoint_contexts, policy)
    saving = partial(checkpoint, forward, use_reentrant=False, context_fn=contexts)
    return lambda *args, **named: (saving if torch.is_grad_enabled() else forward)(*args, **named)


def policy(context: Any, operation: Any, *args: Any, **named: Any) -> CheckpointPolicy:
    kept = str(operation).startswith(PRODUCTS)
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def tensor(array: Any) -> Tensor:
    return torch.as_tensor(writable(array))


__all__ = ["ShardedEngine"]
