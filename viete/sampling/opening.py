"""A folder with a trained model: its card, its weights and its vocabulary."""

from __future__ import annotations

from pathlib import Path

from viete.cards.reader import read
from viete.errors import VieteError
from viete.evaluate.labelled import Array
from viete.graph.card import CardData
from viete.model import checkpoints
from viete.model.mapping import load_weights
from viete.text.vocabulary import Vocabulary, load_vocabulary
from viete.train.setup import CARD, card_digest

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"


def opened(
    folder: str | Path, which: str = "latest"
) -> tuple[CardData, dict[str, Array], Vocabulary | None]:
    """The model, weights and vocabulary of a training run, or of a folder put together by hand.

    That is ``card.md``, the checkpoint ``which`` ('latest', 'previous', 'best' or its step) or a
    ``model.safetensors``, and ``tokenizer.json``, without which texts are token ids.

    Raises VieteError for what is missing or damaged, and weights that do not fit the card.
    """
    path = Path(folder)
    if not (path / CARD).is_file():
        why = "there is no such folder" if not path.is_dir() else f"there is no {CARD} in it"
        raise VieteError(f"{path}: {why}; a run of viete train -o RUN/ can be sampled")
    model = read(path / CARD)
    if checkpoints.steps(path) or not (path / WEIGHTS).is_file():
        if not checkpoints.steps(path):
            raise VieteError(f"{path}: there are no weights in it yet, no checkpoint is written")
        weights = checkpoints.choose(path, which, card_digest(path)).weights
    elif which != "latest":
        raise VieteError(f"{path}: it has one {WEIGHTS} and no checkpoints; leave out --from")
    else:
        weights = load_weights(model, path / WEIGHTS, dtype=None)
    there = (path / TOKENIZER).is_file()
    return model, weights, load_vocabulary(path / TOKENIZER) if there else None


__all__ = ["opened"]
