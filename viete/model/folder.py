"""Opens a released model: its tensors, its sizes, and the card of its family.

A folder written by `transformers` has ``config.json`` beside the tensors. A single file gives its
sizes itself, as nanoGPT's ``ckpt.pt`` and llama2.c's ``.bin`` do, or by the shapes of its tensors.
The card is the shipped one for the ``model_type`` or for the tensors' names, or the user's. The
config says every size, and which equations of the family hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from viete.cards.catalogue import find, shipped
from viete.cards.config import Config, asked, bound, listed, word
from viete.cards.reader import read
from viete.errors import VieteError
from viete.formats import hub
from viete.formats.files import TensorFile, in_memory, open_tensors
from viete.graph.card import CardData

Card = str | Path | CardData
CONFIG = "config.json"
TENSORS = (*hub.TENSORS, "ckpt.pt", "model_final.pth")
# What training scripts call the settings in a checkpoint, those of the network first.
SETTINGS = ("model_args", "config", "cfg")
_KIND = re.compile(r"^- \*\*config model_type\*\*: (.+)$", re.M)
_TENSOR = re.compile(r"^- \*\*config (tensor .+?)\*\*: there", re.M)


@dataclass(frozen=True)
class Folder:
    """A released model's card, with the model's dimensions, and its tensors, none read yet.

    ``inputs`` are default inputs of every run: values that are cut.
    """

    path: Path
    model: CardData
    config: Config
    tensors: TensorFile
    inputs: TensorFile | None = None


def open_folder(
    path: str | Path, card: Card | None = None, accept: Sequence[str] = (),
    config: Mapping[str, Any] | str | Path | None = None, revision: str | None = None,
) -> Folder:  # fmt: skip
    """Open a folder as `transformers` writes it, a single file, or a model of the hub by its id.

    ``card``, a path or a card, replaces the shipped card of the family, ``config`` the settings
    next to the tensors, and ``accept`` are keys of it to ignore although the card does not know
    them. Raises VieteError for a family without a card, a setting that the card has no equations
    for, and a folder without tensors.
    """
    path = hub.located(path, revision)
    tensors = open_tensors(tensors_of(path))
    settings = settings_of(path, tensors, config)
    model = read_card(settings, card, accept, config is not None)
    return Folder(path, model, settings, tensors)


def open_arrays(
    arrays: Mapping[str, Any], card: Card | None, accept: Sequence[str] = (),
    config: Mapping[str, Any] | str | Path | None = None,
) -> Folder:  # fmt: skip
    """Arrays in memory, as if read from a file; see `open_folder`."""
    name = "the mapping of weights"
    tensors = in_memory(name, arrays)
    shapes = shapes_of(tensors)
    settings = Config({}, shapes, name) if config is None else Config(config, shapes)
    model = read_card(settings, card, accept, config is not None)
    return Folder(tensors.path, model, settings, tensors)


def open_card(
    path: str | Path, card: Card | None = None, accept: Sequence[str] = (),
    config: Mapping[str, Any] | str | Path | None = None, revision: str | None = None,
) -> tuple[CardData, Config]:  # fmt: skip
    """Only the card, from the settings of the model. No weights are fetched from the hub for it."""
    path = hub.located(path, revision, whole=False)
    if path.is_dir() and (path / CONFIG).is_file() and not has_tensors(path):
        settings = Config(path / CONFIG if config is None else config)
    else:
        settings = settings_of(path, open_tensors(tensors_of(path)), config)
    return read_card(settings, card, accept, config is not None), settings


def read_card(
    settings: Config, card: Card | None, accept: Sequence[str], insist: bool = False
) -> CardData:
    """The given card, or the card of the family, with the numbers of the settings.

    A user's card may ask nothing of a config, unless it must (``insist``): then its own numbers are
    the model's. The tensors answer what it asks of them (``size embed.W_E 0``); so they do for a
    card's dimensions that have no value yet.
    """
    if card is None:
        return read(card_for(settings), settings, accept)
    if isinstance(card, CardData):
        found = {k: v for k, v in bound(card.dims, settings).items() if k not in card.sizes}
        return card.bind(**found) if found else card
    path = find(card)
    if insist or (path in shipped().values() and not settings.alone):
        return read(path, settings, accept)
    model = read(path)
    keys = asked(model)
    if not settings.values or all(" " in key for key in keys):
        settings = Config({}, settings.tensors, settings.name, alone=True)
    return read(path, settings, accept) if keys else model


def card_of_file(card: str | Path, tensors: TensorFile) -> CardData:
    """The card to compare with a file: its own numbers stay, and the tensors supply the others."""
    return read_card(Config({}, shapes_of(tensors), str(tensors.path), alone=True), card, ())


def shapes_of(tensors: TensorFile) -> dict[str, tuple[int, ...]]:
    """The shapes of a file's tensors by name."""
    return {name: info.shape for name, info in tensors.infos.items()}


