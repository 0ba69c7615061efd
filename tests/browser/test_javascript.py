"""Exported JavaScript is the card: every value and gradient, in Node. `make browser` runs these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings

import viete as vt
from tests.browser.javascript import outcomes
from tests.code import test_export as exports
from tests.code import test_programs as programs
from tests.code import test_shapes as shapes
from tests.code.exported import CARDS, bound, loss_of, made_inputs, made_weights
from tests.code.test_javascript import HOSTILE
from tests.laws.strategies import cards
from viete.code.prepared import prepared

pytestmark = pytest.mark.browser
Case = tuple[str, vt.Card, dict[str, Any], dict[str, Any], str | None]


def hold(cases: list[Case], folder: Path) -> None:
    """All values and gradients of JavaScript are those of a run of the same equations."""
    requests, runs = [], []
    for k, (_, model, weights, inputs, of) in enumerate(cases):
        file = folder / f"{k}.mjs"
        file.write_text(model.export("js", of), "utf-8")
        requests.append({"module": str(file), "weights": weights, "inputs": inputs})
        try:
            differentiated = prepared(model, of, backward=True).model
        except vt.VieteError:
            differentiated = model
        runs.append(differentiated.run(None, weights, **inputs))
    for (name, _, weights, *_), found, run in zip(cases, outcomes(requests), runs, strict=True):
        assert "error" not in found, f"{name}: {found['error']}"
        values = found["values"]
        given = weights.keys() | {i.name for i in run.program.model.inputs}
        assert values.keys() == set(run) - given, name
        largest = max([size(run[k]) for k in values if derived(k)], default=0.0)
        for key, value in values.items():
            scale = max(size(run[key]), largest if derived(key) else 0)
            close(value, run[key], scale, f"{name}: {key}")
        for key, value in found["grads"].items():
            close(value, run[f"∂{key}"], largest, f"{name}: gradient of {key}")


def derived(name: str) -> bool:
    return name.startswith(("∂", "G_", "J_"))


def size(x: Any) -> float:
    x = np.asarray(x, float)
    return float(np.abs(x[np.isfinite(x)]).max(initial=0.0))


def close(found: np.ndarray, wanted: Any, scale: float, name: str) -> None:
    wanted = np.asarray(wanted, float)
    assert found.shape == wanted.shape, name
    assert np.array_equal(np.isfinite(found), np.isfinite(wanted)), name
    finite = np.isfinite(wanted)
    assert np.array_equal(found[~finite], wanted[~finite], equal_nan=True), name
    assert np.abs(found[finite] - wanted[finite]).max(initial=0.0) <= 1e-12 * scale, name


def test_every_shipped_card(tmp_path: Path) -> None:
    cases: list[Case] = []
    for card in CARDS:
        model = bound(card)
        p = prepared(model, loss_of(card), backward=True)
        cases.append((card, model, made_weights(model), made_inputs(p.model), loss_of(card)))
    hold(cases, tmp_path)


def test_twelve_blocks(tmp_path: Path) -> None:
    """A block's number of two digits in a name."""
    model = bound("gpt2").bind(N=12)
    p = prepared(model, None, backward=True)
    hold([("gpt2", model, made_weights(model), made_inputs(p.model), None)], tmp_path)


