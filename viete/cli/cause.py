"""``viete cause``: causal effects: how a number changes with values of other texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viete.cli.output import Output, emit, format_of, format_option
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.document.rendering import PAGES, STYLES, render
from viete.errors import VieteError

if TYPE_CHECKING:
    from viete.nouns.model import Model

FORMATS = (*PAGES, "json", "csv", "svg")


def cause(
    source: SourceOptions,
    weights: WeightOptions,
    of: Annotated[str, typer.Option(help="The number to explain: logsoftmax(logits_{-1})[5].")],
    texts: Annotated[
        str,
        typer.Option(help="A file of texts, one a line, or JSON lines with text, against, and "
            "words that --of names. Or random texts: repeated(16), random(32)."),
    ],
    by: Annotated[
        str | None,
        typer.Option(help="The value to replace: A^{i,h}. Several, with commas, are replaced "
                     "together."),
    ] = None,
    resample: Annotated[
        int | None,
        typer.Option(min=1, help="Replace by the values of this many other texts, drawn at "
            "random."),
    ] = None,
    hypothesis: Annotated[
        Path | None,
        typer.Option(help="A Markdown list of what each edge depends on, with items such as "
                     "- r^{2,1} → logits: t_{-1}"),
    ] = None,
    draw_seed: Annotated[int, typer.Option(min=0, help="Seed for drawing texts.")] = 0,
    top: Annotated[int, typer.Option(min=1, help="List the K values with the largest "
        "effects.")] = 24,
    form: Annotated[str | None, format_option(FORMATS)] = None,
    output: Output = None,
) -> None:  # fmt: skip
    """Measure what causes a number: replace values by those of another text and run on.

    Pairs of texts give the direct, the indirect and the total effect (causal mediation).
    --resample takes values from random other texts (resample ablation); --hypothesis takes them
    from texts that agree on what a hypothesis says matters (causal scrubbing).
    """
    form = format_of(form, output, FORMATS)
    source.refuse_cut("there are many texts")
    model = source.weighted_model(weights)
    if hypothesis is not None:
        if by is not None:
            raise VieteError(
                "--hypothesis names the values to take from other texts: leave out --by"
            )
        return emit(scrubbed(model, hypothesis, of, texts, resample or 5, draw_seed, form), output)
    if by is None:
        raise VieteError(
            "name the values to take from another text: --by 'A^{i,h}', or give --hypothesis"
        )
    emit(effects(model, of, by, texts, resample, draw_seed, top, form), output)


def effects(
    model: Model[Any], of: str, by: str, texts: str | Path, draws: int | None, seed: int, top: int,
    form: str,
) -> str:  # fmt: skip
    """Mediation, or resample ablation, in a format."""
    from viete.document.colours import svg_file
    from viete.nouns.causal import changed_card, mediation, resample
    from viete.report.effects_page import effects_csv, effects_json, effects_page, effects_picture

    if draws is None:
        found = mediation(model, of, by, texts)
    else:
        found = resample(model, of, by, texts, draws, seed)
    match form:
        case "svg":
            return svg_file(effects_picture(found, sorted(model.card.loop_letters)).svg)
        case "json":
            return effects_json(found)
        case "csv":
            return effects_csv(found)
    changed = changed_card(model, found, texts)
    return render(effects_page(found, model.card, changed, STYLES[form], top), form)


def scrubbed(
    model: Model[Any], hypothesis: Path, of: str, texts: str, draws: int, seed: int, form: str
) -> str:  # fmt: skip
    """Causal scrubbing, in a format."""
    from viete.causes.findings import scrub_findings
    from viete.document.colours import svg_file
    from viete.nouns.causal import scrubbing
    from viete.report.scrubbing_page import scrubbing_json, scrubbing_page, scrubbing_picture

    if form == "csv":
        raise VieteError("the result of scrubbing is written as JSON: -o scrubbing.json")
    made = scrubbing(model, hypothesis, of, texts)
    found = scrub_findings(made, texts, draws, seed)
    match form:
        case "svg":
            return svg_file(scrubbing_picture(found).svg)
        case "json":
            return scrubbing_json(found)
    return render(scrubbing_page(made, found, STYLES[form]), form)


__all__ = ["cause"]
