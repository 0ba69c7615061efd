"""The k largest entries of each row; among equal entries, the first."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def greatest(z: np.ndarray, k: int) -> np.ndarray:
    """The ``k`` greatest entries of each row of an array; the others become 0.

    NaN is not compared: it stays, and takes no other entry's place.
    """
    if not 0 < k < z.shape[-1]:
        return z.copy() if k > 0 else np.zeros_like(z)
    if (none := np.isnan(z)).any():
        order = np.argsort(np.lexsort((-z, none), -1), -1)
        return np.where((order < k) | none, z, 0)
    last = np.partition(z, -k)[..., -k, None]
    above, equal = z > last, z == last
    room = k - above.sum(-1, keepdims=True)
    if (equal.sum(-1, keepdims=True) > room).any():
        equal &= equal.cumsum(-1) <= room
    return np.where(above | equal, z, z.dtype.type(0))


def greatest_in_torch(z: Array, k: int) -> Array:
    """As `greatest`, for a PyTorch tensor."""
    if not 0 < k < z.shape[-1]:
        return z.clone() if k > 0 else z.new_zeros(z.shape)
    none = z.isnan()
    low = z.masked_fill(none, -float("inf"))
    order = low.argsort(dim=-1, descending=True, stable=True)
    if none.any():  # after equally small entries
        last = none.gather(-1, order).to(z.dtype)
        order = order.gather(-1, last.argsort(dim=-1, stable=True))
    place = order.argsort(dim=-1)
    return z.where((place < k) | none, z.new_zeros(()))


__all__ = ["greatest", "greatest_in_torch"]
