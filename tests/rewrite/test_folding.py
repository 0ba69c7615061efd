"""Law: a folded card computes what it was folded from."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import viete as vt
from tests.laws.strategies import random_weights
from tests.model.small import card, error, streams, tokens, weights
from viete.errors import VieteError
from viete.notation.printer import show_equation
from viete.nouns.model import reweighted
from viete.rewrite.folding import (
    STEPS,
    Folding,
    center_stream,
    center_unembedding,
    fold_norms,
    fold_value_biases,
    folded,
)

CARDS = streams()


def probabilities(logits: np.ndarray) -> np.ndarray:
    out = np.exp(logits - logits.max(-1, keepdims=True))
    return out / out.sum(-1, keepdims=True)


@pytest.mark.parametrize("step", list(STEPS))
@pytest.mark.parametrize("name", CARDS)
def test_each_step_keeps_what_is_computed(name: str, step: str) -> None:
    model = card(name)
    arrays = weights(model)
    try:
        folding = STEPS[step](model)
    except VieteError as refused:
        assert refused.message.startswith(("the stream", "the unembedding", model.title))
        return
    new = reweighted(folding, arrays)
    before = model.run(tokens(), arrays)["logits"]
    after = folding.model.run(tokens(), new)["logits"]
    if step == "center_unembed":
        before, after = probabilities(before), probabilities(after)
    assert error(after, before) < 1e-10
    assert {k: v.shape for k, v in new.items()} == folding.model.parameter_shapes


@pytest.mark.parametrize("name", CARDS)
def test_all_steps_and_what_is_printed(name: str) -> None:
    model = card(name)
    arrays = weights(model)
    before = model.run(tokens(), arrays)["logits"]
    made: vt.Card = model
    for folding in folded(model):
        assert folding.old is made
        made, arrays = folding.model, reweighted(folding, arrays)
    assert error(probabilities(made.run(tokens(), arrays)["logits"]), probabilities(before)) < 1e-10
    assert vt.read(made.write()) == made
    assert made.title == f"{model.title}, folded"
    assert not any(p.checkpoint for p in made.parameters)


def test_what_is_folded_is_gone() -> None:
    made = folded(card("gpt2"))[-1].model
    assert not {"gamma_A^i", "beta_A^i", "gamma", "b_V^{i,h}"} & {p.name for p in made.parameters}
    by_name = {e.name: show_equation(e.left, e.right) for e in made.equations}
    assert by_name["u^i"] == "u^i = LN(x^{i-1}; 1, 0, epsilon)"
    assert by_name["logits"] == "logits = LN(x^N; 1, 0, epsilon) W_U + b_U"
    assert {e.name for e in made.derived} >= {"resid_pre^i", "resid_post^i"}
    assert len(made.claims) == len(card("gpt2").claims)


def test_derived_names_are_of_the_new_weights() -> None:
    """All of them stay; what was the embedding, transposed, is the unembedding where it has one."""
    text = (
        card("gpt2")
        .write()
        .replace(
            "## Derived\n\n",
            "## Derived\n\n"
            "- $C_{OV}^{i,h} = W_E W_V^{i,h} W_O^{i,h} {W_E}^⊤$: what a head copies\n",
        )
    )
    model = vt.read(text)
    arrays = weights(model)
    made = model
    for folding in folded(model):
        made, arrays = folding.model, reweighted(folding, arrays)
    assert [e.name for e in made.derived] == [e.name for e in model.derived]
    run = made.run(tokens(), arrays)
    circuit = arrays["W_V^{2,h}"] @ arrays["W_O^{2,h}"]
    assert error(run["W_OV^{2,h}"], circuit) < 1e-12
    assert error(run["C_OV^{2,h}"], arrays["W_E"] @ circuit @ arrays["W_U"]) < 1e-12
    biased = folded(vt.read("pre-norm-pythia"))[-1].model  # its b_V is gone
    assert {e.name for e in biased.derived} == {
        e.name for e in vt.read("pre-norm-pythia").derived
    } - {"b_OV^i"}
    assert vt.read(biased.write()) == biased  # no claim is left about it


def said(folding: Folding) -> dict[str, str]:
    return {e.name: show_equation(e.left, e.right) for e in folding.weights}


def test_new_weights_are_formulas_over_the_old() -> None:
    found = said(fold_norms(card("llama")))
    assert found["W_Q^{i,g,r}"] == "W_Q^{i,g,r} = (gamma_A^i ⊙ W_Q^{i,g,r}^T)^T"
    assert found["W_U"] == "W_U = (gamma ⊙ W_U^T)^T" and "b_Q^{i,g,r}" not in found
    found = said(fold_norms(card("gpt2")))
    assert found["b_1^i"] == "b_1^i = b_1^i + beta_M^i W_1^i"
    assert found["b_U"] == "b_U = beta W_E^T"
    found = said(center_stream(card("gpt2")))
    assert found["W_E"] == "W_E = W_E - mean(W_E)" and found["W_U"] == "W_U = W_E^T"
    found = said(fold_value_biases(card("phi")))
    assert found == {"b_O^i": "b_O^i = b_O^i + sum_g sum_r b_V^{i,g} W_O^{i,g,r}"}
    assert said(center_unembedding(card("gpt2"))) == {"W_U": "W_U = W_E^T - mean(W_E^T)"}


def test_a_bias_that_was_not_there() -> None:
    """Queries of GPT-Neo have none; the norm's shift makes one."""
    folding = fold_norms(card("gpt-neo"))
    assert said(folding)["b_Q^{i,h}"] == "b_Q^{i,h} = beta_A^i W_Q^{i,h}"
    shapes = folding.model.parameter_shapes
    assert shapes["b_Q^{1,h}"] == (6, 4) and shapes["b_U"] == (13,)


