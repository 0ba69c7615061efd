"""``viete check``: do a card's claims hold, and does it describe a file of weights?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viete.cli.options import InputOptions, SourceOptions, WeightOptions


def check(
    source: SourceOptions,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            "-w",
            help="safetensors, npz, PyTorch, ONNX or GGUF; by default a model's own.",
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Recorded values, by the card's names, formulas or hooks' names."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the claims: draws what is random, weights and inputs.")
    ] = 0,
    *,
    inputs: InputOptions,
) -> None:
    """Hold a card to its claims, to a file of weights, to recorded values.

    Exits with 1 where something differs or a claim is false.
    """
    from viete.model.checking import check as checked

    card, model = source.opened(WeightOptions(weights))
    file = weights if model is None else model.tensors
    ids = inputs.ids(card, model) if inputs.tokens is not None or inputs.text is not None else None
    report = checked(card, file, ids, against=against, seed=seed, **inputs.others(card))
    print("\n".join(report.lines()))
    if not report.ok:
        raise typer.Exit(1)
