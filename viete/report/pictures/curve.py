"""A curve: a number for each block, over the blocks."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

import numpy as np

from viete.document.colours import INK, LINE, PAPER, SERIES, SOFT
from viete.report.pictures.bars import bars
from viete.report.pictures.colours import short
from viete.report.pictures.picture import Picture, label, letters
from viete.train.plot import round_numbers

WIDE, TALL, LEFT = 560, 250, 62


def curve(title: str, names: Sequence[str], values: np.ndarray, axis: str) -> Picture:
    """Points with a line between neighbours; what is no finite number is left out."""
    names = [label(x) for x in names]
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    ticks = round_numbers(low, high if high > low else low + 1)
    below, above = min(low, ticks[0]), max(high, ticks[-1])

    def place(k: int) -> tuple[float, float]:
        x = LEFT + WIDE * k / max(len(values) - 1, 1)
        return x, TALL - TALL * (float(values[k]) - below) / (above - below)

    out = []
    for tick in ticks:
        y = TALL - TALL * (tick - below) / (above - below)
        out.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + WIDE}" stroke="{LINE}"/>')
        out.append(letters(LEFT - 10, y + 4, short(tick), SOFT, "end"))
    every = max(1, -(-len(values) // 16))
    for k in range(0, len(values), every):
        out.append(letters(place(k)[0] if np.isfinite(values[k]) else LEFT, TALL + 20, names[k],
                           SOFT, "middle"))  # fmt: skip
    out.append(letters(LEFT + WIDE / 2, TALL + 42, axis, INK, "middle"))
    spots = [(k, *place(k)) for k in range(len(values)) if np.isfinite(values[k])]
    at = " ".join(f"{x:.1f},{y:.1f}" for _, x, y in spots)
    out.append(f'<polyline points="{at}" fill="none" stroke="{SERIES[0]}" stroke-width="2"/>')
    for k, x, y in spots:
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{PAPER}" stroke="{SERIES[0]}" '
                   f'stroke-width="1.6"><title>{escape(f"{axis} {names[k]}: {values[k]:.6g}")}'
                   f"</title></circle>")  # fmt: skip
    as_bars = bars(title, [f"{axis} {x}" for x in names], values.tolist())
    return Picture(title, LEFT + WIDE + 20, TALL + 46, tuple(out), as_bars.lines, as_bars.coloured)


__all__ = ["curve"]
