"""Parts of a model under TransformerLens' names: ``blocks[3].attn.W_O``, ``unembed.W_U``."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Protocol

from viete.evaluate.labelled import Array
from viete.model.table import LAYER, conventions


class Weighted(Protocol):
    """A model with weights, and places to hook into, by the names of TransformerLens."""

    def weight(self, name: str, layer: int | None = None) -> Array:
        """A weight by its name, of all blocks or of one."""

    @property
    def names(self) -> Container[str]:
        """The names of values that the card has."""

    def point(self, name: str) -> Any:
        """The place of a name to hook into."""

    def normed(self, name: str, terms: Array) -> Array:
        """A norm applied to arrays."""

    def part(self, layer: int, name: str, array: Array) -> Array:
        """The result of a part of a block for a given input."""

    def run_with_cache(self, tokens: Any, names_filter: Any, return_type: None) -> Any:
        """The result of a run, and its values."""


class WeightsByName:
    """Some weights of a model, by their names."""

    def __init__(self, model: Weighted, weights: Sequence[str]) -> None:
        self.model, self.own = model, weights

    def __getattr__(self, name: str) -> Array:
        if name not in self.own:
            raise AttributeError(f"this part has {', '.join(self.own)}, and no {name!r}")
        return self.model.weight(name)


class Embedding(WeightsByName):
    """The weights of an embedding, callable on tokens."""

    def __call__(self, tokens: Any) -> Array:
        """The embedding of tokens or positions, (batch, pos, d_model)."""
        value = "hook_embed" if "W_E" in self.own else "hook_pos_embed"
        return self.model.run_with_cache(tokens, value, return_type=None)[1][value]


class FinalNorm(WeightsByName):
    """The norm before the unembedding: its weights ``w`` and ``b``; callable on the stream."""

    def __getattr__(self, name: str) -> Array:
        return super().__getattr__(f"ln_final.{name}")

    def __call__(self, resid: Array) -> Array:
        """The norm of any (…, d_model); the input itself where no norm precedes the unembedding."""
        there = "ln_final.hook_scale" in self.model.names
        return self.model.normed("ln_final", resid) if there else resid


class Unembedding(WeightsByName):
    """The weights after the last norm, callable on its result."""

    def __call__(self, resid: Array) -> Array:
        """``resid W_U + b_U`` of any (…, d_model)."""
        return resid @ self.W_U + self.b_U


class Block:
    """One block's weights and its places to hook into, by their TransformerLens names.

    ``attn``, ``mlp``, ``ln1`` … are its parts: the weights are the same in all, the places differ.
    A block and its parts are functions of their inputs: ``blocks[3].mlp(x)``.
    """

    def __init__(self, model: Weighted, layer: int, part: str = "") -> None:
        self.model, self.layer, self.part = model, layer, part

    def __getattr__(self, name: str) -> Any:
        for weight in (name, f"{self.part}{name}"):
            entry = conventions().weights.get(weight)
            if entry is not None and LAYER in entry.rows[0].axes:
                return self.model.weight(weight, self.layer)
        place = f"blocks.{self.layer}.{self.part}{name}"
        general = f"blocks.{{l}}.{self.part}{name}"
        if general in conventions().values and place in self.model.names:
            return self.model.point(place)
        if not self.part and any(n.startswith(f"{general}.") for n in conventions().values):
            return Block(self.model, self.layer, f"{name}.")
        raise AttributeError(f"a block has no {self.part}{name}")

    def __call__(self, resid: Array) -> Array:
        """The result of the block or this part for (batch, pos, d_model); hooks do not act.

        A norm takes any (…, d_model).
        """
        name = self.part.rstrip(".")
        if name.startswith("ln"):
            return self.model.normed(f"blocks.{self.layer}.{name}", resid)
        return self.model.part(self.layer, name, resid)


__all__ = ["Block", "Embedding", "FinalNorm", "Unembedding", "WeightsByName"]
