"""One feature as people look at it: its measures, its tokens in context, its effect on a text."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class ShadedText:
    """A stretch of a text, token by token, with a feature's value at each; ``peak`` is one."""

    tokens: tuple[str, ...]
    values: tuple[float, ...]
    peak: int

    @property
    def value(self) -> float:
        """The value at the peak."""
        return self.values[self.peak]


@dataclass(frozen=True)
class SteeredText:
    """How a text goes on when a feature has a value at every position; None for as it is."""

    value: float | None
    text: str


@dataclass(frozen=True)
class FeaturePage:
    """What is found of feature ``number``: of so many ``tokens`` it is active at ``count``.

    ``share`` is that of what all features write, in the mean square. ``bins`` are its values, of
    which each is ``wide``. ``raised`` and ``lowered`` are tokens with what a unit of the feature
    adds to their scores, ``changes`` those whose probability behind the greatest context changes
    most without it, with that before and after. ``nearest`` are features with the cosine of their
    directions.
    """

    number: int
    count: int
    tokens: int
    greatest: float
    mean: float
    share: float
    bins: np.ndarray
    wide: float
    top: tuple[ShadedText, ...] = ()
    drawn: tuple[ShadedText, ...] = ()
    raised: tuple[tuple[str, float], ...] = ()
    lowered: tuple[tuple[str, float], ...] = ()
    changes: tuple[tuple[str, float, float], ...] = ()
    prompt: str = ""
    steered: tuple[SteeredText, ...] = ()
    nearest: tuple[tuple[int, float], ...] = ()
    note: str = field(default="")

    @property
    def often(self) -> float:
        """The share of positions at which it is active."""
        return self.count / max(self.tokens, 1)


__all__ = ["FeaturePage", "ShadedText", "SteeredText"]
