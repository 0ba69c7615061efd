"""A free letter of a question is an axis: what is asked of a block is asked of all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import (
    Card,
    cards,
    random_inputs,
    random_weights,
    shipped,
    tiny,
)  # fmt: skip
from viete.errors import VieteError
from viete.evaluate.schedule import program
from viete.meanings.run import run

torch = pytest.importorskip("torch")


def stacked(model: vt.Card, made: Any, batch: bool) -> int:
    """Holds each family of values to its members side by side; how many families there were."""
    members: dict[str, dict[int, str]] = {}
    symbols = {e.name: e.left.symbol for e in (*model.equations, *model.derived)}
    for name, (key, loops) in program(model).names.items():
        if len(loops) == 1 and name in made:
            members.setdefault(key, {})[loops[0]] = name
    for key, by_block in members.items():
        (letter,) = model.blocks_of(symbols[key])
        found = np.asarray(made[symbols[key].key])
        wanted = np.stack([np.asarray(made[by_block[k]]) for k in sorted(by_block)], axis=batch)
        assert np.array_equal(found, wanted, equal_nan=True), key
        assert made.axes(symbols[key].key)[batch] == letter
    return len(members)


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_shipped_cards(path: str) -> None:
    model = tiny(path)
    made = run(model, None, random_weights(model), **random_inputs(model))
    assert stacked(model, made, batch=False) or not model.loops


@settings(max_examples=15)
@given(card=cards(), batch=st.booleans())
def test_random_cards(card: Card, batch: bool) -> None:
    model = card.model
    given = random_inputs(model, card.seed, 3, 2 if batch else None)
    stacked(model, run(model, None, random_weights(model, card.seed), **given), batch)


PYTHIA = vt.read("pythia").bind(V=9, d=16, N=3, H=2, n_max=8, d_f=12)
TOKENS = [3, 1, 4, 1]


@pytest.mark.parametrize("meaning", ["float", "exact", "interval"])
def test_a_formula_in_every_meaning(meaning: str) -> None:
    card = vt.read("attention-only-2").bind(V=4, d=4, H=2, n_max=6)
    made = card.run([1, 2, 3], card.initial_weights(seed=0), meaning=meaning)
    found = made["⟨W_U[:, 1], x^i_2⟩"]
    assert found.shape == (3,) and made.axes("⟨W_U[:, 1], x^i_2⟩") == ("i",)
    for k in range(3):
        one = made[f"⟨W_U[:, 1], x^{k}_2⟩"]
        assert found[k] == one or (meaning == "interval" and found[k].tolist() == one.tolist())


def test_blocks_are_those_in_which_all_that_is_named_exists() -> None:
    made = PYTHIA.run(TOKENS, PYTHIA.initial_weights(seed=0))
    assert made["x^i"].shape == (4, 4, 16)  # with the embedding, before the first block
    assert made["x^i - x^{i-1}"].shape == (3, 4, 16)
    assert made["A^{i,h}"].shape == (3, 2, 4, 4)
    assert made["A^{i,1}_3"].shape == (3, 4)
    assert made["scale_A^i"].shape == (3, 4, 1)  # though the norm could read x^3 as well
    assert np.array_equal(made["W_{OV}^{i,h}"][2], made["W_{OV}^{3,h}"])
    with pytest.raises(VieteError, match=r"x\^\{i\+9\} does not have a value in any block"):
        made["x^{i+9}"]


def test_what_is_asked_for_alone_is_computed_as_far_as_that() -> None:
    weights = PYTHIA.initial_weights(seed=0)
    made = PYTHIA.run(TOKENS, weights, names=["A^{i,h}"])
    assert np.array_equal(made["A^{i,h}"], PYTHIA.run(TOKENS, weights)["A^{i,h}"])
    assert "logits" not in list(made)


def test_a_derivative_passes_through() -> None:
    weights = {k: torch.tensor(v, requires_grad=True)
               for k, v in PYTHIA.initial_weights(seed=0).items()}  # fmt: skip
    PYTHIA.run(TOKENS, weights)["x^i"].sum().backward()
    there = weights["W_E"].grad
    for w in weights.values():
        w.grad = None
    made = PYTHIA.run(TOKENS, weights)
    sum(made[f"x^{k}"].sum() for k in range(4)).backward()
    assert torch.allclose(weights["W_E"].grad, there)
