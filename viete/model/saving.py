"""Saves a model as a folder: one that `transformers` opens, or its card beside its tensors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from viete.atomic import replacing, together
from viete.cards.writer import write
from viete.errors import VieteError
from viete.formats.files import save_safetensors
from viete.graph.card import CardData
from viete.model import checkpoints
from viete.model.folder import CONFIG, TENSORS
from viete.model.mapping import fitting, to_checkpoint
from viete.model.settings import FAMILY, config_of
from viete.model.trained import CARD, INPUTS, MARKDOWN, WEIGHTS, is_run, weights_beside
from viete.text.tokenizer import FILES, JSON, Tokenizer, open_tokenizer

Array = Any
ROLES = ("bos", "eos", "pad")


def save(
    card: CardData, weights: Mapping[str, Array], folder: str | Path,
    base: Mapping[str, Any] | None = None, tokenizer: Tokenizer | None = None,
    to_hf: bool = False, inputs: Mapping[str, Array] | None = None,
) -> Path:  # fmt: skip
    """Write a folder that `viete.load` opens: tensors, tokenizer, and card or config.

    For a card that names its family, and for any with ``to_hf``, the folder is one for
    `transformers`: with ``config.json``, which is ``base`` where the card came with one, and the
    family's names for the tensors. For any other card it holds ``card.md`` and the card's own
    names, and ``inputs``, the default inputs of every run. Where ``folder`` ends in ``.md`` it is
    the card itself, and its weights lie next to it; see `save_card`.

    All files are written, or none. Raises VieteError for weights that do not fit the card, for a
    folder with another model in it, and, for `transformers`, for a card of none of its families or
    with other equations than the family's. Nothing has been written then.
    """
    folder = Path(folder)
    if folder.suffix == MARKDOWN:
        return save_card(card, weights, folder, tokenizer)
    if to_hf or any(fact == FAMILY for fact, _ in card.facts):
        config = completed_config(config_of(card, base), weights, tokenizer)
        name, text = CONFIG, json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        tensors, metadata = to_checkpoint(card, weights), {"format": "pt"}
    else:
        name, text = CARD, write(card, "md")
        tensors, metadata = dict(fitting(card, weights)), {}
    check_vacant(folder, name)
    with together(folder):
        save_safetensors(folder / WEIGHTS, tensors, metadata)
        if inputs:
            save_safetensors(folder / INPUTS, dict(inputs), {})
        if tokenizer is not None:
            save_tokenizer(tokenizer, folder)
        with replacing(folder / name) as file:  # last, since a folder without it is not a model
            file.write(text.encode())
    if name == CARD and not inputs:
        (folder / INPUTS).unlink(missing_ok=True)  # of the model that was here before
    return folder


def save_card(
    card: CardData, weights: Mapping[str, Array], path: Path, tokenizer: Tokenizer | None = None
) -> Path:  # fmt: skip
    """Write a card, its weights under its name, and the tokenizer, into the same folder.

    All files are written, or none. Raises VieteError for weights that do not fit the card, for a
    file that exists, and for a folder with another tokenizer in it. Nothing has been written then.
    """
    tensors, folder = dict(fitting(card, weights)), path.parent
    if path.exists():
        raise VieteError(f"{path}: is a file; give another name")
    tokenizer = lacking(folder, tokenizer)
    with together(folder):
        save_safetensors(weights_beside(path), tensors, {})
        if tokenizer is not None:
            save_tokenizer(tokenizer, folder)
        with replacing(path) as file:
            file.write(write(card, "md").encode())
    return path


def lacking(folder: Path, tokenizer: Tokenizer | None) -> Tokenizer | None:
    """The tokenizer, if the folder does not have it yet.

    Raises VieteError for a folder with another tokenizer.
    """
    other = None if tokenizer is None else open_tokenizer(folder)
    if tokenizer is None or other is None:
        return tokenizer
    if other.dumps() != tokenizer.dumps():
        raise VieteError(f"{folder / JSON}: is another tokenizer; write to another folder")
    return None


def edges_beside(circuit: Path) -> Path:
    """The path of the card, next to a circuit, in which the circuit is measured.

    Raises VieteError where a file exists, of the circuit's own name or of this one.
    """
    markdown = circuit.suffix == MARKDOWN
    beside = circuit.with_name(f"{circuit.stem}-edges.md") if markdown else circuit / "edges.md"
    for path in (circuit, beside):
        if path.is_file():
            raise VieteError(f"{path}: is a file; give another name")
    return beside


def completed_config(
    config: dict[str, Any], weights: Mapping[str, Array], tokenizer: Tokenizer | None
) -> dict[str, Any]:
    """The config with the weights' dtype, and the tokens that begin and end a text."""
    config.pop("torch_dtype", None)
    first = next(iter(weights.values()), None)
    if first is not None:
        config["dtype"] = str(first.dtype).removeprefix("torch.")
    for role in ROLES:
        known = None if tokenizer is None else getattr(tokenizer, f"{role}_token_id")
        # Where nothing is said, transformers takes the ids of its own first model of the kind.
        if known is not None or role != "pad":
            config.setdefault(f"{role}_token_id", known)
    return config


def check_vacant(folder: Path, own: str) -> None:
    """Refuse a folder with other weights or settings, which would be found first.

    ``own`` is the file that describes the new weights: an older one of that name is overwritten.
    """
    if folder.exists() and not folder.is_dir():
        raise VieteError(f"{folder}: is a file; give a folder for the model")
    others = [n for n in (*TENSORS, CARD, CONFIG) if n not in (WEIGHTS, own)]
    others = [n for n in others if (folder / n).exists()]
    if own == CARD and not others and is_run(folder):
        others = [CARD] if checkpoints.steps(folder) else []
    if others:
        raise VieteError(f"{folder}: holds another model ({others[0]}); give another folder")


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """Copy the files that the tokenizer was read from, or write those that `transformers` reads."""
    home = tokenizer.folder
    files = [] if home is None else [home / n for n in FILES if (home / n).is_file()]
    if home is not None and home.resolve() == folder.resolve():
        return
    for path in files:
        with replacing(folder / path.name) as file, open(path, "rb") as source:
            shutil.copyfileobj(source, file)
    if not any(path.name == JSON for path in files):
        with replacing(folder / JSON) as file:
            file.write(tokenizer.dumps().encode())
    if not any(path.name == "tokenizer_config.json" for path in files):
        settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        for role in ROLES:
            known = getattr(tokenizer, f"{role}_token_id")
            if known is not None:
                settings[f"{role}_token"] = tokenizer.decode([known])
        with replacing(folder / "tokenizer_config.json") as file:
            file.write(json.dumps(settings, indent=2, ensure_ascii=False).encode() + b"\n")
