"""Draws texts to pair with each text: of the same length, and alike in some features if asked."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from viete.ask.example_list import Example
from viete.errors import VieteError


def drawn_beside(texts: Sequence[Example], draws: int, seed: int) -> list[tuple[int, int]]:
    """Pairs of places: each text with ``draws`` others of its length, with repetition.

    Raises VieteError for a text without another one of its length.
    """
    draw = np.random.default_rng(seed)
    out = []
    lengths = [len(x.text) for x in texts]
    for k, n in enumerate(lengths):
        others = [j for j, m in enumerate(lengths) if m == n and j != k]
        if not others:
            raise VieteError(
                f"text {k + 1} has {n} tokens and no other text has the same length, so no text "
                f"can be drawn for it; give texts of equal length"
            )
        out += [(k, int(draw.choice(others))) for _ in range(draws)]
    return out


def agreeing(keys: Sequence[Hashable], places: Any, draw: np.random.Generator) -> Any:
    """For each place, a place drawn from those with the same key, itself included."""
    groups: dict[Hashable, list[int]] = {}
    for k, key in enumerate(keys):
        groups.setdefault(key, []).append(k)
    return np.array([draw.choice(groups[keys[int(k)]]) for k in places], int)


__all__ = ["agreeing", "drawn_beside"]
