"""A batch computed a few sequences at a time is the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.evaluate import inputs as feeding
from viete.meanings.run import run

torch = pytest.importorskip("torch")

MODEL = vt.read("simple-transformer").bind(V=11, d=8, d_h=8)
TOKENS = np.random.default_rng(0).integers(0, 11, (7, 5))
NAMES = ["logits", "A^h", "X_pos", "L"]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("positions", [1, 10, 34])
def test_a_batch_in_pieces(kind: str, positions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weights: dict[str, Any] = MODEL.initial_weights()
    if kind == "torch":
        weights = {k: torch.from_numpy(v) for k, v in weights.items()}
    whole = run(MODEL, TOKENS, weights, y=TOKENS)
    monkeypatch.setattr(feeding, "PIECE", positions)
    with torch.no_grad():
        found = run(MODEL, TOKENS, weights, names=NAMES, y=TOKENS)
    assert set(found) == set(NAMES)
    for name in (*NAMES, "logits / 2"):
        assert found[name].shape == whole[name].shape
        assert np.allclose(found[name], whole[name], rtol=1e-12, atol=1e-12)


def test_gradients_do_not_mind() -> None:
    """Under autograd nothing is written in place, so that every gradient is there."""
    weights = {k: torch.from_numpy(v).requires_grad_() for k, v in MODEL.initial_weights().items()}
    run(MODEL, TOKENS, weights, names=["L"], y=TOKENS)["L"].sum().backward()
    assert all(w.grad is not None and bool(w.grad.isfinite().all()) for w in weights.values())
