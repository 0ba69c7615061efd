"""``viete check``: do a card's claims hold, and does it describe a file of weights?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viete.cli.common import (
    Accept,
    Card,
    Config,
    Instead,
    Revision,
    Set,
    numbers,
    opened,
)


def check(
    name: Card,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            "-w",
            help="safetensors, npz, PyTorch, ONNX or GGUF; by default a model's own.",
        ),
    ] = None,
    outputs: Annotated[
        Path | None,
        typer.Option(help="Recorded values, by the card's names, formulas or hooks' names."),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option("--tokens", "-t", help="What is run, and what values were recorded for."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the claims: draws what is random, weights and inputs.")
    ] = 0,
    sets: Set = None,
    config: Config = None,
    instead: Instead = None,
    accept: Accept = None,
    revision: Revision = None,
) -> None:
    """Hold a card to its claims, to a file of weights, to recorded values.

    Exits with 1 where something differs or a claim is false.
    """
    from viete.model.checking import check as checked

    model, found = opened(
        name, weights is not None, sets, config, instead, accept, revision, weights=weights
    )
    file = weights if found is None else found.folder.tensors
    ids = None if tokens is None else numbers(tokens, model)
    report = checked(model, file, ids, outputs=outputs, seed=seed)
    print("\n".join(report.lines()))
    if not report.ok:
        raise typer.Exit(1)
