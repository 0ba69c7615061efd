"""``viete lesson``: any card and input as a lesson, step by step, in exact numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from viete.cli.common import (
    Accept,
    Card,
    Config,
    Instead,
    Revision,
    Set,
    emit,
    named_inputs,
    opened,
    row_of,
)
from viete.cli.run import estimate, exact_weights
from viete.errors import VieteError

SUFFIXES = {".md": "md", ".tex": "latex", ".html": "html", ".htm": "html", ".txt": "text"}


def lesson(
    name: Card,
    tokens: Annotated[
        str, typer.Option("--tokens", "-t", help="Words of the vocabulary, or ids: 3,1,4.")
    ],
    weights: Annotated[Path | None, typer.Option("--weights", "-w", help="A tensor file.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random weights where the card gives no values.")
    ] = None,
    position: Annotated[
        list[int] | None, typer.Option(help="Follow this position, counted from 0 (repeatable).")
    ] = None,
    digits: Annotated[int, typer.Option(help="Certified digits of what is no fraction.")] = 6,
    given: Annotated[
        list[str] | None, typer.Option("--input", help="Another input: --input y=1,4,1.")
    ] = None,
    sets: Set = None,
    config: Config = None,
    instead: Instead = None,
    accept: Accept = None,
    revision: Revision = None,
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
    own = weights is not None or seed is not None
    model, found = opened(name, own, sets, config, instead, accept, revision)
    inputs = named_inputs(given, model)
    if not tokens.strip():
        raise VieteError("--tokens is empty; a lesson needs at least one token")
    if "/" in tokens:
        raise VieteError("a lesson takes one sequence, not a batch: --tokens without /")
    ids = row_of(tokens, model, "--tokens")
    estimate(model, ids)
    fractions = exact_weights(model, weights, seed) if found is None else found.weights
    path = weights if found is None else Path(name)
    made = make(
        model, ids, fractions, positions=position, digits=digits, style=FORMS[form],
        origin=origin(path, seed, all(p.value for p in model.parameters)), inputs=inputs,
    )  # fmt: skip
    emit(write_lesson(made, form), output, name)
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
