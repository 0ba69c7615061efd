"""The gradient below a side of `where` that is not chosen is 0, and not 0 times infinity.

Autograd gives NaN there, so that the truth is the analytic derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.algebra.model import Model
from viete.cards.reader import reads
from viete.interpret.gradient import Gradients
from viete.notation.printer import show

CARD = r"""# Guards
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $m$ | 4 |
| $n_{max}$ | 4 |
| $n$ | $≤ n_{max}$ |
## Inputs
- $t ∈ \{0, …, V - 1\}^n$: tokens
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × m$ |
| $x, z$ | $m$ |
## Functions
- $xlogx(z) = z ⊙ log(z)$
## Forward pass
"""
TOKENS = np.array([0, 3, 1])
RNG = np.random.default_rng(0)
WEIGHTS = {"E": RNG.normal(size=(5, 4)), "x": np.array([0.0, 0.25, 4.0, -1.0]),
           "z": np.array([1000.0, -2.0, 0.5, 0.0])}  # fmt: skip
ROWS = r"L = \sum_{j=0}^{n - 1}(sum(R_j))"


def card(*formulas: str) -> Model:
    return reads(CARD + "\n".join(f"{k}. ${f}$" for k, f in enumerate(formulas, 1)) + "\n")


def entropy(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """∂ of the entropies of causal attention by E: ∂S = -A ⊙ (log A + H), row by row."""
    x = weights["E"][TOKENS]
    seen = np.tri(len(x), dtype=bool)
    powers = np.where(seen, np.exp(x @ x.T), 0)
    a = powers / powers.sum(-1, keepdims=True)
    logs = np.log(np.where(seen, a, 1))
    s = -a * (logs - (a * logs).sum(-1, keepdims=True))
    e = np.zeros_like(weights["E"])
    np.add.at(e, TOKENS, s @ x + s.T @ x)
    return {"E": e}


def each(name: str, slope: Callable[[float], float]) -> Callable[[dict], dict[str, np.ndarray]]:
    return lambda weights: {name: np.array([slope(float(v)) for v in weights[name]])}


def share(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"x": np.ones(4), "z": np.zeros(4)}


CASES = {
    "entropy": (("A = softmax(causal(E[t] E[t]^⊤))", "R = -sum(where(A > 0, A ⊙ log(A), 0))", ROWS),
                entropy),
    "own function": (("L = sum(where(x > 0, xlogx(x), 0))",),
                     each("x", lambda v: np.log(v) + 1 if v > 0 else 0)),
    "sinc": (("L = sum(where(x != 0, sin(x) / x, 1))",),
             each("x", lambda v: (np.cos(v) - np.sin(v) / v) / v if v else 0)),
    "root": (("L = sum(where(x > 0, sqrt(x), 0))",),
             each("x", lambda v: 0.5 / np.sqrt(v) if v > 0 else 0)),
    "other side": (("L = sum(where(x <= 0, 0, x^{-1/2}))",),
                   each("x", lambda v: -0.5 * v**-1.5 if v > 0 else 0)),
    "below more": (("L = sum(where(x > 0, 3 * exp(2 * log(x)) - x, x))",),
                   each("x", lambda v: 6 * v - 1 if v > 0 else 1)),
    "two guards": (("L = sum(where(x < 3, where(x > 0, log(x), 2 * x), 0))",),
                   each("x", lambda v: (1 / v if v > 0 else 2) if v < 3 else 0)),
    "overflow": (("L = sum(where(z > 20, z, log(1 + exp(z))))",),
                 each("z", lambda v: 1 if v > 20 else np.exp(v) / (1 + np.exp(v)))),
    "entry by entry": ((r"L = \sum_{k=0}^{m - 1}(where(x_k > 0, x_k * log(x_k), 0))",),
                       each("x", lambda v: np.log(v) + 1 if v > 0 else 0)),
    "one condition for a row": (
        ("y = x - x", "L = sum(where(sum(y^2) > 0, y / sqrt(sum(y^2)), x)) + 0 * sum(z)",), share),
    "function": (("L = sum(where(x > 0, log(SiLU(x)), 0))",),
                 each("x", lambda v: 1 / v + 1 / (1 + np.exp(v)) if v > 0 else 0)),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES)
def test_what_is_not_chosen_has_no_derivative(case: str) -> None:
    formulas, truth = CASES[case]
    model = card(*formulas)
    found = vt.grad(model, "L").run(TOKENS, WEIGHTS)
    gradients = Gradients(model)(TOKENS, WEIGHTS)[1]
    for name, true in truth(WEIGHTS).items():
        np.testing.assert_allclose(found["∂" + name], true, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(gradients[name], true, rtol=1e-12, atol=1e-14)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", ["entropy", "sinc", "root"])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_the_same_in_a_plan(kind: str, case: str) -> None:
    torch = pytest.importorskip("torch")
    from viete.interpret.plan.engine import Engine

    formulas, truth = CASES[case]
    made = {k: torch.from_numpy(v) if kind == "torch" else v for k, v in WEIGHTS.items()}
    engine = Engine(card(*formulas), made, None)
    with torch.no_grad():
        engine(TOKENS[None])
    for name, true in truth(WEIGHTS).items():
        found = np.asarray(engine.gradients[name])
        np.testing.assert_allclose(found, true, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", ["entropy", "sinc", "root"])
def test_the_same_in_an_exported_program(case: str) -> None:
    formulas, truth = CASES[case]
    program: dict[str, Any] = {"__name__": "exported"}
    text = vt.export(card(*formulas), "numpy", "L")
    exec(compile(text, "exported.py", "exec"), program)
    given = {**WEIGHTS, "t": TOKENS} if case == "entropy" else WEIGHTS
    with np.errstate(all="ignore"):
        found = program["backward"](program["forward"](**given)[-1], **given)
    for name, true in truth(WEIGHTS).items():
        np.testing.assert_allclose(found[name], true, rtol=1e-12, atol=1e-14)


def test_the_equations_are_those_on_paper() -> None:
    """A guard is written around all local factors, and where they are finite nothing changes."""
    derived = {}
    for formula in ("where(x > 0, x ⊙ log(x), 0)", "where(x > 0, x ⊙ z, 0)"):
        model = card(f"y = {formula}", "L = sum(y ⊙ y)")
        derived[formula] = [show(e.right) for e in vt.grad(model, "L", ["x"]).equations][-1]
    assert list(derived.values()) == [
        "where(x > 0, partial{y} ⊙ log(x), 0) + where(x > 0, partial{y} ⊙ x / x, 0)",
        "where(x > 0, partial{y}, 0) ⊙ z",
    ]


@pytest.mark.parametrize("case", CASES)
def test_the_same_by_autograd(case: str) -> None:
    """Of a module, where autograd differentiates the equations as they are written out."""
    torch = pytest.importorskip("torch")
    formulas, truth = CASES[case]
    module = vt.to_torch(card("o = x", *formulas), WEIGHTS, "L")
    module(*[torch.tensor(TOKENS)] * (case == "entropy"))[1].backward()
    for name, true in truth(WEIGHTS).items():
        found = module.weights()[name].grad
        found = 0 * true if found is None else found
        np.testing.assert_allclose(found, true, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", ["entropy", "two guards", "overflow"])
def test_the_same_by_jax(case: str) -> None:
    jax = pytest.importorskip("jax")
    formulas, truth = CASES[case]
    program: dict[str, Any] = {"__name__": "exported"}
    exec(vt.export(card("o = x", *formulas), "jax", "L"), program)
    with jax.enable_x64(True):
        given = {k: jax.numpy.asarray(v) for k, v in WEIGHTS.items()}
        tokens = [jax.numpy.asarray(TOKENS)] * (case == "entropy")
        found = program["gradients"](given, *tokens)[1]
    for name, true in truth(WEIGHTS).items():
        np.testing.assert_allclose(found[name], true, rtol=1e-12, atol=1e-14)
