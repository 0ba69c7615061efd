"""Dropout: the identity, but while a model is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import viete as vt
from viete.errors import VieteError
from viete.train.dropout import with_masks
from viete.train.loop import train
from viete.train.metrics import read_metrics
from viete.train.settings import Settings
from viete.train.setup import begin

CARD = r"""# Dropped

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 11 |
| $d$ | 6 |
| $H$ | 2 |
| $N$ | 2 |
| $p$ | 0.25 |
| $h$ | $1, …, H$ |
| $n$ | $≤ 16$ |

## Inputs

- $t ∈ \{0, …, V-1\}^n$: ids
- $y ∈ \{0, …, V-1\}^n$: targets

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V \times d$ |
| $W_Q^{i,h}, W_K^{i,h}, W_V^{i,h}$ | $d \times d$ |
| $W_{out}$ | $d \times V$ |

## Forward pass

1. $x^0 = dropout(E[t]; p)$

For $i = 1, …, N$:

2. $A^{i,h} = dropout(softmax(causal(x^{i-1} W_Q^{i,h} (x^{i-1} W_K^{i,h})^⊤)); p)$
3. $x^i = x^{i-1} + \sum_h(dropout(A^{i,h} x^{i-1} W_V^{i,h}; 0.5))$

4. $logits = x^N W_{out}$
5. $L = cross_entropy(logits; y)$
"""


def test_a_card_with_dropout_is_the_card_without() -> None:
    plain = (
        CARD.replace("dropout(E[t]; p)", "E[t]")
        .replace("; 0.5))", ")")
        .replace("sum_h(dropout(", "sum_h(")
        .replace("dropout(softmax", "softmax")
        .replace(")); p)$", "))$")
    )
    assert "dropout" not in plain
    model = vt.read(CARD)
    weights, t = model.initial_weights(0), [1, 5, 2]
    one, other = (vt.read(c).run(t, weights, y=t)["logits"] for c in (CARD, plain))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    assert vt.read(model.write()) == model


def test_masks_are_inputs_for_every_block_and_head() -> None:
    model = vt.read(CARD)
    masks = with_masks(model)
    drawn = masks.draw(0, 7, length=5, batch=3, dtype="float32")
    assert {name: m.shape for name, m in drawn.items()} == {
        "D_1": (3, 5, 6),
        "D_2^{1,h}": (3, 2, 5, 5), "D_2^{2,h}": (3, 2, 5, 5),
        "D_3^{1,h}": (3, 2, 5, 6), "D_3^{2,h}": (3, 2, 5, 6),
    }  # fmt: skip
    assert not np.array_equal(drawn["D_2^{1,h}"], drawn["D_2^{2,h}"])
    again = masks.draw(0, 7, 5, 3, "float32")
    assert all(np.array_equal(again[name], m) for name, m in drawn.items())
    assert not np.array_equal(masks.draw(0, 8, 5, 3, "float32")["D_1"], drawn["D_1"])
    # With masks of 1 it is the card; with those drawn, each row of A has entries of 0.
    weights, t = model.initial_weights(0, "float32"), np.array([[1, 5, 2, 2, 0]] * 3)
    ones = {name: np.ones_like(m) for name, m in drawn.items()}
    run = masks.model.run(t, weights, y=t, **ones)
    np.testing.assert_allclose(run["logits"], model.run(t, weights, y=t)["logits"], rtol=1e-6)
    run = masks.model.run(t, weights, y=t, **drawn)
    zero = np.asarray(run["A^{2,h}"] == 0)
    np.testing.assert_array_equal(zero | (drawn["D_2^{2,h}"] != 0), True)


def test_what_is_kept_is_scaled_so_that_the_mean_stays() -> None:
    drawn = with_masks(vt.read(CARD)).draw(3, 0, length=16, batch=400, dtype="float64")
    for name, p in ("D_1", 0.25), ("D_2^{1,h}", 0.25), ("D_3^{2,h}", 0.5):
        assert set(np.unique(drawn[name])) == {0, 1 / (1 - p)}
        assert drawn[name].mean() == pytest.approx(1, abs=0.02)


def test_training_drops_and_validation_does_not(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("ab cd ef gh " * 100)

    def trained(name: str, card: str, **given: object) -> list[dict[str, float]]:
        chosen = Settings(data=str(tmp_path / "text"), steps=3, batch=4, length=8, log_every=1,
                          **given)  # fmt: skip
        train(begin(chosen, vt.read(card), tmp_path / name))
        return read_metrics(tmp_path / name)

    keys = ("step", "loss", "validation")
    one, two = ([[r.get(k) for k in keys] for r in trained(n, CARD)] for n in "ab")
    assert one == two
    without = CARD.replace("| 0.25 |", "| 0 |").replace("; 0.5)", "; 0)")
    plain = [[r.get(k) for k in keys] for r in trained("c", without)]
    assert plain[0] == one[0]  # validation before the first step: the same weights, no masks
    assert plain[1] != one[1]
    assert "dropout" in (tmp_path / "a" / "card.md").read_text()


@pytest.mark.parametrize("p", ["1", "-0.1", "n", "E"])
def test_a_probability_is_one(p: str) -> None:
    with pytest.raises(VieteError):
        with_masks(vt.read(CARD.replace("E[t]; p)", f"E[t]; {p})")))


def test_a_cards_own_dropout_is_its_own() -> None:
    card = CARD.replace("## Forward", "## Functions\n\n- $dropout(z; p) = p z$: half\n\n## Forward")
    assert not with_masks(vt.read(card)).chances
