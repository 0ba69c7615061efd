"""``viete ask``: questions in the notation, about one text, about many, and over checkpoints."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from viete.cli.answer_pages import AnswerPages
from viete.cli.asking import AskedInputs, Asking
from viete.cli.inputs import NumberOptions
from viete.cli.output import Output, emit, format_of, format_option, wrote
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.document.rendering import PAGES
from viete.errors import VieteError
from viete.printable import print_coloured

FORMATS = (*PAGES, "json", "csv", "npz", "svg")


def ask(
    source: SourceOptions,
    questions: Annotated[
        list[str],
        typer.Argument(
            metavar="QUESTION…", help="Formulas of the notation; @FILE reads a file of them."
        ),
    ],
    inputs: AskedInputs,
    weights: WeightOptions,
    number: NumberOptions,
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Show only the K largest values, with the tokens around them."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON, as -f json does.", rich_help_panel="Output")
    ] = False,
    form: Annotated[str | None, format_option(FORMATS)] = None,
    draw: Annotated[
        bool,
        typer.Option(
            "--draw",
            help="Draw the answers, on the terminal or with -o as SVG or HTML.",
            rich_help_panel="Output",
        ),
    ] = False,
    output: Output = None,
) -> None:
    """Evaluate formulas on a run: any value, any expression of values, with labels for its axes.

    Several checkpoints give a line each: --revision step1000,step2000, or --revision all.
    """
    from viete.ask.question_list import questions_of

    number.check()
    form = format_of("json" if as_json else form, output, FORMATS)
    if form == "npz" and output is None:
        raise VieteError("an archive of arrays needs a file: -o answers.npz")
    if draw and (form not in ("text", "svg", "html") or (form == "text" and output is not None)):
        raise VieteError(
            "--draw draws on the terminal, with -o picture.svg as SVG, with -o page.html on a page"
        )
    listed = questions_of(questions)
    asking = Asking(source, listed, inputs, weights, number, inputs.examples())
    pages = AnswerPages(asking, asking.rows())
    if draw and form == "text":
        print_coloured(pages.picture())
    elif draw and form == "html":
        emit(pages.with_pictures(), output, source.name)
    elif (text := pages.in_format(form, top, output)) is not None:
        emit(text, output, source.name)
    if output is not None and form == "npz":
        from viete.atomic import behind
        from viete.formats.files import save_npz
        from viete.report.answer_files import as_arrays

        save_npz(behind(output), as_arrays(pages.rows))
        wrote(output)
    if asking.stopped:
        print(f"viete: {asking.stopped}", file=sys.stderr)
        raise typer.Exit(130)
