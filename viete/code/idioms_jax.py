"""Named functions that JAX writes differently from NumPy; see `idioms`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

Array = Any


def inside(at: Array, count: int) -> Array:
    """Places counted from 0; a place outside gives NaN and does not count from the end."""
    return jnp.where((at < 0) | (at >= count), count, at)
