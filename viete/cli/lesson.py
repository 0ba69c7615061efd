"""``viete lesson``: any card and input as a lesson, step by step, in exact numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from viete.cli.cutting import given_values
from viete.cli.inputs import InputOptions, NumberOptions, split_names
from viete.cli.output import (
    Output,
    emit,
    finished,
    format_of,
    format_option,
    source_form,
    write_files,
)
from viete.cli.running import estimate
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.document.rendering import PRINTED, STYLES
from viete.errors import VieteError


def lesson(
    source: SourceOptions,
    inputs: InputOptions,
    weights: WeightOptions,
    position: Annotated[
        list[int] | None, typer.Option(help="Follow this position, counted from 0 (repeatable).")
    ] = None,
    digits: Annotated[
        int, typer.Option(help="Proven digits of a number that is not a fraction.")
    ] = 6,
    exercise: Annotated[
        bool,
        typer.Option(
            "--exercise",
            help="Write a worksheet with blanks to fill in, and its key: "
            "-o sheet.html writes sheet-key.html too.",
        ),
    ] = False,
    blank: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Ask for these values only, such as Q,S,A; implies --exercise.",
        ),
    ] = None,
    form: Annotated[str | None, format_option(PRINTED)] = None,
    output: Output = None,
) -> None:
    """Write a lesson: every equation of a run with its numbers put in, and nothing rounded.

    It follows two positions: the first whose numbers stay fractions, and the last with the most
    complicated ones. A division by exactly zero, or a comparison that cannot be decided, ends the
    lesson at that step.
    """
    from viete.report.lesson.blanks import check_names
    from viete.report.lesson.document import write_lesson
    from viete.report.lesson.making import lesson as make
    from viete.report.lesson.worksheet import worksheet

    if form is None and output is not None and not output.suffix:
        raise VieteError(
            f"-o {output} has no suffix that gives the format: add one, or give --format"
        )
    form = format_of(form, output, PRINTED)
    written_in = source_form(form, output)
    card, model = source.opened(weights)
    exact = NumberOptions(meaning="exact")
    given = given_values(source, weights, exact, card, model, inputs.others(card))
    if inputs.tokens is not None and not inputs.tokens.strip():
        raise VieteError("--tokens is empty; a lesson needs at least one token")
    if "/" in ((inputs.text if model is None and inputs.tokens is None else inputs.tokens) or ""):
        raise VieteError("a lesson takes one sequence, not a batch: --tokens without /")
    ids = inputs.ids(card, model)
    word = (
        None if model is None or model.read_tokenizer() is None else model.lens.to_single_str_token
    )
    names = () if blank is None else split_names(blank, "--blank")
    check_names(card, names)  # before the exact run, which may be long
    estimate(card, ids, trained=model is not None)
    made = make(
        card, ids, weights.arrays(card, model, exact=True),
        positions=position, digits=digits, style=STYLES[written_in], inputs=given(ids), word=word,
        origin=origin(weights if model is None else WeightOptions(Path(source.name)),
                      all(p.value for p in card.parameters)),
        exercise=exercise or blank is not None,
    )  # fmt: skip
    if not exercise and blank is None:
        text = write_lesson(made, written_in)
        return emit(finished(text, form, written_in), output, source.name)
    sheet = worksheet(made, names)
    if output is None:
        return emit(sheet.write_both(written_in), None)
    texts = (finished(x, form, written_in) for x in sheet.write(written_in))
    files = [output, output.with_stem(f"{output.stem}-key")]
    write_files(dict(zip(files, texts, strict=True)), source.name)
    print(f"written: {files[0]} (the worksheet), {files[1]} (its key)", file=sys.stderr)


def origin(weights: WeightOptions, complete: bool) -> str:
    """Where the weights come from, for the reader of the lesson."""
    if weights.weights is not None:
        return (
            f"The weights are those of `{weights.weights.name}`. Each floating-point number is "
            "read as the fraction that it is."
        )
    if weights.seed is None or complete:
        return ""
    if weights.among is not None:
        return (
            f"The weights are random (seed {weights.seed}): each is one of the numbers "
            f"{weights.among}."
        )
    return (
        f"The weights are random (seed {weights.seed}). Each floating-point number is read as the "
        "fraction that it is."
    )