def test_random_cards(tmp_path: Path) -> None:
    drawn = []

    @seed(1)
    @settings(max_examples=60, database=None, deadline=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(cards())
    def draw(card: Any) -> None:
        drawn.append(card)

    draw()
    cases: list[Case] = []
    for k, card in enumerate(drawn):
        inputs = card.given()
        for item in prepared(card.model, None, backward=True).model.inputs:
            if item.default is None:
                inputs.setdefault(item.name, np.arange(5) % card.vocabulary)
        cases.append((f"card {k}", card.model, card.weights(), inputs, None))
    hold(cases, tmp_path)


def test_odd_cards(tmp_path: Path) -> None:
    """Numbers with names, tables, loops that nothing reads, names of the library's, families."""
    cases: list[Case] = []
    for name, equations in programs.CASES.items():
        said = programs.FUNCTIONS.get(name)
        text = programs.CARD.replace("EQUATIONS", equations)
        text = text.replace("FUNCTIONS", f"## Functions\n{said}\n" if said else "")
        model = vt.read(text.replace("MORE", "| $C^i$ | $d × d$ |\n" if "C^i" in equations else ""))
        weights = {k: programs.WEIGHTS[k] for k in model.parameter_shapes}
        cases.append((name, model, weights, {"t": programs.TOKENS}, "L"))
    for formula, functions in shapes.CASES:
        model = shapes.card(formula, functions)
        weights = model.initial_weights(seed=0)
        cases.append((formula, model, weights, {"t": shapes.TOKENS}, "L"))
    odd = (Path(exports.__file__).parent / "odd.md").read_text("utf-8")
    tokens = np.array([1, 5, 2, 2, 6])
    for name, text, inputs in [
        ("blocks", exports.BLOCKS, {}),
        ("softmax", exports.SOFTMAX, {"t": np.array([1, 3])}),
        ("downwards", exports.DOWNWARDS, {"t": np.array([1, 3])}),
        ("odd", odd, {"t": tokens, "y": tokens}),
        ("hostile", HOSTILE, {"t": np.array([1, 0, 2])}),
    ]:
        model = vt.read(text)
        cases.append((name, model, made_weights(model), inputs, None))
    hold(cases, tmp_path)


FINITE = """# Not finite

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | $≤ 9$ |

## Inputs

- $x ∈ ℝ^n$

## Forward pass

1. $a = max(x, 0)$
2. $b = max(x)$
3. $c = where(x > 0, x, -inf)$
4. $d = softmax(c)$
5. $e = argmax(x)$
6. $f = min(x, 1) + erf(x) + arctan(x) + floor(x)$
7. $g = x^2 + 2^x + 1^x$
8. $k = log(x) + sqrt(x)$
"""


def test_what_is_not_finite(tmp_path: Path) -> None:
    rows = [[1, np.nan, 2], [np.inf, 1, -3], [-np.inf, -1, -2], [0.0, -0.0, 1e300], [4, 4, 1e-300]]
    model = vt.read(FINITE)
    with np.errstate(all="ignore"):
        hold([(str(x), model, {}, {"x": np.array(x)}, None) for x in rows], tmp_path)


PRODUCTS = """# Products

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | 17 |
| $m$ | 33 |
| $p$ | 30 |
| $h$ | $1, …, 3$ |

## Parameters

| symbol | shape |
| --- | --- |
| $A$ | $n × m$ |
| $B$ | $m × p$ |
| $C^h$ | $p × n$ |
| $v$ | $m$ |

## Forward pass

1. $D = A B$
2. $E^h = D C^h$
3. $F = v B$
4. $G = A v$
5. $K^h = (C^h)^⊤ D^⊤ A$
6. $L = sum(D_0) + sum(E^1_0) + sum(K^2_0) + <F, F> + <G, G>$
"""


@pytest.mark.parametrize("loops", [False, True])
def test_products_of_every_size(loops: bool, tmp_path: Path) -> None:
    """By the kernel in WebAssembly, and by loops where there is none."""
    requests, runs = [], []
    shapes = [(17, 33, 30), (64, 64, 64), (1, 4096, 1), (5, 1, 1000), (1000, 5, 1), (130, 129, 131)]
    for k, (n, m, p) in enumerate(shapes):
        model = vt.read(PRODUCTS).bind(n=n, m=m, p=p)
        file, weights = tmp_path / f"{k}.mjs", made_weights(model)
        file.write_text(model.export("js"), "utf-8")
        runs.append(model.run(None, weights))
        requests.append({"module": str(file), "weights": weights, "inputs": {}, "loops": loops})
    for shape, found, run in zip(shapes, outcomes(requests), runs, strict=True):
        assert "error" not in found, found
        for key in ("D", "E^h", "F", "G", "K^h", "L"):
            close(found["values"][key], run[key], 10 * size(run[key]), f"{shape}: {key}")


@pytest.mark.parametrize(
    "tokens, said",
    [
        ([1, 37], "t holds 37, and is made of whole numbers from 0 to 36"),
        ([1, -1], "t holds -1, and is made of whole numbers from 0 to 36"),
        ([1, 1.5], "t holds 1.5, and is made of whole numbers from 0 to 36"),
        ([1] * 513, "t is 513 long, and n is at most 512"),
    ],
)
def test_an_input_out_of_range_is_refused(tokens: list[float], said: str, tmp_path: Path) -> None:
    file = tmp_path / "m.mjs"
    file.write_text(vt.read("dialog-transformer").export("js"), "utf-8")
    weights = vt.read("dialog-transformer").initial_weights()
    (found,) = outcomes([{"module": str(file), "weights": weights, "inputs": {"t": tokens}}])
    assert found == {"error": said}


def test_a_weight_of_a_wrong_shape_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "m.mjs"
    file.write_text(vt.read("dialog-transformer").export("js"), "utf-8")
    weights = vt.read("dialog-transformer").initial_weights()
    requests = [{"module": str(file), "inputs": {"t": [1, 2]}, "weights": w} for w in [
        {**weights, "W_Q": weights["W_Q"][:-1]}, {k: v for k, v in weights.items() if k != "W_Q"},
    ]]  # fmt: skip
    assert [x["error"] for x in outcomes(requests)] == [
        "W_Q has the shape (63,64), and the card says (64,64)", "the weight W_Q is missing",
    ]  # fmt: skip


def test_numbers_of_the_card_can_be_given(tmp_path: Path) -> None:
    """A larger ε, as of a card that says so."""
    model = bound("gpt2")
    weights, inputs = made_weights(model), made_inputs(model)
    file = tmp_path / "m.mjs"
    file.write_text(model.export("js"), "utf-8")
    name = next(d.name for d in model.dims if d.value is not None and d.name in ("ε", "epsilon"))
    request = {"module": str(file), "weights": weights, "inputs": inputs}
    plain, changed = outcomes([request, {**request, "given": {name: 0.5}}])
    wanted = model.bind(**{name: 0.5}).run(None, weights, **inputs)["logits"]
    close(changed["output"], wanted, size(wanted), "logits")
    assert np.abs(plain["output"] - wanted).max() > 1e-3


def test_steps_of_adam_are_numpy_s(tmp_path: Path) -> None:
    """Blocks, heads and a text learned twice: parameters as the NumPy script's."""
    model = bound("attention-only-2")
    weights, tokens = made_weights(model), [1, 2, 3, 1, 2, 3]
    file = tmp_path / "m.mjs"
    file.write_text(model.export("js"), "utf-8")
    request = {"module": str(file), "weights": weights, "inputs": {"t": tokens}, "train": [tokens]}
    (found,) = outcomes([request])
    names = exports.loaded(model.export("numpy"))
    params, state = names["renamed"]({k: v.copy() for k, v in weights.items()}), {}
    x, y, losses = np.array(tokens[:-1]), np.array(tokens[1:]), []
    for _ in range(3):
        _, loss, kept = names["forward"](x, y, **params)
        names["adam"](params, names["backward"](kept, x, y, **params), state, 0.01)
        losses.append(loss)
    np.testing.assert_allclose(found["losses"], losses, rtol=1e-12)
    for i in (1, 2):
        np.testing.assert_allclose(found["learned"][f"W_Q^{{{i},h}}"], params["W_Q"][i], rtol=1e-9)


def test_initial_parameters_are_drawn(tmp_path: Path) -> None:
    """Of the shapes and about the spread of the card's, and the same for one seed."""
    for card in ("gpt2", "dialog-transformer", "exact-lesson"):
        model = bound(card)
        file = tmp_path / f"{card}.mjs"
        file.write_text(model.export("js"), "utf-8")
        weights = model.initial_weights()
        request = {"module": str(file), "weights": weights, "inputs": made_inputs(model)}
        one, two, other = outcomes([{**request, "seed": s} for s in (0, 0, 1)])
        for name, value in weights.items():
            drawn = one["initial"][name]
            assert drawn.shape == value.shape
            assert np.array_equal(drawn, two["initial"][name])
            assert abs(drawn.std() - value.std()) <= 0.5 * value.std()
            if value.std() > 0 and card != "exact-lesson":
                assert not np.array_equal(drawn, other["initial"][name])
