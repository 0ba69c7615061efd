"""``viete run``: tokens and weights in, named values out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from viete.cli.cutting import given_values
from viete.cli.inputs import InputOptions, NumberOptions, split_names
from viete.cli.output import Output, emit, format_of, format_option
from viete.cli.running import estimate, started
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.document.columns import WIDTH, terminal_width
from viete.document.rendering import PAGES, render
from viete.errors import VieteError
from viete.graph.card import CardData
from viete.notation.printer import show_symbol

FORMATS = (*PAGES, "svg")


def run(
    source: SourceOptions,
    inputs: InputOptions,
    weights: WeightOptions,
    show: Annotated[
        str | None, typer.Option(help="Names or formulas to print, with commas: S,A,logits.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Print every named value.")] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            help="Write all named values to a .safetensors or .npz file.", rich_help_panel="Output"
        ),
    ] = None,
    *,
    number: NumberOptions,
    form: Annotated[str | None, format_option(FORMATS)] = None,
    output: Output = None,
) -> None:
    """Run a card or a model on an input and print values: the last one, or those that you name.

    -f svg draws them: attention, for example, as a heat map and as arcs between tokens.
    """
    number.check()
    if everything and show is not None:
        raise VieteError("--all prints every value: leave out --show, or --all")
    exact = number.meaning == "exact"
    if save is not None and number.meaning != "float":
        raise VieteError(f"--meaning {number.meaning} cannot be combined with --save")
    form = format_of(form, output, FORMATS)
    if form == "svg" and number.meaning != "float":
        raise VieteError(
            f"--format svg draws floats, so it cannot be combined with --meaning {number.meaning}"
        )
    card, model = source.opened(weights, number.dtype, number.device)
    ids, given = (
        inputs.ids(card, model),
        given_values(source, weights, number, card, model, inputs.others(card)),
    )
    wanted = [] if show is None else [whole(card, name) for name in split_names(show, "--show")]
    names = None if save is not None or show is None else wanted
    if exact:
        estimate(card, ids, trained=model is not None)
    arrays = weights.arrays(card, model, number.meaning != "float", number.dtype, number.device)
    result = started(card, model, arrays, number.meaning, given)(ids, names)
    if everything:
        named = dict.fromkeys(show_symbol(e.left.symbol) for e in card.equations)
        shown = [name for name in named if name in result]
    elif show is not None or save is not None:
        shown = wanted
    else:  # what a person most likely wants to see of all values is the last
        shown = [result.symbol_text(name) for name in list(result)[-1:]]
    if exact:
        from viete.report.exact_values import report

        exactly: Any = result
        emit(report(exactly, shown, number.digits, number.unfold or 0, form), output)
    else:
        from viete.evaluate.answer_page import answer_blocks

        answers = [result.answer(name) for name in shown]
        if form == "svg":
            from viete.document.colours import svg_file
            from viete.report.pictures.choosing import draw
            from viete.report.pictures.picture import stacked

            letters = sorted(card.loop_letters)
            text = svg_file(stacked([draw(a, letters) for a in answers], card.title).svg)
        else:
            width = terminal_width() if output is None else WIDTH
            text = render([block for a in answers for block in answer_blocks(a, width)], form)
        if save is not None:  # only when nothing can fail any more
            save_values(result, save)
            print(f"written: {save} ({len(result)} values)", file=sys.stderr)
        if answers:
            emit(text, output)
        if show is None and save is None and not everything and output is None:
            print("other values: --show NAME,NAME; every value: --all", file=sys.stderr)
    if show is None and (why := result.without()):
        print(f"not computed: {'; '.join(why)}", file=sys.stderr)


def whole(card: CardData, name: str) -> str:
    """A value by its base letter, if that is unique: ``A`` is ``A^{i,h}``."""
    symbols = {e.left.symbol for e in card.equations if e.left.symbol.base == name}
    return next(iter(symbols)).key if len(symbols) == 1 else name


def save_values(result: Any, path: Path) -> None:
    """Save all named values, completely or not at all."""
    from viete.atomic import behind
    from viete.evaluate.inputs import in_numpy
    from viete.formats.files import save_npz, save_safetensors

    save = {".safetensors": save_safetensors, ".npz": save_npz}.get(path.suffix)
    if save is None:
        raise VieteError(
            f"--save writes .safetensors or .npz, not {path.suffix or 'a file without suffix'}"
        )
    save(behind(path), {name: in_numpy(result[name]) for name in result})
