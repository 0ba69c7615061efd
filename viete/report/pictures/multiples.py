"""Small multiples: numbers over the steps of training, each in a small panel, on common axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from viete.document.colours import INK, LINE, LINE_STRONG, PAPER, SERIES, SERIF, SOFT
from viete.printable import display_width
from viete.report.drawing.svg import formula_text
from viete.report.pictures.colours import short
from viete.report.pictures.picture import Picture, label, letters, measure
from viete.train.plot import round_numbers

WIDE, LEFT = 880, 54  # of a row of panels, and the room of the numbers before it
APART, BELOW, HEAD, FOOT = 48, 26, 24, 22
LARGEST, TALL, LEAST = 420, 190, 96  # a panel's width at most, and its height: alone, of many
SPARKS = "▁▂▃▄▅▆▇█"
DOTS = 60  # steps that have a dot each
NEAR = 14  # between two lines of text


@dataclass(frozen=True)
class LinePanel:
    """A panel of a grid: its title, and its lines by their names, a number for each step."""

    title: str
    lines: Mapping[str, np.ndarray]
    within: tuple[float, ...] = ()  # numbers that its scale has in any case

    @property
    def values(self) -> np.ndarray:
        """All finite numbers of the panel."""
        found = np.concatenate([self.within, *(np.asarray(v, float) for v in self.lines.values())])
        return found[np.isfinite(found)]


def multiples(
    title: str, steps: Sequence[int], panels: Sequence[LinePanel], across: int = 0,
    together: bool = True, marks: Mapping[int, str] | None = None,
) -> Picture:  # fmt: skip
    """The panels, ``across`` in a row, as one picture.

    With ``together`` they have one scale, and each shows the others pale. ``marks`` are steps with
    a word for each.
    """
    across = across if 0 < across <= 8 else min(len(panels), 4)
    deep = math.ceil(len(panels) / across)
    ends = [max(measure(x, 11.5) for p in panels[c::across] for x in p.lines) + 14
            for c in range(across)]  # fmt: skip
    gaps = [max(APART, end) + (0 if together else LEFT - 16) for end in ends]
    most = LARGEST if deep == 1 else 0.7 * LARGEST
    wide = min(most, (WIDE - LEFT - sum(gaps[:-1])) / across)
    tall = max(LEAST, TALL - 46 * (deep - 1) - 14 * (across - 1))
    whole = np.concatenate([p.values for p in panels])
    shared = together and len(panels) > 1
    ghosts = [line for p in panels for line in p.lines.values()] if shared else []
    over = StepAxis(steps, wide)
    body: list[str] = []
    for k, panel in enumerate(panels):
        x = LEFT + (k % across) * wide + sum(gaps[: k % across])
        y = (k // across) * (tall + HEAD + BELOW) + HEAD
        height = Height.of(whole if together else panel.values, tall)
        body += [f'<g transform="translate({x:.1f} {y:.1f})">',
                 formula_text(0, -9, label(panel.title, 60), 13.5, fill=INK, font_family=SERIF),
                 *axes(over, height, not together or k % across == 0),
                 *flags(over, tall, marks or {}, words=k == 0),
                 *(path(over, height, g, LINE_STRONG, 1.0, 0.55) for g in ghosts),
                 *drawn(panel, over, height), "</g>"]  # fmt: skip
    width = LEFT + across * wide + sum(gaps[:-1]) + max(40, ends[-1])
    height_of_all = deep * (tall + HEAD + BELOW) - BELOW + FOOT
    body.append(letters(LEFT + wide / 2, height_of_all + 14, "step", INK, "middle"))
    plain, coloured = (sparks(panels, over, shared, c) for c in (False, True))
    return Picture(title, width, height_of_all + 18, tuple(body), plain, coloured)


class StepAxis:
    """The horizontal axis of steps: even, or logarithmic where they double."""

    def __init__(self, steps: Sequence[int], wide: float) -> None:
        self.steps, self.wide, self.last = steps, wide, max(steps)
        self.log = self.last > 16 * max(float(np.median(steps)), 1)

    def place(self, step: float) -> float:
        """The place of a step, from 0 to the width."""
        f = math.log1p if self.log else float
        return self.wide * f(step) / (f(self.last) or 1.0)

    @property
    def ticks(self) -> list[int]:
        """A few round steps."""
        if not self.log:
            found = round_numbers(0, self.last, whole=True, parts=int(self.wide / 45))
            return [int(s) for s in found if s <= self.last]
        powers = [0, *(int(10**k) for k in range(len(str(self.last))))]
        return powers[:: math.ceil(len(powers) * 36 / self.wide)]


@dataclass(frozen=True)
class Height:
    """The vertical axis of a panel: the least and the greatest of its scale, and its height."""

    low: float
    high: float
    tall: float
    ticks: tuple[float, ...]

    @classmethod
    def of(cls, values: np.ndarray, tall: float) -> Height:
        """The scale of some numbers."""
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        if high - low < 1e-12 * max(abs(low), abs(high), 1e-300):
            low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
        ticks = round_numbers(low, high, parts=max(2, int(tall / 44)))
        return cls(min(low, ticks[0]), max(high, ticks[-1]), tall, tuple(ticks))

    def place(self, value: float) -> float:
        """The place of a number, from the top."""
        return self.tall * (1 - (value - self.low) / (self.high - self.low))


def axes(over: StepAxis, height: Height, named: bool) -> list[str]:
    """The lines at round numbers, with these numbers unless a neighbour shows them."""
    out = []
    for value in height.ticks:
        y = height.place(value)
        out.append(f'<path d="M0 {y:.1f}H{over.wide:.1f}" stroke="{LINE}"/>')
        if named:
            out.append(letters(-8, y + 4, short(value), SOFT, "end", 'font-size="11.5"'))
    for step in over.ticks:
        out.append(letters(over.place(step), height.tall + 16, f"{step:,}", SOFT, "middle",
                           'font-size="11.5"'))  # fmt: skip
    return out


def flags(over: StepAxis, tall: float, marks: Mapping[int, str], words: bool) -> list[str]:
    """A line at each step that is marked."""
    out = []
    for k, (step, word) in enumerate(marks.items()):
        x = over.place(step)
        out.append(f'<path d="M{x:.1f} 0V{tall:.1f}" stroke="{INK}" stroke-dasharray="1.5 4"/>')
        if words:
            before = x > over.wide / 2
            out.append(letters(x - 5 if before else x + 5, 11 + NEAR * k, word, INK,
                               "end" if before else "start", 'font-size="11.5"'))  # fmt: skip
    return out


def drawn(panel: LinePanel, over: StepAxis, height: Height) -> list[str]:
    """The lines of a panel, each with its name or its last number at its end."""
    out, ends = list[str](), list[tuple[float, str, str]]()
    for k, (name, values) in enumerate(panel.lines.items()):
        colour = SERIES[k % len(SERIES)]
        out.append(path(over, height, values, colour, 2.0))
        spots = [(s, float(v)) for s, v in zip(over.steps, values, strict=True) if np.isfinite(v)]
        small = 2.6 if len(spots) <= DOTS else 0.8
        for step, v in spots:
            x, y = over.place(step), height.place(v)
            said = escape(f"{name or panel.title}, step {step}: {v:.6g}")
            out.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{small}" fill="{PAPER}" '
                f'stroke="{colour}" stroke-width="1.4"><title>{said}</title></circle>'
            )
        if spots:
            ends.append((spots[-1][1], name or brief(spots[-1][1], height), colour))
    taken = list[float]()
    for value, word, colour in sorted(ends):  # the lowest first, and each above those below it
        taken.append(y := clear(height.place(value) + 4, taken))
        out.append(letters(over.wide + 6, y, word, colour, "start", 'font-size="11.5"'))
    return out


def brief(value: float, height: Height) -> str:
    """A number with the digits that are visible at this height."""
    digits = max(0, 2 - math.floor(math.log10(height.high - height.low)))
    return f"{round(value, digits) + 0.0:.4g}".replace("-", "−")


def clear(y: float, taken: Sequence[float]) -> float:
    """The nearest free height above, for a word."""
    while any(abs(y - other) < NEAR for other in taken):
        y -= NEAR / 2
    return y


def path(
    over: StepAxis, height: Height, values: np.ndarray, colour: str, width: float,
    opacity: float = 1.0,
) -> str:  # fmt: skip
    """A line through the finite numbers."""
    at = " ".join(f"{over.place(s):.1f},{height.place(float(v)):.1f}"
                  for s, v in zip(over.steps, values, strict=True) if np.isfinite(v))  # fmt: skip
    return (f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="{width}" '
            f'stroke-linejoin="round" opacity="{opacity}"/>')  # fmt: skip


def sparks(
    panels: Sequence[LinePanel], over: StepAxis, shared: bool, colour: bool
) -> tuple[str, ...]:  # fmt: skip
    """One text line for each line, with its first and last number."""
    whole = np.concatenate([p.values for p in panels])
    rows = [(label(f"{p.title}, {name}" if name else p.title, 60), np.asarray(v, float),
             whole if shared else p.values)
            for p in panels for name, v in p.lines.items()]  # fmt: skip
    wide = max(display_width(name) for name, *_ in rows)
    out = []
    for name, values, beside in rows:
        low, high = (float(beside.min()), float(beside.max())) if beside.size else (0.0, 1.0)
        line = "".join(
            SPARKS[round((len(SPARKS) - 1) * (float(v) - low) / ((high - low) or 1.0))]
            if np.isfinite(v) else " " for v in values
        )  # fmt: skip
        line = f"\x1b[38;2;51;102;170m{line}\x1b[0m" if colour else line
        ends = " → ".join(short(float(v)) for v in (values[0], values[-1]))
        out.append(f"{name}{' ' * (wide - display_width(name))}  {line}  {ends}")
    return (*out, f"steps {over.steps[0]:,} to {over.last:,}")


__all__ = ["LinePanel", "multiples"]
