"""``viete``: the commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import viete
from viete.cli import check, doc, export, grad, lesson, plot, run, sample, show, tour, train

app = typer.Typer(
    help="Write a transformer as the equations you would put in a paper; then run them.",
    no_args_is_help=True, add_completion=False, rich_markup_mode=None,
    pretty_exceptions_enable=False,
)  # fmt: skip


class Grouped(TyperCommand):
    """A command whose help has its options under several headings."""

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


app.command("show")(show.show)
app.command("cards")(show.cards)
app.command("doc")(doc.doc)
app.command("run")(run.run)
app.command("check")(check.check)
app.command("grad")(grad.grad)
app.command("export")(export.export)
app.command("lesson")(lesson.lesson)
app.command("train", cls=Grouped)(train.train)
app.command("plot")(plot.plot)
app.command("sample")(sample.sample)
app.command("tour")(tour.tour)
