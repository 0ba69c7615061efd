"""The optimiser against PyTorch's own, and the schedule against its definition."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
import viete.train.optimiser as optimiser
from viete.errors import VieteError
from viete.evaluate.plan.engine import Engine
from viete.evaluate.plan.workers import Over
from viete.train.optimiser import (
    Adam,
    clip_entries,
    clip_norm,
    learning_rate,
    norm,
    spans,
)  # fmt: skip
from viete.train.settings import Settings

torch = pytest.importorskip("torch")

SHAPES = st.lists(st.lists(st.integers(1, 7), min_size=1, max_size=3), min_size=1, max_size=5)
SETTINGS = st.builds(
    Settings,
    beta1=st.floats(0, 0.99),
    beta2=st.floats(0.5, 0.9999),
    eps=st.sampled_from([1e-8, 1e-5, 1e-3]),
    weight_decay=st.sampled_from([0.0, 0.01, 0.3]),
    optimiser=st.sampled_from(["adamw", "adam"]),
)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@given(shapes=SHAPES, chosen=SETTINGS, lr=st.floats(1e-5, 0.1), seed=st.integers(0, 99),
       chunk=st.sampled_from([3, 16, 32_768]), stretch=st.integers(2, 99))  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_steps_are_those_of_torch(
    library: str, shapes: list[list[int]], chosen: Settings, lr: float, seed: int, chunk: int,
    stretch: int,
) -> None:  # fmt: skip
    def spread(f: Over, count: int) -> None:
        for k in range(0, count, stretch):
            f(slice(k, min(k + stretch, count)))

    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=shape) for shape in shapes]
    named = {f"w{k}": tuple(shape) for k, shape in enumerate(shapes)}
    parameters = [torch.tensor(a) for a in arrays]
    kind = torch.optim.AdamW if chosen.optimiser == "adamw" else torch.optim.Adam
    peer = kind(
        [{"params": [p], "weight_decay": chosen.weight_decay * (p.ndim >= 2)} for p in parameters],
        lr=lr, betas=(chosen.beta1, chosen.beta2), eps=chosen.eps,
    )  # fmt: skip
    flat = np.concatenate([a.ravel() for a in arrays])
    flat = flat if library == "numpy" else torch.tensor(flat)
    whole = optimiser.CHUNK
    optimiser.CHUNK = chunk
    try:
        ours = Adam(flat, spans(named, {k: len(s) for k, s in named.items()}), chosen, spread)
        for _ in range(4):
            gradients = [rng.normal(size=shape) for shape in shapes]
            for p, g in zip(parameters, gradients, strict=True):
                p.grad = torch.tensor(g)
            peer.step()
            g = np.concatenate([g.ravel() for g in gradients])
            ours(g if library == "numpy" else torch.tensor(g), lr)
    finally:
        optimiser.CHUNK = whole
    theirs = np.concatenate([p.numpy().ravel() for p in parameters])
    np.testing.assert_allclose(np.asarray(ours.flat), theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@given(size=st.integers(1, 50), most=st.floats(0.01, 10), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_clipping_is_that_of_torch(library: str, size: int, most: float, seed: int) -> None:
    g = np.random.default_rng(seed).normal(size=size)
    p = torch.zeros(size, dtype=torch.float64, requires_grad=True)
    p.grad = torch.tensor(g)
    length = torch.nn.utils.clip_grad_norm_([p], most)
    ours = g.copy() if library == "numpy" else torch.tensor(g)
    assert math.isclose(norm(ours), float(length), rel_tol=1e-12)
    clip_norm(ours, norm(ours), most)
    np.testing.assert_allclose(np.asarray(ours), p.grad.numpy(), rtol=1e-12)
    entries = g.copy() if library == "numpy" else torch.tensor(g)
    clip_entries(entries, most)
    np.testing.assert_array_equal(np.asarray(entries), np.clip(g, -most, most))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_moments_lie_as_their_weights_do(library: str) -> None:
    """Whatever the order of axes in memory: checkpoints have them under the weights' names."""
    model = vt.read("nanogpt").bind(V=5, d=6, N=1, H=3, n_max=4)
    weights: dict[str, Any] = model.initial_weights(0, "float64")
    if library == "torch":
        weights = {name: torch.from_numpy(w) for name, w in weights.items()}
    engine = Engine(model, weights)
    adam = Adam(engine.flat, ())
    adam.m[...], adam.v[...] = engine.flat, 2 * engine.flat
    moments = adam.moments(engine.weights)
    for name, w in weights.items():
        np.testing.assert_array_equal(moments[f"m/{name}"], w)
        np.testing.assert_array_equal(moments[f"v/{name}"], 2 * w)
    kept = {key: np.array(m) for key, m in moments.items()}
    adam.m[...] = adam.v[...] = 0
    adam.load(kept, engine.weights)
    np.testing.assert_array_equal(adam.m, engine.flat)


def test_only_matrices_decay() -> None:
    shapes = {"E": (3, 4), "W^{1,h}": (2, 4, 2), "b^{1,h}": (2, 4), "c": (5,), "F": (2, 2)}
    ranks = {"E": 2, "W^{1,h}": 2, "b^{1,h}": 1, "c": 1, "F": 2}
    found = [(s.start, s.stop, s.decays) for s in spans(shapes, ranks)]
    assert found == [(0, 28, True), (28, 41, False), (41, 45, True)]


def test_the_cosine_is_nanogpts() -> None:
    chosen = Settings(schedule="cosine", lr=6e-4, steps=1000, warmup=100, min_lr=6e-5)
    rate = partial(learning_rate, chosen)
    assert rate(0) == pytest.approx(6e-4 / 101)
    assert rate(99) == pytest.approx(6e-4 * 100 / 101)
    assert rate(100) == 6e-4
    assert rate(550) == pytest.approx((6e-4 + 6e-5) / 2)
    assert rate(1000) == pytest.approx(6e-5)
    assert rate(5000) == 6e-5


@given(st.sampled_from(["constant", "cosine"]), st.integers(1, 50), st.integers(0, 60))
def test_a_rate_is_never_beyond_its_bounds(kind: str, steps: int, warmup: int) -> None:
    least = 0.1 if kind == "cosine" else 0.0
    chosen = Settings(schedule=kind, lr=0.5, steps=steps, warmup=warmup, min_lr=least)
    rate = partial(learning_rate, chosen)
    assert all(0 < rate(k) <= 0.5 for k in range(steps + 70))
    assert all(rate(k) >= 0.1 for k in range(warmup, steps + 70))


def test_an_unknown_schedule_is_named() -> None:
    with pytest.raises(VieteError, match="constant, cosine, not linear"):
        Settings(schedule="linear", lr=1.0, steps=10)
