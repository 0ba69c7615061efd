"""``viete export``: a card as a program or an article, or a model for other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viete.cli.option_groups import choice
from viete.cli.output import Output, emit, wrote
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.code import TARGETS
from viete.document.rendering import SUFFIXES
from viete.errors import VieteError

ARTICLES = ("latex", "typst")


def export(
    source: SourceOptions,
    weights: WeightOptions,
    to: Annotated[
        str,
        choice(
            (*TARGETS, *ARTICLES, "hf", "saelens"),
            "--to",
            help="The target: a program, an article (latex, typst), or a model (hf, saelens).",
        ),
    ],
    of: Annotated[
        str | None,
        typer.Option("--of", help="The loss: a value of the card, or a formula [the card's own]."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="With hf: the precision of the weights [as they are].")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="With numpy: a file of dialogs or short texts for the script to learn."),
    ] = None,
    output: Output = None,
) -> None:
    """Write a card as a program or an article, or a model for other libraries.

    Programs need no Viète: a PyTorch module (torch), NumPy or JavaScript with the backward pass
    and Adam (numpy, js), JAX functions (jax). An article has the numbers of a card's weights, also
    those of --seed. hf writes a folder that transformers opens, saelens one that SAELens opens.
    """
    if to == "hf":
        if data is not None:
            raise VieteError("--data needs --to numpy; to learn from data use viete train")
        return folder(source, weights, dtype, output)
    if to == "saelens":
        return features(source, output)
    if (weights.present and to not in ARTICLES) or dtype is not None:
        raise VieteError(
            "--weights, --seed and --dtype need --to hf; exported code contains no weights"
        )
    suffix = SUFFIXES.get(to, ".js" if to == "js" else ".py")
    modules = (".mjs",) if to == "js" else ()  # by which Node knows one
    if output is not None and output.suffix not in ("", suffix, *modules):
        raise VieteError(f"{output} looks like another kind of file: {to} is written to {suffix}")
    card = weights.written_into(source.card(weights.weights))
    corpus = None
    if data is not None:
        if to != "numpy":
            raise VieteError(f"--data needs --to numpy: {to} has no program that learns")
        from viete.train.fitting import with_corpus

        card, corpus = with_corpus(card, data)
    if to in ARTICLES:
        from viete.report.article import write_article

        return emit(write_article(card, to, of), output, source.name)
    from viete.code import export as program

    emit(program(card, to, of, corpus), output, source.name)


def folder(
    source: SourceOptions, weights: WeightOptions, dtype: str | None, output: Path | None
) -> None:
    """Write a Hugging Face folder of a training run, a released model, or a card with weights."""
    from viete.model.saving import save

    if output is None:
        raise VieteError("a model is written to a folder: give -o FOLDER")
    card, model = source.opened(weights, dtype)
    if model is None:
        save(card, weights.floats(card, dtype or "float32"), output, to_hf=True)
    else:
        save(card, model.weights, output, model.config, model.own_tokenizer(), to_hf=True)
    wrote(output)


def features(source: SourceOptions, output: Path | None) -> None:
    """Write the features that a training run learned, in SAELens's format."""
    from viete.cards.catalogue import find
    from viete.model.trained_coders import learned_coder, save_coder

    if output is None:
        raise VieteError("features are written to a folder: give -o FOLDER")
    if not source.is_model:
        find(source.name)  # a folder that is not there is no card
        raise VieteError(f"{source.name} is a card; give the run of viete train that learned it")
    save_coder(learned_coder(source.name, source.revision), output)
    wrote(output)
