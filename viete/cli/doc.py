"""``viete doc``: the architecture document of a card."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from viete.cli.options import Output, SourceOptions, by_suffix, emit


class Format(StrEnum):
    """What ``--format`` takes."""

    text = "text"
    md = "md"
    latex = "latex"
    html = "html"


FORMS = {".md": Format.md, ".tex": Format.latex, ".html": Format.html, ".txt": Format.text}


def doc(
    source: SourceOptions,
    form: Annotated[
        Format | None, typer.Option("--format", "-f", help="By the output's suffix, else text.")
    ] = None,
    length: Annotated[
        int | None, typer.Option("-T", "--length", help="Sequence length of the examples.")
    ] = None,
    batch: Annotated[int, typer.Option("-B", "--batch", help="Batch size of the examples.")] = 64,
    output: Output = None,
) -> None:
    """Write a card's architecture document: data flow, components, shapes, parameter count.

    With ``-o NAME.md`` the diagram is also drawn, as NAME.svg beside it.
    """
    from viete.report.architecture import architecture, write_architecture

    form = form or by_suffix(output, FORMS, Format.text)
    model = source.card()
    if form is Format.html:
        from viete.report.drawing import to_svg
        from viete.report.drawing.flow import flow
        from viete.report.lesson.page import write_blocks

        page = write_blocks(architecture(model, batch, length), to_svg(flow(model)))
        emit(page, output, source.name)
        return
    drawn = output.with_suffix(".svg") if form is Format.md and output is not None else None
    text = write_architecture(model, form.value, batch, length, drawn.name if drawn else None)
    if drawn is not None:
        from viete.report.drawing import to_svg
        from viete.report.drawing.flow import flow

        emit(to_svg(flow(model)), drawn, source.name)
    emit(text, output, source.name)
