"""Numbers as colours: one hue for numbers from 0, two for signed numbers, and the scale.

The hues are those of the design sheet on its paper: the same as on the page, also in dark mode.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from viete.document.colours import LINE_STRONG, NEGATIVE, PAPER, POSITIVE

SHADES = " ░▒▓█"
RGB = tuple[int, int, int]


@dataclass(frozen=True)
class Scale:
    """The meaning of colours: from 0, or from minus, up to ``most``."""

    most: float
    signed: bool

    @classmethod
    def of(cls, values: np.ndarray) -> Scale:
        """The scale of some numbers; numbers that are not finite have no colour."""
        finite = values[np.isfinite(values)]
        most = float(np.abs(finite).max()) if finite.size else 0.0
        signed = bool(finite.size and finite.min() < -1e-12 * most)
        return cls(1.0 if not signed and 0.5 < most <= 1 + 1e-9 else most or 1.0, signed)

    def ink(self, value: float) -> tuple[str, float]:
        """The hue of a number, and its coverage of the paper, from 0 to 1."""
        if not math.isfinite(value):
            return LINE_STRONG, 1.0
        return POSITIVE if value >= 0 else NEGATIVE, min(1.0, abs(value) / self.most)

    def fill(self, value: float) -> str:
        """The colour of a number, as attributes of an SVG shape."""
        hue, share = self.ink(value)
        return f'fill="{hue}" fill-opacity="{share:.3g}"'

    def rgb(self, value: float) -> RGB:
        """The colour of a number on paper."""
        hue, share = self.ink(value)
        pairs = zip(channels(PAPER), channels(hue), strict=True)
        r, g, b = (round(a + (c - a) * share) for a, c in pairs)
        return r, g, b

    def shade(self, value: float) -> str:
        """Two characters for a number: its sign and its size."""
        if not math.isfinite(value):
            return " ·"
        k = min(len(SHADES) - 1, round(abs(value) / self.most * (len(SHADES) - 1)))
        return ("-" if value < 0 and k else " " if self.signed else SHADES[k]) + SHADES[k]

    def block(self, value: float) -> str:
        """Two spaces on the colour of a number."""
        return "\x1b[48;2;{};{};{}m  \x1b[0m".format(*self.rgb(value))

    @property
    def marks(self) -> list[float]:
        """The numbers of a legend, evenly spaced."""
        return [-self.most, 0.0, self.most] if self.signed else [0.0, self.most / 2, self.most]


def channels(colour: str) -> RGB:
    """A colour of the sheet as three numbers, red, green, blue."""
    r, g, b = bytes.fromhex(colour[1:])
    return r, g, b


def short(x: float) -> str:
    """A number of a legend."""
    return f"{x:.3g}".replace("-", "−")


__all__ = ["Scale", "channels", "short"]
