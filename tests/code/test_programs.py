"""Exported programs of odd cards give the loss and gradients of the derived equations."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from viete import read
from viete.errors import VieteError

CARD = r"""# Odd
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 7 |
| $d$ | 3 |
| $N$ | 2 |
| $n$ | $≤ 6$ |
| $h$ | $1, …, 2$ |
## Inputs
- $t ∈ \{0, …, V - 1\}^n$: tokens
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $P$ | $6 × d$ |
| $W^h$ | $d × d$ |
| $B$ | $d$ |
MORE
FUNCTIONS## Forward pass
1. $x = E[t]$
EQUATIONS
"""
RNG = np.random.default_rng(0)
WEIGHTS = {"E": RNG.normal(size=(7, 3)), "P": RNG.normal(size=(6, 3)),
           "W^h": RNG.normal(size=(2, 3, 3)), "B": RNG.normal(size=3),
           "C^1": RNG.normal(size=(3, 3)), "C^2": RNG.normal(size=(3, 3))}  # fmt: skip
TOKENS = np.array([1, 3, 2])
TERMS = "sum(E_0 ⊙ P_0) + sum(W^1_0 ⊙ W^2_1)"


def numbered(*formulas: str) -> str:
    return "\n".join(f"{k}. ${f}$" for k, f in enumerate(formulas, 2))


def norm(name: str) -> str:
    return rf"\sum_{{j=0}}^{{n - 1}}(sum({name}_j ⊙ {name}_j)) + {TERMS}"


# A number that has a name is not an array of itself, wherever it is then used.
NUMBERS = {"real": "X = V / 3", "whole": "X = V + 3", "truth": "X = V > 3",
           "sum": r"X = \sum_{j=0}^{d - 1}(j / 2)"}  # fmt: skip
USES = ("tanh(X) * x", "GELU(X) * x", "f(X + X) * x", "where(X > 0, x, 2 * x)", "max(X, 2) * x",
        "((X > 1) + 1) * x", "sigmoid(X) * x", "max(log(X + 1), -9) * x", "floor(X / 2) * x",
        "concat(table_{j<n, k<1}(X), x[:, 1:])")  # fmt: skip
OF_NUMBERS = "ReLU(1/2) + tanh(ReLU(4)) + sigmoid(2 + where(2 > 0, 2, 0)) + clip(SiLU(3/4); 1)"
LOOP = "\nFor $i = 1, …, N$:\n\n3. $u^i = max(u^{i-1}, B) ⊙ B$\n\n"
CASES = {
    name: numbered(said, f"y = {' + '.join(USES)}", f"L = {norm('y')}")
    for name, said in NUMBERS.items()
} | {
    "beside a table": numbered("y = concat(P[:n], x)", f"L = {norm('y')}"),
    "beside a family": numbered("y^h = concat(x W^h, P[:n])", rf"L = \sum_h {norm('(y^h)')}"),
    "rows beside": numbered("y = concat(P_1, x_0)", f"L = sum(y ⊙ y) + {TERMS}"),
    "a number above": numbered(
        f"L = max(sum(x_0), 2) + min(1/4, sum(x_1)) + ({OF_NUMBERS}) * sum(x_2) + {TERMS}"),
    "a loop that nothing reads": f"2. $u^0 = x$\n{LOOP}4. $r = u^N + x$\n5. $L = {norm('x')}$",
    "a weight of what nothing reads": (
        f"2. $u^0 = x$\n\nFor $i = 1, …, N$:\n\n3. $v^i = x C^i$\n4. $u^i = u^{{i-1}} C^i$\n\n"
        f"5. $L = {norm('u^N')}$").replace("u^N_j", "(u^N)_j"),
    "what a block cannot compute": (  # and so must not: log(0), of a side with fewer axes
        f"2. $u^0 = x W^1$\n\nFor $i = 1, …, N$:\n\n3. $u^i = where(i > 1, log(i - 1) * u^{{i-1}}, "
        f"P_1)$\n\n4. $L = {norm('(u^N + x)')} + {TERMS}$"),
    "a name of the library's": numbered(
        "z = x W^1 W^2", f"L = cross_entropy(z; where(t > 2, 2, t)) + sum(softmax(z_0)) + {TERMS}"),
}  # fmt: skip
FUNCTIONS = {case: r"- $f(z) = z ⊙ exp(-z^2)$" for case in NUMBERS}
FUNCTIONS["a name of the library's"] = r"- $softmax(p) = p / (1 + p^2)$"


@pytest.mark.parametrize("to", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("case", CASES)
def test_a_program_is_the_card(case: str, to: str) -> None:
    library = pytest.importorskip(to)
    functions = f"## Functions\n{FUNCTIONS[case]}\n" if case in FUNCTIONS else ""
    text = CARD.replace("FUNCTIONS", functions).replace("EQUATIONS", CASES[case])
    model = read(text.replace("MORE", "| $C^i$ | $d × d$ |\n" if "C^i" in CASES[case] else ""))
    weights = {k: WEIGHTS[k] for k in model.parameter_shapes}
    wanted = model.grad("L").run(TOKENS, weights)
    there = {k: wanted["∂" + k] for k in ("E", "P", "W^h")}
    if to == "torch":
        tensors = {k: library.from_numpy(v) for k, v in weights.items()}
        np.testing.assert_allclose(model.run(TOKENS, tensors)["L"], wanted["L"], rtol=1e-12)
        module = model.to_torch(weights, "L")
        loss = module(library.from_numpy(np.stack([TOKENS, TOKENS])))[-1]
        loss.backward()
        found = module.gradients()
    elif to == "numpy":
        names = program(model, to)
        given = names["renamed"](weights)
        _, loss, kept = names["forward"](TOKENS, **given)
        gradients = names["backward"](kept, TOKENS, **given)
        found = {"E": gradients["E"], "P": gradients["P"], "W^h": gradients["W"]}
    else:
        with library.enable_x64(True):
            names = program(model, to)
            given = names["renamed"]({k: library.numpy.asarray(v) for k, v in weights.items()})
            taken = inspect.signature(names["forward"]).parameters
            given = {k: v for k, v in given.items() if k in taken}
            tokens = library.numpy.asarray(TOKENS)
            loss, gradients = library.jit(library.value_and_grad(
                lambda w: names["forward"](tokens, **w)[1]))(given)  # fmt: skip
        found = {"E": gradients["E"], "P": gradients["P"], "W^h": gradients["W"]}
    np.testing.assert_allclose(loss.detach() if to == "torch" else loss, wanted["L"], rtol=1e-12)
    for name, true in there.items():
        np.testing.assert_allclose(np.asarray(found[name]), true, rtol=1e-9, err_msg=name)


def program(model: Any, to: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(model.export(to, "L"), f"exported_{to}.py", "exec"), names)
    return names


def test_a_number_has_the_kind_of_the_run() -> None:
    """A sum of index letters is computed in the run's precision."""
    model = read(
        CARD.replace("FUNCTIONS", "")
        .replace("MORE", "")
        .replace("EQUATIONS", CASES["sum"].split("\n")[0])
    )
    single = {k: WEIGHTS[k].astype("float32") for k in model.parameter_shapes}
    assert np.asarray(model.run(TOKENS, single)["X"]).dtype == np.float32


