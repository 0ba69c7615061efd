"""``viete export``: a card as source code of its own or as an article, a model for others."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from viete.cli.common import (
    Accept,
    Card,
    Config,
    Instead,
    Output,
    Revision,
    Set,
    card,
    emit,
    opened,
)
from viete.errors import VieteError


class Target(StrEnum):
    """What ``--to`` takes."""

    torch = "torch"
    numpy = "numpy"
    jax = "jax"
    latex = "latex"
    typst = "typst"
    hf = "hf"


def export(
    name: Card,
    to: Annotated[Target, typer.Option("--to", help="A module, a script, an article; a model.")],
    of: Annotated[
        str | None, typer.Option("--of", help="The loss: a value of the card, or a formula.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option("--weights", "-w", help="With hf, of a card: a tensor file.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="With hf, of a card: weights as its init column says.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="With hf: of the weights, by default as they are.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="With numpy: dialogs or short texts, which the script learns."),
    ] = None,
    sets: Set = None,
    config: Config = None,
    instead: Instead = None,
    accept: Accept = None,
    revision: Revision = None,
    output: Output = None,
) -> None:
    """Write a card as stand-alone code: a PyTorch module, a NumPy script with the backward pass
    and Adam, JAX functions; or as an article in LaTeX or Typst. With --to hf, write what viete
    train learned, or any model with its weights, as a folder that transformers opens."""
    if to is Target.hf:
        if data is not None:
            raise VieteError("--data goes with --to numpy; viete train learns from data")
        return folder(name, output, weights, seed, dtype, sets, config, instead, accept, revision)
    if (weights, seed, dtype) != (None, None, None):
        raise VieteError("--weights, --seed and --dtype go with --to hf; code has no weights in it")
    from viete.code import SUFFIXES
    from viete.code import export as written

    suffix = SUFFIXES[to.value]
    if output is not None and output.suffix not in ("", suffix):
        raise VieteError(
            f"{output} looks like another kind of file: {to.value} is written to {suffix}"
        )
    model = card(name, sets, config, instead, accept, revision)
    corpus = None
    if data is not None:
        if to is not Target.numpy:
            raise VieteError(f"--data goes with --to numpy: {to.value} has no program that learns")
        from viete.train.fitting import with_corpus

        model, corpus = with_corpus(model, data)
    emit(written(model, to.value, of, corpus), output, name)


def folder(
    name: str, output: Path | None, weights: Path | None, seed: int | None, dtype: str | None,
    sets: list[str] | None, config: Path | None, instead: str | None, accept: list[str] | None,
    revision: str | None,
) -> None:  # fmt: skip
    """A Hugging Face folder of a run, a released model, or a card with a file of weights."""
    from viete.cli.run import own_weights, the_weights
    from viete.model.saving import save_folder

    if output is None:
        raise VieteError("a model is written to a folder: give -o FOLDER")
    own = own_weights(weights, seed)
    model, found = opened(
        name, own, sets, config, instead, accept, revision, dtype, weights=weights
    )
    if found is not None:
        found.save_folder(output)
    else:
        save_folder(model, the_weights(model, weights, seed, dtype or "float32", None), output)
    print(f"written: {output}", file=sys.stderr)
