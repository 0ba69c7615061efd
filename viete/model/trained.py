"""A folder of `viete train` as a loaded model."""

from __future__ import annotations

from pathlib import Path

from viete.cards.config import Config
from viete.cards.reader import read
from viete.formats.files import in_memory
from viete.graph.card import CardData
from viete.model.folder import Folder

CARD = "card.md"  # the same as `viete.train.setup`'s, which takes longer to import


def is_run(path: str | Path) -> bool:
    """Whether this is a folder with a card of its own."""
    try:
        return (Path(path) / CARD).is_file()
    except OSError:
        return False


def card_of(path: str | Path) -> CardData:
    """The card of a run."""
    return read(Path(path) / CARD)


def open_run(path: str | Path, revision: str | None = None) -> Folder:
    """The card of a run with the weights of a checkpoint: 'latest', 'previous', 'best' or a step.

    Raises VieteError for a run without one, and for one that is damaged.
    """
    from viete.sampling.opening import opened

    if revision is not None and revision.startswith("step") and revision[4:].isdecimal():
        revision = revision[4:]
    model, weights, _ = opened(path, revision or "latest")
    return Folder(Path(path), model, Config({}, name=str(path)), in_memory(path, weights))


__all__ = ["card_of", "is_run", "open_run"]
