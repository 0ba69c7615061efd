"""The recipes run on the families, and say what their names say, by NumPy; arrows are formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.ask.test_expand import check, run_of
from viete.ask.recipes import recipes


def asked(run: Any, name: str) -> Any:
    recipe = next(r for r in recipes() if r.name == name)
    return (
        run[recipe.question] if recipe.verb == "ask" else run.expand(recipe.question, recipe.into)
    )


@pytest.mark.parametrize("name", ["gpt2", "pythia", "llama", "gemma2", "olmo2", "attention-only-2"])
def test_every_recipe_runs(name: str) -> None:
    run = run_of(name)
    for recipe in recipes():
        found = asked(run, recipe.name)
        if recipe.verb == "expand":
            check(found, run[recipe.question])
        else:
            assert np.isfinite(found).all(), recipe.name
    assert len({r.name for r in recipes()}) == len(recipes())


def test_composition_scores_by_whole_matrices() -> None:
    run = run_of("gpt2")
    ov, qk = run["W_OV^{i,h}"], run["W_QK^{i,h}"]

    def norm(m: Any) -> Any:
        return np.sqrt((m**2).sum((-2, -1)))

    for name, second in (("Q", qk), ("K", qk.swapaxes(-1, -2)), ("V", ov)):
        product = ov[:, :, None, None] @ second
        by_hand = norm(product) / (norm(ov)[:, :, None, None] * norm(second))
        np.testing.assert_allclose(asked(run, f"{name}-composition"), by_hand, rtol=1e-10)
    by_hand = np.trace(run["W_E"] @ ov @ run["U"].T, axis1=-2, axis2=-1)
    np.testing.assert_allclose(asked(run, "copying"), by_hand, rtol=1e-10)


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "bert", "attention-only-2"])
def test_an_arrow_is_what_a_head_carries(name: str) -> None:
    run = run_of(name)
    grouped = name == "gemma2"
    head = "1,2" if grouped else "1"
    carried = run[rf"x^1_0 \xrightarrow{{A^{{2,{head}}}}} x^2_3"]
    np.testing.assert_allclose(carried, run[f"x^1_0 →(A^{{2,{head}}}) x^2_3"])
    # With the head's own biases it is the term of an expansion by head and source.
    e = run.expand("x^2_3", "head, source, path", depth=1)
    marks = [("head", int(x)) for x in head.split(",")] + [("source", 0)]
    same = [t for t in [*e.terms, *e.constants, *e.unopened]
            if [(m.word, m.number) for m in t.marks][1 : 1 + len(marks)] == marks
            and t.marks[0].number == 2]  # fmt: skip
    own = 1 + len(marks)  # a constant of the head itself, not of the stream that it reads
    stream = sum(t.value for t in same if t.kind != "constant" or len(t.marks) > own)
    if name != "bert":  # whose stream is normed, so that its terms hold more than one scale
        np.testing.assert_allclose(carried, stream, atol=1e-12)
    if name != "bert":
        run[r"x^1_0 \xrightarrow{W_U} U_3"]
    with pytest.raises(vt.VieteError, match="begins at a residual vector"):
        run[f"W_E[0] →(A^{{2,{head}}}) x^2_3"]
    with pytest.raises(vt.VieteError, match="goes by a head"):
        run["x^1_0 →(W_E) x^2_3"]


def test_an_arrow_to_a_token_is_the_lens_without_biases() -> None:
    run = run_of("gpt2")
    to_token = run["x^2_1 →(W_U) U_3"]
    assert to_token == pytest.approx(run["logits_{1, 3}"] - run["⟨β, U_3⟩"])
