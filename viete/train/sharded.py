"""The engine ``module`` with ``--shard``: weights, gradients and moments divided among processes.

FSDP2 (`torch.distributed.fsdp.fully_shard`): each process keeps a part of every parameter along
its first axis, of its gradient and its moments. Every block is a unit: its parameters come together
when its ``forward`` begins, and again for its backward pass, and are let go after each. The others
are one unit more, which stays together for the whole step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from viete.errors import VieteError
from viete.interpret.plan.layout import split
from viete.train.autograd import Module
from viete.train.optimiser import norm
from viete.train.processes import Team


class Sharded(Module):
    """As `Module`; ``flat`` and ``flat_gradient`` hold this process's part."""

    team: Team

    def __init__(self, team: Team, *arguments: Any, **named: Any) -> None:
        self.team = team
        super().__init__(*arguments, **named)

    def lay_out(self) -> None:
        first = next(iter(self.parameters.values()))
        self.device, self.dtype = first.device, first.dtype
        if single := [name for name, p in self.parameters.items() if not p.shape]:
            raise VieteError(
                f"{single[0]} is one number, which --shard cannot divide; leave out --shard, and "
                f"every process has all weights"
            )
        mesh = init_device_mesh(self.device.type, (self.team.size,))
        for block in blocks_of(self.net):
            fully_shard(block, mesh=mesh)
        fully_shard(self.net, mesh=mesh)
        self.parameters = self.net.weights()
        self.flat = torch.cat([local(p).reshape(-1) for p in self.parameters.values()])
        self.flat_gradient = torch.zeros_like(self.flat)
        shapes = {name: tuple(local(p).shape) for name, p in self.parameters.items()}
        self.weights, self.gradients = split(self.flat, shapes), split(self.flat_gradient, shapes)

    def distribute(self, tokens: Any, inputs: Mapping[str, Any]) -> None:
        """Nothing more is needed."""

    def __call__(self, tokens: Any, /, **inputs: Any) -> float:
        self.net.zero_grad()
        loss = super().__call__(tokens, **inputs)
        for name, p in self.parameters.items():
            if p.grad is not None:
                self.gradients[name].copy_(local(p.grad))
                p.grad = None  # its memory is free for the optimiser's step
        return loss

    def loss(self, tokens: Any, inputs: Mapping[str, Any]) -> Tensor:
        with torch.no_grad():
            for name, p in self.parameters.items():
                local(p).copy_(self.weights[name])
        return super().loss(tokens, inputs)

    # -- what is divided, together -----------------------------------------------------------------

    def norm(self, gradient: Tensor) -> float:
        return math.sqrt(self.team.sum(norm(gradient) ** 2))

    def whole(self, views: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """All of what this process has a part of; all processes have to ask."""
        out = {}
        for key, view in views.items():
            p = self.parameters[key.split("/", 1)[-1]]
            assert isinstance(p, DTensor)
            out[key] = DTensor.from_local(
                view, p.device_mesh, p.placements, run_check=False, shape=p.shape, stride=p.stride()
            ).full_tensor()
        return out

    def part(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """This process's part of all of something."""
        out = {}
        for key, array in arrays.items():
            rows = self.parameters[key.split("/", 1)[-1]].shape[0]
            each = -(-rows // self.team.size)
            out[key] = array[each * self.team.rank :][:each]
        return out


def blocks_of(net: nn.Module) -> list[nn.Module]:
    """The modules of which each computes one block.

    A card whose loop keeps the values of all blocks has its blocks' equations in the net's own
    ``forward``, and none here.
    """
    lists = [x for x in net.children() if isinstance(x, nn.ModuleList)]
    return [b for blocks in lists for b in blocks if "forward" in vars(type(b))]


def local(p: Tensor | nn.Parameter) -> Tensor:
    """This process's part of a tensor."""
    assert isinstance(p, DTensor)
    return p.to_local().detach()


__all__ = ["Sharded"]
