"""Arcs between tokens: which position attends to which, each arc as wide as its weight is large.

The tokens stand in a row. An arc leads from a position to a position that it reads: above the row
to an earlier one, below the row to a later one. A stem shows what a position reads of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from xml.sax.saxutils import escape

import numpy as np

from viete.document.colours import INK, LINE, SERIES, SOFT
from viete.report.pictures.heat import WIDE, HeatPanel, side_by_side
from viete.report.pictures.picture import SIZE, Picture, label, letters, measure

MOST_TOKENS, MOST_PANELS = 40, 36
LEAST = 0.02  # a smaller weight is not drawn
WIDEST, HIGHEST, APART = 5.0, 130.0, 18.0


def is_pattern(values: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether each row holds weights, not negative and with sum 1, over the tokens of the rows."""
    if list(rows) != list(columns) or not 1 < len(rows) <= MOST_TOKENS or not values.size:
        return False
    return bool(
        np.isfinite(values).all()
        and values.min() >= 0
        and np.allclose(values.sum(-1), 1, atol=1e-3)
    )


def arcs(title: str, panels: Sequence[HeatPanel], tokens: Sequence[str], across: int) -> Picture:
    """A row of tokens for each pattern, with an arc for each weight from `LEAST`."""
    shown = panels[:MOST_PANELS]
    across = across if 0 < across <= 4 else min(side_by_side(len(shown)), 3)
    names = [label(x, 12) for x in tokens]
    n, room = len(names), WIDE / across - APART
    longest = max(map(measure, names))
    step = min(max(longest + 8, 26.0), room / n)
    turned = longest + 4 > step
    foot = (longest * 0.75 if turned else SIZE) + 10
    down = any(np.triu(p.values, 1).max(initial=0) >= LEAST for p in shown)
    up = min(HIGHEST, step * (n - 1) * 0.4) + 10
    tall = 20 + up + (up if down else 0) + foot
    out = list[str]()
    for k, panel in enumerate(shown):
        x, y = (k % across) * (n * step + APART), (k // across) * (tall + APART)
        base = y + 20 + up
        if panel.title:
            out.append(letters(x, y + 12, panel.title, INK, more='font-size="12"'))
        out.append(f'<path d="M{x:.1f} {base:.1f}H{x + n * step:.1f}" stroke="{LINE}"/>')
        for j, i in sorted(np.argwhere(panel.values >= LEAST).tolist(),
                           key=lambda at: float(panel.values[tuple(at)])):  # fmt: skip
            weight = float(panel.values[j, i])
            ends = x + (j + 0.5) * step, x + (i + 0.5) * step
            out.append(arc(ends, base, up - 10, weight, step * (n - 1),
                           f"{names[j]} reads {names[i]}: {weight:.4g}"))  # fmt: skip
        under = base + (up if down else 0) + 14
        for i, name in enumerate(names):
            at = x + (i + 0.5) * step
            turn = f'transform="rotate(45 {at - 3:.1f} {under:.1f})"' if turned else ""
            anchor = "start" if turned else "middle"
            out.append(letters(at - 3 * turned, under, name, SOFT, anchor, turn))
    height = ceil(len(shown) / across) * (tall + APART) - APART
    note = f"Arcs lead to what a position reads; weights from {LEAST:g}."
    if len(panels) > len(shown):
        note += f" {len(panels) - len(shown)} more patterns are left out."
    out.append(letters(0, height + 16, note))
    width = across * (n * step + APART)
    return Picture(title, max(width, measure(note)), height + 22, tuple(out), (), ())


def arc(
    ends: tuple[float, float], base: float, high: float, weight: float, longest: float, said: str
) -> str:
    """One weight: above the row backwards, below it forwards, or a stem at the position itself."""
    (x, to), wide = ends, max(0.8, WIDEST * weight)
    reach = high * (abs(x - to) / longest) ** 0.7 * 4 / 3 if x != to else 9.0
    tip = base - reach if to <= x else base + reach
    way = f"C{x:.1f} {tip:.1f} {to:.1f} {tip:.1f} {to:.1f} {base:.1f}" if x != to else f"V{tip:.1f}"
    colour, dark = SERIES[0] if to <= x else SERIES[1], 0.25 + 0.75 * min(weight, 1)
    return (
        f'<path d="M{x:.1f} {base:.1f}{way}" fill="none" stroke="{colour}" '
        f'stroke-width="{wide:.2f}" stroke-linecap="round" opacity="{dark:.2f}">'
        f"<title>{escape(said)}</title></path>"
    )


__all__ = ["arcs", "is_pattern"]
