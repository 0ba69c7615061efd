"""Vectors in the plane: the rows of a matrix with two columns, as arrows from the origin.

All panels have one scale, and a circle of radius 1 if the arrows come near it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, hypot
from xml.sax.saxutils import escape

import numpy as np

from viete.document.colours import INK, LINE, SERIES, SOFT
from viete.report.pictures.colours import short
from viete.report.pictures.heat import WIDE, HeatPanel, heat, side_by_side
from viete.report.pictures.picture import Picture, label, letters

LARGEST, APART, ROOM = 230.0, 14.0, 18.0  # of a panel; between two; around the arrows of one
MOST_ROWS, MOST_PANELS = 40, 36
NEAR = 0.05  # of the longest: what is shorter lies at the origin, and has no name there


def is_plane(values: np.ndarray, columns: Sequence[str]) -> bool:
    """Whether each row is a point in the plane: two entries without names."""
    return list(columns) == ["0", "1"] and values.shape[-2] <= MOST_ROWS


def plane(
    title: str, panels: Sequence[HeatPanel], rows: Sequence[str], axes: tuple[str, str], across: int
) -> Picture:
    """The rows of each matrix (rows × 2) as arrows, with their names at the tips."""
    shown = panels[:MOST_PANELS]
    across = across if 0 < across <= 5 else side_by_side(len(shown))
    side = min(LARGEST, WIDE / across - APART)
    lengths = np.concatenate([np.linalg.norm(p.values, axis=-1) for p in shown])
    longest = float(lengths[np.isfinite(lengths)].max(initial=0.0)) or 1.0
    unit = (side / 2 - ROOM) / longest
    names, out = [label(x, 12) for x in rows], list[str]()
    head = 22 if any(p.title for p in shown) else 4
    for k, panel in enumerate(shown):
        x, y = (k % across) * (side + APART), (k // across) * (head + side + APART) + head
        if panel.title:
            out.append(letters(x + side / 2, y - 8, panel.title, INK, "middle", 'font-size="12"'))
        out += ground(x + side / 2, y + side / 2, side, unit if longest < 4 else 0.0)
        for name, (a, b) in zip(names, panel.values, strict=True):
            if np.isfinite((a, b)).all():
                far = hypot(a, b) > NEAR * longest
                out += arrow(x + side / 2, y + side / 2, unit * a, unit * b, name if far else "",
                             f"{name}: {short(float(a))}, {short(float(b))}")  # fmt: skip
    deep = ceil(len(shown) / across) * (head + side + APART) - APART
    if len(panels) > len(shown):
        deep += 20
        out.append(letters(0, deep, f"{len(panels) - len(shown)} more are left out"))
    same = heat(title, panels, rows, ["0", "1"], axes)
    width = across * (side + APART) - APART
    return Picture(title, width, deep, tuple(out), same.lines, same.coloured)


def ground(x: float, y: float, side: float, unit: float) -> list[str]:
    """The axes around a point, and the circle of radius 1 where it is in view."""
    half = side / 2
    out = [f'<path d="M{x - half:.1f} {y:.1f}h{side:.1f}M{x:.1f} {y - half:.1f}v{side:.1f}" '
           f'stroke="{LINE}" fill="none"/>']  # fmt: skip
    if 8 < unit < half:
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{unit:.1f}" stroke="{LINE}" '
                   f'fill="none"/>')  # fmt: skip
    return out


def arrow(x: float, y: float, a: float, b: float, name: str, said: str) -> list[str]:
    """An arrow from a point, with a dot at its tip and a name beyond it."""
    out = [f'<path d="M{x:.1f} {y:.1f}L{x + a:.1f} {y - b:.1f}" stroke="{SERIES[0]}" '
           f'stroke-width="1.8" stroke-linecap="round"/>',
           f'<circle cx="{x + a:.1f}" cy="{y - b:.1f}" r="3.4" fill="{SERIES[0]}">'
           f"<title>{escape(said)}</title></circle>"]  # fmt: skip
    if name:
        away = 12 / (hypot(a, b) or 1)
        out.append(letters(x + a * (1 + away), y - b * (1 + away) + 4, name, SOFT, "middle",
                           'font-size="11.5"'))  # fmt: skip
    return out


__all__ = ["is_plane", "plane"]
