"""``viete show``: a card, its costs or its diagram; ``viete cards``: the cards that are shipped."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from viete.cli.common import Card, Config, Output, Set, card, emit


class Format(StrEnum):
    """What ``--format`` takes."""

    text = "text"
    md = "md"
    latex = "latex"
    json = "json"
    svg = "svg"
    mermaid = "mermaid"


def show(
    name: Card,
    form: Annotated[
        Format, typer.Option("--format", "-f", help="Unicode text by default.")
    ] = Format.text,
    costs: Annotated[
        bool, typer.Option("--costs", help="Parameters, operations and bytes.")
    ] = False,
    detail: Annotated[bool, typer.Option(help="A diagram's boxes are single equations.")] = False,
    length: Annotated[
        int | None, typer.Option("-T", "--length", help="Sequence length for --costs.")
    ] = None,
    batch: Annotated[int, typer.Option("-B", "--batch", help="Batch size for --costs.")] = 1,
    sets: Set = None,
    config: Config = None,
    output: Output = None,
) -> None:
    """Print a card in canonical form: notation, parameters, equations with their shapes."""
    from viete.cards.document import write_markdown, write_text
    from viete.cards.writer import write

    model = card(name, sets, config)
    if costs:
        from viete.cards.costs import cost_blocks
        from viete.cards.latex import write_latex
        from viete.errors import VieteError

        writers = {Format.text: write_text, Format.md: write_markdown, Format.latex: write_latex}
        if form not in writers:
            raise VieteError("--costs is written as text, md or latex")
        style = "unicode" if form is Format.text else "latex"
        emit(writers[form](cost_blocks(model, style, length, batch)), output)
    elif form in (Format.svg, Format.mermaid):
        from viete.interpret.drawing import to_mermaid, to_svg
        from viete.interpret.flow import flow

        diagram = flow(model, "equations" if detail else "parts")
        emit(to_svg(diagram) if form is Format.svg else to_mermaid(diagram), output)
    else:
        emit(write(model, form.value), output, name)


def cards() -> None:
    """List the shipped cards."""
    from viete.cards.library import shipped
    from viete.cards.reader import read

    for name, path in sorted(shipped().items()):
        print(f"{name:24} {read(path).title}")
