"""``viete features``: studies features on texts: contexts, measures, steering, a page for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from viete.cli.inputs import whole_numbers
from viete.cli.output import emit, output_option, wrote
from viete.cli.source import SourceOptions
from viete.document.rendering import render
from viete.errors import VieteError


def features(
    source: SourceOptions,
    texts: Annotated[
        str | None,
        typer.Option(
            help="A file of texts, one a line. Or random texts: repeated(16), random(32)."
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Running text instead: a file, or a folder of files.")
    ] = None,
    feature: Annotated[
        str | None, typer.Option(help="Show only these features: 17 or 3,17,40.")
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(help="Which features to show, if several blocks have features: feature^2."),
    ] = None,
    length: Annotated[int, typer.Option(min=2, help="Tokens of a text at most.")] = 128,
    top: Annotated[
        int, typer.Option(min=1, help="Write pages for the K features with the largest outputs.")
    ] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed for drawing contexts.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print all measures as JSON.", rich_help_panel="Output")
    ] = False,
    output: Annotated[
        Path | None, output_option("Write a page for each feature to this folder.")
    ] = None,
) -> None:
    """Show what the features of an autoencoder or transcoder do on texts.

    --put names the autoencoder. The measures are printed; -o FOLDER/ writes a page for each
    feature, with contexts, scores and steering. Ctrl-C stops reading texts and shows what it has.
    """
    from viete.printable import on_terminal

    if (texts is None) == (data is None):
        raise VieteError("give the texts as --texts FILE, one a line, or running text as --data")
    if output is not None and output.suffix:
        raise VieteError(f"-o {output}: features are written to a folder, with a page for each")
    numbers = None if feature is None else whole_numbers(feature, "--feature")
    source.refuse_cut("features are looked at on many texts")
    tell = on_terminal()
    found = source.model().features(texts, data=data, of=of, length=length, seed=seed, tell=tell)
    if found.stopped:
        typer.echo("stopped; these are the texts until then", err=True)
    if output is not None:
        found.save(output, numbers if numbers is not None else found.ranked(top), tell)
        wrote(output / "index.html")
    if as_json:
        emit(json.dumps(found.table, indent=1), None)
    elif numbers is None:
        emit(render(found.page(), "text"), None)
    elif output is None:
        emit("\n".join(render(found.feature_page(k), "text") for k in numbers), None)


__all__ = ["features"]
