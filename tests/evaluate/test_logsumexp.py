"""log Σ exp z is finite wherever z is: in every meaning, export and gradient, however written."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import viete as vt
from viete.evaluate.plan.engine import Engine

CARD = """# A loss that keeps the scores small

## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $n$ | 3 |

## Parameters
| symbol | shape |
| --- | --- |
| $z$ | $n × V$ |

## Functions
- $own(s: r × c) = table_{{j<r}}(log(sum(exp(s_j))))$: a function of the card

## Forward pass
1. $s = 2 z$
2. $logits = s$
3. $L = {loss}$
"""
ROWS = {
    "named": "logsumexp(s_j)",
    "written out": "log(sum(exp(s_j)))",
    "over an index": r"log(\sum_{k=0}^{V - 1} exp(s_{j,k}))",
    "over an index from 1": r"log(\sum_{k=1}^{V} exp(s_{j,k - 1}))",
    "own": "own(s)_j",
}
LOSSES = {k: f"mean_{{j=0}}^{{n - 1}}({row}^2)" for k, row in ROWS.items()}
LOSSES["column"] = "sum(table_{j<n}(logsumexp(s)_{j,0}^2)) / n"
LOSSES["written column"] = "sum(table_{j<n}(log(sum(exp(s)))_{j,0}^2)) / n"
EXPECTED = {"float64": 400.0, "float32": 45.0, "float16": 5.5}  # exp of twice that overflows


@cache
def card(form: str) -> vt.Card:
    return vt.read(CARD.replace("{{", "{").replace("}}", "}").replace("{loss}", LOSSES[form]))


def scores(dtype: str) -> np.ndarray:
    """Rows whose greatest entry lies beyond what exp can take, doubled."""
    rng = np.random.default_rng(0)
    return (EXPECTED[dtype] + rng.standard_normal((3, 5))).astype(dtype)


def wanted(z: np.ndarray) -> tuple[float, np.ndarray]:
    """The loss and its gradient, by the definition with the greatest score taken out."""
    s = 2 * z.astype(np.float64)
    top = s.max(1, keepdims=True)
    each = top + np.log(np.exp(s - top).sum(1, keepdims=True))
    return float((each**2).mean()), 2 * 2 * each / 3 * np.exp(s - each)


def close(a: Any, b: Any, dtype: str) -> None:
    bound = {"float64": 1e-10, "float32": 1e-4, "float16": 2e-2}[dtype]
    np.testing.assert_allclose(np.asarray(a, np.float64), b, rtol=bound, atol=bound)


def array(z: np.ndarray, kind: str) -> Any:
    if kind == "torch":
        return pytest.importorskip("torch").from_numpy(z)
    return pytest.importorskip("jax").numpy.asarray(z) if kind == "jax" else z


@pytest.mark.parametrize("form", LOSSES)
@pytest.mark.parametrize(
    "kind, dtype", [("jax", "float32"), *((k, d) for k in ("numpy", "torch") for d in EXPECTED)]
)
def test_a_run_and_its_gradient(form: str, dtype: str, kind: str) -> None:
    z = scores(dtype)
    loss, gradient = wanted(z)
    run = card(form).grad("L").run(None, {"z": array(z, kind)})
    close(run["L"], loss, dtype)
    close(run["∂z"], gradient, dtype)


@pytest.mark.parametrize("form", LOSSES)
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_plan(form: str, kind: str) -> None:
    z = scores("float32")
    loss, gradient = wanted(z)
    engine = Engine(card(form), {"z": array(z, kind)}, of="L")
    close(engine(None), loss, "float32")
    close(engine.gradients["z"], gradient, "float32")


@pytest.mark.parametrize("form", LOSSES)
@pytest.mark.parametrize("to", ["numpy", "torch", "jax"])
def test_an_export(form: str, to: str) -> None:
    z = scores("float32")
    loss, gradient = wanted(z)
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(card(form).export(to, "L"), "exported.py", "exec"), names)
    if to == "numpy":
        _, found, kept = names["forward"](z=z)
        close(found, loss, "float32")
        close(names["backward"](kept, z=z)["z"], gradient, "float32")
    elif to == "jax":
        jax = pytest.importorskip("jax")
        params = {"z": jax.numpy.asarray(z)}
        found, derivatives = jax.value_and_grad(names["loss"])(params)
        close(found, loss, "float32")
        close(derivatives["z"], gradient, "float32")
    else:
        torch = pytest.importorskip("torch")
        module = names["ALossThatKeepsTheScoresSmall"]()
        module.load_state_dict({"z": torch.from_numpy(z)})
        _, found = module()
        found.backward()
        close(found.detach(), loss, "float32")
        close(module.z.grad, gradient, "float32")


def test_rows_without_an_end_are_what_the_definition_says() -> None:
    model = vt.read(
        "# T\n## Dimensions\n| symbol | value |\n| --- | --- |\n| $n$ | 3 |\n| $k$ | 2 |\n"
        "## Inputs\n- $z ∈ ℝ^{n × k}$\n"
        "## Forward pass\n1. $y = logsumexp(z)$\n2. $w = log(sum(exp(z)))$"
    )
    z = np.array([[-np.inf, -np.inf], [np.inf, 0], [-np.inf, 3]])
    for kind in ("numpy", "torch", "jax"):
        run = model.run(array(z, kind), {})
        for name in "yw":
            assert np.asarray(run[name]).ravel().tolist() == [-np.inf, np.inf, 3], kind
