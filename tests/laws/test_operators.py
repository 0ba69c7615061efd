"""Functions of a card's values are what the card's own equations make of their argument.

Blocks and sub-layers of every shipped family, of the stream that they read in a run, give what the
run has; of another stream what a run gives in which that one took its place.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from tests.laws.test_derived_names import FAMILIES, close
from viete.graph.opening import body_of
from viete.notation.parser import parse
from viete.notation.printer import STYLES, Printer

WITHOUT_LOGITS = {"bert", "roberta"}
PARALLEL = {"pythia", "gpt-j", "phi"}
# What stands in a block before and after attention and MLP, where a family has it otherwise.
ATTENTION = {
    "gemma2": r"norm_{Aout}^i(\text{Attn}^i(norm_A^i(X)))", "olmo2": r"norm_A^i(\text{Attn}^i(X))",
    "bert": r"norm_A^i(X + \text{Attn}^i(X)) - X", "attention-only-2": r"\tilde{A}^i(X)",
}  # fmt: skip
MLP = {
    "gemma2": "norm_{Mout}^i(M^i(norm_M^i(Y)))", "olmo2": "norm_M^i(M^i(Y))",
    "bert": "norm_M^i(Y + M^i(Y)) - Y",
}  # fmt: skip


def card_of(family: str) -> vt.Card:
    return tiny(next(p for p in shipped() if Path(p).stem == family))


def ran(family: str) -> Any:
    card = card_of(family)
    return card.run(None, random_weights(card, 3), **random_inputs(card, 4))


def words(family: str) -> dict[str, str]:
    """A family's block letter, its stream, its last block, and what its MLP reads."""
    letter, x, last = "i", "x", "L" if family == "pre-norm-pythia" else "N"
    before = f"{x}^{{{letter}-1}}"
    reads = before if family in PARALLEL else rf"{before} + \tilde{{A}}^{letter}"
    reads += r" + \tilde{C}^i" if family == "t5" else ""
    return {"letter": letter, "x": x, "last": last, "before": before, "reads": reads}


@pytest.mark.parametrize("family", FAMILIES)
def test_functions_of_what_a_run_has_give_what_it_has(family: str) -> None:
    run, w = ran(family), words(family)
    letter, x, last, before, reads = w.values()

    def same(a: str, b: str) -> None:
        a, b = (s.replace("X", before).replace("Y", f"({reads})").replace("^i", f"^{letter}")
                for s in (a, b))  # fmt: skip
        close(run[a], run[b])

    same(f"B_{letter}({before}) - {before}", rf"Δ{x}^{letter}")
    same(rf"\tilde{{A}}^{letter}({before})", rf"\tilde{{A}}^{letter}")
    same(rf"(B_{{{last}}} ∘ ⋯ ∘ B_1)({x}^0)", f"{x}^{{{last}}}")
    key = "bert" if family == "roberta" else family
    same(ATTENTION.get(key, r"\text{Attn}^i(norm_A^i(X))"), rf"\tilde{{A}}^{letter}")
    if family != "attention-only-2":
        same(rf"\tilde{{M}}^{letter}(Y)", rf"\tilde{{M}}^{letter}")
        same(MLP.get(key, "M^i(norm_M^i(Y))"), rf"\tilde{{M}}^{letter}")
        if family != "mixtral":  # whose experts are columns of a matrix
            same(rf"\tilde{{M}}^{letter}((Y)_1)", rf"\tilde{{M}}^{letter}_1")
    if family not in WITHOUT_LOGITS:
        same(f"logits({x}^{{{last}}})", "logits")
        same(f"logits({x}^{{{last}}}_1)", "logits_1")
        normed = f"{x}^{{{last}}}" if family == "attention-only-2" else f"norm({x}^{{{last}}})"
        same(rf"\text{{logit}}_2({normed}_1)", rf"(({normed}) U^T)_{{1,2}}")


@pytest.mark.parametrize("family", ["gpt2", "pythia", "gemma2", "bert", "mixtral"])
def test_functions_of_another_stream_are_a_run_in_which_it_took_the_place(family: str) -> None:
    card, rng = card_of(family), np.random.default_rng(1)
    weights, inputs = random_weights(card, 3), random_inputs(card, 4)
    run = card.run(None, weights, **inputs)
    other = rng.normal(size=run["x^1"].shape)
    put = card.run(None, weights, put={"x^1": other}, **inputs)
    close(run.ask(r"\tilde{A}^2(mine)", mine=other), put[r"\tilde{A}^2"])
    close(run.ask(r"(B_N ∘ B_{N-1} ∘ ⋯ ∘ B_2)(mine)", mine=other), put["x^N"])


def test_a_long_composition_takes_time_by_its_blocks() -> None:
    card = card_of("gpt2").bind(N=40)
    run = card.run(None, random_weights(card, 3), **random_inputs(card, 4))
    close(run["(B_N ∘ ⋯ ∘ B_1)(x^0)"], run["x^N"])


