"""The losses of a run over their steps, as lines of text for a terminal."""

from __future__ import annotations

from pathlib import Path

from viete.train.metrics import losses, read_metrics

ROWS, MOST, AXIS = 10, 56, 11  # columns: of the curve at most, and of the numbers beside it


def plot_text(run: Path, width: int = MOST + AXIS) -> list[str]:
    """Training loss as ●, validation loss as ○, each the mean over the steps of a column."""
    most = min(MOST, width - AXIS)
    rows = read_metrics(run)
    curves = {"○": losses(rows, "validation"), "●": losses(rows, "loss")}
    every = [p for points in curves.values() for p in points]
    if not every:
        return []
    last = max(step for step, _ in every) or 1.0
    columns: dict[tuple[str, int], list[float]] = {}
    for sign, points in curves.items():
        for step, loss in points:
            columns.setdefault((sign, round(step / last * (most - 1))), []).append(loss)
    means = {place: sum(x) / len(x) for place, x in columns.items()}
    low, high = min(means.values()), max(means.values())
    grid = [[" "] * most for _ in range(ROWS)]
    for (sign, column), loss in means.items():
        share = (high - loss) / (high - low) if high > low else 0.0
        grid[round(share * (ROWS - 1))][column] = sign
    out = []
    for k, cells in enumerate(grid):
        mark = marked(high) if k == 0 else marked(low) if k == ROWS - 1 else ""
        out.append(f"  {mark:>7} │{''.join(cells)}".rstrip())
    out.append(f"{'':10}└{'─' * most}")
    end = f"step {last:.0f}"
    drawn = ["● training loss"] * bool(curves["●"]) + ["○ validation loss"] * bool(curves["○"])
    return [*out, f"{'':11}0{end:>{most - 1}}", f"{'':11}{'  '.join(drawn)}"]


def marked(loss: float) -> str:
    """A loss beside the axis, in at most 7 columns."""
    return f"{loss:.2f}" if abs(loss) < 1e4 else f"{loss:.0e}"
