"""Asking a run: values of one's own, what was not computed yet, derivatives of any number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import viete as vt
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from viete.errors import VieteError
from viete.evaluate.schedule import member_name
from viete.notation.lexer import primed
from viete.notation.parser import parse
from viete.notation.printer import STYLES, show

SIZES = {"V": 11, "d": 8, "N": 2, "H": 2, "d_f": 12}
CARD = vt.read("gpt2").bind(**SIZES)
WEIGHTS = CARD.initial_weights()
TOKENS = [1, 2, 3]
RUN = CARD.run(TOKENS, WEIGHTS)
V = np.linspace(-1, 2, 8)


# -- values of one's own ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "values", "answer"),
    [
        ("<x^2_1, probe>", {"probe": V}, RUN["x^2"][1] @ V),
        ("x^2 + s_1", {"s_1": np.outer([1, 2, 3], V)}, RUN["x^2"] + np.outer([1, 2, 3], V)),
        ("x^i_0 M", {"M": np.diag(V)}, RUN["x^i"][:, 0] * V),
        ("k x^1_{-1} - <w, x^1_0>", {"k": 2, "w": list(V)},
         2 * RUN["x^1"][-1] - RUN["x^1"][0] @ V),
        ("W_E[ids]", {"ids": np.array([3, 1, 4, 1])}, WEIGHTS["W_E"][[3, 1, 4, 1]]),
    ],
)  # fmt: skip
def test_a_question_may_have_values_of_its_own(
    question: str, values: Mapping[str, Any], answer: Any
) -> None:
    np.testing.assert_allclose(RUN.ask(question, **values), answer, rtol=1e-12)


def test_a_value_of_a_batch_is_one_for_each_text() -> None:
    run = CARD.run([TOKENS, TOKENS[::-1]], WEIGHTS)
    own = run["x^1_2"]
    found = run.ask("<x^2_2, own>", own=own)
    np.testing.assert_allclose(found, (run["x^2"][:, 2] * own).sum(-1))
    assert run.ask("x^2 + M", M=run["x^1"]).shape == (2, 3, 8)
    assert run.ask("x^2_1 M", M=np.eye(8)).shape == (2, 8)


@pytest.mark.parametrize(
    ("question", "values", "message"),
    [
        ("x", {"x": V}, "x is a name of GPT-2; give your value another name, such as my_x"),
        ("x^1", {"d": 3}, "d is a dimension of GPT-2"),
        ("x^1", {"LN": V}, "LN is a name of GPT-2"),
        ("<x^2_1, probe>", {"probe": V[:7]}, "two vectors of one length, not .d. and .7."),
        ("x^2 + s", {"s": np.ones((4, 8))}, ".n, d. and .4, 8. do not match"),
        ("x^2 + s", {"s": np.ones((2, 3, 4, 8))}, "s has the shape .2, 3, 4, 8."),
        ("x^2 + s", {"s": [[1.0], [2.0, 3.0]]}, "s must be a rectangular list of numbers"),
        ("x^2 + s", {"s": "abc"}, "s must be real numbers, not 'abc'"),
        ("x^2 + s", {"s": 1j * V}, "s must be real numbers, not complex128"),
        ("x^2 + s", {"s": V > 0}, "s must be real numbers, not bool"),
        ("x^2 + q", {"s": V}, "unknown symbol q"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    question: str, values: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(VieteError, match=message):
        RUN.ask(question, **values)


def test_several_questions_get_several_answers() -> None:
    a, b = RUN.ask("x^1_0", "<x^1_0, w>", w=V)
    np.testing.assert_allclose(b, a @ V)
    with pytest.raises(VieteError, match="ask takes a question"):
        RUN.ask()


# -- what was not computed yet ---------------------------------------------------------------------


def test_what_lacks_is_computed_and_stays() -> None:
    run = CARD.run(TOKENS, WEIGHTS, names=["x^1"])
    assert list(run) == ["x^1"]
    np.testing.assert_array_equal(run["A^{2,1}"], RUN["A^{2,1}"])
    assert ("x^i", (1,)) in run.store and ("logits", ()) not in run.store
    np.testing.assert_allclose(run.ask("<x^2_1, w>", w=V), RUN["x^2_1"] @ V)
    assert list(run) == ["x^1", "A^{2,h}", "x^2"]
    with pytest.raises(VieteError, match=r"there is no x.i at block 7"):
        run["x^7"]


def test_an_exact_run_answers_exact_numbers() -> None:
    card = vt.read("exact-lesson")
    run = card.run([0, 1], card.exact_weights, meaning="exact", names=["x"])
    own, twice = run.ask("<x[1], w>", "2 logits_{0,0}", w=[Fraction(1, 3), 2])
    assert own == run["x"][1, 0] / 3 + 2 * run["x"][1, 1] and twice == 2 * run["logits"][0, 0]
    slope = run["∂(logits_{1,0})/∂x"]
    floats = card.run([0, 1], card.initial_weights())["∂(logits_{1,0})/∂x"]
    np.testing.assert_allclose(slope.astype(float), floats, rtol=1e-12)


# -- derivatives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pythia", "gemma2", "t5", "bert"])
def test_a_bare_derivative_is_of_the_number_that_is_named(name: str) -> None:
    card = tiny(next(p for p in shipped() if Path(p).stem == name))
    weights = random_weights(card, 1)
    run, other = (card.run(None, weights, **random_inputs(card, seed, 4)) for seed in (1, 2))
    probe = np.linspace(-1, 1, int(card.sizes["d"]))
    for of in ("⟨x^2_{-1}, probe⟩", "⟨(x^2)_0 - c(x^2_1), probe⟩"):
        ours = of.replace("x", "x'")
        bare, whole = (
            run.ask(f"(x^1 - x'^1) ⊙ {slope}", against=other, of=of, probe=probe)
            for slope in ("∂x'^1", f"∂({ours})/∂x'^1")
        )  # fmt: skip
        np.testing.assert_array_equal(bare, whole)
        mine = other.ask("∂x^1", of=of, probe=probe)  # of the run that the number is of
        np.testing.assert_allclose(bare, (run["x^1"] - other["x^1"]) * mine, atol=1e-12)
        assert run.ask("∂x^i", of=of, probe=probe).shape == (3, *run["x^1"].shape)
    found = run.ask("sum_j(⟨x^1_j - x'^1_j, ∂x^1_j⟩)", against=other, of="(x^2)_{-1,3}")
    by = run.attribute("(x^2)_{-1,3}", by="x^1", against=other)
    np.testing.assert_allclose(found, by.estimate, rtol=1e-9)


def test_what_is_no_number_has_no_derivative() -> None:
    for question, of, message in (
        ("∂(logits_{j,5})/∂x^1", None, "for each j, and a derivative is of one number"),
        ("∂x^1", "⟨U_5, x^i_{-1}⟩", "is one number for each i"),
        ("∂x^1", "logits", "one real number"), ("∂x^1", None, "needs of="),
        ("∂x^1", "nothing", "unknown symbol nothing"),
    ):  # fmt: skip
        with pytest.raises(VieteError, match=message):
            RUN.ask(question, of=of)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention-only-2", "pythia", "gemma2", "mixtral", "t5"])
def test_the_derivative_of_any_number_by_any_value_is_autograds(name: str) -> None:
    card = tiny(next(path for path in shipped() if Path(path).stem == name))
    weights = {k: torch.tensor(v, requires_grad=True) for k, v in card.initial_weights(1).items()}
    run = card.run(None, weights, **random_inputs(card))
    number = "logits_{1,0} * logits_{-1,1}"
    truth, errors, sizes = run[number], [0.0], [0.0]
    for name, member in run.program.names.items():
        v = run.store.get(member)
        if v is None or not v.array.requires_grad or name == "L":
            continue
        (by_torch,) = torch.autograd.grad(truth, v.array, retain_graph=True, allow_unused=True)
        by_torch = torch.zeros_like(v.array) if by_torch is None else by_torch
        found = run[f"∂({number})/∂{name}"]
        expected = run.ordered(replace(v, array=by_torch), run.symbol(name).slots)
        errors.append(float((found - expected).detach().abs().max()))
        sizes.append(float(expected.detach().abs().max()))
    assert len(sizes) > 10 and max(errors) < 1e-12 * max(sizes)


@pytest.mark.parametrize("question", [
    "2 ∂(logits_{-1,5} - logits_{-1,6})/∂x^2_{-1} ⊙ x^2_{-1}", "∂logits_{-1,5}/∂A^{i,h}",
    r"\frac{∂⟨x^2_1, x^1_0⟩}{∂x^1} / 2", "<∂(x^2_{1,0}^2)/∂x^1_1, x^1_1>",
])  # fmt: skip
@pytest.mark.parametrize("style", STYLES)
def test_a_derivative_is_read_back_as_it_is_printed(question: str, style: str) -> None:
    e = RUN.parse(question)
    assert parse(show(e, style), RUN.scope) == e


def test_derivatives_are_parts_of_formulas() -> None:
    plain = CARD.grad(of="logits_{-1,5}").run(TOKENS, WEIGHTS)["∂x^2"]
    for spelling in ("∂(logits_{-1,5})/∂x^2", "∂logits_{-1,5}/∂x^2",
                     r"\frac{∂ logits_{-1,5}}{∂ x^2}"):  # fmt: skip
        np.testing.assert_allclose(RUN[spelling], plain, rtol=1e-12)
        assert RUN.axes(spelling) == ("n", "d")
    np.testing.assert_allclose(
        RUN["x^2_{-1} ⊙ ∂(logits_{-1,5})/∂x^2_{-1}"], RUN["x^2"][-1] * plain[-1], rtol=1e-12
    )
    every = RUN["∂(logits_{-1,5} - logits_{-1,6})/∂x^i"]
    one = RUN["∂(logits_{-1,5})/∂x^1 - ∂(logits_{-1,6})/∂x^1"]
    assert RUN.axes("∂(logits_{-1,5})/∂A^{i,h}") == ("i", "h", "n", "n")
    np.testing.assert_allclose(every[1], one, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(RUN.ask("∂(<x^2_1, w>)/∂w", w=V), RUN["x^2_1"], rtol=1e-12)
    assert not RUN["∂(x^1_{0,0})/∂x^2"].any()


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("∂(logits_{-1})/∂x^2", "can be differentiated, and this is .V."),
        ("∂(logits_{-1,5})", "write a derivative as a quotient"),
        ("∂x^2", "write a derivative as a quotient"),
        (
            "∂(logits_{-1,5})/∂Δx^2",
            "a derivative is taken with respect to a value that an equation computes",
        ),
        ("∂(logits_{-1,5})/∂(x^2 + x^1)", "a derivative is taken with respect to a value"),
        ("∂(∂(logits_{-1,5})/∂x^2_{0,0})/∂x^1", "derivatives of a derivative are not supported"),
        ("∂(x^1_{0,0})/∂logits", "no equation leads from one to the other"),
    ],
)
def test_derivatives_that_there_are_not(question: str, message: str) -> None:
    with pytest.raises(VieteError, match=message):
        RUN[question]
    put = CARD.run(TOKENS, WEIGHTS, put={"x^1": np.zeros((3, 8))})
    with pytest.raises(VieteError, match="of a run with replaced values"):
        put["∂(logits_{-1,5})/∂x^2"]


# -- two runs --------------------------------------------------------------------------------------


OTHER = CARD.run([4, 2, 5], WEIGHTS)
LONGER = CARD.run([4, 2, 5, 6], WEIGHTS)
LLAMA = vt.read("llama").bind(V=11, d=8, N=3, G=2, H=4, d_k=4, d_f=12)
LLAMAS = LLAMA.run([4, 2, 5], LLAMA.initial_weights(3))
GRADS = CARD.grad(of="logits_{-1,5}").run([4, 2, 5], WEIGHTS)


@pytest.mark.parametrize(
    ("question", "other", "answer"),
    [
        ("x^2 - x'^2", OTHER, RUN["x^2"] - OTHER["x^2"]),
        ("x^i - x'^i", OTHER, RUN["x^i"] - OTHER["x^i"]),
        ("x'^2_3", LONGER, LONGER["x^2"][3]),
        ("A'^{1,h}", LONGER, LONGER["A^{1,h}"]),
        (r"\tilde{A}'^1 - Δx'^2", LONGER, LONGER[r"\tilde{A}^1 - Δx^2"]),
        ("n' - n", LONGER, 1),
        ("(x^2 - x'^2) ⊙ ∂x'^2", GRADS, (RUN["x^2"] - GRADS["x^2"]) * GRADS["∂x^2"]),
        ("A'^{2,g,r}", LLAMAS, LLAMAS["A^{2,g,r}"]),
        ("x'^{i'}", LLAMAS, LLAMAS["x^i"]),
        ("∂(logits'_{-1,5})/∂x'^2", LLAMAS, LLAMAS["∂(logits_{-1,5})/∂x^2"]),
        ("∂(<x^2_1, x'^3_1>)/∂x'^3_1", LLAMAS, RUN["x^2"][1]),
    ],
)  # fmt: skip
def test_the_values_of_another_run_have_a_prime(question: str, other: Any, answer: Any) -> None:
    np.testing.assert_allclose(RUN.ask(question, against=other), answer, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("blocks.1.attn.hook_pattern", "hook_pattern is a hook name: viete show MODEL --names"),
        ("hook_embed", "viete show MODEL --names"),
        ("mean(L1H0)", r"head L1H0 is A\^\{2,1\} here"),
    ],
)
def test_names_of_transformer_lens_are_answered_with_the_way_to_their_formulas(
    question: str, message: str
) -> None:
    with pytest.raises(VieteError, match=message):
        RUN.ask(question)


def test_claims_may_be_checked_on_texts_that_are_drawn() -> None:
    found = vt.read("letters-causal").check(None, "A_{j,k} = 0 for k > j", texts="random(3)")
    assert [v.word for v in found.verdicts] == ["holds"] and found.verdicts[0].texts == 12


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("x^2 - x'^2", r"\(n, d\) and \(n', d\) do not match"),
        ("x'^2_7", "the rows of x'"),
        ("x''^2", "unknown symbol x''"),
    ],
)
def test_what_two_runs_do_not_share(question: str, message: str) -> None:
    with pytest.raises(VieteError, match=message):
        RUN.ask(question, against=LONGER)
    with pytest.raises(VieteError, match="against must be another run, not 3"):
        RUN.ask("x^1", against=3)
    exact = vt.read("exact-lesson")
    with pytest.raises(VieteError, match="both runs must use the same number system"):
        RUN.ask("x^1", against=exact.run([0, 1], exact.exact_weights, meaning="exact"))
    two, three = (CARD.run([TOKENS] * k, WEIGHTS) for k in (2, 3))
    with pytest.raises(VieteError, match="one run has 2 texts and the other 3"):
        two.ask("x^1", against=three)


def test_what_another_run_lacks_is_computed_there() -> None:
    lazy = CARD.run([4, 2, 5], WEIGHTS, names=[])
    np.testing.assert_allclose(RUN.ask("<x'^2_1, w>", against=lazy, w=V), OTHER["x^2_1"] @ V)
    assert list(lazy) == ["x^2"]


@pytest.mark.parametrize("name", ["gemma2", "mixtral", "bert", "t5"])
def test_every_value_has_a_prime_beside_itself(name: str) -> None:
    card = tiny(next(path for path in shipped() if Path(path).stem == name))
    run = card.run(None, card.initial_weights(1), **random_inputs(card))
    program = run.program
    for key, loops in program.names.values():
        symbol = card.symbols[key]
        other = replace(symbol, base=primed(symbol.base, "'"))
        places = program.loops_of(symbol, loops)
        one, two = (member_name(s, places) for s in (symbol, other))
        if (key, loops) in run.store:
            np.testing.assert_array_equal(run.ask(two, against=run), run[one])
