"""The losses of runs over their steps, as a stand-alone SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from xml.sax.saxutils import escape

from viete.document.colours import INK, LINE, PAPER, SANS, SERIES, SOFT
from viete.errors import VieteError
from viete.regular import SETTINGS, regular
from viete.train.metrics import HUGE, METRICS, losses, read_metrics

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 78, 24, 52, 58  # the room around the axes
WIDE = 30.0  # a loss that falls by more than this factor is drawn over a logarithmic axis

DASHED, DOTTED = 'stroke-dasharray="5 4"', 'stroke-dasharray="1.5 4"'

Point = tuple[float, float]
Place = Callable[[float, float], Point]


@dataclass(frozen=True)
class Curve:
    """Steps and losses of one run, of its batches or of validation."""

    name: str
    points: tuple[Point, ...]
    validation: bool
    colour: str


def plot_runs(runs: Sequence[Path]) -> str:
    """The plot of one or several runs. Raises VieteError for a folder without measurements."""
    lines: list[Curve] = []
    floors: dict[float, None] = {}
    for k, run in enumerate(runs):
        if not run.is_dir():
            raise VieteError(f"{run}: there is no such folder")
        rows = read_metrics(run)
        several, before = len(runs) > 1, len(lines)
        for key, name in ("loss", "training"), ("validation", "validation"):
            shown = losses(rows, key)
            if shown:
                colour = SERIES[(k if several else len(lines)) % len(SERIES)]
                said = f"{run.resolve().name}, {name}" if several else name
                lines.append(Curve(said, shown, key == "validation", colour))
        floors |= dict.fromkeys(float(r["floor"]) for r in rows if abs(r.get("floor", HUGE)) < HUGE)
        if len(lines) == before:
            raise VieteError(f"{run}: there is no loss in its {METRICS} to draw")
    title = "Loss" if len(runs) > 1 else f"Loss of {run_title(runs[0])}"
    return svg(lines, title, [*floors])


def run_title(run: Path) -> str:
    """The title of the trained card, or the folder's name."""
    with suppress(OSError, ValueError):
        for line in regular(run / "card.md", SETTINGS).read_text("utf-8").splitlines():
            if line.startswith("# "):
                return line[2:].strip()
    return run.resolve().name


def svg(
    lines: Sequence[Curve], title: str, floors: Sequence[float] = ()
) -> str:  # fmt: skip
    """The plot: axes with round numbers, and each batch's loss as a thin line under its mean.

    ``floors`` are bounds that no model's mean loss can go below: dotted lines, unless far below.
    """
    losses = [loss for line in lines for _, loss in line.points]
    last = max(step for line in lines for step, _ in line.points)
    low, high = min(losses), max(losses)
    log = low > 0 and high / low > WIDE
    near = [floor for floor in floors if is_near(floor, low, high, log)]
    low, high = min([low, *near]), max([high, *near])
    ticks = powers(low, high) if log else round_numbers(low, high)
    below, above = min(low, ticks[0]), max(high, ticks[-1])
    if below == above:
        above = below + 1

    def place(step: float, loss: float) -> Point:
        f = math.log if log else float
        up = (f(loss) - f(below)) / (f(above) - f(below))
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * step / max(last, 1),
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up,
        )

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" role="img" font-family="{SANS}" font-size="13" '
        f'style="max-width:100%;height:auto">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="14" fill="{PAPER}"/>',
        text(LEFT, 30, title, INK, "start", 'font-size="15" font-weight="600"'),
    ]
    for value in ticks:
        _, y = place(0, value)
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{LINE}"/>')
        out.append(text(LEFT - 10, y + 4, f"{value:g}", SOFT, "end"))
    for step in round_numbers(0, last, whole=True):
        if step <= last:
            x, _ = place(step, below)
            out.append(text(x, HEIGHT - BOTTOM + 20, f"{step:,.0f}", SOFT, "middle"))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, "step", INK, "middle"))
    middle = (TOP + HEIGHT - BOTTOM) / 2
    name = "loss, nats a token" + ", logarithmic" * log
    out.append(text(22, middle, name, INK, "middle",
                    f'transform="rotate(-90 22 {middle:g})"'))  # fmt: skip
    for floor in near:
        _, y = place(0, floor)
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{INK}" {DOTTED}/>')
    for line in lines:
        out += curve_paths(line, place)
    names = [(line.name, line.colour, DASHED if line.validation else "") for line in lines]
    names += [
        (f"floor {floor:.4g}" + " (below the picture)" * (floor not in near), INK, DOTTED)
        for floor in floors
    ]
    return "\n".join([*out, *legend(names), "</svg>"]) + "\n"


def is_near(floor: float, low: float, high: float, log: bool) -> bool:
    """Whether a line below the losses leaves them half of the plot's height."""
    return low / high <= floor / low if log else low - floor <= high - low


def curve_paths(line: Curve, place: Place) -> list[str]:
    """The paths of a curve: validation as dots on a line, training as a pale line and its mean."""
    spots = [place(*p) for p in line.points]
    if line.validation:
        dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{PAPER}" stroke="{line.colour}" '
                f'stroke-width="1.6"/>' for x, y in spots] if len(spots) <= 60 else []  # fmt: skip
        return [path(spots, line.colour, 1.6, 1.0, DASHED), *dots]
    if len(spots) < 40:
        return [path(spots, line.colour, 2.0, 1.0)]
    mean = [place(*p) for p in running_mean(line.points)]
    return [path(spots, line.colour, 1.0, 0.3), path(mean, line.colour, 2.0, 1.0)]


def running_mean(points: Sequence[Point]) -> list[Point]:
    """The mean over a fiftieth of the run around each point, over less at the ends."""
    most = max(1, len(points) // 100)
    sums = [0.0, *accumulate(loss for _, loss in points)]
    out = []
    for k, (step, loss) in enumerate(points):
        r = min(most, k, len(points) - 1 - k)
        mean = (sums[k + r + 1] - sums[k - r]) / (2 * r + 1)
        out.append((step, mean if mean > 0 else loss))  # rounding can make means of tiny losses 0
    return out


def legend(names: Sequence[tuple[str, str, str]]) -> list[str]:
    """Names with strokes of their colours and dashes, in the upper right corner."""
    out = []
    for row, (name, colour, dash) in enumerate(names):
        y = TOP + 12 + 20 * row
        x = WIDTH - RIGHT - 12
        out.append(f'<path d="M{x - 26} {y - 4}H{x}" stroke="{colour}" stroke-width="2" {dash}/>')
        out.append(text(x - 34, y, name, INK, "end"))
    return out


def path(spots: Sequence[Point], colour: str, width: float, opacity: float, more: str = "") -> str:
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    return (
        f'<polyline points="{at}" fill="none" stroke="{colour}" stroke-width="{width}" '
        f'stroke-linejoin="round" opacity="{opacity}" {more}/>'
    )


def text(x: float, y: float, said: str, colour: str, anchor: str, more: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" {more}>'
        f"{escape(said)}</text>"
    )


def powers(low: float, high: float) -> list[float]:
    """The powers of ten around an interval."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**k for k in range(first, max(last, first + 1) + 1)]


def round_numbers(low: float, high: float, whole: bool = False, parts: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten around an interval, about ``parts`` of them."""
    raw = max(high - low, 1e-12) / parts
    power = 10.0 ** math.floor(math.log10(raw))
    apart = next(f * power for f in (1, 2, 5, 10) if f * power >= raw)
    apart = max(1.0, apart) if whole else apart
    first = math.floor(low / apart)
    return [k * apart for k in range(first, math.ceil(high / apart) + 1)]


__all__ = ["plot_runs"]
