"""How far apart a computed and a recorded array are."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
MASKED = -1e4  # below this a recorded score stands for −∞


def fitted(shape: tuple[int, ...], recorded: Array) -> Array | None:
    """The recorded array, with a batch axis of one where the card's own value has it."""
    if shape == (1, *recorded.shape):
        return recorded[None]
    while recorded.ndim > len(shape) and recorded.shape[0] == 1:
        recorded = recorded[0]
    return recorded if recorded.shape == shape else None


def distance(computed: Array, recorded: Array) -> tuple[Array, float]:
    """|computed − recorded|, and the largest recorded number; hidden scores are all alike."""
    a, b = np.asarray(computed, np.float64), np.asarray(recorded, np.float64)
    hidden = np.isneginf(a) & (b <= MASKED)
    with np.errstate(invalid="ignore"):
        apart = np.where(hidden | (a == b), 0.0, np.abs(a - b))
    seen = np.abs(b[np.isfinite(b) & ~hidden])
    return np.where(np.isnan(apart), np.inf, apart), float(seen.max()) if seen.size else 0.0


__all__ = ["MASKED", "distance", "fitted"]
