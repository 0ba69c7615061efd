"""A derived gradient beside PyTorch's autograd and beside finite differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

import viete as vt
from viete.analysis.shapes import shapes_of
from viete.rewrite.adjoint.grad import with_loss

Weights = Mapping[str, np.ndarray]


def loss_of(model: vt.Card) -> str | None:
    """A loss for a card that has none of its own."""
    if any(e.name == "L" for e in model.equations):
        return None
    if any(e.name == "logits" for e in model.equations):
        rows = shapes_of(model).types["logits"].shape[0]
        target = next(i.name for i in model.inputs if i.shape and model.size(i.shape[0]) == rows)
        return f"cross_entropy(logits; {target})"
    return "<pooled, pooled>"


def by_autograd(
    model: vt.Card, of: str | None, weights: Weights, inputs: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """∂ of the loss by every weight it depends on, from PyTorch and the functions' definitions."""
    model, loss = with_loss(model, of)
    tensors = {k: torch.tensor(np.asarray(v), requires_grad=True) for k, v in weights.items()}
    given = {k: torch.tensor(np.asarray(v)) for k, v in inputs.items()}
    model.run(None, tensors, exact_definitions=True, **given)[loss.key].backward()
    return {k: v.grad.numpy() for k, v in tensors.items() if v.grad is not None}


def greatest(arrays: Mapping[str, np.ndarray]) -> float:
    """The largest entry of all, which errors are measured by."""
    return max((float(np.abs(a).max()) for a in arrays.values() if a.size), default=0.0)


def error(run: Mapping[str, Any], truth: Mapping[str, np.ndarray]) -> float:
    """The largest difference of a run's ∂X from the true ones, relative to the largest entry.

    Each weight is measured by its own largest entry, where that is not lost beside the others.
    """
    worst, scale = 0.0, greatest(truth)
    for name, true in truth.items():
        if not np.abs(true).max(initial=0.0):
            try:
                run["∂" + name]
            except vt.VieteError:
                continue  # no derivative reaches it, and it is zero
        found = np.asarray(run["∂" + name])
        assert found.shape == true.shape, name
        size = max(float(np.abs(true).max(initial=0.0)), 1e-3 * scale, 1e-300)
        worst = max(worst, float(np.abs(found - true).max(initial=0.0)) / size)
    return worst


def along(
    value: Callable[[dict[str, np.ndarray]], float], weights: Weights, seed: int = 0,
    step: float = 1e-5,
) -> tuple[float, dict[str, np.ndarray]]:  # fmt: skip
    """The slope of ``value`` in a random direction, by central differences, and the direction."""
    rng = np.random.default_rng(seed)
    way = {k: rng.choice([-1.0, 1.0], v.shape) for k, v in weights.items()}
    up = value({k: v + step * way[k] for k, v in weights.items()})
    down = value({k: v - step * way[k] for k, v in weights.items()})
    return (up - down) / (2 * step), way
