"""``viete run``: tokens and weights in, named values out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from viete.cli.options import (
    InputOptions,
    SourceOptions,
    WeightOptions,
    choice,
    format_option,
    split_names,
)
from viete.document.rendering import PAGES
from viete.errors import VieteError
from viete.graph.card import CardData

MEANINGS = ("float", "exact", "interval")


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
    dtype: Annotated[
        str | None,
        typer.Option(
            help="float16, bfloat16 (torch), float32 or float64; by default that of the card's "
            "dtype column, else float64; of a model its own."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Run on PyTorch: cpu or cuda.")] = None,
    meaning: Annotated[
        str,
        choice(
            MEANINGS,
            "--meaning",
            help="The numbers: float; exact, of which nothing is rounded; or interval, the floats "
            "between which the exact ones lie.",
        ),
    ] = "float",
    digits: Annotated[
        int | None, typer.Option(min=1, help="Of exact numbers: so many certified digits.")
    ] = None,
    unfold: Annotated[
        int | None, typer.Option(min=0, help="Of exact numbers: write names out K levels deep.")
    ] = None,
    form: Annotated[str | None, format_option(PAGES, "Of exact numbers.")] = None,
) -> None:
    """Run a card's equations, or a released model's, and print named values."""
    from viete.meanings.run import run as evaluate

    card, model = source.opened(weights, dtype, device)
    ids, others = inputs.ids(card, model), inputs.others(card)
    names = None if save is not None or show is None else split_names(show, "--show")
    if meaning != "float" and (save, device, dtype) != (None, None, None):
        raise VieteError(f"--meaning {meaning} goes without --save, --device and --dtype")
    exact = meaning == "exact"
    if exact:
        estimate(card, ids)
    elif (digits, unfold, form) != (None, None, None):
        raise VieteError("--digits, --unfold and --format go with --meaning exact")
    arrays = weights.arrays(card, model, meaning != "float", dtype, device)
    result = evaluate(card, ids, arrays, names=names, meaning=meaning, inputs=others)
    if exact:
        return print_exact(result, names, digits, unfold or 0, form or "text")
    last = [] if save is not None else list(result)[-1:]  # most likely what a person wants to see
    shown = last if show is None else split_names(show, "--show")
    lines = [pretty(wanted, result[wanted]) for wanted in shown]
    if save is not None:  # only when nothing can fail any more
        save_values(result, save)
        print(f"{len(result)} values written to {save}")
    for line in lines:
        print(line)
    if show is None:
        print_missing(result)


def estimate(card: CardData, ids: Any) -> None:
    """Say on standard error what a long exact run needs, or refuse it where there is no room."""
    from viete.evaluate.memory import check_exact

    rows = ids if len(ids) and hasattr(ids[0], "__len__") else [ids]
    if needs := check_exact(card, max(map(len, rows)), len(rows)):
        print(f"viete: {needs}", file=sys.stderr, flush=True)


def print_exact(
    result: Any, names: list[str] | None, digits: int | None, unfold: int, form: str
) -> None:
    """Exact values, and on standard error what could not be computed."""
    from viete.report.exact_values import report

    print(report(result, names or list(result)[-1:], digits, unfold, form), end="")
    if names is None:
        print_missing(result)


def print_missing(result: Any) -> None:
    """On standard error, what could not be computed, and why."""
    if why := result.without():
        print(f"not computed: {'; '.join(why)}", file=sys.stderr)


def in_numpy(array: Any) -> Any:
    """A value as NumPy has it, to which bfloat16 is unknown."""
    from viete.evaluate.inputs import host

    return host(array.float() if "bfloat16" in str(array.dtype) else array)


def pretty(name: str, array: Any) -> str:
    """The value below its name and shape; a large one with its middle left out."""
    import numpy as np

    values = in_numpy(array)
    odd = values.dtype.kind == "f" and bool(np.isnan(values).any())
    shape = "scalar" if values.ndim == 0 else " × ".join(map(str, values.shape))
    digits = 17 if values.dtype.names else 6  # of bounds all: rounded, they need not hold
    with np.printoptions(
        precision=digits, suppress=True, linewidth=100, threshold=400, edgeitems=4
    ):
        return f"{name}  ({shape}){', not all of it numbers' * odd}\n{values}"


def save_values(result: Any, path: Path) -> None:
    """All named values, under their names, whole or not at all."""
    from viete.atomic import behind
    from viete.formats.files import save_npz, save_safetensors

    save = {".safetensors": save_safetensors, ".npz": save_npz}.get(path.suffix)
    if save is None:
        raise VieteError(
            f"--save writes .safetensors or .npz, not {path.suffix or 'a file without suffix'}"
        )
    save(behind(path), {name: in_numpy(result[name]) for name in result})
