"""An exported program gives the values of a run, whatever a formula's parts mention."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viete import read

CARD = r"""# M
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 5 |
| $d$ | 4 |
| $H$ | 2 |
| $n$ | $≤ 7$ |
| $h$ | $1, …, H$ |
## Inputs
- $t ∈ \{0, …, V-1\}^n$: tokens
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
FUNCTIONS
## Forward pass
1. $x = E[t]$
2. $logits = (FORMULA) + 0 * E_{0,0}$
3. $L = sum(logits_0) + sum(x_0)$
"""
TABLES = (  # bodies of f(z: a × b), which mention both letters, one, or none
    "j", "l", "2", "j + l", "z_{j,0}", "z_{0,l}", "where(a > 2, j, l)", "where(b > 2, j, z_{j,l})",
    "where(b > 9, z_{j,l}, z_{j,0})",
)  # fmt: skip
FORMULAS = (
    "placed(x; 2, n)", "placed(x; -1, n)", "placed(x; 9, n)", "placed(x; -9, n)",
    "placed(x; 0, 2)", r"\sum_h(h * placed(x W; h, n))".replace(" W", ""),
    r"\sum_h(h * RoPE(x; 1, 100 h))", r"\sum_h(LN(x; E_0, E_1, h) * h)",
    r"\sum_h(h * top(x; h))", r"\sum_h(clip(x; h / 10) * h)", "x^0", "(1/2) onehot(t, V)",
    "sigmoid(n - 1) * E", "table_{j<n, l<2}(j * E_{0,0})", "tr(x x^⊤) * x",
    "where(d > 3 and E_{0,0} < 100, 10 * x, x)", "where(d > 9 or E_{0,0} > 100, 10 * x, x)",
    "where(not (d > 3), x, 2 * x)", "where(d > 3, E_0, x)", "where(d > 9, x, E_0)",
)  # fmt: skip
CASES = [("f(x)", rf"- $f(z: a × b) = table_{{j<a, l<b}}({body})$") for body in TABLES]
CASES += [(formula, "") for formula in FORMULAS]
TOKENS = np.array([0, 1, 2])


def card(formula: str, functions: str) -> Any:
    head = f"## Functions\n{functions}" if functions else ""
    return read(CARD.replace("FUNCTIONS", head).replace("FORMULA", formula))


@pytest.mark.parametrize("to", ["numpy", "torch"])
@pytest.mark.parametrize(("formula", "functions"), CASES)
def test_the_values_of_a_run(formula: str, functions: str, to: str) -> None:
    library = pytest.importorskip(to)
    model = card(formula, functions)
    weights = model.initial_weights(seed=0)
    wanted = model.run(TOKENS, weights)["logits"]
    if to == "torch":
        module = model.to_torch({k: library.from_numpy(v) for k, v in weights.items()}, "L")
        found = module(library.from_numpy(TOKENS))[0].detach()
    else:
        names: dict[str, Any] = {"__name__": "exported"}
        exec(compile(model.export(to, "L"), "exported.py", "exec"), names)
        found = names["forward"](TOKENS, **weights)[0]
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("change", ["A^{2,h} = 0", "V^{2,h} = 0", "Q^{2,h} = 0", "A^{2,h} = 1/4"])
def test_all_heads_of_a_block_changed(change: str) -> None:
    """What a change makes of a family is a matrix for each head in the program too."""
    model = read("gpt2").bind(d=8, N=2, H=2, V=11, n_max=8).put(change)
    weights = model.initial_weights(seed=0)
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(model.export("numpy"), "exported.py", "exec"), names)
    found = names["forward"](TOKENS, **names["renamed"](weights))[0]
    np.testing.assert_allclose(found, model.run(TOKENS, weights)["logits"], rtol=1e-10, atol=1e-12)
