"""``viete run``: tokens and weights in, named values out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viete.cli.common import (
    Accept,
    Card,
    Config,
    Instead,
    Revision,
    Set,
    named_inputs,
    numbers,
    opened,
)
from viete.errors import VieteError
from viete.graph.card import CardData

if TYPE_CHECKING:
    from viete.model.model import Model


def run(
    name: Card,
    tokens: Annotated[
        str | None,
        typer.Option("--tokens", "-t", help="Token ids: 3,1,4 (a / begins another sequence)."),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", help="Of a model with a tokenizer: the input as text.")
    ] = None,
    bos: Annotated[
        bool | None,
        typer.Option(help="Put the text behind the token that begins one [where there is one]."),
    ] = None,
    weights: Annotated[Path | None, typer.Option("--weights", "-w", help="A tensor file.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random weights, as the card's init column says.")
    ] = None,
    show: Annotated[
        str | None, typer.Option(help="Names or formulas to print: S,A,logits.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write all named values (.safetensors or .npz).")
    ] = None,
    given: Annotated[
        list[str] | None, typer.Option("--input", help="Another input: --input y=1,4,1.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="float16, bfloat16 (torch), float32 or float64; by default that of the card's "
            "dtype column, else float64; of a model its own."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="Run on PyTorch: cpu or cuda.")] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Compute in exact numbers; nothing is rounded.")
    ] = False,
    digits: Annotated[
        int | None, typer.Option(min=1, help="With --exact: so many certified digits.")
    ] = None,
    unfold: Annotated[
        int | None, typer.Option(min=0, help="With --exact: write names out K levels deep.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", "-f", help="With --exact: text, md or latex.")
    ] = None,
    sets: Set = None,
    config: Config = None,
    instead: Instead = None,
    accept: Accept = None,
    revision: Revision = None,
) -> None:
    """Run a card's equations, or a released model's, and print named values."""
    own = own_weights(weights, seed)
    model, found = opened(name, own, sets, config, instead, accept, revision, dtype, device,
                          weights)  # fmt: skip
    ids = the_tokens(model, found, tokens, text, bos)
    inputs = named_inputs(given, model)
    names = None if save is not None or show is None else top_level(show)
    if exact:
        if save is not None or device is not None or dtype is not None:
            raise VieteError("--exact goes without --save, --device and --dtype")
        estimate(model, ids)
        fractions = exact_weights(model, weights, seed) if found is None else found.weights
        print_exact(model.run(ids, fractions, names=names, exact=True, inputs=inputs),
                    names, digits, unfold or 0, form or "text")  # fmt: skip
        return
    if (digits, unfold, form) != (None, None, None):
        raise VieteError("--digits, --unfold and --format go with --exact")
    if found is None:
        from viete.evaluate.initial_weights import stated_dtype

        arrays = the_weights(model, weights, seed, dtype or stated_dtype(model), device)
    else:
        arrays = found.weights
    result = model.run(ids, arrays, names=names, inputs=inputs)
    shown = top_level(show) if show is not None else [] if save is not None else last(model, result)
    lines = [pretty(wanted, result[wanted]) for wanted in shown]
    if save is not None:  # only when nothing can fail any more
        write(result, save)
        print(f"{len(result)} values written to {save}")
    for line in lines:
        print(line)
    if show is None and (why := result.without()):
        print(f"not computed: {'; '.join(why)}", file=sys.stderr)


def estimate(card: CardData, ids: Any) -> None:
    """Say on standard error what a long exact run needs, or refuse it where there is no room."""
    from viete.evaluate.memory import check_exact

    rows = ids if len(ids) and isinstance(ids[0], list) else [ids]
    if said := check_exact(card, max(map(len, rows)), len(rows)):
        print(f"viete: {said}", file=sys.stderr, flush=True)


def the_tokens(
    card: CardData, found: Model | None, tokens: str | None, text: str | None, bos: bool | None
) -> Any:
    """What is run: token ids as they are given, or those of the text."""
    if (tokens is None) == (text is None):
        raise VieteError("give the input either as --tokens 3,1,4 or, of a model, as --text TEXT")
    if tokens is not None:
        return numbers(tokens, card)
    if found is None:
        raise VieteError(f"{card.title} is a card, and has no tokenizer: give --tokens 3,1,4")
    return found.to_tokens(text or "", bos, truncate=False)


def print_exact(
    result: Any, names: list[str] | None, digits: int | None, unfold: int, form: str
) -> None:
    """Exact values, and on standard error what could not be computed."""
    from viete.meanings.exact.report import report

    shown = list(result)[-1:] if names is None else names
    print(report(result, shown, digits, unfold, form), end="")
    if names is None and (why := result.without()):
        print(f"not computed: {'; '.join(why)}", file=sys.stderr)


def exact_weights(card: CardData, path: Path | None, seed: int | None) -> dict[str, Any]:
    """Those of the file, as the fractions that its floats are; else the card's own values.

    What the card gives no value for is drawn with ``seed``, in float64.
    """
    from viete.evaluate.initial_weights import initial_weights, literal_fractions

    if path is not None:
        if seed is not None:
            raise VieteError("give either --weights or --seed, not both")
        from viete.model.mapping import load_weights

        return load_weights(card, path, dtype=None)
    given = literal_fractions(card)
    if all(p.value for p in card.parameters):
        return given
    if seed is None:
        raise VieteError("the card needs weights: give --weights FILE, or --seed N for random ones")
    return initial_weights(card, seed) | given


def own_weights(weights: Path | None, seed: int | None) -> bool:
    """Whether weights are given, by a file or a seed. Raises VieteError where by both."""
    if weights is not None and seed is not None:
        raise VieteError("give either --weights or --seed, not both")
    return weights is not None or seed is not None


def the_weights(
    card: CardData, path: Path | None, seed: int | None, dtype: str, device: str | None
) -> dict[str, Any]:
    """Those of the file; else the card's own values, and random ones where it gives none."""
    from viete.evaluate.initial_weights import initial_weights

    kinds = ("float16", "float32", "float64") + (("bfloat16",) if device else ())
    if dtype not in kinds:
        raise VieteError(f"--dtype is one of {', '.join(kinds)}, not {dtype}")
    if path is not None:
        from viete.model.mapping import load_weights

        arrays = load_weights(card, path, dtype=None if device and dtype == "bfloat16" else dtype)
    elif seed is not None or all(p.value for p in card.parameters):
        arrays = initial_weights(card, seed or 0, "float64" if device else dtype)
    else:
        raise VieteError("the card needs weights: give --weights FILE, or --seed N for random ones")
    return to_device(arrays, dtype, device) if device else arrays


