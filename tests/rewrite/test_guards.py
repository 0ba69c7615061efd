"""The gradient below a side of `where` that is not chosen is 0, and not 0 times infinity.

Autograd gives NaN there, so that the truth is the analytic derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.evaluate.evaluated import EvaluatedGradients
from viete import read
from viete.errors import Text
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.rewrite.adjoint.double_where import double_where
from viete.rewrite.adjoint.single_where import Side, Single
from viete.rewrite.simplify import simplified

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


def card(*formulas: str) -> vt.Card:
    return read(CARD + "\n".join(f"{k}. ${f}$" for k, f in enumerate(formulas, 1)) + "\n")


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


def smooth_maximum(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    z = weights["z"]
    top = z.max()
    total = np.exp(z - top).sum()
    chosen = weights["x"] > 0
    return {"x": chosen * (top + np.log(total)),
            "z": weights["x"][chosen].sum() * np.exp(z - top) / total}  # fmt: skip


def rows(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """∂ of a softmax of rows over their squared lengths, of which the first is 0."""
    u, x = weights["E"] - weights["E"][0], weights["x"]
    s = (u**2).sum(-1, keepdims=True) + np.eye(5, 1)
    a = np.exp(u / s)
    a /= a.sum(-1, keepdims=True)
    slopes = a * (x - (a * x).sum(-1, keepdims=True))
    e = slopes / s - 2 * u * (slopes * u).sum(-1, keepdims=True) / s**2
    e[0] = x
    e[0] -= e.sum(0)
    return {"E": e}


def gathered(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    e = weights["E"]
    slopes = np.zeros_like(e)
    slopes[TOKENS] = (1 / np.where(e > 0, e, np.inf))[TOKENS]
    return {"E": slopes}


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
    "below a function": (("L = sum(where(x > 0, SiLU(log(x)), 0))",),
                         each("x", lambda v: (1 + np.log(v) / (1 + v)) / (1 + v) if v > 0 else 0)),
    "two equations": (("y = log(x)", "L = sum(where(x > 0, x ⊙ y, 0))"),
                      each("x", lambda v: np.log(v) + 1 if v > 0 else 0)),
    "three equations": (("y = log(x)", "u = 2 * y", "L = sum(where(x > 0, u, x))"),
                        each("x", lambda v: 2 / v if v > 0 else 1)),
    "length": (("w = x - x", "r = sqrt(sum(w^2))",
                "L = sum(where(r > 0, w / r, x)) + 0 * sum(z)"), share),
    "sum": (("r = log(x - x)", "L = where(sum((x - x)^2) > 0, sum(r), sum(x)) + 0 * sum(z)"),
            share),
    "entry of a name": (("y = log(x)",
                         r"L = \sum_{k=0}^{m - 1}(where(x_k > 0, x_k * y_k, 0))"),
                        each("x", lambda v: np.log(v) + 1 if v > 0 else 0)),
    "entry of a gather": (
        ("X = E[t] + E[t]", r"Y = table_{j<n,k<m}(where(X_{j,k} > 0, log(X_{j,k}), 0))",
         r"L = \sum_{j=0}^{n - 1}(sum(Y_j))"), gathered),
    "table": (("y = table_{k<m}(log(x_k))", "L = sum(where(x > 0, x ⊙ y, 0))"),
              each("x", lambda v: np.log(v) + 1 if v > 0 else 0)),
    "softplus": (("p = exp(z)", "q = 1 + p", "L = sum(where(z > 20, z, log(q)))"),
                 each("z", lambda v: 1 if v > 20 else np.exp(v) / (1 + np.exp(v)))),
    "logsumexp": (("L = sum(where(x > 0, x * log(sum(exp(z))), 0))",), smooth_maximum),
    "own condition": (("L = sum(where(x > 0, log(where(x > 0, x, 0)), 0))"
                       " + sum(where(x > 0, x, 1 / where(x > 0, x - x, 4)))",),
                      each("x", lambda v: 1 / v + 1 if v > 0 else 0)),
    "one condition for each row": (
        ("u = E - E_0", "R = where(sum(u ⊙ u) > 0, softmax(u / sum(u ⊙ u)), u)",
         r"L = \sum_{j=0}^{V - 1}(sum(R_j ⊙ x))"), rows),
    "no derivative": ((r"L = \sum_{k=0}^{m - 1}(where(k > 0, x_k * log(k), 0))",),
                      lambda w: {"x": np.log([1, 1, 2, 3])}),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES)
def test_what_is_not_chosen_has_no_derivative(case: str) -> None:
    formulas, truth = CASES[case]
    model = card(*formulas)
    found = model.grad("L").run(TOKENS, WEIGHTS)
    gradients = EvaluatedGradients(model)(TOKENS, WEIGHTS)[1]
    for name, true in truth(WEIGHTS).items():
        np.testing.assert_allclose(found["∂" + name], true, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(gradients[name], true, rtol=1e-12, atol=1e-14)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", ["entropy", "sinc", "root", "two equations", "table"])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_the_same_in_a_plan(kind: str, case: str) -> None:
    torch = pytest.importorskip("torch")
    from viete.evaluate.plan.engine import Engine

    formulas, truth = CASES[case]
    made = {k: torch.from_numpy(v) if kind == "torch" else v for k, v in WEIGHTS.items()}
    engine = Engine(card(*formulas), made, None)
    with torch.no_grad():
        engine(TOKENS[None])
    for name, true in truth(WEIGHTS).items():
        found = np.asarray(engine.gradients[name])
        np.testing.assert_allclose(found, true, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", ["entropy", "sinc", "root", "softplus"])
def test_the_same_in_an_exported_program(case: str) -> None:
    formulas, truth = CASES[case]
    program: dict[str, Any] = {"__name__": "exported"}
    text = card(*formulas).export("numpy", "L")
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
        derived[formula] = [show(e.right) for e in model.grad("L", ["x"]).equations][-1]
    assert list(derived.values()) == [
        "where(x > 0, ∂y ⊙ log(x), 0) + where(x > 0, ∂y ⊙ x / x, 0)",
        "where(x > 0, ∂y, 0) ⊙ z",
    ]


def test_names_stay_in_the_equations() -> None:
    """A definition that was put in is called by its name again, and keeps its value."""
    model = card("y = log(x)", "p = exp(z)", "a = where(x > 0, x ⊙ y, 0)",
                 "b = where(z > 20, z, log(1 + p))", "L = sum(a ⊙ b)")  # fmt: skip
    derived = model.grad("L")
    assert derived.equations[: len(model.equations)] == model.equations
    assert {e.left.key: show(e.right) for e in derived.equations[len(model.equations) :]} == {
        "G_1": "spread(1; a ⊙ b)",
        "partial{a}": "G_1 ⊙ b",
        "partial{b}": "G_1 ⊙ a",
        "G_2": "∂b / (1 + p)",
        "G_3": "∂a ⊙ x",
        "partial{p}": "where(z > 20, 0, G_2)",
        "partial{y}": "where(x > 0, G_3, 0)",
        "partial{x}": "where(x > 0, ∂a ⊙ y, 0) + where(x > 0, G_3 / x, 0)",
        "partial{z}": "where(z > 20, ∂b, 0) + where(z > 20, 0, G_2 ⊙ p)",
    }
    run = derived.run(TOKENS, WEIGHTS)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(run["y"], np.log(WEIGHTS["x"]))


def test_a_value_that_others_read_too() -> None:
    """Its derivative is of all its readers, also of those below a condition."""
    run = card("c = x - 1", "q = log(c)", "L = sum(where(c > 0, 3 * q, 0)) + q_2").grad("L").run(
        TOKENS, WEIGHTS | {"x": np.array([0.0, 3.0, 2.0, 1.0])})  # fmt: skip
    np.testing.assert_array_equal(run["∂q"], [0, 3, 4, 0])
    np.testing.assert_array_equal(run["∂x"][1:3], [1.5, 4])


LOOP = r"""# A logarithm in a block
## Dimensions
| symbol | value |
| --- | --- |
| $m$ | 4 |
| $N$ | 2 |
## Parameters
| symbol | shape |
| --- | --- |
| $x, C^i$ | $m$ |
## Forward pass
1. $y^0 = x$

