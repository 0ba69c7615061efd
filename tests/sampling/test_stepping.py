"""Three ways to the next scores: a replayed step, the equations with a cache, the whole text."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import Card, cards, shipped, tiny
from tests.laws.test_incremental import CAUSAL, FINE, HEAD
from tests.sampling.test_generation import others, weights_of
from viete import read
from viete.analysis.next_token import context_of, text_of
from viete.errors import VieteError
from viete.rewrite.incremental import derived
from viete.sampling import planned
from viete.sampling.cached import Cached
from viete.sampling.planned import Incremental, Planned
from viete.sampling.stepping import Whole

EXACT = {"rtol": 1e-11, "atol": 1e-11}


def alike(
    model: vt.Card, weights: dict[str, Any], inputs: dict[str, Any], start: int, count: int,
    most: int = 99, close: dict[str, float] | None = None,
) -> Incremental:  # fmt: skip
    """The same scores from all three at every place; what was chosen for the first."""
    context = context_of(model, text_of(model))
    quick = Incremental(model, weights, inputs, context)
    slow = Cached(model, derived(model), weights, inputs, context)
    whole = Whole(model, weights, inputs)
    rng, size = np.random.default_rng(1), 3
    text = rng.integers(0, size, (1, min(start, context)))
    ways = (quick, slow, whole)
    found = [w.prefill(text, count) for w in ways]
    for k in range(text.shape[1], min(context, text.shape[1] + most) + 1):
        scale = max(1.0, float(np.abs(found[2]).max()))
        for other in found[:2]:
            assert other.shape[0] == count
            np.testing.assert_allclose(other / scale, found[2] / scale, **(close or EXACT))
        if k < min(context, text.shape[1] + most):
            tokens = rng.integers(0, size, (count, 1))
            found = [np.array(w.step(tokens)) for w in ways]
    return quick


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_on_numpy(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    model = tiny(next(p for p in shipped() if p.endswith("gpt2.md")))
    weights = {k: v.astype(kind) for k, v in weights_of(model).items()}
    assert type(alike(model, weights, {}, 2, 2, 3, {"atol": 0.1}).steps) is Planned
    assert len(list(model.sample([1, 2], weights, most=3))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("path", CAUSAL, ids=lambda p: p.rsplit("/", 1)[-1])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_every_causal_card_is_replayed(path: str, kind: str) -> None:
    model = tiny(path)
    weights = weights_of(model)
    if kind == "torch":
        torch = pytest.importorskip("torch")
        weights = {k: torch.tensor(v) for k, v in weights.items()}
    quick = alike(model, weights, others(path, model), 1, 2)
    assert isinstance(quick.steps, Planned)


@settings(max_examples=15, deadline=None)
@given(cards(), st.integers(1, 5), st.integers(1, 3))
def test_random_cards_step_alike(card: Card, start: int, count: int) -> None:
    if card.causal:
        alike(card.model, weights_of(card.model, 4), {}, start, count)


@pytest.mark.parametrize("name", FINE)
def test_cards_with_ways_of_their_own_step_alike(name: str) -> None:
    functions, body = FINE[name]
    model = read(HEAD.replace("FUNCTIONS", functions).replace("BODY", body))
    quick = alike(model, weights_of(model, 3), {}, 2, 2)
    try:
        derived(model, fixed=True)
    except VieteError:
        assert isinstance(quick.steps, Cached)


@pytest.mark.parametrize("name", ["gpt2", "pythia", "simple-transformer"])
def test_rooms_grow(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 8 positions to 16, and to the 20 of the context."""
    monkeypatch.setattr(planned, "LEAST", 8)
    model = tiny(next(p for p in shipped() if p.endswith(f"/{name}.md")))
    model = model.bind(**{"T_max" if name == "simple-transformer" else "n_max": 20})
    quick = alike(model, weights_of(model), {}, 6, 2)
    assert isinstance(quick.steps, Planned) and quick.steps.replay.room == 20
    alike(model, weights_of(model), {}, 15, 1, most=4)


def test_in_single_precision_positions_keep_their_digits() -> None:
    """Angles are made in float64 and rounded once, as in a whole run."""
    path = next(p for p in shipped() if p.endswith("/llama.md"))
    model = tiny(path).bind(n_max=2000)
    weights = {k: v.astype("float32") for k, v in weights_of(model).items()}
    alike(model, weights, {}, 1990, 1, most=6, close={"rtol": 2e-4, "atol": 2e-5})


def test_the_next_sample_takes_weights_as_they_are_then() -> None:
    model = tiny(next(p for p in shipped() if p.endswith("/gpt2.md")))
    weights = weights_of(model)
    first = list(model.sample([1], weights, most=8, seed=3))
    for w in weights.values():
        w *= -1
    second = list(model.sample([1], weights, most=8, seed=3))
    assert first != second == list(model.sample([1], weights, most=8, seed=3, cache=False))


@pytest.mark.slow
def test_jax_weights() -> None:
    jax = pytest.importorskip("jax")
    model = tiny(next(p for p in shipped() if p.endswith("/simple-transformer.md")))
    weights = weights_of(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there = {k: jax.numpy.asarray(v) for k, v in weights.items()}
        found = list(model.sample([1], there, most=3, greedy=True))
    assert found == list(model.sample([1], weights, most=3, greedy=True))
