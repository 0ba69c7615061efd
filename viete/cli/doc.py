"""``viete doc``: the architecture document of a card."""

from __future__ import annotations

from typing import Annotated

import typer

from viete.cli.output import Output, emit, format_of, format_option, write_files, wrote
from viete.cli.source import SourceOptions
from viete.document.rendering import PAGES


def doc(
    source: SourceOptions,
    form: Annotated[str | None, format_option(PAGES)] = None,
    length: Annotated[
        int | None, typer.Option("-T", "--length", help="Sequence length in the examples.")
    ] = None,
    batch: Annotated[int, typer.Option("-B", "--batch", help="Batch size in the examples.")] = 64,
    output: Output = None,
) -> None:
    """Write an architecture document: data flow, components, shapes and parameter counts.

    -o NAME.md also draws the diagram, as NAME.svg beside it.
    """
    from viete.document.colours import svg_file
    from viete.report.architecture import data_flow, write_architecture

    form = format_of(form, output, PAGES)
    card = source.card()
    drawn = output.with_suffix(".svg") if form == "md" and output is not None else None
    text = write_architecture(card, form, batch, length, drawn.name if drawn else None)
    if drawn is None or output is None:
        return emit(text, output, source.name)
    picture = svg_file(data_flow(card, batch, length))
    write_files({drawn: picture, output: text}, source.name)
    wrote(drawn, output)