For $i = 1, …, N$:

2. $u^i = log(C^i)$
3. $y^i = y^{i-1} + where(C^i > 0, C^i ⊙ u^i, 0)$

### After

4. $L = sum(y^N) + sum(where(C^N > 0, u^N, 0))$
"""


def test_an_inner_condition_that_is_the_outer_one_goes() -> None:
    scope = card("L = sum(x)").scope
    for before, after in (("where(x > 0, where(x > 0, x, z), 0)", "where(x > 0, x, 0)"),
                          ("where(x > 0, z, where(x > 0, x, 2 * z))", "where(x > 0, z, 2 * z)"),
                          ("where(x > 0, where(x > 1, x, z), 0)", None)):  # fmt: skip
        assert show(simplified(parse(Text(before), scope))) == (after or before)


def test_a_loss_of_no_target() -> None:
    """Targets that are read elsewhere too; where none is left, the other side is chosen."""
    torch = pytest.importorskip("torch")
    model = read(CARD.replace("{0, …", "{-100, …") + (
        "1. $logits = E[where(t < 0, 0, t)] E^⊤$\n"
        "2. $c = cross_entropy(logits; t)$\n"
        "3. $L = where(sum(has_target(t)) > 0, c, 0)$\n"))  # fmt: skip
    module = model.to_torch(WEIGHTS, "L")
    for targets in ([0, -100, 3], [-100, -100, -100]):
        found = EvaluatedGradients(model)(np.array(targets), WEIGHTS)[1]["E"]
        module.zero_grad()
        module(torch.tensor(targets))[1].backward()
        assert np.isfinite(found).all() and found.any() == (max(targets) >= 0)
        np.testing.assert_allclose(module.weights()["E"].grad, found, rtol=1e-9, atol=1e-14)


def test_an_entry_of_what_depends_on_its_own_place() -> None:
    model = card(r"L = \sum_{k=0}^{m - 1}((x_k * z)_k)")
    found = EvaluatedGradients(model)(None, WEIGHTS)[1]
    np.testing.assert_allclose(found["x"], WEIGHTS["z"])
    np.testing.assert_allclose(found["z"], WEIGHTS["x"])


def test_a_name_of_a_block() -> None:
    """Read in its own block, and after the loop that of the last one."""
    torch = pytest.importorskip("torch")
    model = read(LOOP)
    weights = {"x": np.ones(4), "C^1": np.array([0.0, 1, 2, -1]), "C^2": np.array([1.0, 0, 4, -1])}
    c1, c2 = (np.where(weights[k] > 0, weights[k], 1) for k in ("C^1", "C^2"))
    true = {"x": np.ones(4), "C^1": np.where(weights["C^1"] > 0, np.log(c1) + 1, 0),
            "C^2": np.where(weights["C^2"] > 0, np.log(c2) + 1 + 1 / c2, 0)}  # fmt: skip
    module = model.to_torch(weights, "L")
    module()[1].backward()
    gradients = EvaluatedGradients(model)(None, weights)[1]
    for name, slope in true.items():
        np.testing.assert_allclose(gradients[name], slope, rtol=1e-12)
        np.testing.assert_allclose(module.weights()[name].grad, slope, rtol=1e-12)
    assert torch is not None


def test_zeros_for_a_matrix_keep_its_shape() -> None:
    """Where one number chooses a matrix or 0, an entry is taken of a matrix on either side."""
    scope = card("y = E^⊤ E", "L = sum(y_0)")
    e, test = (
        parse(Text(x), scope.scope) for x in ("where(sum(x) > 0, E, 0)_{1, 2}", "sum(x) > 0")
    )
    single = Single(scope, {test: Side(test, True, number=True)})
    assert show(single.chosen(e, test, True)) == "E_{1,2}"
    assert show(single.chosen(e, test, False)) == "spread(0; E)_{1,2}"


def test_cards_without_a_risk_are_not_rewritten() -> None:
    """Nor a norm with an ε, a hidden score, or a function that nothing learned goes into."""
    for formulas in (("L = sum(where(x > 0, x ⊙ z, 0))",),
                     ("L = sum(where(sum(x) > 0, LN(x; 1, 0, 1e-5), x))",),
                     ("A = softmax(causal(E[t] E[t]^⊤))", "L = sum(A_0)"),
                     ("L = sum(where(x > 0, log(sum(exp(z))), 0))",),
                     (r"L = sum(x ⊙ table_{k<m}(where(k > 0, log(k), 0)))",)):  # fmt: skip
        model = card(*formulas)
        assert double_where(model) is model


@pytest.mark.parametrize("case", CASES)
def test_the_same_by_autograd(case: str) -> None:
    """Of a module, where autograd differentiates the equations as they are written out."""
    torch = pytest.importorskip("torch")
    formulas, truth = CASES[case]
    module = card("o = x", *formulas).to_torch(WEIGHTS, "L")
    module(*[torch.tensor(TOKENS)] * (case in ("entropy", "entry of a gather")))[1].backward()
    for name, true in truth(WEIGHTS).items():
        found = module.weights()[name].grad
        found = 0 * true if found is None else found
        np.testing.assert_allclose(found, true, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", ["entropy", "two guards", "overflow", "length"])
def test_the_same_by_jax(case: str) -> None:
    jax = pytest.importorskip("jax")
    formulas, truth = CASES[case]
    program: dict[str, Any] = {"__name__": "exported"}
    exec(card("o = x", *formulas).export("jax", "L"), program)
    with jax.enable_x64(True):
        given = {k: jax.numpy.asarray(v) for k, v in WEIGHTS.items()}
        tokens = [jax.numpy.asarray(TOKENS)] * (case == "entropy")
        found = program["gradients"](given, *tokens)[1]
    for name, true in truth(WEIGHTS).items():
        np.testing.assert_allclose(found[name], true, rtol=1e-12, atol=1e-14)