@pytest.mark.parametrize(
    "formula",
    [
        "where(1 > 1, 1/2, x + x)",  # a condition of numbers alone
        "x * sum(sum(B) + B[:1])",  # a vector of one entry in a number's memory
    ],
)
def test_a_plan_on_pytorch_is_the_card(formula: str) -> None:
    torch = pytest.importorskip("torch")
    formulas = numbered(f"y = {formula}", f"L = {norm('y')}")
    model = read(CARD.replace("FUNCTIONS", "").replace("MORE", "").replace("EQUATIONS", formulas))
    weights = {k: WEIGHTS[k] for k in model.parameter_shapes}
    step = model.planned({k: torch.from_numpy(v) for k, v in weights.items()}, "L")
    with torch.no_grad():
        loss = step(TOKENS[None])
    wanted = model.grad("L").run(TOKENS, weights)
    np.testing.assert_allclose(loss, wanted["L"], rtol=1e-12)
    np.testing.assert_allclose(step.gradients["E"], wanted["∂E"], rtol=1e-12)


def test_a_module_learns_beside_a_length_of_nothing() -> None:
    """|x| has the slope 0 at 0, as the derived equations and PyTorch's norm have it."""
    pytest.importorskip("torch")
    formulas = numbered("y = x + |x - x_0|", f"L = {norm('y')}")
    model = read(CARD.replace("FUNCTIONS", "").replace("MORE", "").replace("EQUATIONS", formulas))
    weights = {k: WEIGHTS[k] for k in model.parameter_shapes}
    module = model.to_torch(weights, "L")
    module(TOKENS)[-1].backward()
    wanted = model.grad("L").run(TOKENS, weights)["∂E"]
    np.testing.assert_allclose(module.weights()["E"].grad, wanted, rtol=1e-9)


def test_a_module_of_a_card_without_parameters_is_refused() -> None:
    pytest.importorskip("torch")
    bare = "# Bare\n## Inputs\n- $x ∈ ℝ^3$\n## Forward pass\n1. $y = 2 x$\n"
    with pytest.raises(VieteError, match="no parameter"):
        read(bare).to_torch({})
