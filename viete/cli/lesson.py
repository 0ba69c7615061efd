"""``viete lesson``: any card and input as a lesson, step by step, in exact numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from viete.cli.options import InputOptions, SourceOptions, WeightOptions, emit
from viete.cli.run import estimate
from viete.errors import VieteError

SUFFIXES = {".md": "md", ".tex": "latex", ".html": "html", ".htm": "html", ".txt": "text"}


def lesson(
    source: SourceOptions,
    inputs: InputOptions,
    weights: WeightOptions,
    position: Annotated[
        list[int] | None, typer.Option(help="Follow this position, counted from 0 (repeatable).")
    ] = None,
    digits: Annotated[int, typer.Option(help="Certified digits of what is no fraction.")] = 6,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a .md, .tex, .html or .txt file.")
    ] = None,
) -> None:
    """Write a lesson: every equation of a run, with its numbers put in and nothing rounded.

    By default the last position that goes furthest from the fractions is followed, and before it
    the first one that never leaves them. A division by exactly zero, or a comparison that cannot be
    decided, ends the lesson at its step, which says so; the exit code is 0 all the same.
    """
    from viete.report.lesson.making import lesson as make
    from viete.report.lesson.writing import FORMS, write_lesson

    form = "text" if output is None else SUFFIXES.get(output.suffix.lower())
    if form is None:
        suffix = f"not {output.suffix}" if output and output.suffix else "and this has no suffix"
        raise VieteError(f"a lesson is written to .md, .tex, .html or .txt, {suffix}")
    card, model = source.opened(weights)
    others = inputs.others(card)
    if inputs.tokens is not None and not inputs.tokens.strip():
        raise VieteError("--tokens is empty; a lesson needs at least one token")
    if "/" in (inputs.tokens or ""):
        raise VieteError("a lesson takes one sequence, not a batch: --tokens without /")
    ids = inputs.ids(card, model)
    ids = ids if inputs.text is None else [int(k) for k in ids[0]]
    estimate(card, ids)
    made = make(
        card, ids, weights.exact(card) if model is None else model.weights,
        positions=position, digits=digits, style=FORMS[form], inputs=others,
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
