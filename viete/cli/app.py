"""``viete``: the commands."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

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
from viete.cli.options import spread
from viete.errors import VieteError

app = typer.Typer(
    help="Write a transformer as the equations you would put in a paper; then run them.",
    no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    pretty_exceptions_enable=False,
)  # fmt: skip


class Command(TyperCommand):
    """A command whose options are given once, and stand in its help under their headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The name is click's, which takes the last of several values without a word.

        Raises VieteError for an option that is given again, unless it collects its values, and for
        a value that it does not take.
        """
        order = self.make_parser(ctx).parse_args(args=list(args))[2]
        for p in order:
            if (count := order.count(p)) > 1 and not p.multiple:
                name = "/".join([max(p.opts, key=len), *p.secondary_opts])
                times = "twice" if count == 2 else f"{count} times"
                raise VieteError(f"{name} is given {times}; give it once")
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:  # click's own would come with three lines of usage
            raise VieteError(error.format_message().rstrip(".")) from None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The name is click's."""
        groups: dict[str, list[Any]] = {}
        for p in self.get_params(ctx):
            if record := p.get_help_record(ctx):
                usual = "Arguments" if p.param_type_name == "argument" else "Options"
                groups.setdefault(getattr(p, "rich_help_panel", None) or usual, []).append(record)
        for heading in [*(k for k in groups if k != "Options"), "Options"]:
            with formatter.section(heading):
                formatter.write_dl(groups[heading])


def print_version(wanted: bool) -> None:
    """What ``--version`` does."""
    if wanted:
        print(f"viete {viete.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Which it is.")
    ] = False,
) -> None:
    """Write a transformer as the equations you would put in a paper; then run them."""


for function in (
    show.show, show.cards, doc.doc, run.run, ask.ask, check.check, expand.expand,
    circuit.circuit, cause.cause, features.features, probe.probe, explore.explore,
    grad.grad, export.export,
    lesson.lesson, train.train, train.plot, sample.sample, tour.tour,
):  # fmt: skip
    app.command(cls=Command)(spread(function, train.SETTINGS))


@cache
def command() -> Any:
    """All commands, with their options read off the functions' signatures: once in a process."""
    return typer.main.get_command(app)
