"""``viete export``: a card as source code of its own or as an article, a model for others."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from viete.cli.options import Output, SourceOptions, WeightOptions, emit
from viete.document.rendering import SUFFIXES
from viete.errors import VieteError


class ExportTarget(StrEnum):
    """What ``--to`` takes."""

    torch = "torch"
    numpy = "numpy"
    jax = "jax"
    latex = "latex"
    typst = "typst"
    hf = "hf"


def export(
    source: SourceOptions,
    weights: WeightOptions,
    to: Annotated[
        ExportTarget, typer.Option("--to", help="A module, a script, an article; a model.")
    ],
    of: Annotated[
        str | None, typer.Option("--of", help="The loss: a value of the card, or a formula.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="With hf: of the weights, by default as they are.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="With numpy: dialogs or short texts, which the script learns."),
    ] = None,
    output: Output = None,
) -> None:
    """Write a card as stand-alone code: a PyTorch module, a NumPy script with the backward pass
    and Adam, JAX functions; or as an article in LaTeX or Typst. With --to hf, write what viete
    train learned, or any model with its weights, as a folder that transformers opens."""
    if to is ExportTarget.hf:
        if data is not None:
            raise VieteError("--data goes with --to numpy; viete train learns from data")
        return folder(source, weights, dtype, output)
    if weights.given or dtype is not None:
        raise VieteError("--weights, --seed and --dtype go with --to hf; code has no weights in it")
    suffix = SUFFIXES.get(to.value, ".py")
    if output is not None and output.suffix not in ("", suffix):
        raise VieteError(
            f"{output} looks like another kind of file: {to.value} is written to {suffix}"
        )
    card = source.card()
    corpus = None
    if data is not None:
        if to is not ExportTarget.numpy:
            raise VieteError(f"--data goes with --to numpy: {to.value} has no program that learns")
        from viete.train.fitting import with_corpus

        card, corpus = with_corpus(card, data)
    if to in (ExportTarget.latex, ExportTarget.typst):
        from viete.report.article import write_article

        return emit(write_article(card, to.value, of), output, source.name)
    from viete.code import export as program

    emit(program(card, to.value, of, corpus), output, source.name)


def folder(
    source: SourceOptions, weights: WeightOptions, dtype: str | None, output: Path | None
) -> None:
    """A Hugging Face folder of a run, a released model, or a card with a file of weights."""
    from viete.model.saving import save

    if output is None:
        raise VieteError("a model is written to a folder: give -o FOLDER")
    card, model = source.opened(weights, dtype)
    if model is None:
        save(card, weights.floats(card, dtype or "float32"), output, to_hf=True)
    else:
        save(card, model.weights, output, model.config, model.own_tokenizer(), to_hf=True)
    print(f"written: {output}", file=sys.stderr)
