"""A target of -100 is none: its position is left out of the loss, the same in every meaning."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.errors import VieteError
from viete.evaluate.plan.engine import Engine

CARD = """# Logits that are given

## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $n_{max}$ | 6 |
| $n$ | $≤ n_{max}$ |

## Inputs
- $x ∈ \\{0, …, V - 1\\}^n$: tokens
- $y ∈ \\{-100, …, V - 1\\}^n$: targets, -100 for none
- $w ∈ ℝ^n = 1$: what they count

## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × V$ |

## Forward pass
1. $logits = E[x]$
2. $L = @$
"""
LOSSES = {
    "plain": "cross_entropy(logits; y)",
    "with more": "2 * cross_entropy(logits; y) + 0 * logits_{0,0}",
    "elsewhere": "cross_entropy(logits; y) + 0 * sum(table_{j<n}(where(y_j = 3, 1, 0)))",
    "weighted": "weighted_loss(logits; y, w)",
}
X = np.array([[0, 3, 1, 2, 2, 4], [4, 4, 0, 1, 3, 2]])
Y = np.array([[3, -100, 2, 2, -100, 1], [-100, 0, 1, 3, 2, 2]])
W = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 1.0])
E = np.random.default_rng(0).standard_normal((5, 5))


@cache
def card(form: str) -> vt.Card:
    return vt.read(CARD.replace("@", LOSSES[form]))


def given(form: str) -> dict[str, Any]:
    return {"y": Y, "w": np.stack([W, W])} if form == "weighted" else {"y": Y}


@cache
def wanted(form: str, over: str = "texts") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """PyTorch's losses of each sequence, their mean over texts or targets, and its gradient."""
    torch = pytest.importorskip("torch")
    e = torch.from_numpy(E.copy()).requires_grad_()
    each = torch.nn.functional.cross_entropy(
        e[torch.from_numpy(X)].transpose(1, 2), torch.from_numpy(Y), reduction="none"
    )
    w = torch.from_numpy((Y != -100) * (W if form == "weighted" else 1.0))
    loss = (w * each).sum(1) / w.sum(1) * (2 if form == "with more" else 1)
    counts = (w.sum(1) if form == "weighted" else torch.from_numpy(Y != -100).sum(1)).double()
    mean = loss.mean() if over == "texts" else (loss * counts).sum() / counts.sum()
    mean.backward()
    return loss.detach().numpy(), mean.detach().numpy(), e.grad.numpy()


@pytest.mark.parametrize("form", LOSSES)
def test_runs_gradients_and_plans(form: str) -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    loss, _, gradient = wanted(form)
    model, inputs = card(form), given(form)
    for exact in (False, True):
        run = model.run(X, {"E": E}, **inputs, exact_definitions=exact)
        np.testing.assert_allclose(run["L"], loss, rtol=1e-12)
    for array, rounding in ((torch.from_numpy(E), 1e-12), (jax.numpy.asarray(E), 1e-5)):
        run = model.grad().run(X, {"E": array}, **inputs)
        np.testing.assert_allclose(np.asarray(run["L"]), loss, rtol=rounding)
        found = np.asarray(run["∂E"]).mean(0)
        np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=rounding)
    _, mean, gradient = wanted(form, "targets")
    for weights in ({"E": E}, {"E": torch.from_numpy(E)}):
        engine = Engine(model, weights)
        assert float(engine(X, **inputs)) == pytest.approx(float(mean), rel=1e-12)
        np.testing.assert_allclose(np.asarray(engine.gradients["E"]), gradient, atol=1e-14)


@pytest.mark.parametrize("form", LOSSES)
def test_exports(form: str) -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    loss, mean, gradient = wanted(form, "targets")
    module = card(form).to_torch({"E": torch.from_numpy(E)})
    inputs = {k: torch.from_numpy(v) for k, v in given(form).items()}
    _, found = module(torch.from_numpy(X), **inputs)
    assert found.item() == pytest.approx(float(mean), rel=1e-12)
    found.backward()
    np.testing.assert_allclose(module.E.grad, gradient, atol=1e-14)
    _, _, gradient = wanted(form)
    gradients = 0
    for k in range(2):
        rows = {name: v[k] for name, v in given(form).items()}
        names: dict[str, Any] = {"__name__": "exported"}
        exec(compile(card(form).export("numpy"), "numpy.py", "exec"), names)
        _, found, kept = names["forward"](X[k], **rows, E=E)
        assert found == pytest.approx(loss[k], rel=1e-12)
        gradients += names["backward"](kept, X[k], **rows, E=E)["E"] / 2
        exec(compile(card(form).export("jax"), "jax.py", "exec"), names)
        _, found = names["forward"](X[k], **rows, E=jax.numpy.asarray(E))
        assert float(found) == pytest.approx(loss[k], rel=1e-5)
    np.testing.assert_allclose(gradients, gradient, atol=1e-14)


def test_exact_numbers() -> None:
    run = card("plain").run(X[0], {"E": E}, y=Y[0], meaning="exact")
    assert float(run["L"]) == pytest.approx(wanted("plain")[0][0], rel=1e-12)


def test_other_numbers_are_no_targets() -> None:
    for wrong in (-1, -99, 5):
        with pytest.raises(VieteError, match=f"the input y holds {wrong}, which is not among"):
            card("plain").run(X[0], {"E": E}, y=np.where(Y[0] < 0, wrong, Y[0]))
    with pytest.raises(VieteError, match="the input x holds -100, which is not among"):
        card("plain").run(Y[0], {"E": E}, y=Y[0])


def test_a_card_says_whether_targets_may_be_missing() -> None:
    """Where every position has one, -100 is refused, and the derivative is the plain one."""
    full = vt.read(CARD.replace("-100", "0").replace("@", LOSSES["plain"]))
    with pytest.raises(VieteError, match=r"declared ∈ \{-100, ..., V - 1\}"):
        full.run(X[0], {"E": E}, y=Y[0])
    text = full.grad().write("text")
    assert "(softmax(logits) − onehot(y, V)) / n" in text and "has_target" not in text


def test_a_function_of_the_card_with_a_name_from_the_loss() -> None:
    own = "## Functions\n- $has_target(a, b) = a + b$\n- $share(a, b) = a - b$\n\n## Forward pass"
    text = CARD.replace("## Forward pass", own).replace("@", LOSSES["plain"] + " + 0 * share(1, 1)")
    engine = Engine(vt.read(text), {"E": E}, "L")
    _, mean, gradient = wanted("plain", "targets")
    np.testing.assert_allclose(engine(X, y=Y), mean, rtol=1e-12)
    np.testing.assert_allclose(engine.gradients["E"], gradient, rtol=1e-9, atol=1e-15)
