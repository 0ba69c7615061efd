"""Named functions as people write them in NumPy.

A definition taken literally can overflow, or take more memory than needed. Exported files get these
functions as they stand here (for JAX with jnp); tests check each against its definition in
library/functions.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any


def softmax(z: Array) -> Array:
    """Probabilities of a row of scores; subtracting the largest score only prevents overflow."""
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logsumexp(z: Array, keepdims: bool = False) -> Array:
    """The logarithm of the sum of exp, without overflow: the largest score is taken out first."""
    top = z.max(-1, keepdims=True)
    out = top + np.log(np.exp(z - top).sum(-1, keepdims=True))
    return out if keepdims else out[..., 0]


def logsoftmax(z: Array) -> Array:
    """Logarithms of softmax, computed directly: a probability that rounds to 0 does no harm."""
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))


def cross_entropy(z: Array, t: Array) -> Array:
    """Mean negative log-probability of the targets t."""
    z = z - z.max(-1, keepdims=True)
    picked = np.take_along_axis(z, inside(t, z.shape[-1])[:, None], -1)[:, 0]
    return (np.log(np.exp(z).sum(-1)) - picked).mean()


def cross_entropy_some(z: Array, t: Array) -> Array:
    """Mean negative log-probability of the targets t; -100 is not a target, as in PyTorch."""
    z, there = z - z.max(-1, keepdims=True), t != -100
    places = inside(np.where(there, t, 0), z.shape[-1])
    each = np.log(np.exp(z).sum(-1)) - np.take_along_axis(z, places[:, None], -1)[:, 0]
    return np.where(there, each, 0).sum() / there.sum()


def top(z: Array, k: int) -> Array:
    """The k largest entries of each row, with 0 for the others; ties keep the first."""
    place = np.argsort(np.argsort(-z, -1, stable=True), -1)
    return np.where(place < k, z, 0)


def erf(z: Array) -> Array:
    """The error function, which NumPy lacks."""
    return np.vectorize(math.erf, otypes=[float])(z)


def gathered(y: Array, t: Array, V: int) -> Array:
    """Row v is the sum of the rows of y whose place t_j is v."""
    rows = np.zeros((V, y.shape[-1]))
    np.add.at(rows, t, y)
    return rows


def placed(y: Array, s: int, m: int) -> Array:
    """The rows of y as rows s, s + 1, … of m, as far as they are there; the others are 0."""
    rows = np.zeros((m, y.shape[-1]))
    rows[max(s, 0) : max(s + len(y), 0)] = y[max(-s, 0) : max(m - s, 0)]
    return rows


def gathered_each(y: Array, t: Array, V: int) -> Array:
    """For every member of a family: row v is the sum of the rows of y whose place t_j is v."""
    rows = np.zeros((*y.shape[:-2], V, y.shape[-1]))
    np.add.at(rows.swapaxes(-2, 0), t, y.swapaxes(-2, 0))
    return rows


def placed_each(y: Array, s: int, m: int) -> Array:
    """For every member of a family: the rows of y as rows s, s + 1, … of m; the others are 0."""
    rows = np.zeros((*y.shape[:-2], m, y.shape[-1]))
    kept = y[..., max(-s, 0) : max(m - s, 0), :]
    rows[..., max(s, 0) : max(s + y.shape[-2], 0), :] = kept
    return rows


def beside(*parts: Array) -> Array:
    """Arrays joined along an axis, each repeated along leading axes that the others have."""
    lead = np.broadcast_shapes(*(x.shape[:-1] for x in parts))
    each = [np.broadcast_to(x, (*lead, x.shape[-1])) for x in parts]
    return np.concatenate(each, -1)


def inside(at: Array, count: int) -> Array:
    """Places counted from 0, checked: a negative place would count from the end."""
    outside = (at < 0) | (at >= count)
    if np.any(outside):
        raise ValueError(f"an index is outside 0 to {count - 1}")
    return at


def entries(x: Array, at: Array, axis: int) -> Array:
    """The entries of x at these places of an axis; leading axes are broadcast."""
    n = max(x.ndim, at.ndim)
    x, at = (a[(None,) * (n - a.ndim)] for a in (x, at))
    return np.take_along_axis(x, at, axis)


def checked(
    x: Array, name: str, shape: Array, least: Array = None, most: Array = None, also: Array = None
) -> Array:
    """An argument of this shape, in which a length that it decides has a name; blocks have each
    their own. With a most it is whole numbers from least to most, or also is one.
    """
    if x is None:
        raise ValueError(f"{name} is missing")
    if isinstance(shape, dict):
        return {i: checked(x.get(i), f"{name}[{i}]", s, least, most) for i, s in shape.items()}
    x = np.asarray(x)
    if x.ndim != len(shape) or any(
        n == 0 if isinstance(s, str) else n != s for n, s in zip(x.shape, shape, strict=True)
    ):
        wanted = ", ".join(map(str, shape))
        raise ValueError(f"{name} has the shape {tuple(x.shape)}, and the card says ({wanted})")
    if most is None:
        return x
    right = (x >= least) & (x <= most) & (x % 1 == 0) | (x == (least if also is None else also))
    for k in x[~right][:1]:
        raise ValueError(f"{name} holds {k}, and is made of whole numbers from {least} to {most}")
    return x.astype(int)
