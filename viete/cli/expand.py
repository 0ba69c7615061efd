"""``viete expand``: splits a number or a vector of a run into the terms that made it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from viete.analysis.features import features_of
from viete.cli.browsing import browse
from viete.cli.cutting import given_values
from viete.cli.inputs import InputOptions, NumberOptions, split_names
from viete.cli.output import Output, emit, format_of, format_option
from viete.cli.running import started
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.document.colours import svg_file
from viete.document.rendering import PAGES, STYLES, check_format, render
from viete.errors import VieteError

if TYPE_CHECKING:
    from viete.ask.arrows import Arrows
    from viete.ask.expansion import Expansion
    from viete.document.tree import Block
    from viete.nouns.run import Questions

FORMATS = (*PAGES, "json", "svg")
GRAPHS = ("json", "svg", "latex", "html")


def expand(
    source: SourceOptions,
    inputs: InputOptions,
    weights: WeightOptions,
    of: Annotated[str, typer.Option(help="What to expand: logits_{-1,5}.")],
    into: Annotated[
        str,
        typer.Option(
            help="The kinds of terms: block, sublayer, head, source, neuron, feature, path, "
            "directions (or the name of one); for attention scores query, key."
        ),
    ] = "block",
    top: Annotated[int, typer.Option(min=1, help="List the K largest terms.")] = 12,
    least: Annotated[float, typer.Option(min=0.0, help="List no term smaller than this.")] = 0.0,
    depth: Annotated[
        int, typer.Option(min=0, help="With --into path: go through at most K heads.")
    ] = 2,
    held: Annotated[
        str | None,
        typer.Option(
            help="Values to treat as constants [A,scale: attention patterns and the "
            "scales of norms]. You may add others: A,scale,m^2. With --by, no "
            "gradient goes through them."
        ),
    ] = None,
    directions: Annotated[
        str | None,
        typer.Option(
            help="With --into directions: the directions, such as 'U_5 - U_3' [all named ones]."
        ),
    ] = None,
    explain: Annotated[
        float | None,
        typer.Option(
            help="Keep splitting the largest terms until terms that cannot be split make up this "
            "share of the total size: 0.9."
        ),
    ] = None,
    cumulative: Annotated[
        bool,
        typer.Option(
            "--cumulative", help="List the partial sums, block after block, with their angles."
        ),
    ] = False,
    graph: Annotated[
        bool,
        typer.Option(
            "--graph",
            help="Write a graph of arrows: as JSON, or -o graph.svg, graph.html, graph.tex (TikZ).",
        ),
    ] = False,
    by: Annotated[
        str | None, typer.Option(help="Instead attribute to this value, by gradients: A^{i,h}.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="With --by: a second input, given like the first.")
    ] = None,
    steps: Annotated[
        int,
        typer.Option(
            min=1,
            help="With --by: number of gradients on the way to the second input "
            "(integrated gradients).",
        ),
    ] = 1,
    exact: Annotated[
        bool, typer.Option("--exact", help="With --by: measure the exact effects too.")
    ] = False,
    interactive: Annotated[
        bool,
        typer.Option(
            "--interactive", "-i", help="Browse on the terminal: open terms by their numbers."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write JSON, as -f json does.", rich_help_panel="Output")
    ] = False,
    form: Annotated[str | None, format_option(FORMATS)] = None,
    output: Output = None,
) -> None:
    """Split a number or a vector of a run into the terms that add up to it.

    A logit becomes a sum of terms: one for each block, head, source position or neuron. --by
    instead attributes the number to a value, by gradients.
    """
    form = "json" if as_json else form
    if interactive and (by, form, output, graph, cumulative) != (None, None, None, False, False):
        raise VieteError(
            "-i lists terms on the terminal: give none of --by, --graph, --cumulative, -f and -o"
        )
    form = graph_format(form, output) if graph else format_of(form, output, FORMATS)
    run = opened(source, inputs, weights)
    if by is not None:
        names = [] if held is None else split_names(held, "--held")
        other = None if against is None else opened(source, beside(inputs, against), weights)
        found = run.attribute(of, by, other, steps=steps, exact=exact, held=names)
        return emit(attribution_page(found.page(STYLES.get(form, "unicode"), top), form), output)
    if (against, steps, exact) != (None, 1, False):
        raise VieteError("--against, --steps and --exact need --by")
    if graph and "feature" in into and features_of(run.program.model):
        text = feature_page(run, of, form, top)
        return emit(svg_file(text) if form == "svg" else text, output)
    e = run.expand(of, into, top=top, least=least, depth=depth, cumulative=cumulative,
                   explain=explain, held="A, scale" if held is None else held,
                   directions=directions or ())  # fmt: skip
    if interactive:
        return browse(e)
    text = page(e, form, graph)
    emit(svg_file(text) if form == "svg" else text, output)


def page(e: Expansion, form: str, graph: bool) -> str:
    """An expansion in a format."""
    if graph:
        from viete.ask.arrows import arrows, arrows_json

        made = arrows(e)
        return arrows_json(made) if form == "json" else drawn(made, form)
    if form == "svg" and e.options.cumulative:
        from viete.report.drawing.vectors import vectors_svg

        return vectors_svg(e.partial_sums)
    if form == "svg":
        from viete.report.pictures.choosing import drawn_terms

        return drawn_terms(e).svg
    if form == "json":
        return e.json
    return render(e.page(STYLES[form]), form)


def feature_page(run: Questions, of: str, form: str, top: int) -> str:
    """The graph of the features behind a number, in a format."""
    from viete.features.search import feature_graph
    from viete.report.attribution_json import attribution_json

    found = feature_graph(run, of, top)
    return attribution_json(found) if form == "json" else drawn(found.arrows(), form)


def drawn(graph: Arrows, form: str) -> str:
    """A graph in a format that can show it."""
    from viete.report.arrows_page import arrows_page
    from viete.report.drawing.arrows import arrows_svg
    from viete.report.drawing.arrows_tikz import arrows_tikz

    match form:
        case "svg":
            return arrows_svg(graph)
        case "latex":
            return arrows_tikz(graph)
    return render(arrows_page(graph), form)


def graph_format(form: str | None, output: Path | None) -> str:
    """The format of a graph: the requested one, else of the output's suffix, else JSON."""
    bare = form is None and (output is None or not output.suffix)
    form = "json" if bare else format_of(form, output, GRAPHS)
    check_format("a graph", form, GRAPHS)
    return form


def attribution_page(blocks: Sequence[Block], form: str) -> str:
    """An attribution in a format."""
    if form not in PAGES:
        raise VieteError(f"--by is written as {', '.join(PAGES)}, not {form}")
    return render(blocks, form)


def beside(inputs: InputOptions, other: str) -> InputOptions:
    """The second input, in the form of the first."""
    if inputs.text is not None:
        return replace(inputs, text=other)
    return replace(inputs, tokens=other)


def opened(source: SourceOptions, inputs: InputOptions, weights: WeightOptions) -> Questions:
    """The run to expand in."""
    card, model = source.opened(weights)
    ids = inputs.ids(card, model)  # before weights are drawn
    given = given_values(source, weights, NumberOptions(), card, model, inputs.others(card))
    return started(card, model, weights.arrays(card, model), "float", given)(ids, None)
