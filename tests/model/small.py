"""Shipped cards in small sizes with random weights, as objects that have the names of the field."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import viete as vt
from viete.cards.catalogue import shipped

SIZES = {"V": 13, "d": 24, "N": 3, "N_d": 3, "H": 6, "G": 2, "d_k": 4, "d_q": 4, "d_f": 20,
         "n_max": 40, "N_P": 42, "w": 3, "r": 2, "theta": 100, "E": 3, "k": 2,
         "rho": "1/2"}  # fmt: skip


def streams() -> list[str]:
    """The shipped cards that say what their stream is, and give scores for the next token."""
    out = []
    for name, path in sorted(shipped().items()):
        card = vt.read(path)
        names = {e.name for e in card.derived}
        scores = any(e.name == "logits" for e in card.equations)
        if len(card.loops) == 1 and scores and any(n.startswith("resid_post^") for n in names):
            out.append(name)
    return out


@cache
def card(name: str) -> vt.Card:
    """A shipped card with small dimensions; what it defines by others stays so."""
    model = vt.read(name)
    plain = {d.name for d in model.dims if d.value is not None}
    return model.bind(**{k: v for k, v in SIZES.items() if k in plain})


def weights(model: vt.Card, seed: int = 0) -> dict[str, np.ndarray]:
    """Every weight random: scales around 1, all else around 0."""
    rng = np.random.default_rng(seed)
    out = {}
    for name, shape in model.parameter_shapes.items():
        out[name] = 0.4 * rng.standard_normal(shape) + (1.0 if name.startswith("gamma") else 0.0)
    return out


@cache
def small(name: str) -> vt.Model:
    """A shipped card, ready to run."""
    return card(name).with_weights(weights(card(name)))


def tokens(batch: int = 2, length: int = 7) -> np.ndarray:
    return np.random.default_rng(5).integers(0, SIZES["V"], (batch, length))


def error(a: Any, b: Any) -> float:
    """The greatest difference, as a share of the greatest entry; infinite ones must agree."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    finite = np.isfinite(b)
    assert (finite == np.isfinite(a)).all()
    return float(np.max(np.abs(a[finite] - b[finite])) / np.max(np.abs(b[finite])))