def test_the_stream_is_centred() -> None:
    model = card("pythia")
    folding = center_stream(model)
    run = folding.model.run(tokens(), reweighted(folding, weights(model)))
    plain = model.run(tokens(), weights(model))
    for i in range(4):
        x = plain[f"x^{i}"]
        assert np.abs(run[f"x^{i}"].mean(-1)).max() < 1e-12
        assert error(run[f"x^{i}"], x - x.mean(-1, keepdims=True)) < 1e-10


@pytest.mark.parametrize(
    ("name", "step", "sentence"),
    [
        ("llama", center_stream, "the stream of Llama cannot be centred: "
         "uⁱ = RMSNorm(xⁱ⁻¹; γ_Aⁱ, ε) sees the mean of xⁱ⁻¹"),
        ("olmo2", center_stream, "q^{i,g,r} = xⁱ⁻¹ W_Q^{i,g,r} sees the mean of xⁱ⁻¹"),
        ("gemma2", center_unembedding, "the logits are not a product with it, logits = softcap("),
        ("llama", fold_value_biases, "Llama has no value biases"),
        ("olmo", fold_norms, "OLMo has no norm whose scale or shift only matrices read"),
    ],
)  # fmt: skip
def test_refused(name: str, step: Callable[[vt.Card], Folding], sentence: str) -> None:
    with pytest.raises(VieteError, match=re.escape(sentence)):
        step(card(name))


def test_post_norm_is_refused() -> None:
    """What a post-norm card adds to is normed after: weights follow the norm, and the sum too."""
    bert = vt.read("bert")
    for step in (fold_norms, center_stream):
        with pytest.raises(VieteError, match="BERT"):
            step(bert)


def test_insisting() -> None:
    with pytest.raises(VieteError, match="cannot be centred"):
        folded(card("llama"), {"center_writing_weights": True})
    steps = folded(card("llama"), {"fold_ln": False})
    assert [len(s.weights) for s in steps] == [1]  # the unembedding alone


def test_scores_that_something_else_reads() -> None:
    text = card("gpt2").write().replace("## Derived", "14. $top = max(logits)$\n\n## Derived")
    with pytest.raises(VieteError, match=r"top = max\(logits\) sees a constant"):
        center_unembedding(vt.read(text))


def test_a_weight_that_blocks_share_takes_no_block_s_scale() -> None:
    """γ^i differs from block to block, and W is one matrix for all."""
    shared = vt.read(r"""# Shared
## Dimensions
| symbol | value |
| --- | --- |
| $d$ | 3 |
| $n$ | $≤ 5$ |
## Inputs
- $t ∈ \{0, …, 3\}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $4 × d$ |
| $γ^i$ | $d$ |
| $W$ | $d × d$ |
| $U$ | $d × 4$ |
## Forward pass
1. $x^0 = E[t]$

For $i = 1, …, 2$:

1. $x^i = x^{i-1} + RMSNorm(x^{i-1}; γ^i, 1/8) W$

1. $logits = x^2 U$
""")
    model = shared.with_weights(random_weights(shared, 1))
    got, want = (probabilities(m.run([1, 2, 3])["logits"]) for m in (model.folded(), model))
    np.testing.assert_allclose(got, want, rtol=1e-12)
