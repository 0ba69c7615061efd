"""``viete check``: does a card describe a file of weights?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viete.cli.common import Card, Config, Set, card, numbers


def check(
    name: Card,
    weights: Annotated[
        Path, typer.Option("--weights", "-w", help="safetensors, npz, PyTorch, ONNX or GGUF.")
    ],
    outputs: Annotated[
        Path | None, typer.Option(help="Recorded values, under the card's names.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option("--tokens", "-t", help="The tokens they were recorded for.")
    ] = None,
    sets: Set = None,
    config: Config = None,
) -> None:
    """Compare what a card says with what a file holds; the exit code is 1 where they differ."""
    from viete.checkpoint.compare import compare
    from viete.checkpoint.files import open_tensors

    model = card(name, sets, config)
    recorded = None if outputs is None else open_tensors(outputs)
    ids = None if tokens is None else numbers(tokens, model)
    report = compare(model, open_tensors(weights), recorded, ids)
    print("\n".join(report.lines()))
    if not report.ok:
        raise typer.Exit(1)
