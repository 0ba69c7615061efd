"""``viete show``: a card, its costs or its diagram; ``viete cards``: the cards that are shipped."""

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
    json = "json"
    svg = "svg"
    mermaid = "mermaid"
    html = "html"


FORMS = {".md": Format.md, ".tex": Format.latex, ".html": Format.html, ".json": Format.json,
         ".svg": Format.svg, ".mmd": Format.mermaid, ".txt": Format.text}  # fmt: skip


def show(
    source: SourceOptions,
    form: Annotated[
        Format | None, typer.Option("--format", "-f", help="By the output's suffix, else text.")
    ] = None,
    costs: Annotated[
        bool, typer.Option("--costs", help="Parameters, operations and bytes.")
    ] = False,
    names: Annotated[
        bool, typer.Option("--names", help="What each name of TransformerLens means in the card.")
    ] = False,
    folded: Annotated[
        bool,
        typer.Option("--folded", help="With norms folded and weights centred, where that holds."),
    ] = False,
    detail: Annotated[bool, typer.Option(help="A diagram's boxes are single equations.")] = False,
    length: Annotated[
        int | None, typer.Option("-T", "--length", help="Sequence length for --costs.")
    ] = None,
    batch: Annotated[int, typer.Option("-B", "--batch", help="Batch size for --costs.")] = 1,
    output: Output = None,
) -> None:
    """Print a card in canonical form: notation, parameters, equations with their shapes."""
    from viete.cards.document import write_markdown, write_text
    from viete.cards.writer import write

    form = form or by_suffix(output, FORMS, Format.text)
    model = source.card()
    if folded:
        from viete.rewrite.folding import folded as fold

        steps = fold(model)
        model = steps[-1].model if steps else model
    if costs or names:
        from viete.cards.latex import write_latex
        from viete.errors import VieteError
        from viete.model.names import Names
        from viete.report.costs import cost_blocks

        writers = {Format.text: write_text, Format.md: write_markdown, Format.latex: write_latex}
        if form not in writers:
            raise VieteError(f"--{'costs' if costs else 'names'} is written as text, md or latex")
        style = "unicode" if form is Format.text else "latex"
        page = cost_blocks(model, style, length, batch) if costs else Names(model).page(style)
        emit(writers[form](page), output)
    elif form in (Format.svg, Format.mermaid):
        from viete.report.drawing import to_mermaid, to_svg
        from viete.report.drawing.flow import flow

        diagram = flow(model, "equations" if detail else "parts")
        emit(to_svg(diagram) if form is Format.svg else to_mermaid(diagram), output)
    elif form is Format.html:
        from viete.cards.writer import blocks
        from viete.report.lesson.page import write_blocks

        emit(write_blocks(blocks(model, "latex")), output, source.name)
    else:
        emit(write(model, form.value), output, source.name)


def cards() -> None:
    """List the shipped cards."""
    from viete.cards.catalogue import shipped
    from viete.cards.reader import read

    for name, path in sorted(shipped().items()):
        print(f"{name:24} {read(path).title}")
