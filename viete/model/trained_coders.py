"""Converts features that a card learned (`viete.cards.catalogue.coders`) to the usual arrays.

Such a card computes in units of the value's own size σ, and a gated card decides separately which
features are active. The arrays have neither: the units go into the weights, and a gate becomes a
threshold. So one mechanism adds all kinds of features to a model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from viete.atomic import replacing, together
from viete.errors import VieteError
from viete.formats.files import save_safetensors
from viete.graph.card import CardData
from viete.model.mapping import load_weights
from viete.model.trained import open_run
from viete.notation.tree import walk

NEEDED = ("W_enc", "W_dec", "b_dec")


@dataclass(frozen=True)
class LearnedCoder:
    """Arrays of features: W_enc (d, F), b_enc (F), W_dec (F, d), b_dec (d), perhaps threshold (F).

    ``k`` is the number of features active at a position, 0 where none is given; ``model`` is the
    model whose values they describe, ``reads`` and ``writes`` are the names of those values.
    """

    arrays: Mapping[str, np.ndarray]
    k: int
    model: str
    reads: str
    writes: str

    @property
    def centred(self) -> bool:
        """Whether b_dec is subtracted from the input, as in autoencoders."""
        return self.reads == self.writes

    @property
    def kind(self) -> str:
        """SAELens's name for the architecture."""
        if not self.centred:
            return "transcoder"
        return "topk" if self.k else "jumprelu" if "threshold" in self.arrays else "standard"


def learned_coder(path: str | Path, revision: str | None = None) -> LearnedCoder:
    """The features that a run learned, or those of a card with its weights next to it.

    Raises VieteError for a card that does not name the values of its features.
    """
    folder = open_run(path, revision)
    card, weights = folder.model, load_weights(folder.model, folder.tensors)
    facts = dict(card.facts)
    if missing := [name for name in NEEDED if name not in weights]:
        raise VieteError(
            f"{path} has no {missing[0]}, and is not a card of features; those have W_enc, W_dec, "
            f"b_dec, as the card sae does"
        )
    if "reads" not in facts:
        raise VieteError(f"{path} does not say what its features read; a run of viete train does")
    writes = facts.get("writes", facts["reads"])
    size = float(card.sizes.get("sigma", 1))
    out = float(card.sizes.get("tau", size))
    w = {name: widened(np.asarray(a)) for name, a in weights.items()}
    arrays: dict[str, np.ndarray] = {"W_dec": w["W_dec"] * out, "b_dec": w["b_dec"] * out}
    if "b_gate" in w:
        arrays |= magnitudes(w["W_enc"], w["b_gate"], w["b_mag"], w["r"])
    else:
        arrays |= {"W_enc": w["W_enc"], "b_enc": w["b_enc"]}
    if "theta" in w:
        arrays["threshold"] = np.maximum(w["theta"], 0)
    arrays["W_enc"] = arrays["W_enc"] / size
    return LearnedCoder(arrays, active(card), facts.get("model", ""), facts["reads"], writes)


def magnitudes(
    encoder: np.ndarray, gate: np.ndarray, shift: np.ndarray, scale: np.ndarray
) -> dict[str, np.ndarray]:
    """Gated features as features with a threshold: the W_enc, b_enc and threshold of magnitudes.

    A gate x W_enc + b_gate is above 0 where the magnitude x W_enc e^r + b_mag is above the
    threshold b_mag - e^r b_gate. ``encoder`` is (d, F), and all others are (F).
    """
    size = np.exp(scale)
    return {
        "W_enc": encoder * size, "b_enc": shift, "threshold": np.maximum(shift - size * gate, 0),
    }  # fmt: skip


def active(card: CardData) -> int:
    """The number of features active at a position; 0 where a card gives no number."""
    tops = any(card.library_name(x) == "top" for e in card.equations for x in walk(e.right))
    return int(card.sizes["k"]) if tops else 0


def widened(a: np.ndarray) -> np.ndarray:
    """An array of half precision in single precision, for NumPy's products."""
    return a if a.dtype in (np.float32, np.float64) else a.astype(np.float32)


def model_name(source: str) -> str:
    """A model's name for other people: of a path on this machine the last part, else as it is."""
    path = Path(source)
    if not path.is_absolute():
        return source
    return path.stem if path.suffix == ".md" else path.name


def save_coder(coder: LearnedCoder, folder: str | Path) -> Path:
    """Write features as SAELens does: ``cfg.json`` and ``sae_weights.safetensors``."""
    folder = Path(folder)
    wide = coder.arrays["W_enc"].shape
    metadata = {"model_name": model_name(coder.model), "hook_name": coder.reads,
                "hook_head_index": None, "prepend_bos": False}  # fmt: skip
    config = {
        "architecture": coder.kind, "d_in": wide[0], "d_sae": wide[1],
        "dtype": str(coder.arrays["W_enc"].dtype), "device": "cpu",
        "apply_b_dec_to_input": coder.centred, "normalize_activations": "none",
        "reshape_activations": "none",
    }  # fmt: skip
    if coder.k:
        config |= {"k": coder.k, "rescale_acts_by_decoder_norm": False}
    if not coder.centred:
        config |= {"d_out": coder.arrays["W_dec"].shape[1]}
        metadata |= {"hook_name_out": coder.writes}
        if "threshold" in coder.arrays:
            config["architecture"] = "jumprelu_transcoder"
    with together(folder):
        save_safetensors(folder / "sae_weights.safetensors", {
            name: np.ascontiguousarray(a) for name, a in coder.arrays.items()})  # fmt: skip
        with replacing(folder / "cfg.json") as file:
            file.write((json.dumps(config | {"metadata": metadata}, indent=1) + "\n").encode())
    return folder


__all__ = ["LearnedCoder", "learned_coder", "save_coder"]
