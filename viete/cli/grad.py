"""``viete grad``: the backward pass of a card, derived from its equations."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from viete.cli.options import Output, SourceOptions, emit, split_names
from viete.errors import VieteError


class Precision(StrEnum):
    """What ``--dtype`` takes."""

    float64 = "float64"
    float32 = "float32"
    bfloat16 = "bfloat16"


class Format(StrEnum):
    """What ``--format`` takes."""

    text = "text"
    md = "md"
    latex = "latex"


def grad(
    source: SourceOptions,
    of: Annotated[
        str | None,
        typer.Option(help="The loss, one number: 'cross_entropy(logits; t)'; else the card's own."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Parameters or real inputs: W_Q^h,b_O. By default all parameters."),
    ] = None,
    form: Annotated[
        Format | None, typer.Option("--format", "-f", help="By the output's suffix, else text.")
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="How a training step is run: steps, buffers, FLOPs.")
    ] = False,
    batch: Annotated[int, typer.Option(help="Of the plan: sequences in a step.")] = 64,
    length: Annotated[
        int | None, typer.Option(help="Of the plan: positions; by default the whole context.")
    ] = None,
    dtype: Annotated[Precision, typer.Option(help="Of the plan.")] = Precision.float32,
    output: Output = None,
) -> None:
    """Derive the backward pass: every equation with its number, its shape and its reason.

    With --plan: how the equations of a training step are run, and in what memory.
    """
    from viete.report.backward import write_backward

    model = source.card()
    if form is None:
        suffix = output.suffix if output is not None else ""
        form = {".md": Format.md, ".tex": Format.latex}.get(suffix, Format.text)
    if plan:
        from viete.report.backward import written
        from viete.report.plan import plan_document

        if by is not None:
            raise VieteError("a plan is of all gradients; leave out --by, or --plan")
        page = plan_document(model, of, batch, length, dtype.value)
        return emit(written(page, form.value), output, source.name)
    wanted = None if by is None else split_names(by, "--by")
    emit(write_backward(model, form.value, of, wanted), output, source.name)
