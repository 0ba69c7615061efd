"""The options that give a card weights: a file, or random numbers; and reading or drawing them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from viete.errors import VieteError
from viete.graph.card import CardData

if TYPE_CHECKING:
    from viete.nouns.model import Model


@dataclass
class WeightOptions:
    """Weights for a card, or for a model in place of its own."""

    panel: ClassVar[str] = "Weights"

    weights: Annotated[
        Path | None,
        typer.Option("--weights", "-w", help="Read the weights from this file: safetensors, npz, "
                     "PyTorch, ONNX or GGUF."),
    ] = None  # fmt: skip
    seed: Annotated[
        int | None,
        typer.Option(help="Draw random weights with this seed, as the card's init column says."),
    ] = None
    among: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="With --seed: draw each random weight from these "
                     "numbers, such as --among='-1, 0, 1/2'."),
    ] = None  # fmt: skip

    @property
    def present(self) -> bool:
        """Whether an option gives weights. Raises VieteError for options that do not agree."""
        if self.weights is not None and self.seed is not None:
            raise VieteError("give either --weights or --seed, not both")
        if self.among is not None and self.seed is None:
            raise VieteError("--among draws random weights: give --seed too, such as --seed 1")
        return self.weights is not None or self.seed is not None

    def complete(self, card: CardData) -> None:
        """Raise VieteError if neither the card nor an option gives values for all weights."""
        if self.seed is None and not all(p.value for p in card.parameters):
            raise VieteError(
                "the card needs weights: give --weights FILE, or --seed N for random ones"
            )

    def written_into(self, card: CardData) -> CardData:
        """The card with the weights of these options in its value column, if they give any."""
        if not self.present:
            return card
        from viete.evaluate.written_weights import with_values

        return with_values(card, self.exact(card))

    def arrays(
        self, card: CardData, model: Model | None, exact: bool = False,
        dtype: str | None = None, device: str | None = None,
    ) -> Mapping[str, Any]:  # fmt: skip
        """The model's weights; for a card exact ones, or floats of the card's precision."""
        if model is not None:
            return model.weights
        if exact:
            return self.exact(card)
        from viete.evaluate.initial_weights import stated_dtype

        return self.floats(card, dtype or stated_dtype(card), device)

    def floats(self, card: CardData, dtype: str, device: str | None = None) -> dict[str, Any]:
        """The weights of the file; without one the card's values, and random ones for the rest."""
        from viete.evaluate.initial_weights import initial_weights

        kinds = ("float16", "float32", "float64") + (("bfloat16",) if device else ())
        if dtype not in kinds:
            raise VieteError(f"--dtype is one of {', '.join(kinds)}, not {dtype}")
        if self.weights is not None:
            from viete.model.mapping import load_weights

            only_torch = device and dtype == "bfloat16"
            arrays = load_weights(card, self.weights, dtype=None if only_torch else dtype)
        else:
            self.complete(card)
            kind = "float64" if device else dtype
            arrays = self.drawn(card, kind) or initial_weights(card, self.seed or 0, kind)
        return tensors_on(arrays, dtype, device) if device else arrays

    def exact(self, card: CardData) -> dict[str, Any]:
        """The weights of the file as exact fractions, or else the card's own values.

        Weights without a value in the card are drawn with the seed, in float64.
        """
        from viete.evaluate.initial_weights import initial_weights, literal_fractions

        if self.weights is not None:
            from viete.model.mapping import load_weights

            return load_weights(card, self.weights, dtype=None)
        self.complete(card)
        drawn = {} if self.seed is None else initial_weights(card, self.seed)
        return (self.drawn(card) or drawn) | literal_fractions(card)

    def or_drawn(self, card: CardData) -> Path | dict[str, Any] | None:
        """The file, or the weights that ``--among`` draws; None if the seed is enough."""
        return self.weights or self.drawn(card, "float64") or None

    def drawn(self, card: CardData, dtype: str | None = None) -> dict[str, Any]:
        """The weights that ``--among`` draws, exact or as floats; empty without that option."""
        from viete.evaluate.initial_weights import weights_among

        if self.among is None or not self.present:
            return {}
        found = weights_among(card, self.seed or 0, self.among)
        return found if dtype is None else {k: v.astype(dtype) for k, v in found.items()}


def tensors_on(arrays: Mapping[str, Any], dtype: str, device: str) -> dict[str, Any]:
    """The arrays as PyTorch tensors of that type, on that device."""
    from viete.formats.tensors import on_device, require

    torch = require("torch", "for --device")
    with on_device(device):
        return {k: torch.asarray(v).to(device, getattr(torch, dtype)) for k, v in arrays.items()}
