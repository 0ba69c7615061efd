"""``viete plot``: the losses of a run as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viete.cli.options import Output, emit


def plot(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of viete train.")],
    output: Output = None,
) -> None:
    """Draw training and validation loss over the steps, of one run or of several."""
    from viete.train.plot import plot_runs

    picture = plot_runs(runs)
    target = output or runs[0] / "loss.svg"
    emit(picture, target)
    print(f"written: {target}")
