"""Bars: named numbers, one below the other, from a common line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from viete.document.colours import INK, LINE, SERIES, SOFT
from viete.printable import display_width
from viete.report.pictures.colours import short
from viete.report.pictures.picture import SIZE, Picture, label, letters, measure

WIDE, TALL = 420, 22  # of the longest bar, and of each
CHARACTERS = 40
EIGHTHS = " ▏▎▍▌▋▊▉█"


def bars(title: str, names: Sequence[str], values: Sequence[float], note: str = "") -> Picture:
    """Bars to the right for numbers from 0, to the left for negative ones."""
    numbers = [float(v) for v in values]
    finite = [v for v in numbers if math.isfinite(v)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    apart = (high - low) or 1.0
    shown = [label(x, 40) for x in names]
    left = max(map(measure, shown), default=0) + 14
    zero = left + 52 * (low < 0) + WIDE * -low / apart
    out = [f'<path d="M{zero:.1f} 0V{TALL * len(numbers)}" stroke="{LINE}"/>']
    for k, (name, value) in enumerate(zip(shown, numbers, strict=True)):
        y, middle = k * TALL, k * TALL + TALL / 2 + SIZE * 0.35
        out.append(letters(left - 8, middle, name, INK, "end"))
        long = WIDE * abs(value) / apart if math.isfinite(value) else 0.0
        x = zero if value >= 0 else zero - long
        colour = SERIES[0] if value >= 0 else SERIES[1]
        out.append(
            f'<rect x="{x:.1f}" y="{y + 4}" width="{long:.1f}" height="{TALL - 8}" rx="2" '
            f'fill="{colour}"><title>{escape(f"{name}: {value:.6g}")}</title></rect>'
        )
        at, anchor = (x + long + 6, "start") if not value < 0 else (x - 6, "end")
        out.append(letters(at, middle, short(value), SOFT, anchor))
    height = TALL * len(numbers)
    if note:
        out.append(letters(left, height + 16, note))
    width = left + 52 * (low < 0) + WIDE + 64
    plain, coloured = (in_text(shown, numbers, low, apart, note, c) for c in (False, True))
    return Picture(title, width, height + 24 * bool(note), tuple(out), plain, coloured)


def in_text(
    names: Sequence[str], values: Sequence[float], low: float, apart: float, note: str,
    colour: bool,
) -> tuple[str, ...]:  # fmt: skip
    """The bars in characters, to an eighth of one."""
    wide = max(map(display_width, names), default=0)
    before = round(CHARACTERS * -low / apart)
    out = []
    for name, value in zip(names, values, strict=True):
        eighths = round(8 * CHARACTERS * abs(value) / apart) if math.isfinite(value) else 0
        whole = "█" * (eighths // 8)
        if value < 0:
            bar = f"{whole:>{before}}"
        else:
            bar = " " * before + whole + EIGHTHS[eighths % 8].strip()
        hue = (("38;2;51;102;170" if value >= 0 else "38;2;194;87;26"), bar)
        bar = f"\x1b[{hue[0]}m{bar}\x1b[0m" if colour else bar
        out.append(f"{' ' * (wide - display_width(name))}{name} {bar} {short(value)}")
    return tuple([*out, note] if note else out)


__all__ = ["bars"]
