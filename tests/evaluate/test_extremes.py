"""Short texts, equal sizes, values without rows and of one number: what a card allows, runs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete

CARD = r"""# Extremes
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 3 |
| $d$ | 2 |
| $H$ | 2 |
| $n$ | $≤ 7$ |
| $h$ | $1, …, H$ |
## Inputs
- $t ∈ \{0, …, V-1\}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W^h$ | $d × d$ |
## Forward pass
1. $x = E[t]$
"""
OWN = {
    "a condition on positions": "y = table_{j<n,c<d}(where(j ≥ 5, 0, x_{j,c}))",
    "a condition on columns": "y = table_{j<n,c<d}(where(c = 1, 3, x_{j,c}))",
    "the power 0": "y = x^0",
    "a number of a number": "y = x + sum(|x|_0)",
    "heads": r"y = \sum_h softmax(causal(x W^h x^⊤)) x W^h",
    "no rows": "y = x[:0]",
    "a column": "y = mean(x)_0 + logsumexp(x)",
}


@pytest.mark.parametrize("equation", OWN.values(), ids=OWN.keys())
def test_a_card_runs_for_every_length_and_size_that_it_allows(equation: str) -> None:
    card = vt.read(CARD + f"2. ${equation}$\n")
    for n, (d, heads) in product((1, 6), ((1, 1), (2, 1), (3, 3))):
        bound = card.bind(d=d, H=heads, V=3)
        weights = bound.initial_weights(0)
        tokens = [k % 3 for k in range(n)]
        found = np.asarray(bound.run(tokens, weights)["y"])
        for meaning in ("interval", "exact"):
            other = bound.run(tokens, weights, meaning=meaning)["y"]
            if meaning == "interval":
                other = np.asarray(other)["lower"]
            other = np.vectorize(float, otypes=[float])(other)
            assert other.shape == found.shape
            np.testing.assert_allclose(other, found, rtol=1e-12, atol=1e-12)


def test_a_change_is_met_and_a_condition_need_not_be() -> None:
    card = vt.read(CARD + "2. $y = table_{j<n,c<d}(where(j ≥ 5, 0, x_{j,c}))$\n")
    weights = card.initial_weights(0)
    changed = card.put("y_j = 1 for j ≥ 2")
    assert (np.asarray(changed.run([0, 1, 2], weights)["y"])[2] == 1).all()
    with pytest.raises(vt.VieteError, match="a change is for j >= 2"):
        changed.run([0, 1], weights)


@pytest.mark.parametrize("command", ["lesson", "explore", "check", "ask", "run"])
def test_a_value_without_rows(command: str, tmp_path: Path) -> None:
    path = tmp_path / "no-rows.md"
    path.write_text(CARD + "2. $y = x[:0]$\n", "utf-8")
    written = tmp_path / "x.html"
    more = {"check": ["y = y"], "ask": ["y", "-t", "0,1"], "explore": ["-t", "0,1", "-o", written]}
    told = command in ("lesson", "explore")
    options = [*more.get(command, ["-t", "0,1"]), "--seed", "0"]
    found = viete(command, path, *options, code=2 if told else 0)
    assert not told or "y has no entries on this text" in found.err
    assert not written.exists()


def test_an_equation_of_a_member_stands_behind_that_of_its_family() -> None:
    with pytest.raises(vt.VieteError, match=r"one equation makes z\^h for every h, so z\^1 has"):
        vt.read(CARD + "2. $z^1 = x$\n3. $z^h = x W^h$\n")
    card = vt.read(CARD + "2. $z^h = x W^h$\n3. $z^1 = 2 x$\n4. $y = z^1$\n")  # a change
    run = card.run([0, 1], card.initial_weights(0))
    np.testing.assert_allclose(run["y"], 2 * np.asarray(run["x"]))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_rows_of_no_entries(library: str) -> None:
    """A slice may be empty: sums over it are 0, and nothing is its greatest entry."""
    card = vt.read(
        "# C\n\n## Dimensions\n\n| symbol | value |\n| --- | --- |\n| $d$ | 2 |\n\n"
        "## Parameters\n\n| symbol | shape |\n| --- | --- |\n| $w$ | $d$ |\n\n"
        "## Forward pass\n\n1. $y = 2 w$\n"
    )
    w = np.array([1.0, 2.0])
    run = card.run(None, {"w": pytest.importorskip("torch").tensor(w) if library == "torch" else w})
    assert float(run["sum(softmax(w[0:0]))"]) == 0
    assert float(run["logsumexp(y[0:0])"]) == -np.inf
    assert run["logsoftmax(y[0:0])"].shape == (0,)
    for name in ("max", "min", "argmax"):
        with pytest.raises(vt.VieteError, match=f"there is no {name} of no entries"):
            run[f"{name}(w[0:0])"]
