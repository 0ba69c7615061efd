"""``viete probe``: trains a linear probe on a vector of a model, and writes it as a card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from viete.cli.option_groups import choice
from viete.cli.output import emit, output_option, wrote
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.document.colours import svg_file
from viete.document.rendering import render
from viete.errors import VieteError

SUFFIXES = (".md", ".svg", ".html")


def probe(
    source: SourceOptions,
    weights: WeightOptions,
    of: Annotated[
        str, typer.Option(help="The vector to read: x^3_{-1}. For x^i_{-1} there is a "
            "probe for each i.")
    ],
    texts: Annotated[
        str,
        typer.Option(help="A file of texts, one a line, or JSON lines with text and label. Or "
            "random texts: repeated(16), random(32)."),
    ],
    label: Annotated[
        str, typer.Option(help="What to predict: a key of the JSON lines, or a formula "
            "such as t_{j-1} beside x_j.")
    ] = "label",
    method: Annotated[
        str, choice(("logistic", "means"), "--method", help="How to fit: logistic "
            "regression, or class means.")
    ] = "logistic",
    kind: Annotated[
        str | None,
        choice(("classes", "numbers"), "--kind", help="What the labels are: classes, or "
            "numbers (ridge regression) [found from the labels]."),
    ] = None,
    held: Annotated[float, typer.Option(help="Share of the texts to hold out for the "
        "test.")] = 0.25,
    penalty: Annotated[
        float, typer.Option(help="Strength of the L2 penalty.")
    ] = 1.0,
    effect: Annotated[
        list[str] | None,
        typer.Option(help="Measure how this number of the model changes without the probe's "
                     "direction, and after a step along the direction (repeatable)."),
    ] = None,
    output: Annotated[
        Path | None, output_option("Write the probe (.md), a picture (.svg) or a page (.html).")
    ] = None,
) -> None:  # fmt: skip
    """Train a linear probe on a vector of a model, and test the probe on new texts.

    -o probe.md writes the probe as a model: a card that claims the accuracy, the weights, and the
    held-out texts. A family of vectors gives a curve or a map (-o blocks.svg). -o page.html writes
    a page with the results and pictures.
    """
    from viete.model.saving import lacking
    from viete.model.trained import weights_beside
    from viete.probes.card import save_held_out
    from viete.probes.effects import probe_effects
    from viete.probes.table import effect_table
    from viete.report.probe_page import probe_page, probe_picture

    if output is not None and output.suffix not in SUFFIXES:
        raise VieteError(f"-o {output}: a probe is written to {', '.join(SUFFIXES)}")
    model = source.weighted_model(weights)
    if output is not None and output.suffix == ".md":
        lacking(output.parent, model.own_tokenizer())
    found = model.probes(of, texts, label, method=method, kind=kind, held=held, penalty=penalty)
    form = "" if output is None else output.suffix
    if form == ".svg":
        return emit(svg_file(probe_picture(found).svg), output)
    effects = probe_effects(model, found, effect) if effect else ()
    beside = held_out_beside(output)
    if form == ".html":
        own = model.with_probe(found, str(beside)).card if found.places == 1 else model.card
        return emit(render(probe_page(found, own, effects), "html"), output)
    if output is not None:
        model.with_probe(found, str(beside)).save(output)
        save_held_out(found, beside)
        wrote(output, weights_beside(output), beside)
    print(render([*found.page(), *effect_table(effects)], "text"))


def held_out_beside(output: Path | None) -> Path:
    """The path for the held-out texts: next to the card, with its name."""
    path = Path("probe.md") if output is None else output
    return path.with_name(f"{path.stem}.held-out.jsonl")


__all__ = ["probe"]
