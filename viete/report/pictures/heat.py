"""Heat maps: a matrix as coloured cells with labels; several matrices as a grid."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from xml.sax.saxutils import escape

import numpy as np

from viete.document.colours import INK, LINE, SOFT
from viete.printable import display_width
from viete.report.pictures.colours import Scale, channels, short
from viete.report.pictures.picture import SIZE, Picture, label, letters, measure

WIDE = 900  # of all panels together
LARGEST, SMALLEST = 22.0, 1.0  # of a cell
MOST_CELLS = 3000  # that are drawn one by one; of more it is an image
MOST_PANELS = 64
TEXT_ROWS, TEXT_COLUMNS = 60, 60


@dataclass(frozen=True)
class HeatPanel:
    """One matrix of a grid, and its title."""

    title: str
    values: np.ndarray


def heat(
    title: str, panels: Sequence[HeatPanel], rows: Sequence[str], columns: Sequence[str],
    axes: tuple[str, str], across: int = 0,
) -> Picture:  # fmt: skip
    """Matrices of one shape, with the labels of their rows and columns, on one scale.

    ``across`` is the number side by side, where that has a meaning.
    """
    shown = panels[:MOST_PANELS]
    scale = Scale.of(np.concatenate([p.values.reshape(-1) for p in shown] or [np.zeros(1)]))
    body, width, height = grid(shown, rows, columns, axes, scale, across)
    body += legend(scale, 0, height + 26)
    if len(panels) > len(shown):
        body.append(letters(260, height + 37, f"{len(panels) - len(shown)} more are left out"))
    plain, coloured = (in_text(shown, rows, columns, axes, scale, c) for c in (False, True))
    return Picture(title, width, height + 56, tuple(body), tuple(plain), tuple(coloured))


# -- as SVG ----------------------------------------------------------------------------------------


def grid(
    panels: Sequence[HeatPanel], rows: Sequence[str], columns: Sequence[str], axes: tuple[str, str],
    scale: Scale, across: int,
) -> tuple[list[str], float, float]:  # fmt: skip
    """The panels in rows; labels only at the first and last panels."""
    n, m = len(rows), len(columns)
    across = across if 0 < across <= 16 else side_by_side(len(panels))
    named = [label(x) for x in rows], [label(x) for x in columns]
    room = WIDE - max(map(measure, named[0]), default=0) - 20
    cell = max(SMALLEST, min(LARGEST, (room / across - 14) / max(m, 1), 620 / max(n, 1)))
    cell = round(cell, 2) if cell < 4 else float(int(cell))
    small = cell < 11
    left = 24 + (0 if small else max(map(measure, named[0]), default=0))
    turned = 0 if small else min(110, max(map(measure, named[1]), default=0) * slope(cell))
    below = 18 + turned + 16 * plain(named[1])
    head = 20 if any(p.title for p in panels) else 4
    apart = 14
    deep = ceil(len(panels) / across)
    out: list[str] = []
    for k, panel in enumerate(panels):
        x = left + (k % across) * (m * cell + apart)
        y = (k // across) * (n * cell + head + apart) + head
        if panel.title:
            out.append(letters(x, y - 6, panel.title, INK, more='font-size="12"'))
        out += cells(panel.values, named, axes, scale, x, y, cell)
        out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{m * cell:.1f}" '
                   f'height="{n * cell:.1f}" fill="none" stroke="{LINE}"/>')  # fmt: skip
        if k % across == 0:
            out += row_labels(named[0], axes[0], x, y, cell, small)
        if k + across >= len(panels):
            out += column_labels(named[1], axes[1], x, y + n * cell, cell, small)
    width = left + across * (m * cell + apart) + (60 if not small else 0)
    return out, width, deep * (n * cell + head + apart) - apart + below


def side_by_side(count: int) -> int:
    """The number of panels in a row: as square as possible, without a gap."""
    least = ceil(sqrt(count))
    return next((k for k in range(least, least + 3) if count % k == 0), ceil(sqrt(count * 1.6)))


def plain(names: Sequence[str]) -> bool:
    """Whether labels are only numbers, so that the axis needs its name."""
    return all(name.isdigit() for name in names)


def cells(
    values: np.ndarray, names: tuple[Sequence[str], Sequence[str]], axes: tuple[str, str],
    scale: Scale, x: float, y: float, cell: float,
) -> list[str]:  # fmt: skip
    """The cells of one matrix, each with its number if they are few."""
    n, m = values.shape
    if n * m > MOST_CELLS or cell < 3:
        return [image(values, scale, x, y, m * cell, n * cell)]
    out = []
    for j in range(n):
        for k in range(m):
            value = float(values[j, k])
            said = f"{axes[0]} {names[0][j]}, {axes[1]} {names[1][k]}: {value:.4g}"
            out.append(
                f'<rect x="{x + k * cell:.1f}" y="{y + j * cell:.1f}" width="{cell - 0.5:g}" '
                f'height="{cell - 0.5:g}" {scale.fill(value)}>'
                f"<title>{escape(said)}</title></rect>"
            )
    return out


def image(
    values: np.ndarray, scale: Scale, x: float, y: float, width: float, height: float
) -> str:  # fmt: skip
    """A matrix as an image with one pixel for each number, inside the SVG."""
    inks = [scale.ink(float(v)) for v in values.reshape(-1)]
    pixels = np.array([(*channels(hue), round(255 * share)) for hue, share in inks], np.uint8)
    n, m = values.shape
    raw = np.concatenate([np.zeros((n, 1), np.uint8), pixels.reshape(n, m * 4)], axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", m, n, 8, 6, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(raw.tobytes(), 9)) + chunk(b"IEND", b"")
    return (
        f'<image x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'preserveAspectRatio="none" style="image-rendering:pixelated" '
        f'href="data:image/png;base64,{b64encode(png).decode()}"/>'
    )


def row_labels(
    names: Sequence[str], axis: str, x: float, y: float, cell: float, small: bool
) -> list[str]:  # fmt: skip
    """Labels to the left of a matrix; for small cells only the name of the axis."""
    middle = y + len(names) * cell / 2
    if small:
        turn = f'transform="rotate(-90 {x - 8:.1f} {middle:.1f})"'
        return [letters(x - 8, middle, axis, SOFT, "middle", turn)]
    out = [letters(x - 6, y + (j + 0.5) * cell + SIZE * 0.35, name, SOFT, "end")
           for j, name in enumerate(names)]  # fmt: skip
    if plain(names):
        at = x - 12 - max(map(measure, names))
        turn = f'transform="rotate(-90 {at:.1f} {middle:.1f})"'
        out.append(letters(at, middle, axis, INK, "middle", turn))
    return out


def slope(cell: float) -> float:
    """The height of a turned label of length 1: vertical where slanted ones would touch."""
    return 0.75 if cell > SIZE * 1.6 else 1.0


def column_labels(
    names: Sequence[str], axis: str, x: float, y: float, cell: float, small: bool
) -> list[str]:  # fmt: skip
    """Labels below a matrix, turned where they are long."""
    if small:
        return [letters(x + len(names) * cell / 2, y + 15, axis, SOFT, "middle")]
    out = []
    straight = max(map(measure, names), default=0) < cell - 2
    for k, name in enumerate(names):
        at = x + (k + 0.5) * cell
        if straight:
            out.append(letters(at, y + 15, name, SOFT, "middle"))
        else:
            turn = 45 if slope(cell) < 1 else 90
            at -= 3 if turn == 45 else SIZE * 0.33
            way = f'transform="rotate({turn} {at:.1f} {y + 10:.1f})"'
            out.append(letters(at, y + 10, name, SOFT, "start", way))
    if plain(names):
        out.append(letters(x + len(names) * cell / 2, y + 32, axis, INK, "middle"))
    return out


def legend(scale: Scale, x: float, y: float) -> list[str]:
    """The scale: its colours in a row, with numbers."""
    steps, wide = 48, 192
    low = -scale.most if scale.signed else 0.0
    out = []
    for k in range(steps):
        value = low + (scale.most - low) * (k + 0.5) / steps
        out.append(
            f'<rect x="{x + k * wide / steps:.1f}" y="{y:.1f}" width="{wide / steps:.1f}" '
            f'height="9" shape-rendering="crispEdges" {scale.fill(value)}/>'
        )
    for value in scale.marks:
        at = x + wide * (value - low) / (scale.most - low)
        anchor = "start" if value == low else "end" if value == scale.most else "middle"
        out.append(letters(at, y + 23, short(value), SOFT, anchor, 'font-size="11.5"'))
    return out


# -- in a terminal ---------------------------------------------------------------------------------


def in_text(
    panels: Sequence[HeatPanel], rows: Sequence[str], columns: Sequence[str], axes: tuple[str, str],
    scale: Scale, colour: bool,
) -> list[str]:  # fmt: skip
    """Each matrix as rows of two characters for each number; of a large one its beginning."""
    n, m = min(len(rows), TEXT_ROWS), min(len(columns), TEXT_COLUMNS)
    names = [label(x, 20) for x in rows[:n]]
    wide = max(map(display_width, (*names, axes[0])), default=0)
    out: list[str] = []
    for panel in panels:
        if panel.title:
            out.append(panel.title)
        head = "".join(f"{k % 100:2d}" if not k % 2 else "  " for k in range(m))
        out.append(f"{axes[0]:>{wide}} {head}  {axes[1]}")
        for j in range(n):
            row = (float(v) for v in panel.values[j, :m])
            shown = "".join(scale.block(v) if colour else scale.shade(v) for v in row)
            pad = " " * (wide - display_width(names[j]))
            out.append(f"{pad}{names[j]} {shown}{'' if colour else '│'}")
        if (n, m) != (len(rows), len(columns)):
            out.append(f"{'':{wide}} … of {len(rows)} × {len(columns)}")
        out.append("")
    marks = "  ".join(
        f"{scale.block(v) if colour else scale.shade(v)} {short(v)}" for v in scale.marks
    )
    return [*out, marks]


__all__ = ["HeatPanel", "heat"]
