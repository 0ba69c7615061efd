"""``viete explore``: a run as one page, which opens in a browser and fetches nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from viete.cli.expand import opened
from viete.cli.options import (
    MEANINGS,
    InputOptions,
    Output,
    SourceOptions,
    WeightOptions,
    choice,
    emit,
)
from viete.cli.running import estimate
from viete.errors import VieteError

if TYPE_CHECKING:
    from viete.nouns.run import Questions


def explore(
    source: SourceOptions, inputs: InputOptions, weights: WeightOptions,
    of: Annotated[
        str | None, typer.Option(help="What the page differentiates: logits_{-1, 5} [the loss].")
    ] = None,
    meaning: Annotated[
        str | None,
        choice(
            MEANINGS, "--meaning",
            help="The numbers beside decimals [exact ones, where that takes few operations].",
        ),
    ] = None,
    claims: Annotated[
        Path | None,
        typer.Option(help="A Markdown page of claims to hold the run to [the card's own]."),
    ] = None,
    output: Output = None,
    served: Annotated[
        bool,
        typer.Option("--serve", help="On this machine, computing what a reader changes or asks."),
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="With --serve: [any that is free].")
    ] = None,
) -> None:  # fmt: skip
    """Write a page to explore a run: the equations, each value, and how each entry came about.

    With --serve the page is at an address of this machine, until Ctrl-C.
    """
    from viete.explore.data import page_data
    from viete.explore.page_file import page_html
    from viete.explore.session import Session

    if served:
        if output is not None:
            raise VieteError("-o writes a page and --serve has it at an address: give one of them")
    elif port is not None:
        raise VieteError("--port goes with --serve")
    run = opened(source, inputs, weights)
    meanings = None if meaning is None else [] if meaning == "float" else [meaning]
    if served:
        return served_page(run, port or 0, of, meanings, claims)
    if meaning == "exact":
        card = run.program.model
        estimate(card, run[card.inputs[0].name])
    found = None if claims is None else Session.of(run).checked(claims)
    data = page_data(run, of=of, meanings=meanings, claims=found)
    emit(page_html(data), output, source.name)
    if output is not None:
        print(f"written: {output}", file=sys.stderr)


def served_page(
    run: Questions, port: int, of: str | None, meanings: list[str] | None, claims: Path | None
) -> None:
    """Serve the page of a run until Ctrl-C."""
    from viete.formats.tensors import require

    for module in ("starlette", "uvicorn"):
        require(module, "to serve a page", "explore")
    from viete.explore.server import serve
    from viete.explore.session import Session

    session = Session.of(run, of, meanings)
    session.claims = None if claims is None else session.checked(claims)
    serve(session, port, lambda address: print(f"{address}  (Ctrl-C ends it)", flush=True))
