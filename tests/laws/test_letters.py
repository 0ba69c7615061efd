"""The ladder of cards with letters: every text runs, and each card adds one idea to another."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest

import viete as vt
from viete.cards.catalogue import shipped

LADDER = ("table", "vectors", "attention", "causal", "block", "induction")


def ready(name: str) -> vt.Model:
    card = vt.read(f"letters-{name}")
    return card.with_weights(card.initial_weights())


def texts(model: vt.Model, length: int) -> list[tuple[int, ...]]:
    return list(product(range(len(model.card.vocabulary)), repeat=length))


def predictions(model: vt.Model, found: list[tuple[int, ...]]) -> list[int]:
    """What the model predicts at the end of each text, in floating-point numbers."""
    return [int(y) for y in model.run(np.array(found))["y"][:, -1]]


@pytest.mark.parametrize("name", LADDER)
def test_every_text_runs_and_exact_numbers_predict_the_same(name: str) -> None:
    model = ready(name)
    exact = model.card.exact_weights
    for length in (1, 2, 3):
        found = texts(model, length)
        few = found[:: max(1, len(found) // 8)]
        ends = [model.card.run(t, exact, meaning="exact")["y"][-1] for t in few]
        assert ends == predictions(model, few)
    assert np.isfinite(model.run(np.array(texts(model, 5)))["logits"]).all()
    longest = model.card.sizes["n_max"]
    assert np.isfinite(model.run([k % 2 for k in range(int(longest))])["logits"]).all()


# -- what each card does ---------------------------------------------------------------------------


def test_attention_predicts_the_letter_whose_share_is_greater() -> None:
    """The other letter counts e times as much as the last one."""
    model = ready("causal")
    for length in range(1, 8):
        found = texts(model, length)
        for t, y in zip(found, predictions(model, found), strict=True):
            own = t.count(t[-1])
            assert y == (1 - t[-1] if (length - own) * np.e > own else t[-1])


def test_a_block_makes_a_set_of_the_last_two_letters() -> None:
    model = ready("block")
    for length in range(1, 6):
        found = texts(model, length)
        for t, y in zip(found, predictions(model, found), strict=True):
            before = t[-2] if length > 1 else t[-1]
            assert (before + t[-1] + y) % 3 == 0  # all the same, or all different


def test_two_blocks_continue_what_stood_before() -> None:
    """Of the other letters that followed an earlier copy, one of the most frequent."""
    model = ready("induction")
    for length in range(2, 7):
        found = texts(model, length)
        for t, y in zip(found, predictions(model, found), strict=True):
            followed = Counter(b for a, b in pairwise(t) if a == t[-1] and b != a)
            assert not followed or followed[y] == max(followed.values())


# -- each card without its idea is another ---------------------------------------------------------


def test_vectors_make_the_table() -> None:
    table, vectors = ready("table"), ready("vectors")
    for t in texts(table, 2):
        assert (table.run(t)["logits"] == vectors.run(t)["logits"]).all()


def test_attention_to_oneself_alone_is_no_attention() -> None:
    model = ready("attention")
    weights = {k: model.weights[k] for k in ("E", "W_U")}
    vectors = vt.read("letters-vectors").bind(N_V=2).with_weights(weights)
    alone = model.put("A_{j,k} = where(j = k, 1, 0)")
    for t in texts(model, 3):
        assert (alone.run(t)["logits"] == vectors.run(t)["logits"]).all()


def test_a_mask_makes_every_position_the_last_of_its_text() -> None:
    free, masked = ready("attention"), ready("causal")
    for t in texts(free, 5):
        rows = masked.run(t)["logits"]
        for k in range(5):
            np.testing.assert_allclose(rows[k], free.run(t[: k + 1])["logits"][-1], rtol=1e-15)


def test_a_block_without_its_parts_is_attention() -> None:
    block = ready("block")
    weights = {k: block.weights[k] for k in ("E", "W_Q", "W_K", "W_V")}
    weights["W_U"] = block.weights["E"].T
    bare = block.put("x = E[t]").put("s = o")
    attention = attending(shipped()["letters-causal"].read_text("utf-8")).with_weights(weights)
    for t in texts(block, 3):
        np.testing.assert_allclose(bare.run(t)["logits"], attention.run(t)["logits"], rtol=1e-14)


def attending(text: str) -> vt.Card:
    """The causal card with three letters and one number in a query."""
    text = text.replace("| $N_V$ | 2 |", "| $N_V$ | 3 |").replace("| $d$ | 2 |", "| $d$ | 3 |")
    for name in ("W_Q", "W_K"):
        text = text.replace(f"| ${name}$ | $d \\times d$ |", f"| ${name}$ | $d \\times 1$ |")
    return vt.read(text.replace("[0 1; 1 0]", "1"))


def test_one_head_in_one_block_is_attention() -> None:
    two = vt.read("letters-induction")
    rng = np.random.default_rng(0)
    weights = {k: rng.normal(size=s) for k, s in two.bind(N=1, H=1).parameter_shapes.items()}
    one = (
        two.bind(N=1, H=1)
        .put("x^1 = o^{1,1}")
        .put("A^{1,h} = softmax(causal(Q^{1,h} {K^{1,h}}^T))")
    )
    q, k, v, o = (weights[f"W_{x}^{{1,h}}"][0] for x in "QKVO")
    for t in ((0, 1, 2, 0), (2, 2, 1)):
        x = weights["E"][list(t)]
        s = np.where(np.tri(len(t)) > 0, x @ q @ k.T @ x.T, -np.inf)
        a = np.exp(s) / np.exp(s).sum(-1, keepdims=True)
        np.testing.assert_allclose(one.run(t, weights)["logits"], a @ x @ v @ o @ weights["E"].T)