def has_tensors(path: Path) -> bool:
    """Whether the folder has a file of tensors."""
    return any((path / name).is_file() for name in TENSORS)


def tensors_of(path: Path) -> Path:
    """The file that holds a model's tensors, or lists where they are."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise VieteError(f"{path}: there is no such file or folder")
    for name in TENSORS:
        if (path / name).is_file():
            return path / name
    raise VieteError(f"{path}: the folder has no weights; they are in one of {', '.join(TENSORS)}")


def settings_of(
    path: Path, tensors: TensorFile, config: Mapping[str, Any] | str | Path | None = None
) -> Config:
    """The settings of a model: given, next to the tensors, or in their file.

    Without settings only the shapes of the tensors are used.
    """
    shapes = shapes_of(tensors)
    beside = (path if path.is_dir() else path.parent) / CONFIG
    if config is not None:
        return Config(config, shapes)
    if beside.is_file():
        return Config(beside, shapes)
    for key in SETTINGS:
        if isinstance(found := tensors.metadata.get(key), Mapping):
            return Config(found, shapes, f"{tensors.path}: {key}")
    return Config({}, shapes, str(tensors.path))


def card_for(config: Config) -> Path:
    """The shipped card for the config's family, or for the tensors where the config names none."""
    _, kind = config.look_up(["model_type"])
    cards = families()
    if isinstance(kind, str) and kind in cards:
        own = config.values.get(kind)  # as GGUF has them
        keys = [f"{kind}.{word(key):.40}" for key in own] if isinstance(own, Mapping) else []
        text = cards[kind].read_text("utf-8") if keys else ""
        if keys and not any(key in text for key in keys):
            raise VieteError(
                f"{config.name}: its settings are those of llama.cpp, such as {keys[0]}, and the "
                f"card of {kind} knows those of transformers: open the folder that the file was "
                f"made from, or give a card with these keys in its column config"
            )
        return cards[kind]
    for key, path in by_tensors().items():
        if kind is None and config.look_up([key])[1] == "there":
            return path
    what = "it has no model_type" if kind is None else f"its model_type is {word(kind):.60}"
    raise VieteError(
        f"{config.name}: {what}, and there are cards for {', '.join(sorted(cards))}; give your "
        f"own card of it"
    )


@cache
def families() -> dict[str, Path]:
    """The shipped cards by ``model_type``."""
    return {kind: path for path, kinds in facts_of_cards(_KIND) for kind in listed(kinds)[0]}


@cache
def by_tensors() -> dict[str, Path]:
    """The shipped cards for files without a ``model_type``, by the tensor that identifies them."""
    return {tensor: path for path, tensor in facts_of_cards(_TENSOR)}


def facts_of_cards(fact: re.Pattern[str]) -> Iterator[tuple[Path, str]]:
    """The shipped cards with a fact, and the text of the fact; no card is parsed for it."""
    for path in shipped().values():
        if found := fact.search(path.read_text("utf-8")):
            yield path, found[1]


__all__ = ["Folder", "card_for", "families", "open_card", "open_folder"]