def test_exact_numbers_and_bounds() -> None:
    """Each lies in the bounds; exact ones of the stream of a run are those of the run."""
    card = card_of("llama").bind(N=2, n_max=3)
    weights = random_weights(card, 3, scale=0.5)
    question, value = "(B_2 ∘ B_1)(x^0)", "x^2"
    floats = card.run([1, 2, 3], weights)[question]
    bounds = card.run([1, 2, 3], weights, meaning="interval")[question]
    assert (bounds["lower"] <= floats).all() and (floats <= bounds["upper"]).all()
    exact = card_of("attention-only-2").bind(d=2, d_k=1)
    rational = {k: np.vectorize(lambda x: Fraction(round(x * 4), 4))(v)
                for k, v in random_weights(exact, 3).items()}  # fmt: skip
    run = exact.run([1, 2], rational, meaning="exact")
    close(run[question].astype(float), run[value].astype(float))


def test_a_name_is_a_function_before_a_parenthesis_alone() -> None:
    card = card_of("gpt2")
    for written in (r"\tilde{A}^2(x^1)", r"(B_2 ∘ B_1)(x^0)", "(B_N ∘ ⋯ ∘ B_1)(x^0)",
                    r"(\tilde{A}^2) (x^1 + x^0)^T", r"\text{logit}_3(norm(x^2_j))"):  # fmt: skip
        scope = card.scope.inside("j")
        e = parse(written, scope)
        assert parse(r"B_2 \circ B_1 (x^0)", scope) is parse("B_2(B_1(x^0))", scope)
        for style in STYLES:
            shown = Printer(style, None, frozenset(o.symbol.base for o in card.operators)).show(e)
            assert parse(shown, scope) is e, shown


@pytest.mark.parametrize(("question", "says"), [
    (r"\tilde{A}^2(x^1_0 + x^0_0)", r"row j of what it makes of x is tilde{A}^i(x)_j"),
    ("B_2(x^1, x^0)", "B_i takes 1 argument, not 2"),
    ("B_2", "the card has a function B_i(…)"),
    (r"\text{logit}_3(x^1)", "an inner product needs two vectors"),
    ("B_1 ∘ ⋯ ∘ B_N (x^0)", "the last block comes first: B_N ∘ ⋯ ∘ B_1"),
    ("(B_N ∘ ⋯)(x^0)", "dots stand between two functions"),
    ("(B_2 ∘ x)(x^0)", "a composition needs functions of the card"),
    ("B_9(x^1)", "at block 9"),
])  # fmt: skip
def test_what_is_no_call_is_refused(question: str, says: str) -> None:
    with pytest.raises(vt.VieteError) as caught:
        ran("gpt2")[question]
    assert says in str(caught.value)


@pytest.mark.parametrize(("line", "says"), [
    (r"$B_i(y) = x^i with x^{i-1} = y$", "the function B_i is already defined above"),
    (r"$f(y) = x^2 with x^3 = y$", "x^2 is not made of x^3"),
    (r"$f(y) = x^2 with y = x^1$", "'with' replaces a value of the card"),
    (r"$f(y) = x^2 with x^1$", "'with' needs a replacement"),
    (r"$f(y: n × d) = y$", "a function of the card's values names its arguments"),
    (r"$f(y) = x^N with x^0 = g(y)$", "unknown symbol g"),
])  # fmt: skip
def test_what_defines_no_function_is_refused(line: str, says: str) -> None:
    text = card_of("gpt2").write().replace("\n## Claims", f"- {line}\n\n## Claims")
    with pytest.raises(vt.VieteError) as caught:
        card = vt.read(text)
        card.run(None, random_weights(card, 3), **random_inputs(card, 4))["f(x^1)"]
    assert says in str(caught.value)


def test_derivatives_and_interventions_have_the_definition_in_its_place() -> None:
    card = card_of("gpt2")
    weights, inputs = random_weights(card, 3), random_inputs(card, 4)
    of = card.grad(of=r"\text{logit}_5(norm(B_2(x^1))_1)")
    same = card.grad(of="⟨U_5, LN(x^2_1; γ, β, ε)⟩")
    a, b = (c.run(None, weights, **inputs) for c in (of, same))
    for name in weights:
        if f"∂{name}" in b:
            close(a[f"∂{name}"], b[f"∂{name}"])
    run = card.run(None, weights, **inputs)
    close(run[r"∂(\text{logit}_5(norm(B_2(x^1))_1))/∂x^1"], b["∂x^1"])
    made = card.put("x^2 = B_2(B_1(x^0))")
    close(made.run(None, weights, **inputs)["x^2"], run["x^2"])
    assert vt.read(made.write()) == made
    with pytest.raises(vt.VieteError, match="so write out its def"):
        vt.read(card.write().replace(r"\mathrm{logits} = ", r"\mathrm{logits} = B_1(x^0) + ", 1))


def test_a_body_holds_no_letter_and_no_name_of_another() -> None:
    for family in ("olmo2", "gemma2", "mixtral"):
        card = card_of(family)
        for o in card.operators:
            body = body_of(card, o)
            assert body.formula.free <= {*o.letters}
            assert card.apart(body.formula) is body.formula
