"""Named functions that JAX writes differently from NumPy; see `idioms`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

Array = Any


def inside(at: Array, count: int) -> Array:
    """Places counted from 0; a place outside gives NaN and does not count from the end."""
    return jnp.where((at < 0) | (at >= count), count, at)


def checked(
    x: Array, name: str, shape: Array, least: Array = None, most: Array = None, also: Array = None
) -> Array:
    """An argument of this shape, in which a length that it decides has a name; blocks have each
    their own. With a most it is whole numbers from least to most, or also is one.
    """
    if x is None:
        raise ValueError(f"{name} is missing")
    if isinstance(shape, list):
        each = [*x, *[None] * len(shape)]
        return [checked(each[i], f"{name}[{i}]", s, least, most) for i, s in enumerate(shape)]
    x = jnp.asarray(x)
    if x.ndim != len(shape) or any(
        n == 0 if isinstance(s, str) else n != s for n, s in zip(x.shape, shape, strict=True)
    ):
        wanted = ", ".join(map(str, shape))
        raise ValueError(f"{name} has the shape {tuple(x.shape)}, and the card says ({wanted})")
    if most is None:
        return x
    right = (x >= least) & (x <= most) & (x % 1 == 0) | (x == (least if also is None else also))
    if isinstance(right, jax.core.Tracer):  # entries are not known: what they pick is NaN
        return jnp.where(right, x, 2**30).astype(int)
    for k in x[~right][:1]:
        raise ValueError(f"{name} holds {k}, and is made of whole numbers from {least} to {most}")
    return x.astype(int)
