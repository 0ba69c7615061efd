"""Values of a run that another takes the place of."""

from __future__ import annotations

import re

import numpy as np
import pytest

import viete as vt
from viete.errors import VieteError

MODEL = vt.read("simple-transformer").bind(d=16, V=11)
WEIGHTS = MODEL.initial_weights()
NAME = next(e.name for e in MODEL.equations if "h" in e.left.symbol.slots)


def test_what_comes_after_follows() -> None:
    plain = MODEL.run([1, 2, 3], WEIGHTS)
    last = next(k for k in plain if plain[k].shape == (3, 16))
    run = MODEL.run([1, 2, 3], WEIGHTS, put={last: lambda x: 2 * x})
    np.testing.assert_array_equal(run[last], 2 * plain[last])
    assert any(
        not np.allclose(run[k], plain[k]) for k in list(plain)[list(plain).index(last) + 1 :]
    )


def test_in_place_and_nothing() -> None:
    plain = MODEL.run([[1, 2, 3]], WEIGHTS)

    def first_head(a: np.ndarray) -> None:
        assert a.shape == plain[NAME].shape
        a[:, 0] = 0

    run = MODEL.run([[1, 2, 3]], WEIGHTS, put={NAME: first_head})
    assert not run[NAME][:, 0].any() and run[NAME][:, 1:].any()
    again = MODEL.run([[1, 2, 3]], WEIGHTS, put={NAME: lambda a: None})
    assert all(np.array_equal(again[k], plain[k]) for k in plain)


def test_a_batch_is_seen_as_a_whole() -> None:
    """Also where a run would take a few sequences at a time."""
    tokens = np.random.default_rng(0).integers(0, 11, (300, 8))
    shapes = []
    wanted = [list(MODEL.run([1], WEIGHTS))[-1]]
    MODEL.run(tokens, WEIGHTS, names=wanted, put={NAME: lambda a: shapes.append(a.shape)})
    assert len(shapes) == 1 and shapes[0][0] == 300


def test_an_array_in_any_spelling() -> None:
    model = vt.read("gpt2").bind(V=11, d=8, N=2, H=2, d_f=8)
    weights = model.initial_weights()
    plain = model.run([1, 2, 3], weights)
    array = np.arange(24.0).reshape(3, 8)
    for name in ("x^2", "x²", "resid_{post}^2"):
        run = model.run([1, 2, 3], weights, put={name: array})
        np.testing.assert_array_equal(run["x^2"], array)
        assert not np.allclose(run["logits"], plain["logits"])
    run = model.run([1, 2, 3], weights, put={"A^{1,h}": 0 * plain["A^{1,h}"]})
    assert not run["A^{1,h}"].any() and not np.allclose(run["logits"], plain["logits"])


def test_wrong() -> None:
    for changes, sentence in [
        ({NAME: "x"}, f"the replacement of {NAME} must be an array, or a function of the array"),
        ({NAME: np.zeros(3)}, f"what takes the place of {NAME} must have its shape"),
        ({f"2 {NAME}": lambda a: a}, f"2 {NAME} is not the value of an equation"),
        ({"nothing": lambda a: a}, "nothing"),
        ({NAME: lambda a: a[0]}, f"what takes the place of {NAME} must have its shape"),
    ]:
        with pytest.raises(VieteError, match=re.escape(sentence)):
            MODEL.run([1, 2], WEIGHTS, put=changes)
    with pytest.raises(VieteError, match="must be 'float', 'exact', 'interval', not 'x'"):
        MODEL.run([1, 2], WEIGHTS, meaning="x")


def test_an_exact_run() -> None:
    """What takes a value's place is as exact as what it takes the place of."""
    card = vt.read("exact-lesson")
    plain = card.run([0, 1], card.exact_weights, meaning="exact")
    for by in (lambda x: 2 * x, 2 * plain["A"]):
        run = card.run([0, 1], card.exact_weights, meaning="exact", put={"A": by})
        assert (run["A"] == 2 * plain["A"]).all() and (run["a"] == 2 * plain["a"]).all()
    half = card.run(
        [0, 1], card.exact_weights, meaning="exact", put={"A": np.array([[1, 0], [0.5, 0.25]])}
    )
    assert half["A"][1, 1] * 4 == 1


def test_a_run_of_intervals() -> None:
    card = vt.read("exact-lesson")
    weights = card.exact_weights
    by = np.array([[1, 0], [0.5, 0.5]])
    run = card.run([0, 1], weights, meaning="interval", put={"A": by})
    exact = card.run([0, 1], weights, meaning="exact", put={"A": by})
    middle = np.array([[float(x) for x in row] for row in exact["logits"]])
    assert (run["logits"]["lower"] <= middle).all() and (middle <= run["logits"]["upper"]).all()


def test_inside_of_what_is_computed_sparsely() -> None:
    """A value of an expert takes another's place, though few rows of it would be computed."""
    card = vt.read("mixtral").bind(V=11, d=8, N=1, H=2, G=1, d_f=6, E=3, k=1, n_max=8)
    weights = card.initial_weights(1)
    plain = card.run([1, 2, 3], weights)
    inside = [e.name for e in card.equations if "e" in e.left.symbol.slots]
    assert inside
    for name in inside:
        member = name.replace("^{i", "^{1")
        run = card.run([1, 2, 3], weights, put={member: lambda x: 0 * x})
        assert not run[member].any() and not np.allclose(run["logits"], plain["logits"])


def test_axes() -> None:
    model = vt.read("gpt2").bind(V=11, d=8, N=2, H=2, d_f=6)
    run = model.run([[1, 2, 3]] * 4, model.initial_weights())
    for name, axes in {
        "A^{1,h}": ("batch", "h", "n", "n"),
        "A^{1,2}": ("batch", "n", "n"),
        "x^2": ("batch", "n", "d"),
        "x^2_1": ("batch", "d"),
        "W_E": ("V", "d"),
        "W_E W_Q^{1,h}": ("h", "V", "d_k"),
        "<x^1_0, x^2_0>": ("batch",),
        "mean(x^1)": ("batch", "n", "1"),
    }.items():
        assert run.axes(name) == axes, name
        assert run[name].ndim == len(axes)
    assert model.run([1, 2], model.initial_weights()).axes("x^1") == ("n", "d")
    with pytest.raises(VieteError, match="nothing"):
        run.axes("nothing")
