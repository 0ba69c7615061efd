"""The options that name a card or a model, with its dimensions and its changes; and opening it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar

import typer

from viete.cli.weights import WeightOptions
from viete.errors import VieteError
from viete.graph.card import CardData

if TYPE_CHECKING:
    from viete.ask.putting import Features
    from viete.nouns.model import Model
    from viete.nouns.verbs import Verbs

FILE = re.compile(r"\.(npz|safetensors)\b|=[^=(]*/")  # of arrays, or a folder
Changing = TypeVar("Changing", bound="Verbs")


@dataclass
class SourceOptions:
    """The card or model that a command is about."""

    panel: ClassVar[str] = "Model"

    name: Annotated[
        str,
        typer.Argument(
            metavar="CARD",
            help="A card: its path, the name of a shipped card, or - for standard input. Or a "
            "model: a folder, a file of weights, an id of the Hugging Face hub, or a run of "
            "viete train.",
        ),
    ]
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a dimension: d=768 (repeatable)."),
    ] = None
    config: Annotated[
        Path | None, typer.Option(help="Take the dimensions from a Hugging Face config.json.")
    ] = None
    instead: Annotated[
        str | None,
        typer.Option("--card", help="Open the model with this card, not with its family's."),
    ] = None
    accept: Annotated[
        list[str] | None,
        typer.Option(help="Ignore this key of the model's config (repeatable)."),
    ] = None
    revision: Annotated[
        str | None,
        typer.Option(help="A branch, tag or commit of a model on the hub. A checkpoint of a run: "
                     "latest, previous, best or a step. ask, check and circuit take several, with "
                     "commas between them, or all."),
    ] = None  # fmt: skip
    changes: Annotated[
        list[str] | None,
        typer.Option("--put", metavar="EQUATION", help="Change the model: by an equation, "
                     "'A^{2,1} = 0'; by a Markdown file of equations; or by an autoencoder or "
                     "transcoders, 'x^3 = sae.npz(x^3)', 'm^i = ./folder(y^i)' (repeatable)."),
    ] = None  # fmt: skip
    cuts: Annotated[
        list[str] | None,
        typer.Option("--cut", metavar="VALUE", help="Keep a value as the unchanged model computes "
                     "it, such as 'A^{i,h}' (repeatable)."),
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        from viete.cards.catalogue import model_path

        self.name = str(model_path(self.name)) if self.name else self.name

    @property
    def values(self) -> dict[str, str]:
        """``--set d=768`` as a name and a value."""
        values: dict[str, str] = {}
        for text in self.sets or ():
            key, equals, value = text.partition("=")
            if not equals or not key.strip() or not value.strip():
                raise VieteError(f"--set takes NAME=NUMBER, such as --set d=768, not {text!r}")
            values[key.strip()] = value.strip()
        return values

    @property
    def is_model(self) -> bool:
        """Whether this is a folder, a file of tensors or an id of the hub, and not a card.

        A shipped card goes before a folder of that name, and before an id without an owner; with a
        ``revision`` it can only be a model.
        """
        from viete.cards.catalogue import named
        from viete.formats.hub import SUFFIXES as TENSORS
        from viete.formats.hub import is_id
        from viete.model.trained import is_run

        path = Path(self.name)
        if self.revision is not None:
            return True
        if self.name.lower().removesuffix(".md") in named():
            return False
        if path.suffix in TENSORS:
            return True
        try:
            if path.exists():
                return path.is_dir() or is_run(path)
        except (OSError, ValueError):  # a name that no file can have
            return False
        return "/" in self.name and is_id(self.name) and path.suffix not in (".md", ".tex", ".json")

    @cached_property
    def features(self) -> dict[str, Features]:
        """The transcoders and autoencoders that ``--put`` names: folders, or files of arrays."""
        from viete.model.trained import is_run

        def named(text: str) -> bool:
            path = text.startswith((".", "/", "~")) or bool(FILE.search(text))
            return path or (bool(text) and (Path(text).is_dir() or is_run(text)))

        if not any(map(named, self.changes or ())):
            return {}
        from viete.model.coders import coders_of

        found = {text: coders_of(text) for text in self.changes or ()}
        return {text: x for text, x in found.items() if x is not None}

    @property
    def equations(self) -> list[str | Path]:
        """The equations of ``--put``, and the files of equations."""
        from viete.rewrite.replacement import SUCH_AS

        some = [text for text in self.changes or () if text not in self.features]
        if lost := next((x for x in some if "=" not in x and x.strip() and x[-3:] != ".md"), None):
            raise VieteError(f"--put {lost}: there is no file or folder of this name, and a change "
                             f"is an equation, {SUCH_AS}")  # fmt: skip
        return [Path(text) if text.endswith(".md") else text for text in some]

    def changed(self, of: Changing) -> Changing:
        """A card or a model with the features of ``--put``, then the cuts, then the equations."""
        of = of.put(*self.features.values()) if self.features else of
        of = of.cut(*self.cuts) if self.cuts else of
        return of.put(*self.equations) if self.equations else of

    def card(self, weights: Path | None = None) -> CardData:
        """The card after ``--put`` and ``--cut``; see `unchanged`."""
        found = self.unchanged(weights)
        if self.changes or self.cuts:
            from viete.nouns.card import Card

            found = self.changed(Card.of(found))
        return found

    def unchanged(self, weights: Path | None = None) -> CardData:
        """The card, or the model's card, with the dimensions of ``--set``; reads no weights.

        With a file of ``weights``, a card's dimensions follow from the shapes of its tensors.
        """
        config, accept, values = self.config, self.accept or (), self.values
        if self.is_model:
            from viete.model.folder import open_card
            from viete.model.trained import card_of, is_run

            if self.instead is None and is_run(self.name):
                card = card_of(self.name)
            else:
                card, _ = open_card(self.name, self.instead, accept, config, self.revision)
            return card.bind(**values) if values else card
        self.refuse_options_of_models()
        if weights is not None and config is None:
            from viete.formats.files import open_tensors
            from viete.model.folder import card_of_file

            card = card_of_file(self.name, open_tensors(weights))
            return card.bind(**values) if values else card
        from viete.cards import reader
        from viete.cards.catalogue import find
        from viete.cards.config import Config

        given = None if config is None else Config(config)
        if self.name != "-":
            return reader.read(find(self.name), given, accept, values)
        content = sys.stdin.buffer.read(reader.MAX_BYTES + 1)
        return reader.reads(reader.decoded(content, "<stdin>"), "<stdin>", given, accept, values)

    def model(self, dtype: str | None = None, device: str | None = None) -> Model:
        """The model with its weights. Raises VieteError if no model has that name."""
        from viete.nouns.card import load

        framework = "numpy" if device is None else "torch"
        found = load(self.name, self.instead, self.accept or (), framework, dtype, device,
                     self.revision, self.config)  # fmt: skip
        found = found.bind(**values) if (values := self.values) else found
        return self.changed(found)

    def opened(
        self, weights: WeightOptions, dtype: str | None = None, device: str | None = None
    ) -> tuple[CardData, Model | None]:
        """The card and its model; None instead of a model that is given other ``weights``."""
        if self.features and (weights.present or not self.is_model):  # features come with weights
            from viete.evaluate.initial_weights import stated_dtype
            from viete.nouns.card import Card

            whole = Card.of(self.unchanged(weights.weights))
            arrays = weights.floats(whole, dtype or stated_dtype(whole), device)
            found = self.changed(whole.with_weights(arrays))
            return found.card, found
        if weights.present or not self.is_model:
            return self.card(weights.weights), None
        found = self.model(dtype, device)
        return found.card, found

    def weighted_model(self, weights: WeightOptions) -> Model:
        """The model, or the card with weights. Raises VieteError for a card without any."""
        from viete.nouns.card import Card

        card, model = self.opened(weights)
        if model is not None:
            return model
        weights.complete(card)
        return Card.of(card).with_weights(weights.or_drawn(card), seed=weights.seed or 0)

    def refuse_cut(self, why: str) -> None:
        """Raise VieteError if ``--cut`` is given, in a command that does not run one text."""
        if self.cuts:
            raise VieteError(f"{why}, but --cut keeps a value of one text: leave out --cut")

    def refuse_options_of_models(self) -> None:
        """Raise VieteError for an option that only a released model has."""
        given = {"--card": self.instead, "--accept": None if self.config else self.accept}
        if found := next((option for option, value in given.items() if value), None):
            raise VieteError(f"{found} is for released models, and {self.name} is a card")
