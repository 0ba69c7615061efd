"""A plan gives the gradients of its equations, whatever the batch and the pieces."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import viete as vt
from tests.evaluate.evaluated import EvaluatedGradients
from tests.laws.differentiating import by_autograd, greatest, loss_of
from tests.laws.strategies import cards, random_inputs, random_weights, shipped, tiny
from tests.laws.test_adjoint import losses
from viete.evaluate.plan import arranging
from viete.evaluate.plan.engine import Engine

torch = pytest.importorskip("torch")
KINDS: dict[str, Any] = {"numpy": np.asarray, "torch": torch.from_numpy}


def mean_by_autograd(
    model: vt.Card, of: str | None, weights: dict[str, np.ndarray], batch: dict[str, Any]
) -> dict[str, np.ndarray]:
    count = len(next(iter(batch.values())))
    each = [by_autograd(model, of, weights, {k: v[j] for k, v in batch.items()})
            for j in range(count)]  # fmt: skip
    return {k: np.mean([e[k] for e in each], axis=0) for k in each[0]}


def worst(found: dict[str, Any], truth: dict[str, np.ndarray]) -> float:
    """The largest difference, by the largest entry of all."""
    scale = max(greatest(truth), 1e-300)
    return max(float(np.abs(np.asarray(found[k]) - g).max(initial=0)) / scale
               for k, g in truth.items())  # fmt: skip


def check(
    model: vt.Card, of: str | None, weights: dict[str, np.ndarray], batch: dict[str, Any],
    truth: dict[str, np.ndarray], kind: str, piece: int,
) -> None:  # fmt: skip
    engine = Engine(model, {k: KINDS[kind](v) for k, v in weights.items()}, of, piece=piece)
    with torch.no_grad():
        first = engine(None, **batch)
        assert worst(engine.gradients, truth) < 1e-9
        before = np.asarray(engine.flat_gradient).copy()
        again = engine(None, **batch)  # nothing is left over from the first time
    assert again == first
    np.testing.assert_array_equal(np.asarray(engine.flat_gradient), before)
    for k, w in weights.items():
        np.testing.assert_array_equal(np.asarray(engine.weights[k]), w)


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_shipped_cards(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a group of steps may take one byte, and so is one sequence."""
    model = tiny(path)
    weights = {k: v + 0.3 * np.random.default_rng(2).standard_normal(v.shape)
               for k, v in random_weights(model).items()}  # fmt: skip
    batch = random_inputs(model, 2, batch=4)
    truth = mean_by_autograd(model, loss_of(model), weights, batch)
    for kind, (chunk, piece) in product(KINDS, [(1, 10), (2**20, 1), (2**20, 10), (2**20, 100)]):
        monkeypatch.setattr(arranging, "CHUNK", chunk)
        check(model, loss_of(model), weights, batch, truth, kind, piece)


@given(st.data())
def test_random_cards(data: st.DataObject) -> None:
    card = data.draw(cards())
    of = data.draw(losses(card))
    count = data.draw(st.integers(1, 4))
    weights, batch = card.weights(), card.given(batch=count)
    truth = mean_by_autograd(card.model, of, weights, batch)
    assume(greatest(truth) > 1e-9 and all(np.isfinite(a).all() for a in truth.values()))
    kind, piece = data.draw(st.sampled_from(sorted(KINDS))), data.draw(st.sampled_from([1, 9, 99]))
    before, arranging.CHUNK = arranging.CHUNK, data.draw(st.sampled_from([1, 200, 2**20]))
    try:
        check(card.model, of, weights, batch, truth, kind, piece)
    finally:
        arranging.CHUNK = before


def test_a_single_text_needs_no_batch() -> None:
    model = tiny(next(p for p in shipped() if "simple" in p))
    weights, inputs = random_weights(model), random_inputs(model)
    engine = Engine(model, weights)
    engine(None, **inputs)
    assert worst(engine.gradients, by_autograd(model, None, weights, inputs)) < 1e-9


@pytest.mark.parametrize(
    ("name", "half"),
    [("simple-transformer", "bfloat16"), ("nanogpt", "float16"), ("llama", "bfloat16")],
)
def test_half_precision_is_as_near_as_autocast(name: str, half: str) -> None:
    """Products are rounded; sums, norms, softmax, losses and residuals are not."""
    model = tiny(next(p for p in shipped() if Path(p).stem == name))
    of, dtype = loss_of(model), getattr(torch, half)
    ours, theirs = dict[str, float](), dict[str, float]()
    for seed in range(3):
        drawn = model.initial_weights(seed)
        weights = {k: torch.from_numpy(v).float() for k, v in drawn.items()}
        batch = random_inputs(model, batch=16)
        exact = Engine(model, {k: w.double() for k, w in weights.items()}, of)
        low, net = Engine(model, weights, of, compute=dtype), model.to_torch(weights, of)
        with torch.no_grad():
            assert low(None, **batch) == pytest.approx(exact(None, **batch), rel=1e-4)
        with torch.autocast("cpu", dtype):
            loss = net(**{k: torch.from_numpy(v) for k, v in batch.items()})[1]
        loss.backward()
        assert low.flat_gradient.dtype == torch.float32
        for k, g in net.gradients().items():
            true = exact.gradients[k]
            ours[k] = ours.get(k, 0) + float(((low.gradients[k] - true) ** 2).sum())
            theirs[k] = theirs.get(k, 0) + float(((g - true) ** 2).sum())
    assert sum(ours.values()) <= 1.1**2 * sum(theirs.values())
    if "b_lm" in ours:  # a sum over positions, of which nothing but the products is rounded
        assert ours["b_lm"] <= 1.1**2 * theirs["b_lm"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_is_next_to_impossible(kind: str) -> None:
    """Its probability is 0 in floating point; the loss is none the less what the scores say."""
    model = tiny(next(p for p in shipped() if "simple" in p))
    weights = {k: (10_000.0 if k == "W_lm" else 1.0) * v for k, v in random_weights(model).items()}
    batch = random_inputs(model, batch=3)
    loss, _ = EvaluatedGradients(model)(None, weights, **batch)
    engine = Engine(model, {k: KINDS[kind](v) for k, v in weights.items()})
    assert engine(None, **batch) == pytest.approx(float(loss), rel=1e-12)
    assert float(loss) > 800
