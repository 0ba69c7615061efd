"""How a question is read that the card would write otherwise, and what is said of it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from tests.laws.strategies import random_weights
from tests.model.small import card, small, streams, tokens
from viete.errors import VieteError, VieteWarning

SIZES = {"V": 11, "d": 16, "N": 2, "H": 2, "d_f": 8}


def ran(name: str) -> vt.nouns.run.Questions:
    bound = vt.read(name).bind(**SIZES)
    return bound.run([1, 2, 3], random_weights(bound, 1))


RUN, PYTHIA = ran("gpt2"), ran("pythia")
LN = (
    "LN(x₁²) means norm(x₁²), the norm before the unembedding; without its parameters the "
    "norm is LN(x₁²; 1, 0)"
)
COLUMN = (
    "W_OV^{1,1} x₂¹ means x₂¹ W_OV^{1,1}: the card's vectors are rows, and its weights map "
    "them; the product with its transpose is x₂¹ W_OV^{1,1}ᵀ"
)


@pytest.mark.parametrize(("question", "meant", "sentence"), [
    ("<W_E_3, LN(x^2_1)>", "<W_E_3, LN(x^2_1; γ, β, ε)>", LN),
    ("<U_3 - U_5, LN(x^1_1)>", "<U_3 - U_5, LN(x^1_1; γ, β, ε)>", "means norm(x₁¹)"),
    ("LN(x^1) U^T", "logits(x^1)", "means norm(x¹), the norm before the unembedding"),
    (r"\text{logit}_3(LN(x^1_1))", "logits(x^1)_{1,3}", "the norm before the unembedding"),
    ("W_U · LN(x^2_1)", "logits_1", "Uᵀ norm(x₁²) means norm(x₁²) Uᵀ"),
    ("LN(x^2)", "norm(x^2)", "the norm that the card applies to it"),
    ("LN(y^1_0)", "v^1_0", "LN(y₀¹) means norm_M¹(y₀¹), the norm that the card applies"),
    ("W_K^{1,1} x^1_2", "x^1_2 W_K^{1,1}", "the card's vectors are rows, and its weights map them"),
    ("<W_K^{1,1} x^1_0, W_Q^{1,1} x^1_2>", "<x^1_0 W_K^{1,1}, x^1_2 W_Q^{1,1}>", "means x₂¹ W_Q"),
    ("W_2^1 W_1^1 x^1_2", "x^1_2 W_1^1 W_2^1", "W₂¹ W₁¹ x₂¹ means x₂¹ W₁¹ W₂¹"),
    ("W_K^{1,1} x^1", "x^1 W_K^{1,1}", "means x¹ W_K^{1,1}"),
    (r"\tilde{A}^2(x^1_2)", r"\tilde{A}^2_2", "the row in its context"),
    ("B_2 ∘ B_1 (x^0_{-1})", "x^2_2", "attention reads all positions"),
    (r"\tilde{M}^2(x_2^1 + \tilde{A}^2(x_2^1))", r"\tilde{M}^2_2", "(x¹)₂, the row"),
])  # fmt: skip
def test_what_is_meant_is_what_is_computed(question: str, meant: str, sentence: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(RUN[question], RUN[meant], atol=1e-12)
    assert any(sentence in c.sentence for c in RUN.conventions(question))
    assert not RUN.conventions(meant)


@pytest.mark.parametrize(("question", "meant", "sentence"), [
    ("W_{OV}^{1,1} x^1_2", "x^1_2 W_{OV}^{1,1}", COLUMN),
    ("W_QK^{1,1} (x^1_2 + x^0_1)", "(x^1_2 + x^0_1) W_QK^{1,1}", "(x₂¹ + x₁⁰) W_QK^{1,1}"),
])  # fmt: skip
def test_what_has_another_value_as_it_is_written_warns(
    question: str, meant: str, sentence: str
) -> None:
    with pytest.warns(VieteWarning) as found:
        np.testing.assert_allclose(RUN[question], RUN[meant])
    (warning,) = found
    assert sentence in str(warning.message) and warning.filename == __file__


@pytest.mark.parametrize(("run", "question", "ways"), [
    (RUN, "LN(x^1_2)", "write norm_A^2(x_2^1), norm(x_2^1), or LN(x_2^1; 1, 0) for"),
    (PYTHIA, "LN(x^1)", "write norm_A^2(x^1), norm_M^2(x^1), norm(x^1), or LN(x^1; 1, 0) for"),
    (RUN, "|LN(Δx^1_2)|", "write norm(Delta{x}_2^1), or LN(Delta{x}_2^1; 1, 0)"),
])  # fmt: skip
def test_a_norm_that_could_be_several_is_asked_about(
    run: vt.nouns.run.Questions, question: str, ways: str
) -> None:
    with pytest.raises(VieteError) as caught:
        run[question]
    assert ways in str(caught.value)
    for way in ("norm_A^2(x^1)", "norm(x^1)", "LN(x^1; 1, 0)"):
        assert np.isfinite(run[way]).all()


@pytest.mark.parametrize("name", [s for s in streams() if "theta" in card(s).symbols])
def test_two_vectors_below_theta_are_an_angle_beside_a_rotary_base(name: str) -> None:
    run = small(name).run(tokens(1)[0])
    x, y = run["resid_post^1_2"], run["resid_post^2_3"]
    cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    np.testing.assert_allclose(run["θ_{resid_post^1_2, resid_post^2_3}"], np.arccos(cosine))
    np.testing.assert_allclose(run[r"\cos{\theta_{resid_post^1_2, resid_post^2_3}}"], cosine)
    (note,) = run.conventions("θ_{resid_post^1_2, U_5}")
    assert "the angle between two vectors; θ alone is a number of the card" in note.sentence
    claim = r"\theta_{resid_post^1_2, U_5} = angle(resid_post^1_2, U_5)"
    assert small(name).check(claim, tokens=tokens(1)[0]).ok
    assert run["θ"] == 100


@pytest.mark.parametrize("question", [
    "<W_E_3, LN(x^2_1; γ, β, ε)>", "LN(x^2; 1, 0)", "x^1_2 W_OV^{1,1}", "A^{1,1} x^1", "W_E x^1_2",
    "W_O^{1,1} W_E_3", "softmax(logits)", "x^1", "W_OV^{1,1} W_OV^{2,1}", "norm(x^1)",
])  # fmt: skip
def test_what_means_what_it_says(question: str) -> None:
    assert not RUN.conventions(question)


def test_a_card_without_layer_norm_means_its_own() -> None:
    llama = vt.read("llama").bind(V=11, d=8, N=2, H=2, G=1, d_k=4, d_f=8)
    run = llama.run([1, 2, 3], random_weights(llama, 1))
    np.testing.assert_allclose(run["LN(x^1) U^T"], run["logits(x^1)"])


def test_an_expansion_opens_what_a_question_applies() -> None:
    of = [RUN.expand(q, into="block") for q in (
        "⟨U_5, LN(x^N_1)⟩", r"\text{logit}_5(norm(x^N_1))", "⟨U_5, LN(x^N_1; γ, β, ε)⟩",
    )]  # fmt: skip
    values = [[float(t.value) for t in e.terms] for e in of]
    np.testing.assert_allclose(values[0], values[2])
    np.testing.assert_allclose(values[1], values[2])
    assert len(values[0]) == 3


def test_conventions_stand_in_an_answer() -> None:
    sets = [x for k, v in SIZES.items() for x in ("--set", f"{k}={v}")]
    asked = ("gpt2", *sets, "--seed", "0", "-t", "1,2", "W_{OV}^{1,1} x^1_1")
    ran = viete("ask", *asked)
    assert "W_OV^{1,1} x₁¹ means x₁¹ W_OV^{1,1}" in ran.out and not ran.err
    assert "viete: W_OV^{1,1} x₁¹ means" in viete("ask", *asked, "-f", "csv").err


def test_a_block_that_is_written_out_has_no_letter() -> None:
    one = vt.read("attention-only-1").bind(V=11, d=8, H=2)
    with pytest.raises(VieteError, match=r"x\^N_\{-1\}; declared with this letter: x\^0, x\^1"):
        one.run([1, 2], random_weights(one, 1))["x^N_{-1}"]


def test_on_the_command_line() -> None:
    sets = [x for k, v in SIZES.items() for x in ("--set", f"{k}={v}")]
    ran = viete("run", "gpt2", *sets, "--seed", "0", "-t", "1,2", "--show",
                "<W_E_1, LN(x^2_1)>, W_{OV}^{1,1} x^1_1")  # fmt: skip
    assert ran.err.startswith("viete: W_OV^{1,1} x₁¹ means x₁¹ W_OV^{1,1}")
