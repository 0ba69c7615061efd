"""`viete.load`: a released model, its equations with its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from viete.ask.card_claims import Claims
from viete.errors import VieteError
from viete.evaluate.inputs import Weights
from viete.evaluate.reweighted import reweighted
from viete.formats.tensors import in_memory, require
from viete.graph.card import CardData
from viete.model.checking import check
from viete.model.compare import Report
from viete.model.folder import Card, Folder, open_arrays, open_folder
from viete.model.hooks import Hooked
from viete.model.live import folder_of, to_live, tokenizer_of
from viete.model.mapping import load_weights
from viete.model.placing import place, precision
from viete.model.saving import save, save_folder
from viete.model.tokens import Texts
from viete.model.trained import is_run, open_run
from viete.rewrite.folding import folded
from viete.text.tokenizer import Tokenizer, open_tokenizer

Array = Any


class Model(Texts, Hooked):
    """A card with weights.

    ``card`` is the model as equations, ``config`` what its ``config.json`` says. Weights are read
    when they are first needed; ``dtype`` and ``device`` are what they are, or will be.
    """

    def __init__(
        self, folder: Folder, framework: str = "numpy", dtype: str | None = None,
        device: str | None = None,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.framework = framework if device is None else "torch"
        self.dtype = precision(folder.tensors, self.framework, dtype)
        self.device = place(device, folder.tensors, self.dtype)

    @property
    def card(self) -> CardData:
        return self.folder.model

    @property
    def config(self) -> Mapping[str, Any]:
        return self.folder.config.values

    @cached_property
    def weights(self) -> Weights:
        """The weights by the card's names. Raises VieteError for a file that does not fit it."""
        return Weights(
            load_weights(self.card, self.folder.tensors, self.framework, self.dtype, self.device)
        )

    def check(
        self, tokens: Any = None, *, outputs: Any = None, seed: int = 0, **inputs: Any
    ) -> Report | Claims:
        """Hold the card to its claims and to the tensors it was opened with, as `viete check` does.

        ``outputs`` are values recorded of the model for these ``tokens`` or this text. See
        `viete.model.checking.check`.
        """
        ids = None if tokens is None else self.ids(tokens)
        return check(self.card, self.folder.tensors, ids, outputs=outputs, seed=seed, **inputs)

    def folded(
        self, fold_ln: bool | None = None, center_writing_weights: bool | None = None,
        center_unembed: bool | None = None, fold_value_biases: bool | None = None,
    ) -> Model:  # fmt: skip
        """The model with some of its weights put into others; what it computes stays.

        Each step is a rewriting of the card, see `viete.rewrite.folding`: None does it where it
        holds, False leaves it, True raises VieteError where it would change what is computed.
        """
        steps = folded(self.card, {
            "fold_ln": fold_ln, "center_writing_weights": center_writing_weights,
            "center_unembed": center_unembed, "fold_value_biases": fold_value_biases,
        })  # fmt: skip
        card, weights = self.card, dict(self.weights)
        for step in steps:
            card, weights = step.model, reweighted(step, weights)
        out = copy(self)
        for name in out.__dict__.keys() - {"folder", "framework", "dtype", "device", "tokenizer"}:
            del out.__dict__[name]  # what was made of the card as it was
        # The tensors are then those of the card's own names, and no file's.
        tensors = in_memory(f"{self.folder.tensors.path}, folded", weights)
        out.folder = replace(self.folder, model=card, tensors=tensors)
        out.__dict__["weights"] = Weights(weights)
        return out

    def save(self, folder: str | Path) -> Path:
        """Write a folder that `viete.load` opens; see `viete.save`."""
        return save(self.card, self.weights, folder, self.config, self.own_tokenizer())

    def save_folder(self, folder: str | Path) -> Path:
        """Write a folder that `transformers` opens, or raise VieteError."""
        return save_folder(self.card, self.weights, folder, self.config, self.own_tokenizer())

    def own_tokenizer(self) -> Tokenizer | None:
        """The tokenizer, if there is one."""
        return self.__dict__.get("tokenizer") or self.read_tokenizer()

    def to_transformers(self) -> Any:
        """The same as a module of `transformers`, with copies of the weights."""
        return to_live(self.card, self.weights, self.config)

    def read_tokenizer(self) -> Tokenizer | None:
        """As `Texts` asks."""
        path = self.folder.path
        if not path.exists():  # it was in memory
            return None
        return open_tokenizer(path if path.is_dir() else path.parent, self.config)

    def in_its_arrays(self, ids: np.ndarray) -> Array:
        """As `Texts` asks."""
        if self.framework == "numpy":
            return ids
        return require("torch", "for its tensors").as_tensor(ids, device=self.device)

    def __repr__(self) -> str:
        return f"<{self.card.title} of {self.folder.path}>"


def load(
    source: str | Path | Mapping[str, Array], card: Card | None = None,
    accept: Sequence[str] = (), framework: str | None = None,
    dtype: str | None = None, device: str | None = None,
    revision: str | None = None, config: Mapping[str, Any] | str | Path | None = None,
) -> Model:  # fmt: skip
    """Open a model; see `viete.load`."""
    if isinstance(source, Mapping):
        if revision is not None:
            raise VieteError("arrays in memory have no revision")
        folder = open_arrays(source, card, accept, config)
        torch = any(hasattr(array, "detach") for array in source.values())
        return Model(folder, framework or ("torch" if torch else "numpy"), dtype, device)
    if card is None and is_run(source):
        if accept or config is not None:
            raise VieteError(f"{source}: a run has its own card, with no config and no accept")
        folder = open_run(source, revision)
    else:
        folder = open_folder(source, card, accept, config, revision)
    return Model(folder, framework or "numpy", dtype, device)


def from_transformers(
    net: Any, tokenizer: Any = None, card: Card | None = None, accept: Sequence[str] = (),
    framework: str = "torch", dtype: str | None = None,
) -> Model:  # fmt: skip
    """A module of `transformers`, as its equations; see `viete.from_transformers`."""
    out = Model(folder_of(net, card, accept), framework, dtype)
    if framework == "torch":
        out.device = str(next(iter(net.parameters())).device)
    if tokenizer is not None:
        out.__dict__["tokenizer"] = tokenizer_of(tokenizer)
    return out


__all__ = ["Model", "from_transformers", "load"]
