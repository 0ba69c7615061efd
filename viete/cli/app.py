"""``viete``: the table of all commands."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import typer

import viete
from viete.cli import (
    ask,
    cause,
    check,
    circuit,
    doc,
    expand,
    explore,
    export,
    features,
    grad,
    lesson,
    probe,
    run,
    sample,
    show,
    tour,
    train,
)
from viete.cli.help import Command, Commands
from viete.cli.option_groups import spread

app = typer.Typer(
    help="Write a transformer as the equations you would put in a paper, and run them.",
    cls=Commands, no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    pretty_exceptions_enable=False,
)  # fmt: skip


def print_version(wanted: bool) -> None:
    """Print the version and exit, for ``--version``."""
    if wanted:
        print(f"viete {viete.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Write a transformer as the equations you would put in a paper, and run them.

    viete tour shows what Viète does, in less than a minute.
    """


GROUPS = {
    "Look": (show.cards, show.show, run.run, explore.explore, doc.doc),
    "Ask": (
        ask.ask, expand.expand, check.check, cause.cause, circuit.circuit, probe.probe,
        features.features,
    ),
    "Learn": (tour.tour, lesson.lesson, grad.grad),
    "Train": (train.train, train.plot, sample.sample),
    "Convert": (export.export,),
}  # fmt: skip
for heading, functions in GROUPS.items():
    for function in functions:
        app.command(cls=Command, rich_help_panel=heading)(spread(function, train.SETTINGS))


@cache
def command() -> Any:
    """The command-line parser with all commands, made once in a process."""
    return typer.main.get_command(app)
