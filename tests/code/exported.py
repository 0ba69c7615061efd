"""Shipped cards in small dimensions, with weights and inputs, for tests of exported code."""

from __future__ import annotations

from functools import cache

import numpy as np

import viete as vt
from viete.cards.catalogue import shipped

CARDS = sorted(shipped())
SMALL = {"V": 11, "N_V": 11, "d": 8, "d_e": 8, "H": 2, "N": 2, "N_e": 2, "L": 2, "d_f": 12,
         "d_mlp": 12, "d_h": 8}  # fmt: skip
GROUPS = SMALL | {"H": 4, "G": 2}
WIDE = GROUPS | {"d_k": 4}
OWN = {"llama": GROUPS, "mistral": GROUPS | {"w": 3}, "qwen2": GROUPS,
       "qwen3": WIDE, "gemma": WIDE, "gemma2": WIDE | {"w": 3}, "mixtral": GROUPS | {"E": 3},
       "pythia": SMALL | {"d": 16, "N": 3},
       "gpt-j": SMALL | {"d": 16}}  # fmt: skip


@cache
def bound(card: str) -> vt.Card:
    """The card, small."""
    model = vt.read(card)
    written = any(p.value.startswith("[") for p in model.parameters)  # matrices, in their sizes
    sizes = {} if written else OWN.get(card, SMALL)
    return model.bind(**{d.name: sizes[d.name] for d in model.dims
                         if d.name in sizes and d.value is not None})  # fmt: skip


def loss_of(card: str) -> str | None:
    """A loss for the card that has neither one nor logits."""
    return "<pooled, pooled> + <x^2_0, x^2_1>" if "bert" in card else None


def made_weights(model: vt.Card) -> dict[str, np.ndarray]:
    """Weights none of which is left at 0 or 1."""
    rng = np.random.default_rng(0)
    return {k: v + rng.normal(0, 0.2, v.shape) for k, v in model.initial_weights().items()}


def made_inputs(model: vt.Card) -> dict[str, np.ndarray]:
    """Inputs as long as the card allows, up to 5."""
    rng = np.random.default_rng(1)
    n = min(5, *(int(v) for k, v in model.greatest.items() if k in model.lengths))
    return {i.name: rng.integers(0, int(model.size(i.high).evaluate(model.greatest)) + 1, size=n)
            for i in model.inputs if i.default is None}  # fmt: skip
