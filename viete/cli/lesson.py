"""``viete lesson``: any card and input as a lesson, step by step, in exact numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from viete.cli.cutting import given_values
from viete.cli.options import (
    InputOptions,
    NumberOptions,
    Output,
    SourceOptions,
    WeightOptions,
    emit,
    format_of,
    format_option,
)
from viete.cli.running import estimate
from viete.document.rendering import PAGES, STYLES
from viete.errors import VieteError


def lesson(
    source: SourceOptions,
    inputs: InputOptions,
    weights: WeightOptions,
    position: Annotated[
        list[int] | None, typer.Option(help="Follow this position, counted from 0 (repeatable).")
    ] = None,
    digits: Annotated[int, typer.Option(help="Certified digits of what is no fraction.")] = 6,
    form: Annotated[str | None, format_option(PAGES)] = None,
    output: Output = None,
) -> None:
    """Write a lesson: every equation of a run, with its numbers put in and nothing rounded.

    By default the last position that goes furthest from the fractions is followed, and before it
    the first one that never leaves them. A division by exactly zero, or a comparison that cannot be
    decided, ends the lesson at its step, which says so; the exit code is 0 all the same.
    """
    from viete.report.lesson.document import write_lesson
    from viete.report.lesson.making import lesson as make

    if form is None and output is not None and not output.suffix:
        raise VieteError(f"-o {output} has no suffix that says the format; or say --format")
    form = format_of(form, output, PAGES)
    card, model = source.opened(weights)
    exact = NumberOptions(meaning="exact")
    given = given_values(source, weights, exact, card, model, inputs.others(card))
    if inputs.tokens is not None and not inputs.tokens.strip():
        raise VieteError("--tokens is empty; a lesson needs at least one token")
    if "/" in ((inputs.text if model is None and inputs.tokens is None else inputs.tokens) or ""):
        raise VieteError("a lesson takes one sequence, not a batch: --tokens without /")
    ids = inputs.ids(card, model)
    ids = ids if inputs.text is None or model is None else [int(k) for k in ids[0]]
    estimate(card, ids)
    made = make(
        card, ids, weights.arrays(card, model, exact=True),
        positions=position, digits=digits, style=STYLES[form], inputs=given(ids),
        origin=origin(weights.weights if model is None else Path(source.name), weights.seed,
                      all(p.value for p in card.parameters)),
    )  # fmt: skip
    emit(write_lesson(made, form), output, source.name)
    if output is not None:
        print(f"written: {output}", file=sys.stderr)


def origin(path: Path | None, seed: int | None, complete: bool) -> str:
    """Where the weights come from, for the reader of the lesson."""
    if path is not None:
        return (
            f"The weights are those of `{path.name}`: each floating-point number is read as the "
            "fraction that it is."
        )
    if seed is not None and not complete:
        return (
            f"The weights are random, drawn with the seed {seed} as the card's init column says "
            "where it gives no values; each floating-point number is read as the fraction that it "
            "is."
        )
    return ""
