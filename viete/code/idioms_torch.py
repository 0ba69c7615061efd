"""Named functions as people write them in PyTorch; see `idioms`."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

Array = Any


def linear(weight: Array) -> Array:
    """The layer with this weight, outputs × inputs, and without a bias."""
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    shared = isinstance(weight, torch.nn.Parameter)
    layer.weight = weight if shared else torch.nn.Parameter(weight.contiguous())
    return layer


def RoPE(x: Array, rho: float = 1, theta: float = 10000) -> Array:
    """Rotary positions on the first ρ d columns, column m paired with m + ρ d/2 (Su et al. 2021;
    halves as in GPT-NeoX). The sines are taken before they are rounded.
    """
    n, half = x.shape[-2], int(rho * x.shape[-1] / 2)
    m = torch.arange(half, dtype=torch.float64, device=x.device)
    phi = torch.arange(n, device=x.device)[:, None] * theta ** (-m / half)
    cos, sin = phi.cos().to(x), phi.sin().to(x)
    a, b, rest = x.split((half, half, x.shape[-1] - 2 * half), -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def rotate(a: Array, b: Array, phi: Array) -> Array:
    """Turns every pair (a, b) by phi, whose sines are taken before they are rounded."""
    cos, sin = phi.cos().to(a), phi.sin().to(a)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def top(z: Array, k: int) -> Array:
    """The k largest entries of each row, with 0 for the others; ties keep the first."""
    place = torch.argsort(torch.argsort(-z, stable=True))
    return torch.where(place < k, z, 0)


def cross_entropy(z: Array, t: Array) -> Array:
    """Mean negative log-probability of the targets t, for each sequence; -100 is not a target."""
    each = functional.cross_entropy(z.flatten(0, -2), t.flatten(), reduction="none")
    count = (t != -100).sum(-1)
    mean = each.reshape(t.shape).sum(-1) / count.clamp(min=1)
    return torch.where(count > 0, mean, torch.nan)


def weighted_loss(z: Array, t: Array, w: Array) -> Array:
    """The cross-entropy with weights w of the positions, for each sequence; -100 is no target."""
    each = functional.cross_entropy(z.flatten(0, -2), t.flatten(), reduction="none")
    count = (w * (t != -100)).sum(-1)
    mean = (w * each.reshape(t.shape)).sum(-1) / torch.where(count == 0, 1, count)
    return torch.where(count == 0, torch.nan, mean)


def over_targets(loss: Array, count: Array) -> Array:
    """The mean over the targets of all sequences; a sequence without any adds nothing."""
    return torch.where(count == 0, 0, loss * count).sum() / count.sum()


def beside(*parts: Array) -> Array:
    """Arrays joined along an axis, each repeated along leading axes that the others have."""
    lead = torch.broadcast_shapes(*(x.shape[:-1] for x in parts))
    return torch.cat([x.expand(*lead, -1) for x in parts], -1)


def inside(at: Array, count: int) -> Array:
    """Places counted from 0, checked: a negative place would count from the end."""
    outside = (at < 0) | (at >= count)
    try:  # A compiled graph does not branch on what an array holds.
        wrong = not torch.compiler.is_compiling() and bool(torch.as_tensor(outside).any())
    except RuntimeError:  # no entries are known on the meta device or under torch.func.vmap
        wrong = False
    if wrong:
        raise ValueError(f"an index is outside 0 to {count - 1}")
    return at


def entries(x: Array, at: Array, axis: int) -> Array:
    """The entries of x at these places of an axis; leading axes are broadcast."""
    n = max(x.ndim, at.ndim)
    x, at = (a[(None,) * (n - a.ndim)] for a in (x, at))
    return torch.take_along_dim(x, at, axis)


def checked(
    x: Array, name: str, shape: Array, least: Array = None, most: Array = None, also: Array = None
) -> Array:
    """An argument of this shape, if not of a batch of such; a length that it decides has a name,
    blocks have each their own. With a most it is whole numbers from least to most, or also is one.
    """
    if x is None:
        raise ValueError(f"{name} is missing")
    if isinstance(shape, dict):
        return {i: checked(x.get(i), f"{name}[{i}]", s, least, most) for i, s in shape.items()}
    x = torch.as_tensor(x)
    there = x.shape[max(x.ndim - len(shape), 0) :]
    if len(there) != len(shape) or any(
        n == 0 if isinstance(s, str) else n != s for n, s in zip(there, shape, strict=True)
    ):
        wanted = ", ".join(map(str, shape))
        raise ValueError(f"{name} has the shape {tuple(x.shape)}, and the card says ({wanted})")
    if most is None:
        return x
    right = (x >= least) & (x <= most) & (x == x.long()) | (x == (least if also is None else also))
    try:
        wrong = [] if torch.compiler.is_compiling() else x[~right][:1].tolist()
    except RuntimeError:  # no entries are known on the meta device or under torch.func.vmap
        wrong = []
    for k in wrong:
        raise ValueError(f"{name} holds {k}, and is made of whole numbers from {least} to {most}")
    return x.long()
