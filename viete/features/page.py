"""One feature as people look at it: its measures, its tokens in context, its effect on a text."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class ShadedText:
    """A part of a text, token by token, with a feature's values; ``peak`` is one token."""

    tokens: tuple[str, ...]
    values: tuple[float, ...]
    peak: int

    @property
    def value(self) -> float:
        """The value at the peak."""
        return self.values[self.peak]


@dataclass(frozen=True)
class SteeredText:
    """A continuation of a text with a feature set to a value at every position; None if unset."""

    value: float | None
    text: str


@dataclass(frozen=True)
class FeaturePage:
    """The findings on feature ``number``, active at ``count`` of ``tokens`` positions.

    ``share`` is its share of the mean square of all features' outputs. ``bins`` counts its values
    in bins that are ``wide``. ``raised`` and ``lowered`` are tokens with the change of their scores
    by a unit of the feature, ``changes`` those whose probability after the greatest context changes
    most without it, with that before and after. ``nearest`` are features with the cosine of their
    directions.
    """

    number: int
    count: int
    tokens: int
    greatest: float
    mean: float
    share: float
    bins: np.ndarray = field(repr=False)
    wide: float
    top: tuple[ShadedText, ...] = field(default=(), repr=False)
    drawn: tuple[ShadedText, ...] = field(default=(), repr=False)
    raised: tuple[tuple[str, float], ...] = field(default=(), repr=False)
    lowered: tuple[tuple[str, float], ...] = field(default=(), repr=False)
    changes: tuple[tuple[str, float, float], ...] = field(default=(), repr=False)
    prompt: str = ""
    steered: tuple[SteeredText, ...] = field(default=(), repr=False)
    nearest: tuple[tuple[int, float], ...] = field(default=(), repr=False)
    note: str = field(default="")

    @property
    def often(self) -> float:
        """The share of positions where the feature is active."""
        return self.count / max(self.tokens, 1)


__all__ = ["FeaturePage", "ShadedText", "SteeredText"]
