"""What several commands take: a card or a released model, tokens, a file to write."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from viete.atomic import behind, replacing
from viete.errors import VieteError
from viete.graph.card import CardData

Form = TypeVar("Form")

if TYPE_CHECKING:
    from viete.model.model import Model

Card = Annotated[
    str,
    typer.Argument(
        metavar="CARD",
        help="A card: its path, a shipped name, - for standard input. Or a model: a folder, a "
        "file, an id of the hub.",
    ),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Give a dimension a value: --set d=768.")
]
Config = Annotated[
    Path | None, typer.Option(help="Take dimensions from a Hugging Face config.json.")
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write here, not to the screen.")
]


Instead = Annotated[
    str | None, typer.Option("--card", help="Of a model: the card, if not that of its family.")
]
Accept = Annotated[
    list[str] | None,
    typer.Option("--accept", help="Of a model: pass over this key of its config (repeatable)."),
]
Revision = Annotated[
    str | None, typer.Option("--revision", help="Of a model: a branch, tag or commit; a step.")
]


def card(
    name: str, sets: list[str] | None = None, config: Path | None = None,
    instead: str | None = None, accept: list[str] | None = None, revision: str | None = None,
    weights: Path | None = None,
) -> CardData:  # fmt: skip
    """The card, or that of a released model, bound to the dimensions asked for.

    Where a card is held against a file of ``weights``, the tensors say what it asks of them.
    """
    if is_model(name, revision):
        from viete.model.folder import open_card
        from viete.model.trained import card_of, is_run

        if instead is None and is_run(name):
            model = card_of(name)
        else:
            model, _ = open_card(name, instead, accept or (), config, revision)
    else:
        only_of_a_model(name, instead, None if config else accept)
        if weights is None or config is not None:
            return read_card(name, config, accept or (), settings(sets))
        from viete.formats.files import open_tensors
        from viete.model.folder import card_of_file

        model = card_of_file(name, open_tensors(weights))
    values = settings(sets)
    return model.bind(**values) if values else model


def read_card(
    name: str, config: Path | None, accept: Sequence[str], sets: Mapping[str, str]
) -> CardData:
    """The card of that path or name, or with ``-`` the one on standard input."""
    from viete.cards import reader
    from viete.cards.catalogue import find
    from viete.cards.config import Config

    given = None if config is None else Config(config)
    if name != "-":
        return reader.read(find(name), given, accept, sets)
    content = sys.stdin.buffer.read(reader.MAX_BYTES + 1)
    return reader.reads(reader.decoded(content, "<stdin>"), "<stdin>", given, accept, sets)


def transformer(
    name: str, sets: list[str] | None = None, config: Path | None = None,
    instead: str | None = None, accept: list[str] | None = None, revision: str | None = None,
    dtype: str | None = None, device: str | None = None,
) -> Model | None:  # fmt: skip
    """The released model of this name with its weights, or None where it is a card's."""
    if not is_model(name, revision):
        only_of_a_model(name, instead, None if config else accept)
        return None
    from dataclasses import replace

    from viete.model.model import load

    framework = "numpy" if device is None else "torch"
    found = load(name, instead, accept or (), framework, dtype, device, revision, config)
    if values := settings(sets):
        found.folder = replace(found.folder, model=found.card.bind(**values))
    return found


def opened(
    name: str, given: bool, sets: list[str] | None, config: Path | None, instead: str | None,
    accept: list[str] | None, revision: str | None, dtype: str | None = None,
    device: str | None = None, weights: Path | None = None,
) -> tuple[CardData, Model | None]:  # fmt: skip
    """The card, and the released model that it is of, unless other weights are ``given``.

    They may be in the file ``weights``.
    """
    asked = (name, sets, config, instead, accept, revision)
    found = None if given else transformer(*asked, dtype, device)
    return (card(*asked, weights) if found is None else found.card), found


