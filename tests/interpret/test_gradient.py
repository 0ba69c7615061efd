"""Gradients over a batch, a few sequences at a time: the mean of what each sequence has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.laws.strategies import random_inputs, shipped, tiny
from viete.algebra.adjoint import grad
from viete.interpret.gradient import Gradients

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_batch_is_the_mean_of_its_sequences(path: str, kind: str) -> None:
    model = tiny(path)
    names = {e.name for e in model.equations}
    text = model.inputs[Path(path).stem in ("transformer-2017", "t5")].name
    of = None if "L" in names else f"cross_entropy(logits; {text})"
    of = of if "logits" in names else "<pooled, pooled> + <x^1_0, x^1_1>"
    rng = np.random.default_rng(1)
    weights = {
        k: v + 0.3 * rng.standard_normal(v.shape) for k, v in vt.initial_weights(model, 3).items()
    }
    batch = random_inputs(model, 2, batch=3)
    make: Any = torch.from_numpy if kind == "torch" else np.asarray
    with torch.no_grad():
        loss, found = Gradients(model, of, piece=1)(
            None, {k: make(v) for k, v in weights.items()}, **batch
        )
    runs = [
        grad(model, of).run(None, weights, **{k: v[j] for k, v in batch.items()}) for j in range(3)
    ]
    scale = max(np.abs(np.asarray(g)).max() for g in found.values())
    assert found and np.isfinite(float(loss))
    for key, g in found.items():
        wanted = np.mean([run["∂" + key] for run in runs], axis=0)
        assert g.shape == weights[key].shape
        np.testing.assert_allclose(np.asarray(g), wanted, rtol=1e-9, atol=1e-11 * scale)
