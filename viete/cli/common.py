"""What several commands take: a card with its dimensions, a list of tokens, a file to write."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from viete import read
from viete.algebra.model import Model
from viete.atomic import replacing
from viete.errors import VieteError

Card = Annotated[str, typer.Argument(help="A card's path, or the name of a shipped card.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Give a dimension a value: --set d=768.")
]
Config = Annotated[
    Path | None, typer.Option(help="Take dimensions from a Hugging Face config.json.")
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write here, not to the screen.")
]


def card(name: str, sets: list[str] | None = None, config: Path | None = None) -> Model:
    """The card, bound to the dimensions asked for."""
    model = read(name)
    if config is not None:
        from viete.cards.config import bind_config

        model = bind_config(model, config)
    values: dict[str, str] = {}
    for text in sets or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise VieteError(f"--set takes NAME=NUMBER, such as --set d=768, not {text!r}")
        values[key.strip()] = value.strip()
    return model.bind(**values) if values else model


def numbers(text: str, model: Model, what: str = "--tokens") -> list[int] | list[list[int]]:
    """``3,1,4`` or ``a b`` (words of the card's vocabulary); ``/`` begins another sequence."""
    rows = [row_of(part, model, what) for part in text.split("/")]
    if len({len(r) for r in rows}) > 1:
        raise VieteError(f"{what}: the sequences of a batch must be equally long")
    return rows if len(rows) > 1 else rows[0]


def row_of(text: str, model: Model, what: str) -> list[int]:
    """One sequence: numbers as they are, words by their place in the vocabulary."""
    words = [w for part in text.split(",") for w in part.split() or [""]]
    if not all(words):
        raise VieteError(f"{what} takes numbers such as 3,1,4")
    out = []
    for word in words:
        if word in model.vocabulary:
            out.append(model.vocabulary.index(word))
        elif re.fullmatch(r"-?[0-9]{1,18}", word):
            out.append(int(word))
        else:
            known = (
                f" or words of its vocabulary ({' '.join(model.vocabulary[:12])})"
                if model.vocabulary
                else ""
            )
            raise VieteError(f"{what}: {word!r} is no token; give numbers such as 3,1,4{known}")
    return out


def emit(text: str, output: Path | None, source: str = "") -> None:
    """Print, or write the file whole or not at all; never over the card it is ``source`` of."""
    if output is not None and source and output.resolve() == Path(source).resolve():
        raise VieteError(f"-o {output} would overwrite the card itself; give another name")
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n")
        return
    with replacing(output) as file:
        file.write(text.encode())
