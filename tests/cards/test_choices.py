"""Choices: one card for a family, a member of it by its config."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.evaluate.evaluated import EvaluatedGradients
from viete.cards import reader
from viete.cards.config import Config
from viete.errors import VieteError
from viete.notation.printer import show_equation

CARD = """# Family

- **config model_type**: family

## Dimensions

| symbol | value | config |
| --- | --- | --- |
| $V$ | 7 | vocab_size |
| $d$ | 4 | hidden_size |
| $N$ | 6 | num_hidden_layers |
| $w$ | 2 | window |
| $s$ | 3 | scale |
| $n$ | ≤ 9 | |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W^i$ | $d × d$ |
| $b^i$ | $d$ |
| $U$ | $d × V$ |

## Choices

| config | is | then |
| --- | --- | --- |
| `act` | relu or missing | $φ(z) = ReLU(z)$ |
| | tanh, tan | $φ(z) = tanh(z)$ |
| | scaled | $φ(z) = s * tanh(z / s)$ |
| `bias` | false or missing | $b^i = 0$ |
| | true | |
| `tie` | true | $U = E^⊤$ |
| | false or missing | |
| `kinds.{i-1}` | wide or missing | $M^i = causal(x^{i-1} {x^{i-1}}^⊤)$ |
| | narrow | $M^i = window(x^{i-1} {x^{i-1}}^⊤; w)$ |

## Forward pass

1. $x^0 = E[t]$

For $i = 1, …, N$:

2. $x^i = x^{i-1} + softmax(M^i) φ(x^{i-1} W^i + b^i)$

Then:

