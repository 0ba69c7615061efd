"""Cards, models and runs can be pickled and copied: a copy answers as the original does."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from copy import copy, deepcopy
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import viete as vt

MODEL = vt.load("two-layers")
QUESTIONS = ("logits_{-1}", "A^{2,1}_{-1} with A^{1,h} = 0", "∂logits_{-1,1}/∂x^1_{-1}")
TEXT = "planktonpl"
COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)), "copy": copy, "deepcopy": deepcopy,
}  # fmt: skip
COPIED = pytest.mark.parametrize("copied", list(COPIES.values()), ids=list(COPIES))


def same(a: Any, b: Any) -> None:
    for question in QUESTIONS:
        np.testing.assert_array_equal(np.asarray(a[question]), np.asarray(b[question]), question)


@COPIED
def test_a_card(copied: Callable[[Any], Any]) -> None:
    for card in (MODEL.card, vt.read("gpt2"), vt.read("nanogpt").grad("L")):
        again = copied(card)
        assert type(again) is type(card) and again == card and again.write() == card.write()


@COPIED
def test_a_model_and_its_runs(copied: Callable[[Any], Any]) -> None:
    run = MODEL.run(TEXT)
    model = copied(MODEL)
    same(model.run(TEXT), run)
    top = "top_2(logits_{-1})"  # with words, which are the tokenizer's
    assert str(model.run(TEXT)[top]) == str(run[top])
    same(copied(run), run)
    same(copied(run).of.run(TEXT), run)
    same(copied(MODEL.put("A^{1,2} = 0")).run(TEXT), MODEL.put("A^{1,2} = 0").run(TEXT))


@pytest.mark.parametrize("meaning", ["exact", "interval"])
def test_a_run_in_other_numbers(meaning: str) -> None:
    card = vt.read("letters-attention")
    run = card.run([0, 1, 0], card.initial_weights(0), meaning=meaning)
    again = pickle.loads(pickle.dumps(run))
    assert [str(x) for x in np.ravel(again["A"])] == [str(x) for x in np.ravel(run["A"])]


def test_torch_weights() -> None:
    pytest.importorskip("torch")
    model = vt.load("two-layers", framework="torch")
    again = pickle.loads(pickle.dumps(model))
    assert again.framework == "torch" and again.weights.keys() == model.weights.keys()
    assert (again.run(TEXT)["logits"] == model.run(TEXT)["logits"]).all()


@pytest.mark.slow
def test_another_process() -> None:
    """What multiprocessing, joblib and Dask do: the model goes there, and the run comes back."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        run = pool.submit(MODEL.run, TEXT).result()
    same(run, MODEL.run(TEXT))
