"""An operation of a page, carried out as it is described, gives the value of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from tests.explore.by_hand import StepByHand, decoded
from tests.laws.strategies import Card, cards, random_inputs, shipped, tiny
from viete.explore.data import page_data
from viete.nouns.run import Questions

TWO_BLOCKS = ("letters-induction",)  # with weights for each


def check_operations(run: Questions, data: dict[str, Any]) -> None:
    """Each operation of each step, and that the last one makes the step's value."""
    values = data["values"]["decimal"]
    for step in [*data["steps"], *data["backward"]]:
        assert step["operations"][-1]["value"] == step["member"]
        by_hand = StepByHand(step, values)
        for o in step["operations"]:
            found, wanted = by_hand.carried_out(o), decoded(values[o["value"]])
            assert found.shape == wanted.shape, (step["member"], o["id"])
            scale = 1 + np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)
            np.testing.assert_allclose(
                found, wanted, rtol=1e-12, atol=1e-12 * scale, err_msg=f"{step['member']} {o}"
            )


@pytest.mark.slow
@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_of_shipped_cards(path: str) -> None:
    card = tiny(path)
    if any(d.name == "N" for d in card.dims) and Path(path).stem not in TWO_BLOCKS:
        card = card.bind(N=1)
    run = card.run(inputs=random_inputs(card, n=3), weights=card.initial_weights())
    data = json.loads(json.dumps(page_data(run, meanings=[], live=True), allow_nan=False))
    assert len(data["steps"]) == len(run.program.steps)
    check_operations(run, data)


@settings(max_examples=3, deadline=None)
@given(drawn=cards())
def test_of_random_cards(drawn: Card) -> None:
    card = drawn.model
    run = card.run(inputs=random_inputs(card, n=3), weights=card.initial_weights())
    check_operations(run, page_data(run, meanings=[], live=True))
