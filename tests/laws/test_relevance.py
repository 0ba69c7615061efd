"""Relevance keeps every value, and adds up to the number that it is of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.laws import strategies
from viete.analysis.next_token import scores
from viete.rewrite.relevance import relevance

FAMILIES = "bloom gemma2 qwen2".split()  # what the law is held to; others are alike
SHIPPED = {Path(path).stem: path for path in strategies.shipped()}
BIASES = ("b_", "b^", "beta")


@pytest.mark.parametrize("family", FAMILIES)
def test_relevance_adds_up(family: str) -> None:
    """Without biases all of a logit is owed to the embeddings."""
    card = strategies.tiny(SHIPPED[family])
    found = vt.Card.of(relevance(card))
    assert vt.read(found.write()) == found
    draw, logits = np.random.default_rng(0), scores(card)
    weights = {
        name: np.zeros(shape) if name.startswith(BIASES) else draw.normal(0, 0.7, shape)
        for name, shape in card.parameter_shapes.items()
    }
    inputs = strategies.random_inputs(card)
    wanted, run = (x.run(weights=weights, **inputs) for x in (card, found))
    np.testing.assert_allclose(run[logits], wanted[logits], rtol=0, atol=1e-10)
    relevant = run[f"∂({logits}_{{-1,3}})/∂x^0"] * run["x^0"]
    assert relevant.sum() == pytest.approx(wanted[logits][-1, 3], abs=1e-9)


def test_a_held_value_is_a_constant() -> None:
    card = vt.read("""
# A square

## Parameters

| symbol | shape |
| --- | --- |
| $w$ | $3$ |

## Forward pass
1. $y = w ⊙ held(w)$
2. $L = sum(y)$
""")
    w = np.array([1.0, -2.0, 3.0])
    run = card.grad().run(weights={"w": w})
    np.testing.assert_array_equal(run["∂w"], w)
