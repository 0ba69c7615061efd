"""Opens a training run's folder as a model: its card, and the weights of one of its checkpoints.

It also opens a folder made by hand with a ``card.md`` and a ``model.safetensors``, and a card
beside a file of weights with the same name, ``circuit.md`` and ``circuit.safetensors``.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from viete.cards.config import Config
from viete.cards.reader import read
from viete.errors import VieteError, os_refusals
from viete.formats.files import open_tensors
from viete.formats.tensors import in_memory
from viete.graph.card import CardData
from viete.model import checkpoints
from viete.model.checkpoints import Checkpoint
from viete.model.folder import Folder
from viete.regular import regular

CARD, WEIGHTS = "card.md", "model.safetensors"
MARKDOWN, SAFETENSORS = ".md", ".safetensors"
INPUTS = "inputs.safetensors"  # what every run is given where it is given nothing else


def is_run(path: str | Path) -> bool:
    """Whether this is a folder with a card, or a card with its weights next to it."""
    if not isinstance(path, str | Path):
        return False
    path = Path(path)
    try:
        if path.suffix == MARKDOWN and path.is_file():
            return weights_beside(path).is_file()
        return (path / CARD).is_file()
    except (OSError, ValueError):
        return False


def weights_beside(card: Path) -> Path:
    """The path of the weights of a run or of a card."""
    return card.with_suffix(SAFETENSORS) if card.suffix == MARKDOWN else card / WEIGHTS


def card_of(path: str | Path) -> CardData:
    """The card of a run."""
    path = Path(path)
    return read(path if path.is_file() else path / CARD)


def card_digest(run: Path) -> str:
    """The digest of a run's card, which identifies it in checkpoints."""
    with os_refusals(run / CARD):
        return hashlib.sha256(regular(run / CARD).read_bytes()).hexdigest()


def checkpoint_of(run: Path, which: str = "latest") -> Checkpoint:
    """A run's checkpoint: 'latest', 'previous', 'best' or its step, as in step000200 or 200."""
    step = which.removeprefix("step-").removeprefix("step")
    return checkpoints.choose(run, step if step.isdecimal() else which, card_digest(run))


def open_run(path: str | Path, revision: str | None = None) -> Folder:
    """The card of a run with the weights of the checkpoint ``revision``, by default the latest.

    Raises VieteError for a run without that checkpoint, and for a damaged one.
    """
    path = Path(path)
    card, file = card_of(path), weights_beside(path)
    if checkpoints.steps(path):
        tensors = in_memory(path, checkpoint_of(path, revision or "latest").weights)
    elif not file.is_file():
        raise VieteError(
            f"{path}: the run has no weights yet, since no checkpoint has been written"
        )
    elif revision not in (None, "latest"):
        raise VieteError(
            f"{path}: the folder has one {WEIGHTS} and no checkpoints; leave out --revision"
        )
    else:
        tensors = open_tensors(file)
    inputs = open_tensors(path / INPUTS) if (path / INPUTS).is_file() else None
    return Folder(path, card, Config({}, name=str(path)), tensors, inputs)
