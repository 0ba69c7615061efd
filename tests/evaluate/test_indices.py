"""An index is a whole number, and one outside of its axis is an error, or under jax.jit NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.evaluate.evaluated import EvaluatedGradients
from viete import read
from viete.errors import VieteError
from viete.evaluate.plan.engine import Engine
from viete.meanings.run import run

torch = pytest.importorskip("torch")

CARD = r"""# Places
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $d$ | 2 |
| $n_{max}$ | 4 |
| $n$ | $≤ n_{max}$ |
## Inputs
- $t ∈ \{0, …, V - 1\}^n$: tokens
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $b$ | $V$ |
## Forward pass
"""
WEIGHTS = {"E": np.arange(10.0).reshape(5, 2), "b": np.array([0.0, 3.0, 1.0, 3.0, 2.0])}
MADE = {"numpy": np.asarray, "torch": torch.from_numpy}


def card(*formulas: str) -> vt.Card:
    return read(CARD + "\n".join(f"{k}. ${f}$" for k, f in enumerate(formulas, 1)) + "\n")


def made(kind: str) -> dict[str, Any]:
    if kind == "jax":
        jax = pytest.importorskip("jax")
        return {k: jax.numpy.asarray(v) for k, v in WEIGHTS.items()}
    return {k: MADE[kind](v) for k, v in WEIGHTS.items()}


@pytest.mark.parametrize("formula", ["x = E[t - 1]", "x = table_{j<n}(E_{t_j + 1, 0})"])
@pytest.mark.parametrize("kind", ["numpy", "torch", "jax", "exact"])
def test_an_index_outside_its_axis_is_an_error(kind: str, formula: str) -> None:
    weights = WEIGHTS if kind == "exact" else made(kind)
    with pytest.raises(VieteError, match=r"index (-1|5) is outside 0 to 4"):
        run(card(formula), [0, 4], weights, meaning="exact" if kind == "exact" else "float")


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_plan_refuses_it_too(kind: str) -> None:
    model = card("x = E[t - 1]", "L = sum(x_0) + sum(x_1)")
    with pytest.raises(VieteError, match="index -1 is outside 0 to 4"):
        Engine(model, made(kind), None)(None, t=np.array([[0, 4]]))


def test_under_jit_it_is_nan() -> None:
    jax = pytest.importorskip("jax")
    weights = made("jax")
    for formula, wanted in [("x = E[t - 1]", [[np.nan, np.nan], [6, 7]]),
                            ("x = table_{j<n}(E_{t_j + 1, 0})", [2, np.nan])]:  # fmt: skip
        forward = jax.jit(program(card(formula), "jax")["forward"])
        found = forward(jax.numpy.array([0, 4]), **weights)[0]
        np.testing.assert_array_equal(found, wanted)


def program(model: vt.Card, to: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(model.export(to, "sum(E_0)"), f"{to}.py", "exec"), names)
    return names


def test_exports_refuse_it() -> None:
    model = card("x = E[t - 1]")
    names = program(model, "numpy")
    with pytest.raises(ValueError, match="outside 0 to 4"):
        names["forward"](np.array([0, 4]), **WEIGHTS)
    np.testing.assert_array_equal(
        names["forward"](np.array([1, 4]), **WEIGHTS)[0], [[0, 1], [6, 7]]
    )
    kind = next(v for v in program(model, "torch").values() if isinstance(v, type)
                and issubclass(v, torch.nn.Module))  # fmt: skip
    with pytest.raises(ValueError, match="outside 0 to 4"):
        kind()(torch.tensor([0, 4]))


@pytest.mark.parametrize("to", ["numpy", "torch", "jax"])
def test_what_cannot_be_outside_is_not_looked_at(to: str) -> None:
    model = card("x = E[t]", "y = E[floor(t / 2)]", "z = x + y")
    assert "inside" not in model.export(to, "sum(E_0)")


@pytest.mark.parametrize(
    ("formula", "what"),
    [("x = E[t / 2]", r"t / 2 need not be one; floor\(t / 2\) is"),
     ("x = E_{mean(t)}", "an index is a whole number"),
     ("x = E[E[t]_0]", "an index is a whole number"),
     ("x = E[t > 1]", "a condition")],
)  # fmt: skip
def test_what_need_not_be_whole_is_refused_when_the_card_is_read(formula: str, what: str) -> None:
    with pytest.raises(VieteError, match=what):
        card(formula)


def test_computed_indices_in_exact_numbers() -> None:
    model = card("x = E[floor(t / 2)]", "y = x_{t_0 - 1}", "z = E[argmax(b)]", "w = E_{t_1 - 3}")
    found = run(model, [2, 4], WEIGHTS, meaning="exact")
    assert [[int(str(k)) for k in found[name]] for name in "yzw"] == [[4, 5], [2, 3], [2, 3]]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_distance_mask_is_trained_through(kind: str) -> None:
    """Whole numbers of positions alone, in the form that a rectifier's derivative has."""
    model = card("x = E[t]", "D = table_{j<n, k<n}(where(j - k > 0, j - k, 0))",
                 "A = softmax(causal(x x^⊤ - D / 4))",
                 "L = mean(b) + mean_{j=0}^{n - 1}(sum((A x)_j))")  # fmt: skip
    batch = np.array([[0, 3, 1, 2], [4, 4, 1, 0]])
    assert run(model, batch[0], made(kind))["D"].tolist()[3] == [3, 2, 1, 0]
    loss, gradients = EvaluatedGradients(model)(batch, made(kind))
    engine = Engine(model, made(kind), None)
    with torch.no_grad():
        assert engine(batch) == pytest.approx(float(loss), rel=1e-12)
    for name, g in gradients.items():
        np.testing.assert_allclose(engine.gradients[name], g, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_the_guard_of_an_entropy(kind: str) -> None:
    model = card("A = softmax(causal(E[t] E[t]^⊤))", "H = -sum(where(A > 0, A ⊙ log(A), 0))")
    found = np.asarray(run(model, [0, 3, 1], made(kind))["H"])
    assert np.isfinite(found).all()
    assert found[0] == 0


FAMILIES = (
    CARD.replace("| $n_{max}$", "| $H$ | 2 |\n| $h$ | $1, …, H$ |\n| $n_{max}$")
    .replace("| $b$ | $V$ |", "| $b$ | $V$ |\n| $P^h$ | $4 × d$ |")
    .replace("## Forward pass", r"""## Functions
- $shifted(x: r × c) = table_{j<r, a<c}(\sum_{k=0}^{1} x_{max(j - k, 0), a})$
- $turned(x: r × c; t: r) = table_{j<r, a<c}(x_{j, (t_j + a) mod c})$
## Forward pass""")
)  # fmt: skip


@pytest.mark.parametrize("formula", [
    "table_{j<n}(x_{j, j mod d})", "table_{j<n}(P^1_{j, t_j mod d})",
    "table_{j<n}(E_{t_j, j mod d})",
    r"table_{j<n}(\sum_{k=0}^{n-1} where(k ≤ j, x_{k, (j - k + d * n) mod d}, 0))",
    r"table_{j<n}(sum(shifted(x)_j))", r"table_{j<n}(sum(turned(x; t)_j))",
    r"\sum_h (table_{j<n}(P^h_{j, (t_j + h) mod d}))",
    r"table_{j<n}(sum((\sum_h turned(P^h[:n]; t))_j))",
])  # fmt: skip
def test_a_module_picks_entries_of_one_text_and_of_many(formula: str) -> None:
    """Places that no text changes in values that it does, the other way about, and in functions."""
    model = read(FAMILIES + f"1. $x = E[t]$\n2. $q = {formula}$\n3. $L = ⟨q, q⟩$\n")
    weights = model.initial_weights(1)
    texts = np.array([[1, 2, 3], [4, 0, 2]])
    wanted = model.grad().run(texts, weights)
    module = model.to_torch(weights)
    np.testing.assert_allclose(module(torch.tensor(texts[1]))[1].item(), wanted["L"][1], rtol=1e-12)
    loss = module(torch.tensor(texts))[1]
    np.testing.assert_allclose(loss.item(), wanted["L"].mean(), rtol=1e-12)
    loss.backward()
    for name, parameter in module.weights().items():
        if parameter.grad is not None:
            np.testing.assert_allclose(parameter.grad, wanted[f"∂{name}"].mean(0), atol=1e-12)