3. $logits = x^N U$
"""
GIVEN: dict[str, Any] = {"model_type": "family", "vocab_size": 7, "hidden_size": 4,
                         "num_hidden_layers": 6}  # fmt: skip


def reads(text: str, **options: Any) -> vt.Card:
    return vt.Card.of(reader.reads(text, **options))


def member(accept: tuple[str, ...] = (), **config: Any) -> vt.Card:
    return reads(CARD, config=Config({**GIVEN, **config}), accept=accept)


def refusal(**config: Any) -> str:
    with pytest.raises(VieteError) as caught:
        member(**config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def body(model: vt.Card, k: int = 1) -> str:
    e = model.equations[k]
    return show_equation(e.left, e.right)


def test_without_a_config_the_first_rows_hold() -> None:
    model = reads(CARD)
    assert body(model) == "x^i = x^{i-1} + softmax(causal(x^{i-1} x^{i-1}^T)) ReLU(x^{i-1} W^i)"
    assert body(model, 2) == "logits = x^N E^T"
    assert [p.name for p in model.parameters] == ["E", "W^i"]
    assert [d.name for d in model.dims] == ["V", "d", "N", "n"]


def test_a_member_is_a_card_like_any_other() -> None:
    model = member(bias=True, act="scaled", scale=5, tie=True)
    again = reads(model.write())
    assert again == model
    assert body(again).endswith("(s * tanh((x^{i-1} W^i + b^i) / s))")
    assert again.sizes["s"] == 5
    tokens = [1, 2, 3]
    weights = model.initial_weights()
    np.testing.assert_array_equal(model.run(tokens, weights)["logits"],
                                  again.run(tokens, weights)["logits"])  # fmt: skip


def test_what_only_other_rows_need_may_be_missing() -> None:
    assert "w" not in member().sizes
    assert refusal(act="scaled") == "the config: scale is missing, so s has no value"
    assert member(act="tan").functions == ()


@given(kinds=st.lists(st.sampled_from(["wide", "narrow"]), min_size=6, max_size=6))
def test_each_block_its_own(kinds: list[str]) -> None:
    model = member(kinds=kinds, window=2)
    weights = model.initial_weights(seed=1)
    tokens = [1, 5, 2, 6, 3]
    run = model.run(tokens, weights)
    x = run["x^0"]
    for i, kind in enumerate(kinds, 1):
        scores = x @ x.T
        j, k = np.indices(scores.shape)
        seen = (k <= j) & ((j - k < 2) if kind == "narrow" else True)
        a = np.exp(np.where(seen, scores, -np.inf))
        x = x + a / a.sum(1, keepdims=True) @ np.maximum(x @ weights[f"W^{i}"], 0)
        np.testing.assert_allclose(run[f"x^{i}"], x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("kinds", "condition"),
    [("wwwwww", ""), ("nnnnnn", ""), ("nnwwww", "3 <= i"), ("nwnwnw", "i mod 2"),
     ("wwnwwn", "i mod 3 "), ("nwwnww", "i mod 3"), ("wwnwww", "i = 3"),
     ("wnwwnn", "i = ")],
)  # fmt: skip
def test_conditions_are_short(kinds: str, condition: str) -> None:
    names = [{"w": "wide", "n": "narrow"}[c] for c in kinds]
    said = body(member(kinds=names, window=2))
    assert ("where" in said) == bool(condition)
    assert condition in said


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"act": "gelu"}, "act is gelu, but the card Family needs relu or missing, or tanh, tan"),
        ({"bias": 1}, "bias is 1"),
        ({"kinds": ["wide"] * 5 + ["odd"], "window": 2}, "kinds.5 is odd"),
        ({"model_type": "other"}, "model_type is other"),
        ({"model_type": None}, "model_type is missing"),
        ({"surprise": 3}, "surprise is 3, and no equation of the card Family uses that"),
        ({"deep": {"er": "x"}}, "deep.er is x"),
        ({"odd": 1, "even": {"er": 2}}, "odd is 1, even.er is 2, and no equation of the card"),
        ({"odd": 1, "even": 2}, "if you know that it does, accept odd, even"),
        ({"hidden_size": None}, "hidden_size is missing, so d has no value"),
        ({"hidden_size": "4"}, "hidden_size gives d, so it must be a number"),
    ],
    ids=str,
)
def test_refused(config: dict[str, Any], message: str) -> None:
    assert message in refusal(**config)


def test_knowingly() -> None:
    assert member(accept=("surprise",), surprise=3) == member()
    assert member(attn_pdrop=0.1, surprise=None, torch_dtype="float16") == member()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("$b^i = 0$", "$b^i = q$", "q"),
        ("$b^i = 0$", "$b^i = b^i$", "define each other"),
        ("$φ(z) = tanh(z)$", "$φ(z = tanh(z)$", ""),
        ("| `act` | relu or missing |", "| | relu or missing |", "needs a config key"),
        ("| | tanh, tan |", "| | |", "needs a config key"),
        ("kinds.{i-1}", "kinds.{j-1}", ""),
        ("| config | is | then |", "| config | was | then |", "no column is called"),
    ],
)  # fmt: skip
def test_wrong_cards(old: str, new: str, message: str) -> None:
    assert old in CARD
    with pytest.raises(VieteError) as caught:
        reads(CARD.replace(old, new), config=Config({**GIVEN, "kinds": ["wide"] * 6}))
    assert message in str(caught.value)


def test_the_cards_own_functions_stay() -> None:
    card = CARD.replace("## Choices", "## Functions\n\n- $twice(z) = 2 * z$\n\n## Choices")
    card = card.replace("$φ(z) = tanh(z)$", "$φ(z) = twice(z)$")
    model = reads(card, config=Config({**GIVEN, "act": "tan"}))
    assert [f.name for f in model.functions] == ["twice"]
    assert reads(card).functions == ()


@given(kinds=st.lists(st.sampled_from(["wide", "narrow"]), min_size=6, max_size=6))
@settings(max_examples=10)
def test_blocks_that_differ_in_every_meaning(kinds: list[str]) -> None:
    """Gradients, plans and the derived cache, of a card that writes `where(i mod 2 = 0, …)`."""
    model = member(kinds=kinds, window=2)
    weights = model.initial_weights(seed=3)
    tokens = np.array([[1, 5, 2, 6, 3], [2, 2, 1, 0, 4]])
    of = "sum(logits_0 ⊙ logits_1)"
    loss, gradients = EvaluatedGradients(model, of)(tokens, weights)
    plan = model.planned(weights, of)
    assert plan(tokens) == pytest.approx(loss, rel=1e-12)
    for name, g in gradients.items():
        np.testing.assert_allclose(plan.gradients[name], g, rtol=1e-10, atol=1e-12)
        step = 1e-6 * np.random.default_rng(0).standard_normal(g.shape)
        ends = [loss_at(model, of, tokens, {**weights, name: weights[name] + s})
                for s in (step, -step)]  # fmt: skip
        assert ends[0] - ends[1] == pytest.approx(2 * float((g * step).sum()), rel=1e-3, abs=1e-9)
    cached, full = (list(model.sample([1, 2], weights, most=6, greedy=True, cache=c))
                    for c in (True, False))  # fmt: skip
    assert cached == full


def loss_at(model: vt.Card, of: str, tokens: Any, weights: Any) -> float:
    return float(np.mean(model.run(tokens, weights)[of]))


# -- equations that only some members have, and what tensors say -----------------------------------

PARTS = CARD.replace(
    "| `tie` | true |",
    """| `tensor pool.weight, head` | there, pool | $pooled$ |
