"""Numbers as colours: one hue for numbers from 0, two for numbers with signs, and the scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

# From paper to dark: of equal steps to the eye, and told apart by people who see fewer hues.
RISING = ((252, 251, 248), (203, 222, 240), (127, 174, 216), (58, 118, 180), (16, 56, 110))
FALLING = ((252, 251, 248), (250, 217, 184), (236, 159, 101), (200, 97, 34), (118, 47, 8))
SHADES = " ░▒▓█"
RGB = tuple[int, int, int]


@dataclass(frozen=True)
class Scale:
    """What colours mean: from 0, or from minus, up to ``most``."""

    most: float
    signed: bool

    @classmethod
    def of(cls, values: np.ndarray) -> Scale:
        """The scale of some numbers, of which those that are not finite have no colour."""
        finite = values[np.isfinite(values)]
        most = float(np.abs(finite).max()) if finite.size else 0.0
        signed = bool(finite.size and finite.min() < -1e-12 * most)
        return cls(1.0 if not signed and 0.5 < most <= 1 + 1e-9 else most or 1.0, signed)

    def rgb(self, value: float) -> RGB:
        """The colour of a number."""
        if not math.isfinite(value):
            return 207, 203, 192
        share = max(-1.0, min(1.0, value / self.most))
        hues = RISING if share >= 0 else FALLING
        at = abs(share) * (len(hues) - 1)
        k = min(int(at), len(hues) - 2)
        low, high = hues[k], hues[k + 1]
        r, g, b = (round(a + (c - a) * (at - k)) for a, c in zip(low, high, strict=True))
        return r, g, b

    def hex(self, value: float) -> str:
        """The colour of a number, as an SVG has it."""
        return "#{:02x}{:02x}{:02x}".format(*self.rgb(value))

    def shade(self, value: float) -> str:
        """Two characters for a number: its sign, and how large it is."""
        if not math.isfinite(value):
            return " ·"
        k = min(len(SHADES) - 1, round(abs(value) / self.most * (len(SHADES) - 1)))
        return ("-" if value < 0 and k else " " if self.signed else SHADES[k]) + SHADES[k]

    def block(self, value: float) -> str:
        """Two spaces on the colour of a number."""
        return "\x1b[48;2;{};{};{}m  \x1b[0m".format(*self.rgb(value))

    @property
    def marks(self) -> list[float]:
        """The numbers that a legend has, evenly apart."""
        return [-self.most, 0.0, self.most] if self.signed else [0.0, self.most / 2, self.most]


def short(x: float) -> str:
    """A number of a legend."""
    return f"{x:.3g}".replace("-", "−")


__all__ = ["Scale", "short"]
