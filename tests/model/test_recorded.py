"""Recorded values: which agree, which only under a change, and what each may be called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.model.test_compare import CARD, weights_of
from viete import read
from viete.meanings.run import run
from viete.model import repairs
from viete.model.mapping import to_checkpoint

TOKENS = [1, 5, 3, 3, 10, 0]


@pytest.fixture
def no_long_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """For differences that no change explains."""
    monkeypatch.setattr(repairs, "SECONDS", 0.1)


def recorded(model: vt.Card, *names: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights, and values of a model run with them."""
    weights = weights_of(model)
    values = run(model, TOKENS, {n: w.astype(np.float64) for n, w in weights.items()})
    return weights, {
        "tokens": np.array(TOKENS),
        **{n: np.asarray(values[n]) for n in names},
        **more,
    }


def held(card: str, names: list[str], true: str = CARD, **more: Any) -> Any:
    """The report of a card on what another computed."""
    weights, outputs = recorded(read(true), *names, **more)
    kept = {n: w for n, w in weights.items() if n in read(card).parameter_shapes}
    return read(card).check(kept, against=outputs)


def test_what_agrees_only_under_a_change_is_no_agreement() -> None:
    """Block 2 is computed with the equation that was repaired in block 1."""
    report = held(CARD.replace("GELU(", "SiLU("), ["x^1", "x^2", "logits"])
    found = report.recorded
    assert [d.name for d in found.differences] == ["x^1"]
    assert found.repaired == ("x^2",) and found.agree == ("logits",)
    text = "\n".join(report.lines())
    assert "agree too, and only with them (1): x^2" in text
    assert "Agree with what was recorded (1): logits" in text


def test_what_does_not_depend_on_a_change_agrees() -> None:
    """Of what lies behind a difference, only what the change is in is computed otherwise."""
    report = held(CARD.replace(" / \\sqrt{d}", ""), ["A^1", "a^1", "x^1"])
    assert [d.name for d in report.recorded.differences] == ["A^1"]
    assert report.recorded.agree == ("a^1", "x^1") and not report.recorded.repaired


@pytest.mark.usefixtures("no_long_search")
def test_what_differs_even_under_a_change_says_so() -> None:
    """The same equation, and another fault in block 2 alone."""
    report = held(CARD.replace("GELU(", "SiLU("), ["x^1"], **{"x^2": np.ones((6, 8))})
    first, second = report.recorded.differences
    assert not first.repaired and second.name == "x^2" and second.repaired
    assert "computed with the changes above" in "\n".join(report.lines())


def test_a_value_is_not_compared_for_want_of_a_weight_far_behind_it() -> None:
    model = read(CARD)
    weights, outputs = recorded(model, "x^1", "logits")
    del weights["b^1"], outputs["x^1"]
    report = model.check(weights, against=outputs)
    assert report.recorded.skipped["logits"] == "it needs the weight b^1"
    assert "at block ." not in "\n".join(report.lines())


def test_one_prefixed_name_is_one() -> None:
    """And not every name of the file."""
    card = vt.read("gpt2").bind(**GPT2)
    tensors = to_checkpoint(card, weights_of(card))
    table = "transformer.wte.weight"
    one = {("model." + n if n == table else n): w for n, w in tensors.items()}
    text = "\n".join(card.check(one).lines())
    assert f"model.{table} in the file is the card's name with model. in front." in text
    every = {"model." + n: w for n, w in tensors.items()}
    text = "\n".join(card.check(every).lines())
    assert "The file's names are the card's with model. in front." in text


FORMULAS = [
    "A^{2,1}",
    "Q^{1,h} {K^{1,h}}^⊤",
    "x^1_3",
    "A^{1,h} x^0",
    "u^1 W_Q^{1,2}",
]
HEADS = CARD.replace("| $N$ | 2 |", "| $N$ | 2 |\n| $h$ | 1, …, 2 |").replace(
    "| $W_Q^i, W_K^i, W_F^i$ | d × d |", "| $W_Q^{i,h}, W_K^{i,h}$ | d × 4 |\n| $W_F^i$ | d × d |"
)
HEADS = (
    HEADS[: HEADS.index("3. $S^i")]
    + """3. $Q^{i,h} = u^i W_Q^{i,h}$
4. $K^{i,h} = u^i W_K^{i,h}$
5. $A^{i,h} = softmax(causal(Q^{i,h} {K^{i,h}}^⊤ / 2))$
6. $a^i = \\sum_h A^{i,h} u^i$
7. $x^i = x^{i-1} + a^i + GELU(u^i W_F^i + b^i)$
8. $logits = x^N U$
"""
)


