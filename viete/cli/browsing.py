"""``viete expand -i``: shows terms by number, and opens them one after the other."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from viete.ask.explaining import finer_expansion
from viete.document.rendering import render
from viete.errors import VieteError

if TYPE_CHECKING:
    from viete.ask.expansion import Expansion

PROMPT = "number of a term to open, b back, q quit: "


def browse(e: Expansion) -> None:
    """List the terms of an expansion, and of each term that the reader opens, until q."""
    way = [("", e)]
    listed(*way[-1])
    while (word := answered()) not in ("q", ""):
        if word == "b" and len(way) > 1:
            way.pop()
        elif word == "b":
            typer.echo("this is the first")
            continue
        else:
            try:
                way.append(opened(way[-1][1], word))
            except VieteError as error:
                typer.echo(error.message)
                continue
        listed(*way[-1])


def answered() -> str:
    """The next line that is not empty; "" at the end of the input or after an interrupt."""
    try:
        while True:
            typer.echo(PROMPT, nl=False)
            line = sys.stdin.readline()
            if not line:
                typer.echo("")
                return ""
            if word := line.strip().lower():
                return word
    except KeyboardInterrupt:
        typer.echo("")
        return ""


def opened(e: Expansion, word: str) -> tuple[str, Expansion]:
    """The term with a number, and its own terms. Raises VieteError if there is no such term."""
    if not (word.isdecimal() and 1 <= int(word) <= len(e.terms)):
        raise VieteError(
            f"{word} is not the number of a term; those are 1 to {len(e.terms)}" if e.terms else
            "there is no term to open"
        )  # fmt: skip
    term = e.terms[int(word) - 1]
    finer = finer_expansion(term)
    if finer is None:
        raise VieteError(f"{term.label} cannot be split further")
    return term.label, finer


def listed(label: str, e: Expansion) -> None:
    """The terms of one expansion, with their numbers."""
    if label:
        typer.echo(f"\n{label}:\n")
    typer.echo(render(e.page(numbered=True), "text"))


__all__ = ["browse"]
