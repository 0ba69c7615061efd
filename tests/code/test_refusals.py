"""What an exported program cannot compute it refuses, in one sentence that names the argument."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.code.exported import bound, made_weights

CARD = r"""# M
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $d$ | 4 |
| $N$ | 2 |
| $n$ | $≤ 7$ |
## Inputs
- $t ∈ \{0, …, V-1\}^n$: tokens
- $y ∈ \{-100, …, V-1\}^n$: targets
- $ξ ∈ ℝ^{n × d}$
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W^i$ | $d × d$ |
## Forward pass
1. $x^0 = E[t] + ξ$
2. $logits = x^N E^⊤$
3. $L = cross_entropy(logits; y)$
""".replace("2. $l", "\nFor $i = 1, …, N$:\n\n2. $x^i = x^{i-1} W^i$\n\n3. $l").replace(
    "3. $L", "4. $L"
)
ALONE = CARD.replace("- $ξ ∈ ℝ^{n × d}$\n", "").replace(" + ξ", "")  # a script has tokens only
CARDS = {"numpy": ALONE, "jax": CARD, "torch": CARD}
GIVEN: dict[str, Any] = {"t": [1, 0, 2], "xi": np.ones((3, 4)), "y": [1, -100, 2]}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"t": [1, -1, 2]}, "t holds -1, and is made of whole numbers from 0 to 4"),
    ({"t": [1, 5, 2]}, "t holds 5, and is made of whole numbers from 0 to 4"),
    ({"t": [1, 1.5, 2]}, "t holds 1.5, and is made of whole numbers from 0 to 4"),
    ({"t": [1, np.nan, 2]}, "t holds nan, and is made of whole numbers from 0 to 4"),
    ({"t": []}, r"t has the shape (0,), and the card says (n)"),
    ({"t": 1}, r"t has the shape (), and the card says (n)"),
    ({"t": None}, "t is missing"),
    ({"t": [0] * 8}, "t is 8 long, and n is at most 7"),
    ({"y": [1, -5, 2]}, "y holds -5, and is made of whole numbers from 0 to 4"),
    ({"y": [1, 2]}, "y has the shape (2,), and the card says (3)"),
    ({"xi": np.ones((3, 5))}, "xi has the shape (3, 5), and the card says (3, 4)"),
    ({"xi": np.ones((2, 4))}, "xi has the shape (2, 4), and the card says (3, 4)"),
]
WEIGHTS = {"E": np.ones((5, 4)), "W^1": np.eye(4), "W^2": np.eye(4)}


@cache
def program(text: str, to: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(vt.read(text).export(to), "exported.py", "exec"), names)
    return names


@pytest.mark.parametrize("to", ["numpy", "jax", "torch"])
def test_an_input(to: str) -> None:
    pytest.importorskip(to)
    if to == "torch":
        forward = vt.read(CARD).to_torch(WEIGHTS)
    else:
        names = program(CARDS[to], to)
        params = names["renamed"](WEIGHTS)
        forward = lambda **given: names["forward"](**given, **params)  # noqa: E731
    given = {k: v for k, v in GIVEN.items() if k != "xi" or to != "numpy"}
    assert np.isfinite(float(forward(**given)[1].item()))
    for changed, said in WRONG:
        if not changed.keys() <= given.keys():
            continue
        with pytest.raises(ValueError) as error:
            forward(**{**given, **changed})
        assert str(error.value).split("\n")[0] == said


@pytest.mark.parametrize("to", ["numpy", "jax"])
def test_a_parameter(to: str) -> None:
    pytest.importorskip(to)
    names = program(ALONE, to)
    given = {k: v for k, v in GIVEN.items() if k != "xi"}
    second = 2 if to == "numpy" else 1  # JAX's trees are lists, which are counted from 0
    for changed, said in [
        ({"E": WEIGHTS["E"][:-1]}, "E has the shape (4, 4), and the card says (5, 4)"),
        ({"E": None}, "E is missing"),
        ({"W^2": np.eye(3)}, f"W[{second}] has the shape (3, 3), and the card says (4, 4)"),
    ]:
        with pytest.raises(ValueError) as error:
            names["forward"](**given, **names["renamed"]({**WEIGHTS, **changed}))
        assert str(error.value).split("\n")[0] == said
    params = names["renamed"](WEIGHTS)
    for name in params:
        with pytest.raises(ValueError, match=f"^{name} is missing"):
            names["forward"](**given, **{k: v for k, v in params.items() if k != name})
    less = {1: np.eye(4)} if to == "numpy" else [np.eye(4)]
    with pytest.raises(ValueError, match=rf"^W\[{second}\] is missing"):
        names["forward"](**given, **{**params, "W": less})


@pytest.mark.parametrize("to", ["numpy", "jax", "torch"])
def test_a_weight_by_its_name_in_the_card(to: str) -> None:
    pytest.importorskip(to)
    with pytest.raises(ValueError, match=r"^the weight W\^2 is missing"):
        program(CARDS[to], to)["renamed"]({k: v for k, v in WEIGHTS.items() if k != "W^2"})


def test_a_program_that_jax_compiles_makes_nan_of_a_wrong_token() -> None:
    jax = pytest.importorskip("jax")
    names = program(CARD, "jax")
    forward = jax.jit(names["forward"])
    given = {k: np.array(v) for k, v in GIVEN.items()}
    for token in (-1, 5):
        given["t"][1] = token
        logits = np.asarray(forward(**given, **names["renamed"](WEIGHTS))[0])
        assert np.isnan(logits[1]).all() and np.isfinite(logits[[0, 2]]).all()


SLICED = r"""# M
## Dimensions
| symbol | value |
| --- | --- |
| $d$ | 4 |
| $n$ | $≤ 7$ |
## Inputs
- $t ∈ \{0, …, 4\}^n$: tokens
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $5 × d$ |
## Functions
- $f(z: a × b) = z[:a - 1]$
## Forward pass
1. $x = E[t]$
2. $logits = FORMULA$
3. $L = sum(logits_0)$
"""
SLICES = {"x[1:3]": [2], "x[n - 3:]": [1, 2], "f(x)[:2]": [2]}


@pytest.mark.parametrize("to", ["numpy", "jax", "torch"])
@pytest.mark.parametrize("formula", SLICES)
def test_a_slice_of_more_than_there_is(formula: str, to: str) -> None:
    """A run refuses it, and a program does not cut it off."""
    library = pytest.importorskip(to)
    model = vt.read(SLICED.replace("FORMULA", formula))
    weights = {"E": np.arange(20.0).reshape(5, 4)}
    tokens, wrong = np.array([0, 1, 3]), [np.zeros(n, int) for n in SLICES[formula]]
    for t in wrong:
        with pytest.raises(vt.VieteError, match="of an axis of"):
            model.run(t, weights)
    if to == "torch":
        module = model.to_torch({k: library.from_numpy(v) for k, v in weights.items()})
        forward = lambda t: module(library.from_numpy(t))[0].detach()  # noqa: E731
    else:
        names = program(SLICED.replace("FORMULA", formula), to)
        forward = lambda t: names["forward"](t, **weights)[0]  # noqa: E731
    np.testing.assert_allclose(forward(tokens), model.run(tokens, weights)["logits"])
    for t in wrong:
        with pytest.raises(ValueError, match="of an axis of"):
            forward(t)


def test_a_slice_that_is_there_is_not_looked_at() -> None:
    for formula in ("x[:n]", "x[:, 1:d]", "x[1:]", "E[:3]"):
        assert "within" not in vt.read(SLICED.replace("FORMULA", formula)).export("numpy")


def test_jax_s_trees_have_no_numbers_for_names() -> None:
    """`jax.export` writes no tree of them."""
    jax = pytest.importorskip("jax")
    names: dict[str, Any] = {}
    model = bound("gpt2")
    exec(model.export("jax"), names)
    params = names["renamed"](made_weights(model))
    paths = [key for path, _ in jax.tree_util.tree_flatten_with_path(params)[0] for key in path]
    assert all(isinstance(k.key, str) for k in paths if isinstance(k, jax.tree_util.DictKey))


@pytest.mark.slow
def test_jax_exports_the_program_for_texts_of_every_length() -> None:
    jax = pytest.importorskip("jax")
    from jax import export

    model = bound("gpt2").bind(n_max=8)
    names: dict[str, Any] = {}
    exec(model.export("jax"), names)
    params = jax.tree.map(jax.numpy.asarray, names["renamed"](model.initial_weights()))
    forward = jax.jit(lambda t, params: names["forward"](t, **params)[0])
    (n,) = export.symbolic_shape("n", constraints=["n >= 1", "n <= 8"])
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), params)
    made = export.export(forward)(jax.ShapeDtypeStruct((n,), "int32"), shapes)
    for length in (3, 8):
        t = jax.numpy.arange(length, dtype="int32")
        np.testing.assert_allclose(made.call(t, params), forward(t, params), atol=1e-6)
