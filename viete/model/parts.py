"""Parts of a model as TransformerLens has them: ``blocks[3].attn.W_O``, ``unembed.W_U``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from viete.evaluate.labelled import Array
from viete.model.table import LAYER, conventions


class Weighted(Protocol):
    """A model with weights, and places to hook into, by the names of TransformerLens."""

    def weight(self, name: str) -> Array:
        """A weight by its name."""

    @property
    def hook_dict(self) -> Mapping[str, Any]:
        """By name, where functions hook in."""


class WeightsByName:
    """Some weights of a model, by their names."""

    def __init__(self, model: Weighted, weights: Sequence[str]) -> None:
        self.model, self.own = model, weights

    def __getattr__(self, name: str) -> Array:
        if name not in self.own:
            raise AttributeError(f"it has {', '.join(self.own)}, and no {name!r}")
        return self.model.weight(name)


class Unembedding(WeightsByName):
    """The weights behind the last norm, and what they make of it."""

    def __call__(self, resid: Array) -> Array:
        """``resid W_U + b_U`` of any (…, d_model)."""
        return resid @ self.W_U + self.b_U


class Block:
    """One block's weights, and its places to hook into, by their TransformerLens names.

    ``attn``, ``mlp``, ``ln1`` … are its parts: weights are the same in all, places their own.
    """

    def __init__(self, model: Weighted, layer: int, part: str = "") -> None:
        self.model, self.layer, self.part = model, layer, part

    def __getattr__(self, name: str) -> Any:
        entry = conventions().weights.get(name)
        if entry is not None and LAYER in entry.rows[0].axes:
            return self.model.weight(name)[self.layer]
        place = f"blocks.{self.layer}.{self.part}{name}"
        general = f"blocks.{{l}}.{self.part}{name}"
        if general in conventions().values and place in self.model.hook_dict:
            return self.model.hook_dict[place]
        if not self.part and any(n.startswith(f"{general}.") for n in conventions().values):
            return Block(self.model, self.layer, f"{name}.")
        raise AttributeError(f"a block has no {self.part}{name}")


__all__ = ["Block", "Unembedding", "WeightsByName"]
