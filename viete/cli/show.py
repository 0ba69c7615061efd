"""``viete show``: a card, its costs or its diagram; ``viete cards``: the cards that are shipped."""

from __future__ import annotations

from typing import Annotated

import typer

from viete.cli.output import Output, emit, format_of, format_option
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.document.rendering import PAGES, STYLES, check_format, render

FORMATS = (*PAGES, "json", "svg", "mermaid")


def show(
    source: SourceOptions,
    weights: WeightOptions,
    form: Annotated[str | None, format_option(FORMATS)] = None,
    costs: Annotated[
        bool, typer.Option("--costs", help="Count parameters, operations and bytes instead.")
    ] = False,
    names: Annotated[
        bool, typer.Option("--names", help="List what each name of TransformerLens means here.")
    ] = False,
    folded: Annotated[
        bool,
        typer.Option(
            "--folded",
            help="Fold norms into the weights, and centre the weights, where this changes "
            "no output.",
        ),
    ] = False,
    detail: Annotated[
        bool, typer.Option("--detail", help="In a diagram, draw a box for each equation.")
    ] = False,
    length: Annotated[
        int | None,
        typer.Option("-T", "--length", help="Sequence length for --costs [the longest]."),
    ] = None,
    batch: Annotated[int, typer.Option("-B", "--batch", help="Batch size for --costs.")] = 1,
    against: Annotated[
        str | None,
        typer.Option(help="Show only what differs from this card or model."),
    ] = None,
    output: Output = None,
) -> None:
    """Print a card: its dimensions, its parameters, and its equations with the shape of each.

    -f svg draws the data flow, -f latex and -f md write the equations for a paper or a page. With
    --seed or a file of weights, the card has these numbers in its value column.
    """
    form = format_of(form, output, FORMATS)
    card = weights.written_into(source.card(weights.weights))
    if folded:
        from viete.rewrite.folding import folded as fold

        steps = fold(card)
        card = steps[-1].model if steps else card
    if against is not None:
        from viete.report.differences import difference_blocks

        check_format("--against", form)
        other = SourceOptions(against, source.sets).card()
        emit(render(difference_blocks(other, card, STYLES[form]), form), output)
    elif costs or names:
        from viete.model.names import Names
        from viete.report.costs import cost_blocks

        check_format(f"--{'costs' if costs else 'names'}", form)
        style = STYLES[form]
        page = cost_blocks(card, style, length, batch) if costs else Names(card).page(style)
        emit(render(page, form), output)
    elif form in ("svg", "mermaid"):
        from viete.document.colours import svg_file
        from viete.report.drawing import to_mermaid, to_svg
        from viete.report.drawing.flow import flow

        diagram = flow(card, "equations" if detail else "parts")
        emit(svg_file(to_svg(diagram)) if form == "svg" else to_mermaid(diagram), output)
    else:
        from viete.cards.writer import write

        emit(write(card, form), output, source.name)


def cards() -> None:
    """List the shipped cards and models: a name for each and what it is."""
    from viete.cards.catalogue import named, trained
    from viete.cards.reader import read
    from viete.document.columns import table_width, wrapped

    titles = {name: read(path).title for name, path in sorted(named().items())}
    titles |= {name: f"{read(path).title}, trained: a model with weights"
               for name, path in trained().items()}  # fmt: skip
    for name, title in titles.items():
        print("\n".join(wrapped(title, table_width(), f"{name:24} ", " " * 25)))
