"""``viete``: the commands, and how their errors reach a person."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import viete
from viete.cli import check, doc, export, grad, lesson, plot, run, sample, show, tour, train
from viete.errors import VieteError

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


def main() -> None:
    """Run the command line. Bad input ends with one sentence and the exit code 2."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # where it cannot be written, that is still to be said
    except VieteError as error:
        fail(str(error))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        silence()
        sys.exit(0)
    except OSError as error:  # files have sentences of their own: what is left is our output
        silence()
        fail(f"{error.filename or 'the output'}: cannot be written ({error.strerror or error})")
    except MemoryError:
        fail("this needs more memory than there is; try smaller dimensions with --set")


def silence() -> None:
    """Let what is still to be printed go nowhere, when it has nowhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str) -> None:
    """One sentence on standard error, and the exit code of bad input."""
    print(f"viete: {message}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
