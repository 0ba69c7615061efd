"""``viete export``: a card as source code of its own, or as an article."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from viete.cli.common import Card, Config, Output, Set, card, emit


class Target(StrEnum):
    """What ``--to`` takes."""

    torch = "torch"
    numpy = "numpy"
    jax = "jax"
    latex = "latex"
    typst = "typst"


def export(
    name: Card,
    to: Annotated[Target, typer.Option("--to", help="A module, a script, or an article.")],
    of: Annotated[
        str | None, typer.Option("--of", help="The loss: a value of the card, or a formula.")
    ] = None,
    sets: Set = None,
    config: Config = None,
    output: Output = None,
) -> None:
    """Write a card as stand-alone code: a PyTorch module, a NumPy script with the backward pass
    and Adam, JAX functions; or as an article in LaTeX or Typst."""
    from viete.errors import VieteError
    from viete.interpret.code import SUFFIXES
    from viete.interpret.code import export as written

    suffix = SUFFIXES[to.value]
    if output is not None and output.suffix not in ("", suffix):
        raise VieteError(
            f"{output} looks like another kind of file: {to.value} is written to {suffix}"
        )
    emit(written(card(name, sets, config), to.value, of), output, name)
