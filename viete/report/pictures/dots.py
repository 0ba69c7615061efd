"""Dots: named points of a plane, and rows of numbers, each group in one colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from viete.document.colours import INK, LINE, LINE_STRONG, SERIES, SOFT
from viete.printable import display_width
from viete.report.pictures.colours import short
from viete.report.pictures.picture import SIZE, Picture, label, letters, measure
from viete.train.plot import round_numbers

WIDE, TALL, LEFT = 560, 380, 62
ROW = 46  # of a group
COLUMNS, LINES = 64, 22  # in characters
NAMED = 40  # points that have their names beside them
MARKS = "ox+*#%@&"


@dataclass(frozen=True)
class Dot:
    """A point, its group and its name."""

    x: float
    y: float
    group: int = 0
    name: str = ""


@dataclass(frozen=True)
class NumberAxis:
    """The numbers of an axis: their name, and where they begin and end."""

    name: str
    low: float
    high: float
    ticks: Sequence[float]

    @classmethod
    def of(cls, name: str, values: Sequence[float]) -> NumberAxis:
        """An axis with room for all these numbers."""
        finite = [v for v in values if np.isfinite(v)] or [0.0, 1.0]
        low, high = min(finite), max(finite)
        high = high if high > low else low + 1
        ticks = round_numbers(low, high)
        room = 0.03 * (high - low)
        return cls(name, min(low - room, ticks[0]), max(high + room, ticks[-1]), ticks)

    def share(self, value: float) -> float:
        """The place of a number along the axis, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)


def scatter(
    title: str, dots: Sequence[Dot], axes: tuple[str, str], groups: Sequence[str] = (),
    note: str = "",
) -> Picture:  # fmt: skip
    """Points over two axes; a few are labelled with their names, all show them as tooltips."""
    dots = [d for d in dots if np.isfinite([d.x, d.y]).all()]
    across, up = (
        NumberAxis.of(axes[0], [d.x for d in dots]),
        NumberAxis.of(axes[1], [d.y for d in dots]),
    )
    out = grid_across(across, TALL)
    for tick in up.ticks:
        y = TALL * (1 - up.share(tick))
        out.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + WIDE}" stroke="{LINE}"/>')
        out.append(letters(LEFT - 10, y + 4, short(tick), SOFT, "end"))
    turn = f'transform="rotate(-90 12 {TALL / 2:.0f})"'
    out.append(letters(12, TALL / 2, up.name, INK, "middle", turn))
    placed = list[tuple[float, float, float]]()  # names that stand: from x to x, at y
    for d in dots:
        x, y = LEFT + WIDE * across.share(d.x), TALL * (1 - up.share(d.y))
        out.append(circle(x, y, d.group, f"{d.name}: {d.x:.4g}, {d.y:.4g}"))
        name = label(d.name, 18)
        end = x + 7 + measure(name, 11)
        free = all(end < a or b < x or abs(y - at) > 11 for a, b, at in placed)
        if len(dots) <= NAMED and name and free:
            out.append(letters(x + 7, y + 4, name, SOFT, more='font-size="11"'))
            placed.append((x, end, y))
    out += legend(groups, TALL + 66)
    height = TALL + 52 + 24 * bool(groups)
    if note:
        out.append(letters(LEFT, height + 14, note))
    lines = in_text(dots, across, up, groups, note)
    width = LEFT + WIDE + (100 if len(dots) <= NAMED else 20)
    return Picture(title, width, height + 20 * bool(note), tuple(out), lines, lines)


