"""From a row of scores to a token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from viete.errors import VieteError

Array = Any


@dataclass(frozen=True)
class Decoding:
    """Settings for choosing a token, applied in order: temperature, ``top_k``, ``top_p``, chance.

    Scores are divided by ``temperature``. Only the ``top_k`` likeliest tokens are kept, and of
    these the fewest that together reach the probability ``top_p``, including the last one needed.
    Among equally likely tokens the lower id comes first. ``greedy`` takes the likeliest.

    Raises VieteError for a temperature that is not above 0, a ``top_k`` below 1, a ``top_p``
    outside (0, 1], and any of them together with ``greedy``.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    greedy: bool = False

    def __post_init__(self) -> None:
        t, k, p = self.temperature, self.top_k, self.top_p
        if not number(t) or not 0 < t < math.inf:
            raise VieteError(
                f"the temperature must be a number above 0, not {t!r:.40}; for the likeliest token "
                f"each time use greedy"
            )
        if k is not None and (not isinstance(k, Integral) or isinstance(k, bool) or k < 1):
            raise VieteError(f"top_k must be a whole number from 1 up, not {k!r:.40}")
        if p is not None and (not number(p) or not 0 < p <= 1):
            raise VieteError(f"top_p must be a probability above 0 and up to 1, not {p!r:.40}")
        if self.greedy and (t != 1 or k is not None or p is not None):
            raise VieteError(
                "greedy takes the likeliest token each time, so temperature, top_k and top_p have "
                "no effect"
            )

    def probabilities(self, scores: Array) -> np.ndarray:
        """The probability of each token: float64, of the shape (V) of ``scores``."""
        z = checked(scores)
        if self.greedy:
            return (np.arange(len(z)) == np.argmax(z)).astype(np.float64)
        with np.errstate(over="ignore"):
            p = np.exp((z - z.max()) / self.temperature)
        p /= p.sum()
        if self.top_k is not None and self.top_k < len(p):
            order = np.argsort(-z, kind="stable")
            p[order[self.top_k :]] = 0
            p /= p.sum()
        if self.top_p is not None and self.top_p < 1:
            order = np.argsort(-p, kind="stable")
            enough = int(np.searchsorted(np.cumsum(p[order]), self.top_p)) + 1
            p[order[enough:]] = 0
            p /= p.sum()
        return p

    def token(self, scores: Array, chance: np.random.Generator) -> int:
        """A token's id; draws once from ``chance``, and not at all if greedy."""
        if self.greedy:
            return int(np.argmax(checked(scores)))
        total = np.cumsum(self.probabilities(scores))
        # Tokens of probability 0 add nothing, so they never reach the first sum above the draw.
        k = int(np.searchsorted(total, chance.random() * total[-1], side="right"))
        return k if k < len(total) else int(np.flatnonzero(np.diff(total, prepend=0.0))[-1])


def checked(scores: Array) -> np.ndarray:
    """Scores in float64. Raises VieteError if one is NaN or +∞, or all are −∞."""
    z = np.asarray(scores, np.float64)
    if np.isnan(z).any() or (z == np.inf).any() or not (z > -np.inf).any():
        raise VieteError(
            "the scores of the next token are not all numbers, so there is nothing to choose by; "
            "the weights may have diverged"
        )
    return z


def number(x: object) -> bool:
    """Whether an object is a real number, not a truth value."""
    return isinstance(x, Real) and not isinstance(x, bool)


__all__ = ["Decoding"]
