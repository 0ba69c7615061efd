"""``viete run``: tokens and weights in, named values out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from viete.cli.cutting import given_values
from viete.cli.options import (
    InputOptions,
    NumberOptions,
    SourceOptions,
    WeightOptions,
    format_option,
    split_names,
)
from viete.cli.running import estimate, started
from viete.document.rendering import PAGES, render
from viete.errors import VieteError


def run(
    source: SourceOptions,
    inputs: InputOptions,
    weights: WeightOptions,
    show: Annotated[
        str | None, typer.Option(help="Names or formulas to print: S,A,logits.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write all named values (.safetensors or .npz).")
    ] = None,
    *,
    number: NumberOptions,
    form: Annotated[str | None, format_option(PAGES, "Of exact numbers.")] = None,
) -> None:
    """Run a card's equations, or a released model's, and print named values."""
    number.check()
    exact = number.meaning == "exact"
    if save is not None and number.meaning != "float":
        raise VieteError(f"--meaning {number.meaning} goes without --save")
    if form is not None and not exact:
        raise VieteError("--format goes with --meaning exact")
    card, model = source.opened(weights, number.dtype, number.device)
    ids, given = (
        inputs.ids(card, model),
        given_values(source, weights, number, card, model, inputs.others(card)),
    )
    names = None if save is not None or show is None else split_names(show, "--show")
    if exact:
        estimate(card, ids)
    arrays = weights.arrays(card, model, number.meaning != "float", number.dtype, number.device)
    result = started(card, model, arrays, number.meaning, given)(ids, names)
    # What a person most likely wants to see of all values is the last.
    shown = split_names(show, "--show") if show is not None else (
        [] if save is not None else list(result)[-1:])  # fmt: skip
    if exact:
        from viete.report.exact_values import report

        exactly: Any = result
        print(report(exactly, shown, number.digits, number.unfold or 0, form or "text"), end="")
    else:
        from viete.evaluate.answer_page import answer_blocks

        blocks = [block for name in shown for block in answer_blocks(result.answer(name))]
        if save is not None:  # only when nothing can fail any more
            save_values(result, save)
            print(f"{len(result)} values written to {save}")
        print(render(blocks, "text") if blocks else "", end="")
    if show is None and (why := result.without()):
        print(f"not computed: {'; '.join(why)}", file=sys.stderr)


def save_values(result: Any, path: Path) -> None:
    """All named values, under their names, whole or not at all."""
    from viete.atomic import behind
    from viete.evaluate.answer_page import in_numpy
    from viete.formats.files import save_npz, save_safetensors

    save = {".safetensors": save_safetensors, ".npz": save_npz}.get(path.suffix)
    if save is None:
        raise VieteError(
            f"--save writes .safetensors or .npz, not {path.suffix or 'a file without suffix'}"
        )
    save(behind(path), {name: in_numpy(result[name]) for name in result})
