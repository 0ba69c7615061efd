"""Every function with every kind of argument: an exported program has the values of a run.

What a run refuses, a program refuses too: when it is written, or when it runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.code.arguments import TOKENS, WEIGHTS, card, sorted_formulas
from tests.code.watching import TARGETS, watched, with_its_values
from tests.laws.nearness import host

PARTS = 12  # of which `make test` computes one


def forward(model: vt.Card, to: str) -> dict[str, Any]:
    """What the variables of an exported program with all equations are at its end."""
    names, became = watched(with_its_values(model, to, "L").text())
    if to != "torch":
        names["forward"](TOKENS, **WEIGHTS)
    else:
        import torch

        module = names["Arguments"]().double()
        module.load_state_dict(names["renamed"]({k: torch.tensor(v) for k, v in WEIGHTS.items()}))
        module(torch.tensor(TOKENS))
    return {name: values[-1] for name, values in became.items()}


def hold(to: str, part: int) -> None:
    there, _ = sorted_formulas(part, PARTS)
    # Python has no number that is the logarithm of −1, and raises ValueError.
    some = [f for f in there if not np.isnan(there[f]).any()]
    model, names = card(some)
    with np.errstate(all="ignore"):
        found = forward(model, to)
    for formula in some:
        got, wanted = np.asarray(host(found[names[formula]]), float), there[formula]
        assert got.shape == wanted.shape, formula
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10, err_msg=formula)


@pytest.mark.parametrize("to", ["numpy", "torch"])
def test_some_calls(to: str) -> None:
    pytest.importorskip(to)
    hold(to, 0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("to", TARGETS)
def test_all_calls(to: str, part: int) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        hold(to, part)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("to", TARGETS)
def test_what_a_run_refuses(to: str, part: int) -> None:
    jax = pytest.importorskip("jax")
    for formula in sorted_formulas(part, PARTS)[1]:
        try:
            model, names = card([formula])
            model.run(TOKENS, WEIGHTS)
        except vt.VieteError:
            pass
        else:  # a question is read more strictly than an equation
            continue
        try:
            model, names = card([formula])
            with jax.enable_x64(True), np.errstate(all="ignore"):
                found = forward(model, to)[names[formula]]
        except (vt.VieteError, ValueError):
            continue
        # JAX makes NaN of what it cannot look at.
        assert to == "jax" and np.isnan(host(found)).any(), formula
