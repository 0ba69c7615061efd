"""``viete grad``: the backward pass of a card, derived from its equations."""

from __future__ import annotations

from typing import Annotated

import typer

from viete.cli.inputs import split_names
from viete.cli.option_groups import choice
from viete.cli.output import Output, emit, format_of, format_option
from viete.cli.source import SourceOptions
from viete.document.rendering import PAGES, render
from viete.errors import VieteError

PRECISIONS = ("float64", "float32", "bfloat16")
FORMS = (*PAGES, "card")


def grad(
    source: SourceOptions,
    of: Annotated[
        str | None,
        typer.Option(help="The loss, one number: 'cross_entropy(logits; t)' [the card's own]."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Derivatives with respect to these parameters or real inputs only: W_Q^h,b_O "
            "[all parameters]."
        ),
    ] = None,
    form: Annotated[
        str | None,
        format_option(
            FORMS, "The format [from -o's suffix, else text]; card writes a card that runs."
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Show how a training step is run: operations, buffers, FLOPs."),
    ] = False,
    batch: Annotated[int, typer.Option(help="With --plan: sequences in a step.")] = 64,
    length: Annotated[
        int | None, typer.Option(help="With --plan: positions [the whole context].")
    ] = None,
    dtype: Annotated[
        str, choice(PRECISIONS, "--dtype", help="With --plan: the precision.")
    ] = "float32",
    output: Output = None,
) -> None:
    """Derive the backward pass as equations, each with its shape and the reason for it.

    -f card writes a card of all equations, which viete run and viete lesson take. --plan shows
    how a training step is run, and in what memory.
    """
    from viete.cards.writer import write
    from viete.report.backward import write_backward
    from viete.rewrite.adjoint import grad as derive

    form = format_of(form, output, PAGES)
    card = source.card()
    if plan:
        from viete.report.plan import plan_document

        if by is not None:
            raise VieteError("a plan covers all gradients; leave out --by or --plan")
        if form == "card":
            raise VieteError("a plan is not a card; leave out -f card or --plan")
        page = plan_document(card, of, batch, length, dtype)
        return emit(render(page, form), output, source.name)
    wanted = None if by is None else split_names(by, "--by")
    if form == "card":
        return emit(write(derive(card, of, wanted), "md"), output, source.name)
    emit(write_backward(card, form, of, wanted), output, source.name)
