"""``viete expand``: an expression of a run into the terms that made it."""

from __future__ import annotations

from typing import Annotated

import typer

from viete.cli.options import (
    InputOptions,
    Output,
    SourceOptions,
    WeightOptions,
    emit,
    format_of,
    format_option,
)
from viete.document.rendering import PAGES, STYLES, render


def expand(
    source: SourceOptions,
    inputs: InputOptions,
    weights: WeightOptions,
    of: Annotated[str, typer.Option(help="The expression: logits_{-1, 5}.")],
    into: Annotated[
        str,
        typer.Option(
            help="How far: block, sublayer, head, source, neuron, path; of scores query, key."
        ),
    ] = "block",
    top: Annotated[int, typer.Option(min=1, help="List so many terms, the largest.")] = 12,
    least: Annotated[float, typer.Option(min=0.0, help="List no term below this size.")] = 0.0,
    depth: Annotated[int, typer.Option(min=0, help="Of paths: through so many heads.")] = 2,
    held: Annotated[
        str, typer.Option(help="What is taken as given: A (patterns), scale (of norms).")
    ] = "A,scale",
    cumulative: Annotated[
        bool, typer.Option("--cumulative", help="In the order in which they add up.")
    ] = False,
    form: Annotated[str | None, format_option(PAGES)] = None,
    output: Output = None,
) -> None:
    """Expand an expression of a run into the terms that made it."""
    from viete.ask.expansion import expanded, options
    from viete.ask.term_table import term_table
    from viete.meanings.run import run as evaluate
    from viete.nouns.card import Card
    from viete.nouns.run import questions

    form = format_of(form, output, PAGES)
    chosen = options(into, top, least, depth, held, cumulative)
    card, model = source.opened(weights)
    ids, others = inputs.ids(card, model), inputs.others(card)
    run = questions(
        evaluate(card, ids, weights.arrays(card, model), inputs=others), model or Card.of(card)
    )
    found = expanded(run, of, chosen)
    emit(render(term_table(found, STYLES[form]), form), output)