def is_model(name: str, revision: str | None = None) -> bool:
    """Whether this is a folder, a file of tensors or an id of the hub, and not a card.

    A shipped card goes before a folder of that name, and before an id without an owner; with a
    ``revision`` it can only be an id.
    """
    from viete.cards.catalogue import shipped
    from viete.formats.hub import SUFFIXES, is_id

    if revision is not None:
        return True
    path = Path(name)
    if name.lower().removesuffix(".md") in shipped():
        return False
    if path.suffix in SUFFIXES:
        return True
    try:
        if path.exists():
            return path.is_dir()
    except (OSError, ValueError):  # a name that no file can have
        return False
    return "/" in name and is_id(name) and path.suffix not in (".md", ".tex", ".json")


def only_of_a_model(name: str, instead: str | None, accept: list[str] | None) -> None:
    """Refuse what a card does not have."""
    given = {"--card": instead, "--accept": accept}
    if found := next((option for option, value in given.items() if value), None):
        raise VieteError(f"{found} is of a released model, and {name} is a card")


def settings(sets: list[str] | None) -> dict[str, str]:
    """``d=768`` as a name and a value."""
    values: dict[str, str] = {}
    for text in sets or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise VieteError(f"--set takes NAME=NUMBER, such as --set d=768, not {text!r}")
        values[key.strip()] = value.strip()
    return values


def numbers(text: str, card: CardData, what: str = "--tokens") -> list[int] | list[list[int]]:
    """``3,1,4`` or ``a b`` (words of the card's vocabulary); ``/`` begins another sequence."""
    rows = [row_of(part, card, what) for part in text.split("/")]
    if len({len(r) for r in rows}) > 1:
        raise VieteError(f"{what}: the sequences of a batch must be equally long")
    return rows if len(rows) > 1 else rows[0]


def named_inputs(given: list[str] | None, card: CardData) -> dict[str, Any]:
    """``--input y=1,4,1`` as inputs by name."""
    out = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise VieteError(f"--input takes NAME=NUMBERS, such as --input y=1,4,1, not {text!r}")
        out[key.strip()] = numbers(value, card, f"--input {key.strip()}")
    return out


def row_of(text: str, card: CardData, what: str) -> list[int]:
    """One sequence: numbers as they are, words by their place in the vocabulary."""
    words = [w for part in text.split(",") for w in part.split() or [""]]
    if not all(words):
        raise VieteError(f"{what} takes numbers such as 3,1,4")
    out = []
    for word in words:
        if word in card.vocabulary:
            out.append(card.vocabulary.index(word))
        elif re.fullmatch(r"-?[0-9]{1,18}", word):
            out.append(int(word))
        else:
            known = (
                f" or words of its vocabulary ({' '.join(card.vocabulary[:12])})"
                if card.vocabulary
                else ""
            )
            raise VieteError(f"{what}: {word!r} is no token; give numbers such as 3,1,4{known}")
    return out


def by_suffix(output: Path | None, forms: Mapping[str, Form], otherwise: Form) -> Form:
    """The format that the output's suffix asks for; without an output the last.

    Raises VieteError for a suffix of no format.
    """
    if output is None or output.suffix == "":
        return otherwise
    if (form := forms.get(output.suffix.lower())) is None:
        raise VieteError(
            f"-o {output}: by its suffix nothing is written to {output.suffix}; there are "
            f"{', '.join(forms)}, or say --format"
        )
    return form


def emit(text: str, output: Path | None, source: str = "") -> None:
    """Print, or write the file whole or not at all; never over the card it is ``source`` of.

    A link stays, and what it leads to is written.
    """
    if output is not None and source and realpath(output) == realpath(source):
        raise VieteError(f"-o {output} would overwrite the card itself; give another name")
    if output is None:
        print(text, end="" if text.endswith("\n") else "\n")
        return
    with replacing(behind(output)) as file:
        file.write(text.encode())
