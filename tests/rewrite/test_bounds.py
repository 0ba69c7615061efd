"""Bounds by algebra: every number of a run lies within them, and what they prove is never false."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from viete.errors import VieteError
from viete.rewrite.bounds import bounding
from viete.rewrite.opening import without_calls

PARTS = st.sampled_from(("x^2_{-1}", "A^{1,1}", "A^{2,1}_0", "m^1", "x^1_0", "t", "scale", "1/2",
                         "-3", "U_3", "logits_{-1}", "softmax(x^1_0)",
                         "cos(x^1_0, x^2_0)"))  # fmt: skip
ONE = ("|{}|", "-({})", "({})^2", "({})^3", "max({})", "mean({})", "sum({})", "min({}, 1/3)",
       "exp({})", "tanh({})", "sigmoid({})", "ReLU({})", "floor({})", "softmax({})", "LN({}; 1, 0)",
       "var({})", "A^{{2,2}} ({})", "1 / (1 + |{}|)", "clip({}; 2)")  # fmt: skip
TWO = (
    "({}) + ({})",
    "({}) - ({})",
    "({}) * ({})",
    "max({}, {})",
    "where({} > 0, {}, 1)",
    "⟨{}, {}⟩",
)
FORMULAS = st.recursive(PARTS, lambda inner: st.one_of(
    st.builds(str.format, st.sampled_from(ONE), inner),
    st.builds(str.format, st.sampled_from(TWO), inner, inner),
), max_leaves=4)  # fmt: skip


@cache
def run_of(name: str) -> Any:
    card = tiny(next(path for path in shipped() if Path(path).stem == name))
    return card.run(**random_inputs(card, 1, 4), weights=random_weights(card, 1))


def check(run: Any, formula: str) -> None:
    """Every finite entry of a formula lies within its bounds, but for rounding."""
    card = run.program.model
    bounds = bounding(card).of(without_calls(card, run.parse(formula)))
    found = np.asarray(run[formula], dtype=np.float64)
    found = found[np.isfinite(found)]
    slack = 1e-9 * (1 + np.abs(found))
    assert (found >= float(bounds.least) - slack).all() and (
        found <= float(bounds.most) + slack
    ).all(), formula


@settings(max_examples=60)
@given(FORMULAS)
def test_entries_lie_within_the_bounds(formula: str) -> None:
    run = run_of("gpt2")
    try:
        run[formula]
    except VieteError:  # shapes that do not fit
        return
    check(run, formula)


@pytest.mark.parametrize("path", shipped(), ids=lambda path: Path(path).stem)
def test_values_of_every_family_lie_within_their_bounds(path: str) -> None:
    run = run_of(Path(path).stem)
    for e in (*run.program.model.equations, *run.program.model.derived):
        check(run, vt.notation.printer.show(e.left))


PROVED = (
    "0 ≤ A^{i,h}_{j,k} ≤ 1", "|x^i_j| ≥ 0", "-1 ≤ cos(x^1_0, x^2_0) ≤ 1", "⟨x^1_0, x^1_0⟩ ≥ 0",
    "sum(A^{i,h}) ≈ 1 within 0.01", "A^{i,h}_{j,k} ≈ 1/2 within 1/2", "A^{i,h}_{j,k} < 2",
    "x^i ≈ x^{i-1} + a^i + m^i", "sum(A^{1,1}_0) ≤ 1", "x^1_0 ≤ x^1_0 + |x^2_0|", "t_j ≤ V - 1",
    "(x^1 - x^0)^2 ≥ 0", "|x^1_0|^2 + |x^2_0|^2 ≥ 0", "rank(logits_{-1}; 3) ≥ 1",
)  # fmt: skip
MEASURED = ("A^{i,h}_{j,k} ≤ 0.9999999999", "|x^1_0| > 0", "x^1 ≈ x^1 + 1e-12 x^0 within 1",
            "A^{i,h}_{j,k} ≈ 0 within 1 - 1e-15", "x^1_0 ≤ 1000")  # fmt: skip


def test_what_is_proved_and_what_is_measured() -> None:
    of = run_of("gpt2").of
    said = {c: v for c in (*PROVED, *MEASURED) for v in of.check(None, c).verdicts}
    assert [c for c in PROVED if not said[c].proof] == []
    assert [c for c in MEASURED if said[c].proof] == []
    assert str(said[PROVED[0]].proof) == (
        "a softmax lies between 0 and 1; by the definition of A^{i,h}"
    )
    assert "measured over" in "\n".join(said[MEASURED[-1]].lines())