def to_device(arrays: dict[str, Any], dtype: str, device: str) -> dict[str, Any]:
    """The arrays as PyTorch tensors of that type, on that device."""
    try:
        import torch
    except ImportError:
        raise VieteError("--device needs PyTorch: pip install 'viete[torch]'") from None
    try:
        return {k: torch.asarray(v).to(device, getattr(torch, dtype)) for k, v in arrays.items()}
    except (RuntimeError, AssertionError) as error:
        raise VieteError(f"PyTorch cannot use {device}: {str(error).splitlines()[0]}") from None


def top_level(text: str) -> list[str]:
    """Split at the commas that stand in no bracket: ``S, A^{1,h}, <u, v>``."""
    parts, depth = [""], 0
    angles = "<>" if text.count("<") == text.count(">") else "  "
    for c in text:
        depth += (c in "([{⟨" + angles[0]) - (c in ")]}⟩" + angles[1])
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    if not all(p.strip() for p in parts):
        raise VieteError(f"--show takes names with commas between them, not {text!r}")
    return [p.strip() for p in parts]


def last(card: CardData, result: Any) -> list[str]:
    """What a person most likely wants to see: the last value that could be computed."""
    return list(result)[-1:]


def host(array: Any) -> Any:
    """The array as NumPy, whatever it was."""
    import numpy as np

    if hasattr(array, "detach"):
        import torch

        array = array.detach().cpu()
        array = array.float() if array.dtype == torch.bfloat16 else array
    return np.asarray(array)


def pretty(name: str, array: Any) -> str:
    """The value below its name and shape; a large one with its middle left out."""
    import numpy as np

    values = host(array)
    odd = values.dtype.kind == "f" and bool(np.isnan(values).any())
    shape = "scalar" if values.ndim == 0 else " × ".join(map(str, values.shape))
    with np.printoptions(precision=6, suppress=True, linewidth=100, threshold=400, edgeitems=4):
        return f"{name}  ({shape}){', not all of it numbers' * odd}\n{values}"


def write(result: Any, path: Path) -> None:
    """All named values, under their names, whole or not at all."""
    from viete.atomic import behind
    from viete.formats.files import save_npz, save_safetensors

    save = {".safetensors": save_safetensors, ".npz": save_npz}.get(path.suffix)
    if save is None:
        raise VieteError(
            f"--save writes .safetensors or .npz, not {path.suffix or 'a file without suffix'}"
        )
    save(behind(path), {name: host(result[name]) for name in result})
