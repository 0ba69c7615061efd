"""A card's claims, evaluated: for every block, head and position, to a stated tolerance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from tests.laws.strategies import shipped, tiny
from tests.model.test_compare import CARD, weights_of
from viete import read
from viete.errors import VieteError
from viete.formats.files import save_safetensors
from viete.model.mapping import to_checkpoint

HEADS = """# Heads

## Dimensions

| symbol | value |
| --- | --- |
| $d$ | 6 |
| $r$ | 3 |
| $n$ | ≤ 5 |
| $h$ | 1, …, 2 |

## Inputs

- $x ∈ ℝ^{n × d}$

## Parameters

| symbol | shape |
| --- | --- |
| $W_Q^h, W_K^h, W_V^h$ | d × r |

## Forward pass

1. $A^h = softmax(causal(x W_Q^h (x W_K^h)^⊤))$
2. $z^h = A^h x W_V^h$
3. $y = concat_h(z^h)$

## Claims

"""


def claiming(claim: str, card: str = HEADS) -> vt.Card:
    return read(card + ("" if card is HEADS else "\n## Claims\n\n") + f"- ${claim}$: so\n")


TRUE = [
    "0 = 0",
    "y = concat_h(A^h x W_V^h)",
    "sum(A^h) = 1",
    r"\sum_{k=0}^{n-1} A^h_{j,k} = 1",  # for every head and every position j
    "A^h_{j,k} ≥ 0 and A^h_{j,k} ≤ 1",
    "A^h > 0 or A^h = 0",
    r"k ≤ j or A^h_{j,k} = 0",
    "where(k > j, A^h_{j,k} = 0, A^h_{j,k} > 0)",
    "not (A^h_{0,0} < 1)",
    "mean(x - mean(x)) = 0",  # of numbers that cancel nothing is left to be relative to
    "causal(A^h) = causal(A^h)",  # −∞ on both sides
    r"z^h_j = \sum_{k=0}^{n-1} (A^h_{j,k} * (x W_V^h)_k)",
    "A^g = softmax(causal(x W_Q^g (x W_K^g)^⊤))",  # a head's letter of its own
]
FALSE = [
    "0 = 1",
    "y = concat_h(x W_V^h)",
    r"\sum_{j=0}^{n-1} A^h_{j,k} = 1",
    "A^h_{j,k} < 1",
    "A^h > 0",
    "k ≤ j or A^h_{j,k} > 0",
    "A^h = A^g",
    "A^h ≠ softmax(causal(x W_Q^h (x W_K^h)^⊤))",
    "not (A^h = A^h)",
    "sqrt(0 - x ⊙ x) = sqrt(0 - x ⊙ x)",  # no numbers are equal to no numbers
    "not (sqrt(0 - x ⊙ x) = 1)",
    "x W_V^h + 1e-6 = x W_V^h",
]


@pytest.mark.parametrize("claim", TRUE)
def test_what_is_true_holds(claim: str) -> None:
    found = claiming(claim).check()
    assert found.ok, found.lines()


@pytest.mark.parametrize("claim", FALSE)
def test_what_is_false_fails(claim: str) -> None:
    found = claiming(claim).check()
    assert not found.ok and "✗ false" in "\n".join(found.lines())


def test_a_false_claim_has_its_numbers_and_their_place() -> None:
    """For every block: the one where it fails is named."""
    model = claiming("x^i - x^{i-1} = a^i + GELU(u^i W_F^i + b^i) * i", CARD)
    (verdict,) = model.check().verdicts
    assert verdict.failure is not None
    assert verdict.failure.where["i"] == 2 and {"row", "col"} < set(verdict.failure.where)
    assert verdict.failure.difference == abs(verdict.failure.left - verdict.failure.right) > 1e-3
    text = "\n".join(model.check().lines())
    assert "at i 2, row" in text and f"{verdict.failure.left:.6g}" in text
    assert "random weights" in text and "tolerance" in text and "1e-09" in text


def test_claims_hold_of_given_weights_and_inputs() -> None:
    """What is false in general may hold of one model, and the other way round."""
    model = claiming("x^1 = x^0", CARD)
    assert not model.check().ok
    weights = {n: 0 * w for n, w in weights_of(model).items()}
    found = model.check(weights)
    assert found.ok, found.lines()
    tokens = claiming("x^0_0 = E_3 + P_0", CARD)
    assert tokens.check(tokens=[3, 1]).ok and not tokens.check(tokens=[1, 3]).ok


@pytest.mark.parametrize("claim", ["x^0_j = E_{t_j} + P_j", "P_j + E_{t_j} = x^0_j"])
def test_a_position_counts_the_text_in_a_longer_table_too(claim: str) -> None:
    assert claiming(claim, CARD).check().ok


def test_claims_of_a_file_are_evaluated_with_its_weights(tmp_path: Path) -> None:
    model = claiming("x^1 = x^0 + a^1 + GELU(u^1 W_F^1 + b^1)", CARD)
    wrong = claiming("E = 0", CARD)
    save_safetensors(tmp_path / "w.safetensors", weights_of(model))
    assert model.check(tmp_path / "w.safetensors").ok
    found = wrong.check(tmp_path / "w.safetensors")
    assert not found.ok and "✗ false" in "\n".join(found.lines())
    lacking = {n: w for n, w in weights_of(model).items() if n != "E"}
    assert "not evaluated" in "\n".join(model.check(lacking).lines())


def test_weights_that_the_card_gives_are_those_of_its_claims() -> None:
    card = HEADS.replace("| shape |\n| --- | --- |", "| shape | value |\n| --- | --- | --- |")
    model = read(card.replace("| d × r |", "| d × r | 0 |") + "- $y = 0$: so\n")
    found = model.check()
    assert found.ok and "the card's own weights" in "\n".join(found.lines())


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("A^h_{j,k} = j + q", "unknown symbol q"),
        ("x^q = 0", "the letter q counts no rows, columns, heads or blocks here"),
        ("A^h_{j,k} = x_{k,j}", "j counts n places from 0 elsewhere and d from 0 here"),
        ("A^h_{j,k} + x", "a claim needs a relation"),
    ],
)
def test_claims_that_cannot_be_meant(claim: str, said: str) -> None:
    with pytest.raises(VieteError, match=said):
        claiming(claim).check()


def test_a_block_that_is_not_there_points_at_the_claim() -> None:
    assert claiming("x^{i+1} = x^{i+1}", CARD).check().ok  # of the blocks that have a next one
    with pytest.raises(VieteError, match="does not have a value in any block"):
        claiming("x^{i+9} = x^{i+9}", CARD).check()


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_the_claims_of_shipped_cards_hold(path: str) -> None:
    model = tiny(path)
    found = model.check()
    assert found.ok and len(found.verdicts) == len(read(path).claims), found.lines()


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "card.md"
    path.write_text(HEADS + "- $sum(A^h) = 1$: rows of a pattern\n")
    said = viete("check", path).out
    assert "proved" in said and "random weights and inputs" in said
    path.write_text(HEADS + "- $sum(A^h) = 2$: never\n")
    said = viete("check", path, "--seed", 7, code=1).out
    assert "✗ false" in said and "seed 7" in said and "right 2" in said
    path.write_text(HEADS.replace("\n## Claims\n", ""))
    said = viete("check", path).out
    assert "makes no claims" in said


def test_weights_without_end_are_not_drawn() -> None:
    said = viete("check", "llama", code=2).err
    assert "--set" in said and "Traceback" not in said


def test_rounded_weights_are_computed_in_float64() -> None:
    model = claiming("mean(u^i - β^i) = mean(u^i) - mean(β^i)", CARD)
    half = {n: w.astype(np.float16) for n, w in weights_of(model).items()}
    assert model.check(half).ok


def test_a_loaded_model_checks_itself_folded_or_not(tmp_path: Path) -> None:
    card = vt.read("gpt2").bind(V=12, d=24, N=2, H=2, n_max=8, d_f=8)
    (tmp_path / "card.md").write_text(card.write())
    save_safetensors(tmp_path / "w.safetensors", to_checkpoint(card, weights_of(card)))
    found = vt.load(tmp_path / "w.safetensors", card=tmp_path / "card.md")
    for model in (found, found.folded()):
        checked = model.check(tokens=[1, 2, 3])
        assert checked.ok and checked.claims is not None, checked.lines()
        assert "these weights and this input" in "\n".join(checked.lines())