def test_single_heads_and_formulas_are_compared() -> None:
    report = held(HEADS, [*FORMULAS, "argmax(logits)"], HEADS)
    assert set(report.recorded.agree) == {*FORMULAS, "argmax(logits)"}, report.lines()
    assert report.ok, report.lines()


@pytest.mark.parametrize("name", FORMULAS)
def test_a_fault_is_found_behind_a_formula(name: str) -> None:
    wrong = HEADS.replace("LN(x^{i-1}; γ^i, β^i, 1e-5)", "LN(x^{i-1}; γ^i, β^i, 0.1)")
    report = held(wrong, [name], HEADS)
    (difference,) = report.recorded.differences
    assert difference.name == name and not report.ok
    assert "LN has ε = 1e-5" in difference.fits[0][0], report.lines()
    assert name in "\n".join(report.lines())


def test_names_that_are_none_say_why() -> None:
    report = held(
        HEADS, ["x^1"], HEADS, nonsense=np.zeros(3), n=np.array(3.0), **{"A^{i,h}": np.zeros(3)}
    )
    assert "the file has no value that a run computes" in report.recorded.skipped["n"]
    assert "unknown symbol nonsense" in report.recorded.skipped["nonsense"]
    assert "i is not a block number; write a number" in report.recorded.skipped["A^{i,h}"]


GPT2 = {"V": 13, "d": 24, "N": 2, "H": 6, "n_max": 40}


@pytest.mark.usefixtures("no_long_search")
def test_names_of_transformer_lens_are_compared() -> None:
    """Positions before heads, as its cache has them; with a batch axis and without."""
    card = vt.read("gpt2").bind(**GPT2)
    weights = {n: w.astype(np.float64) for n, w in weights_of(card).items()}
    values = run(card, [[1, 2, 3, 4]], weights)
    heads = np.moveaxis(np.asarray(values["Q^{1,h}"]), 1, 2)
    outputs = {
        "tokens": np.array([[1, 2, 3, 4]]), "blocks.0.attn.hook_q": heads,
        "blocks.1.attn.hook_pattern": np.asarray(values["A^{2,h}"]),
        "blocks.1.hook_resid_post": np.asarray(values["x^2"])[0],
    }  # fmt: skip
    report = card.check(weights, against=outputs)
    assert report.ok and len(report.recorded.agree) == 3, report.lines()
    outputs["blocks.0.attn.hook_q"] = heads * 2
    report = card.check(weights, against=outputs)
    difference = report.recorded.differences[0]
    assert difference.name == "blocks.0.attn.hook_q" and set(difference.where) >= {"h", "row"}
    assert "blocks.0.attn.hook_q, equation 3: Q^{i,h} =" in "\n".join(report.lines())


def test_names_that_the_card_lacks_and_axes_that_differ_are_told() -> None:
    card = vt.read("gpt2").bind(**GPT2)
    outputs = {
        "tokens": np.array([1, 2]), "blocks.0.attn.hook_rot_q": np.zeros((2, 6, 4)),
        "blocks.0.attn.hook_z": np.zeros((2, 5, 4)), "blocks.0.attn.hook_v": np.zeros((2, 4)),
    }  # fmt: skip
    found = card.check(weights_of(card), against=outputs).recorded.skipped
    assert "its queries are not rotated" in found["blocks.0.attn.hook_rot_q"]
    assert "recorded with 5 heads, and the card has 6" in found["blocks.0.attn.hook_z"]
    assert "recorded with 2 axes, but it has 4" in found["blocks.0.attn.hook_v"]


FORGOTTEN = {
    "1/√d": (" / \\sqrt{d}", "", "S^1", "u^i W_Q^i (u^i W_K^i)^T is divided by sqrt(d)"),
    "the residual": ("x^{i-1} + a^i", "a^i", "x^1", "x^{i-1} is added to the right side"),
    "the mask": ("softmax(causal(S^i))", "softmax(S^i)", "A^1", "the scores are causal"),
    "one residual too many": ("= A^i u^i", "= A^i u^i + u^i", "a^1", "without + u^i"),
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_what_is_often_forgotten_is_tried(what: str) -> None:
    right, wrong, name, said = FORGOTTEN[what]
    assert right in CARD
    every = [f"{v}^{i}" for i in (1, 2) for v in "uSAax"]
    report = held(CARD.replace(right, wrong), every)
    first = report.recorded.differences[0]
    assert first.name == name and any(said in fit for fit, _ in first.fits), report.lines()
    assert len(report.recorded.differences) == 1