def rows_of_dots(
    title: str, names: Sequence[str], rows: Sequence[Sequence[tuple[float, str]]], axis: str,
    mark: float | None = None,
) -> Picture:  # fmt: skip
    """A row of dots for each group, spread up and down to be distinct, and a line at ``mark``."""
    across = NumberAxis.of(
        axis, [v for row in rows for v, _ in row] + ([] if mark is None else [mark])
    )
    tall = ROW * len(rows)
    left = max(map(measure, map(label, names)), default=0) - LEFT + 24
    out = [f'<g transform="translate({max(left, 0):.0f} 0)">', *grid_across(across, tall)]
    if mark is not None:
        x = LEFT + WIDE * across.share(mark)
        out.append(f'<path d="M{x:.1f} 0V{tall}" stroke="{LINE_STRONG}" stroke-width="1.6"/>')
    for k, (name, row) in enumerate(zip(names, rows, strict=True)):
        middle = ROW * (k + 0.5)
        out.append(letters(LEFT - 12, middle + SIZE * 0.35, name, INK, "end"))
        for j, (value, said) in enumerate(row):
            y = middle + ROW * 0.32 * (((j * 0.6180339887) % 1) * 2 - 1)
            out.append(circle(LEFT + WIDE * across.share(value), y, k, f"{said}: {value:.4g}"))
    out.append("</g>")
    wide = max(map(display_width, names), default=0)
    lines = []
    for name, row in zip(names, rows, strict=True):
        cells = [" "] * COLUMNS
        if mark is not None:
            cells[place(across.share(mark), COLUMNS)] = "│"
        for value, _ in row:
            cells[place(across.share(value), COLUMNS)] = "o"
        lines.append(f"{' ' * (wide - display_width(name))}{name} {''.join(cells)}")
    lines.append(f"{'':{wide}} {short(across.low)} … {short(across.high)}  {axis}")
    width = max(left, 0) + LEFT + WIDE + 20
    return Picture(title, width, tall + 46, tuple(out), tuple(lines), tuple(lines))


def grid_across(axis: NumberAxis, tall: float) -> list[str]:
    """Vertical lines at the ticks of an axis, their numbers and its name."""
    out = []
    for tick in axis.ticks:
        x = LEFT + WIDE * axis.share(tick)
        out.append(f'<path d="M{x:.1f} 0V{tall}" stroke="{LINE}"/>')
        out.append(letters(x, tall + 20, short(tick), SOFT, "middle"))
    return [*out, letters(LEFT + WIDE / 2, tall + 42, axis.name, INK, "middle")]


def circle(x: float, y: float, group: int, said: str) -> str:
    """One dot, with its name as a tooltip."""
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{SERIES[group % len(SERIES)]}" '
        f'fill-opacity="0.6"><title>{escape(label(said, 160))}</title></circle>'
    )


def legend(groups: Sequence[str], y: float) -> list[str]:
    """The groups in a row, each with its colour."""
    out, x = list[str](), float(LEFT)
    for k, name in enumerate(groups):
        out.append(f'<circle cx="{x + 4:.1f}" cy="{y - 4:.1f}" r="4" '
                   f'fill="{SERIES[k % len(SERIES)]}"/>')  # fmt: skip
        out.append(letters(x + 13, y, name, INK))
        x += measure(label(name)) + 34
    return out


def in_text(
    dots: Sequence[Dot], across: NumberAxis, up: NumberAxis, groups: Sequence[str], note: str
) -> tuple[str, ...]:  # fmt: skip
    """The points as characters, a different one for each group."""
    cells = [[" "] * COLUMNS for _ in range(LINES)]
    for d in dots:
        row = LINES - 1 - place(up.share(d.y), LINES)
        cells[row][place(across.share(d.x), COLUMNS)] = MARKS[d.group % len(MARKS)]
    out = [f"{up.name} {short(up.low)} … {short(up.high)}", *("│" + "".join(r) for r in cells)]
    out += ["└" + "─" * COLUMNS, f" {short(across.low)} … {short(across.high)}  {across.name}"]
    out += [f"{MARKS[k % len(MARKS)]} {name}" for k, name in enumerate(groups)]
    return (*out, note) if note else tuple(out)


def place(share: float, count: int) -> int:
    """The cell for a share of the way, of ``count`` cells."""
    return min(count - 1, max(0, int(share * count)))


__all__ = ["Dot", "rows_of_dots", "scatter"]
