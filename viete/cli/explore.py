"""``viete explore``: writes the page of a run, which opens in a browser and fetches nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from viete.cli.expand import opened
from viete.cli.inputs import MEANINGS, InputOptions
from viete.cli.option_groups import choice
from viete.cli.output import Output, emit, format_of
from viete.cli.running import estimate
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.errors import VieteError

if TYPE_CHECKING:
    from viete.nouns.run import Questions


def explore(
    source: SourceOptions, inputs: InputOptions, weights: WeightOptions,
    of: Annotated[
        str | None, typer.Option(help="The number to differentiate on the page: "
            "logits_{-1,5} [the loss].")
    ] = None,
    meaning: Annotated[
        str | None,
        choice(
            MEANINGS, "--meaning",
            help="The numbers to show beside decimals [exact, if the run is small].",
        ),
    ] = None,
    claims: Annotated[
        Path | None,
        typer.Option(help="Check these claims on the page: a Markdown file [the card's own]."),
    ] = None,
    output: Output = None,
    served: Annotated[
        bool,
        typer.Option("--serve", help="Serve the page on this machine, to change the input "
            "and ask questions."),
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port for --serve [any free one].")
    ] = None,
) -> None:  # fmt: skip
    """Write a page that explores a run in the browser: equations, values, how each came about.

    The page is one file and needs no network. --serve runs a local server instead, until Ctrl-C.
    """
    from viete.explore.data import page_data
    from viete.explore.page_file import page_html
    from viete.explore.session import Session

    if served:
        if output is not None:
            raise VieteError(
                "-o writes the page to a file and --serve shows it at an address: give one of them"
            )
    elif port is not None:
        raise VieteError("--port needs --serve")
    format_of(None, output, ("html",))
    run = opened(source, inputs, weights)
    meanings = None if meaning is None else [] if meaning == "float" else [meaning]
    if served:
        return served_page(run, port or 0, of, meanings, claims)
    if meaning == "exact":
        card = run.program.model
        estimate(card, run[card.inputs[0].name], trained=source.is_model)
    found = None if claims is None else Session.of(run).checked(run, claims)
    data = page_data(run, of=of, meanings=meanings, claims=found)
    emit(page_html(data), output, source.name)


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
    session.claims = None if claims is None else session.checked(session.first, claims)
    serve(session, port, lambda address: print(f"{address}  (Ctrl-C ends it)", flush=True))
