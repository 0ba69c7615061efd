"""The options that say what a run is of, tokens or a text, and in which numbers it is computed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from viete.cli.option_groups import choice
from viete.errors import VieteError
from viete.graph.card import CardData

if TYPE_CHECKING:
    from viete.nouns.model import Model

MEANINGS = ("float", "exact", "interval")


@dataclass
class NumberOptions:
    """The numbers that a run computes with, and how exact numbers are written."""

    panel: ClassVar[str] = "Numbers"

    dtype: Annotated[
        str | None,
        typer.Option(
            help="float16, bfloat16 (PyTorch only), float32 or float64 [the card's dtype column, "
            "else float64; a model's own]."
        ),
    ] = None
    device: Annotated[
        str | None, typer.Option(help="Run with PyTorch on this device: cpu or cuda.")
    ] = None
    meaning: Annotated[
        str,
        choice(
            MEANINGS,
            "--meaning",
            help="The numbers to compute with: float; exact, where nothing is rounded; or "
            "interval, two floats with the exact number between them.",
        ),
    ] = "float"
    digits: Annotated[
        int | None, typer.Option(min=1, help="Show this many proven digits of each exact number.")
    ] = None
    unfold: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="In exact numbers, replace each name by what it stands for, this many "
            "levels deep.",
        ),
    ] = None

    def check(self) -> None:
        """Raise VieteError for options that exclude each other."""
        if self.meaning != "float" and (self.device, self.dtype) != (None, None):
            raise VieteError(
                f"--meaning {self.meaning} cannot be combined with --device or --dtype"
            )
        if self.meaning != "exact" and (self.digits, self.unfold) != (None, None):
            raise VieteError("--digits and --unfold need --meaning exact")


@dataclass
class InputOptions:
    """The input of a card or a model."""

    panel: ClassVar[str] = "Input"

    tokens: Annotated[
        str | None,
        typer.Option("--tokens", "-t", help="Token ids, or words of the card's vocabulary: 3,1,4 "
                     "or 'a b'. A / starts another sequence."),
    ] = None  # fmt: skip
    text: Annotated[
        str | None, typer.Option(help="The input as text, for a model with a tokenizer.")
    ] = None
    bos: Annotated[
        bool | None,
        typer.Option(help="Begin the text with the tokenizer's first token [if it has one]."),
    ] = None
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=VALUES",
            help="Give another input of the card: y=1,4,1 (repeatable).",
        ),
    ] = None

    def ids(self, card: CardData, model: Model | None) -> Any:
        """The token ids of ``--tokens`` or of the text."""
        if (self.tokens is None) == (self.text is None):
            raise VieteError(
                "give the input either as --tokens, such as --tokens 3,1,4, or as --text TEXT"
            )
        if self.tokens is not None:
            return numbers(self.tokens, card)
        if model is None:
            if card.vocabulary:
                return numbers(self.text or "", card, "--text")
            raise VieteError(f"{card.title} is a card, and has no tokenizer: give --tokens 3,1,4")
        return model.text_ids(self.text or "", self.bos)

    def others(self, card: CardData) -> dict[str, Any]:
        """``--input y=1,4,1`` as inputs by name."""
        out = {}
        for text in self.given or ():
            key, equals, value = text.partition("=")
            if not equals:
                raise VieteError(
                    f"--input takes NAME=NUMBERS, such as --input y=1,4,1, not {text!r}"
                )
            out[key.strip()] = numbers(value, card, f"--input {key.strip()}")
        return out


def numbers(text: str, card: CardData, what: str = "--tokens") -> list[int] | list[list[int]]:
    """``3,1,4`` or ``a b`` (words of the card's vocabulary); ``/`` begins another sequence."""
    rows = [row_of(part, card, what) for part in text.split("/")]
    if len({len(r) for r in rows}) > 1:
        raise VieteError(f"{what}: the sequences of a batch must be equally long")
    return rows if len(rows) > 1 else rows[0]


def row_of(text: str, card: CardData, what: str) -> list[int]:
    """The token ids of one sequence of numbers and words of the vocabulary."""
    words = [w for part in text.split(",") for w in part.split() or [""]]
    if not text.strip():
        raise VieteError(f"{what} has an empty sequence; give at least one token, such as 3")
    if not all(words):
        raise VieteError(f"{what} has nothing between two commas; give numbers such as 3,1,4")
    out = []
    for word in words:
        if word in card.vocabulary:
            out.append(card.vocabulary.index(word))
        elif re.fullmatch(r"-?[0-9]{1,18}", word):
            out.append(int(word))
        else:
            known = f" or words of the card's vocabulary ({' '.join(card.vocabulary[:12])})"
            raise VieteError(
                f"{what}: {word!r} is not a token; give numbers such as 3,1,4"
                f"{known if card.vocabulary else ''}"
            )
    return out


def whole_numbers(text: str, option: str, least: int = 0) -> list[int]:
    """``3,17,40`` as numbers, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) >= least for part in parts):
        raise VieteError(
            f"{option} takes one number from {least} up, or several with commas, not {text!r:.40}"
        )
    return [int(part) for part in dict.fromkeys(parts)]


def split_names(text: str, option: str) -> list[str]:
    """Split at the commas outside brackets: ``S, A^{1,h}, <u, v>``."""
    parts, depth = [""], 0
    angles = "<>" if text.count("<") == text.count(">") else "  "
    for c in text:
        depth += (c in "([{⟨" + angles[0]) - (c in ")]}⟩" + angles[1])
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    if not all(p.strip() for p in parts):
        raise VieteError(f"{option} takes names with commas between them, not {text!r}")
    return [p.strip() for p in parts]