| | any | |
| `head` | any | $logits$ |
| | missing | |
| `tie` | true |""",
).replace("# Family", "# Family\n\n- **config head**: any or missing").replace(
    "3. $logits = x^N U$",
    "3. $pooled = x^N_0 C$\n4. $logits = x^N U$\n\n## Derived\n\n- $top = max(pooled)$\n\n"
    "## Claims\n\n- $top ≤ top$\n- $logits = x^N U$",
).replace("| $U$ | $d × V$ |", "| $U$ | $d × V$ |\n| $C$ | $d × d$ |")  # fmt: skip


def parts(tensors: dict[str, tuple[int, ...]] | None = None, **config: Any) -> vt.Card:
    return reads(PARTS, config=Config({**GIVEN, "tie": False, **config}, tensors))


@pytest.mark.parametrize(
    ("tensors", "head", "last", "weights"),
    [
        (None, "pool", ["pooled", "logits"], {"U", "C"}),
        (None, "other", ["x^i", "logits"], {"U"}),
        ({"a.pool.weight": (4, 4)}, "other", ["pooled", "logits"], {"U", "C"}),
        ({"pool.bias": (4,)}, "pool", ["x^i", "logits"], {"U"}),
    ],
)
def test_a_name_alone_is_an_equation(
    tensors: Any, head: str, last: list[str], weights: set[str]
) -> None:
    """Without it nothing that was made of it is left: weights, derived names and claims."""
    model = parts(tensors, head=head)
    assert [e.name for e in model.equations][-2:] == last
    assert {p.name for p in model.parameters} & {"U", "C"} == weights
    there = "pooled" in last
    assert bool(model.derived) == there
    assert len(model.claims) == 1 + there
    assert reads(model.write()) == model


def test_sizes_are_asked_of_tensors() -> None:
    card = CARD.replace("| vocab_size |", "| size E.weight 0, vocab_size |").replace(
        "| num_hidden_layers |", "| count blocks.*.W |")  # fmt: skip
    given = {k: GIVEN[k] for k in ("model_type", "hidden_size")} | {"tie": True}
    shapes = {"net.E.weight": (5, 4), **{f"net.blocks.{i}.W": (4, 4) for i in range(3)}}
    model = reads(card, config=Config(given, shapes))
    assert (model.sizes["V"], model.sizes["N"]) == (5, 3)
    with pytest.raises(VieteError, match=r"vocab_size is missing, so V has no value"):
        reads(card, config=Config(given, {}))


def test_what_no_row_defines_is_asked_for() -> None:
    card = CARD.replace("| | tanh, tan | $φ(z) = tanh(z)$ |", "| | none | |")
    with pytest.raises(VieteError, match=r"act is none, .* needs to know which: relu"):
        reads(card, config=Config({**GIVEN, "act": "none"}))
    with pytest.raises(VieteError, match="no equation defines pooling"):
        reads(PARTS.replace("| $pooled$ |", "| $pooling$ |"))


def test_functions_of_weights_dimensions_and_arguments() -> None:
    """An argument hides what has its name outside, as E and s are here."""
    made = "$f(z; s) = z + s$, $φ(E) = s * E C + f(E; E C)$"
    card = CARD.replace("$φ(z) = tanh(z)$", made).replace(
        "| $U$ | $d × V$ |", "| $U$ | $d × V$ |\n| $C$ | $d × d$ |")  # fmt: skip
    model = reads(card, config=Config({**GIVEN, "act": "tanh", "scale": 2, "tie": False}))
    said = show_equation(model.equations[1].left, model.equations[1].right)
    assert said.endswith("(s * x^{i-1} W^i C + (x^{i-1} W^i + x^{i-1} W^i C))")
    assert "C" not in {p.name for p in reads(card, config=Config(GIVEN)).parameters}


def test_a_null_counts_in_its_place() -> None:
    """Of several keys, one that is null counts where a row lists it."""
    card = CARD.replace("| `act` | relu or missing |", "| `act, other` | relu, null |")
    assert reads(card, config=Config({**GIVEN, "act": None, "other": "tanh"})).equations == (
        reads(card, config=Config({**GIVEN, "act": "relu"})).equations
    )
    with pytest.raises(VieteError, match="act or other is missing"):
        reads(card, config=Config(GIVEN))
