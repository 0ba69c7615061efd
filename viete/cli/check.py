"""``viete check``: does a card describe a file of weights?"""

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
    card,
    numbers,
    transformer,
)
from viete.errors import VieteError


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
        Path | None, typer.Option(help="Recorded values, under the card's names.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option("--tokens", "-t", help="The tokens they were recorded for.")
    ] = None,
    sets: Set = None,
    config: Config = None,
    instead: Instead = None,
    accept: Accept = None,
    revision: Revision = None,
) -> None:
    """Compare what a card says with what a file holds; the exit code is 1 where they differ."""
    from viete.checkpoint.compare import compare
    from viete.checkpoint.files import open_tensors

    if weights is None and (found := transformer(name, sets, config, instead, accept, revision)):
        model, file = found.card, found.folder.tensors
    elif weights is None:
        raise VieteError(f"{name} is a card: give the file to hold it against, --weights FILE")
    else:
        model, file = card(name, sets, config, instead, accept, revision), open_tensors(weights)
    recorded = None if outputs is None else open_tensors(outputs)
    ids = None if tokens is None else numbers(tokens, model)
    report = compare(model, file, recorded, ids)
    print("\n".join(report.lines()))
    if not report.ok:
        raise typer.Exit(1)
