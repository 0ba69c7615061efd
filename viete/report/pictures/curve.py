"""A curve: a number for each block, over the blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import numpy as np

from viete.document.colours import INK, LINE, PAPER, SERIES, SOFT
from viete.report.pictures.bars import bars
from viete.report.pictures.colours import short
from viete.report.pictures.picture import Picture, label, letters, measure
from viete.train.plot import round_numbers

WIDE, TALL, LEFT = 560, 250, 62
DASHES = ("5 4", "1.5 4")


def curve(
    title: str, names: Sequence[str], values: np.ndarray, axis: str,
    between: tuple[np.ndarray, np.ndarray] | None = None,
    beside: Mapping[str, np.ndarray] | None = None, said: str = "",
) -> Picture:  # fmt: skip
    """Points with a line between neighbours; points that are not finite are left out.

    The band is ``between`` two others, and dashed lines with their names are ``beside`` what is
    ``said`` of the points.
    """
    names, beside = [label(x) for x in names], beside or {}
    all_of_it = np.concatenate([values, *(between or ()), *beside.values()])
    finite = all_of_it[np.isfinite(all_of_it)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    ticks = round_numbers(low, high if high > low else low + 1)
    below, above = min(low, ticks[0]), max(high, ticks[-1])

    def place(k: int, row: np.ndarray = values) -> tuple[float, float]:
        x = LEFT + WIDE * k / max(len(values) - 1, 1)
        return x, TALL - TALL * (float(row[k]) - below) / (above - below)

    def line(row: np.ndarray) -> str:
        spots = (place(k, row) for k in range(len(row)) if np.isfinite(row[k]))
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)

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
    if between is not None:
        low_line, high_line = map(line, between)
        edge = f"{low_line} {' '.join(high_line.split()[::-1])}"
        out.append(f'<polygon points="{edge}" fill="{SERIES[0]}" fill-opacity="0.13"/>')
    for j, (name, row) in enumerate(beside.items()):
        out.append(f'<polyline points="{line(row)}" fill="none" stroke="{SOFT}" '
                   f'stroke-dasharray="{DASHES[j % len(DASHES)]}"><title>{escape(name)}</title>'
                   f"</polyline>")  # fmt: skip
    dashes, x = ["", *DASHES * len(beside)], float(LEFT)
    for j, name in enumerate([said, *beside] if beside else []):
        stroke = f'stroke="{SOFT}"' if j else f'stroke="{SERIES[0]}" stroke-width="2"'
        out.append(f'<path d="M{x:.0f} {TALL + 66}h26" {stroke} '
                   f'stroke-dasharray="{dashes[j]}"/>')  # fmt: skip
        out.append(letters(x + 33, TALL + 70, name, INK if not j else SOFT))
        x += measure(label(name)) + 56
    spots = [(k, *place(k)) for k in range(len(values)) if np.isfinite(values[k])]
    out.append(
        f'<polyline points="{line(values)}" fill="none" stroke="{SERIES[0]}" stroke-width="2"/>'
    )
    for k, x, y in spots:
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{PAPER}" stroke="{SERIES[0]}" '
                   f'stroke-width="1.6"><title>{escape(f"{axis} {names[k]}: {values[k]:.6g}")}'
                   f"</title></circle>")  # fmt: skip
    as_bars = bars(title, [f"{axis} {x}" for x in names], values.tolist())
    return Picture(
        title,
        LEFT + WIDE + 20,
        TALL + 46 + 30 * bool(beside),
        tuple(out),
        as_bars.lines,
        as_bars.coloured,
    )


__all__ = ["curve"]
