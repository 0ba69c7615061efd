"""Law 13: company changes nothing. A text gives alone what it gives in a batch, padded or not."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import Card, cards, random_inputs, random_weights, shipped, tiny
from viete.errors import VieteError
from viete.text.vocabulary import Characters

SHIPPED = [p for p in shipped() if Path(p).stem in ("bert", "gpt2", "t5", "letters-vectors")]


def each_is_alone(model: vt.Card, weights: Any, texts: list[dict[str, Any]], asked: Any) -> None:
    """A batch of texts of different lengths, as a list and padded on either side, beside each."""
    tokens = model.inputs[0].name
    alone = [model.run(None, weights, inputs=text) for text in texts]
    lengths = [len(text[tokens]) for text in texts]
    width = max(lengths)
    more = {name: [text[name].tolist() for text in texts] for name in texts[0] if name != tokens}
    ids = [text[tokens].tolist() for text in texts]
    ragged = model.run(ids, weights, inputs=more)
    runs = [("right", ragged)]
    for side in ("right", "left"):
        mask = np.arange(width) < np.array(lengths)[:, None]
        mask = mask if side == "right" else mask[:, ::-1]
        padded = np.full(mask.shape, 1)
        for row, own, text in zip(padded, mask, ids, strict=True):
            row[own] = text
        run = model.run(padded, weights, attention_mask=mask * 1, inputs=more)
        runs.append((side, run))
    for question in asked:
        wanted = [np.asarray(run[question]) for run in alone]
        for side, run in runs:
            found = np.asarray(run[question])
            assert len(found) == len(texts), question
            for one, mine, n in zip(wanted, found, lengths, strict=True):
                for axis, k in enumerate(one.shape):
                    at = slice(width - k, None) if side == "left" and k <= n else slice(0, k)
                    at = at if mine.shape[axis] == width else slice(0, k)
                    mine = np.take(mine, np.arange(mine.shape[axis])[at], axis)
                np.testing.assert_allclose(mine, one, rtol=1e-9, atol=1e-12, err_msg=question)


@settings(max_examples=6)
@given(cards(), st.lists(st.integers(1, 6), min_size=2, max_size=3, unique=True))
def test_random_cards(card: Card, lengths: list[int]) -> None:
    texts = [card.given(n) for n in lengths]
    for name in ("logits", "o" if not card.model.loop_letters else "x^0"):
        each_is_alone(card.model, card.weights(), texts, [name])
    asked = ["logits_{-1}", "mean_j(logits_j)", "logits_{j,1}", "sum_j(logits_{j,0}^2)"]
    asked += ["L"] if "y" in card.inputs else []
    each_is_alone(card.model, card.weights(), texts, asked)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: Path(p).stem)
def test_shipped_cards(path: str) -> None:
    model = tiny(path)
    texts = [random_inputs(model, n, n) for n in (2, 5)]
    last = next(e.name for e in model.equations[::-1] if not e.left.symbol.slots)
    each_is_alone(model, random_weights(model), texts, [last])


@pytest.mark.parametrize("side", ["list", "right", "left"])
def test_letters_that_begin_before_or_after_the_first_position(side: str) -> None:
    model, texts = tiny("attention-only-2"), [[1, 2, 0], [2, 0, 1, 1, 2]]
    weights, mask = random_weights(model), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    mask = mask[:, ::-1] if side == "left" else mask
    padded = np.zeros((2, 5), int)
    for row, own, text in zip(padded, mask, texts, strict=True):
        row[own == 1] = text
    given: dict[str, Any] = {} if side == "list" else {"attention_mask": mask}
    together = model.run(texts if side == "list" else padded, weights, **given)
    for question in ("logits_{j-1,1}", "logits_{j-2,1}", "x^1_{j+1,0}", "A^{1,1}_{j,j-1}",
                     "logits_{j-1,1} - logits_{j,1}", "logits_{j,1}"):  # fmt: skip
        found = np.asarray(together[question])
        for text, mine in zip(texts, found, strict=True):
            wanted = np.asarray(model.run(text, weights)[question])
            rest = mine[: -len(wanted)] if side == "left" else mine[len(wanted) :]
            own = mine[-len(wanted) :] if side == "left" else mine[: len(wanted)]
            np.testing.assert_allclose(own, wanted, atol=1e-12, err_msg=question)
            assert len(rest) == 5 - len(text) and not rest.any(), question


def test_a_mask_that_does_not_fit_is_refused() -> None:
    model = vt.read("dialog-transformer").with_weights(seed=0)
    for mask in ([[1, 1]], [[1, 2, 1]], [[0, 0, 0]]):
        with pytest.raises(VieteError, match="attention_mask"):
            model.run([[1, 2, 3]], attention_mask=mask)


def test_changes_hooks_and_questions_reach_each_text() -> None:
    model = vt.read("dialog-transformer").with_weights(seed=0)
    texts = [[3, 1, 4], [2, 5, 1, 3, 2, 1]]
    run = model.run(texts, put={"X": lambda x: 2 * x})
    alone = [model.run(t, put={"X": lambda x: 2 * x}) for t in texts]
    for question in ("logits_{-1,5}", "logits_{-1,5} with Z_0 = 0"):
        np.testing.assert_allclose(run[question], [r[question] for r in alone], rtol=1e-12)
    assert run["E"].shape == model.weights["E"].shape
    assert run["mean_{texts}(logits_{-1,5})"] == pytest.approx(run["logits_{-1,5}"].mean())
    assert len(run["top_2(logits_{-1})"]) == 2
    with pytest.raises(VieteError, match="of one text"):
        run.expand("logits_{-1,5}")
    again = pickle.loads(pickle.dumps(model.run(texts)))
    np.testing.assert_array_equal(again["logits"], model.run(texts)["logits"])
    assert len(again.page()) == 2 * len(again.runs[0].page())
    other = model.run([[0] * 3 + texts[0], texts[1]], attention_mask=[[0] * 3 + [1] * 3, [1] * 6])
    assert run.ask("|logits - logits'|", against=other).max() > 0.1


@pytest.mark.parametrize("card", ["gpt2", "bert", "gpt2 that reads both ways"])
def test_a_call_knows_the_lengths_of_its_texts(card: str, tmp_path: Path) -> None:
    """The loss of texts in one call is the mean over their own tokens; an encoder's mask is set."""
    name, _, both_ways = card.partition(" ")
    small = tiny(next(p for p in shipped() if Path(p).stem == name)).with_weights(seed=0)
    small.save(tmp_path)
    (tmp_path / "tokenizer.json").write_text(Characters("abc").dumps())
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "c"}')
    model, texts = vt.load(tmp_path), ["ab", "cabacab"]
    if both_ways:
        model = model.put("A^{1,h} = softmax(Q^{1,h} (K^{1,h})^T)")
    found = model.lens(texts)
    for text, mine in zip(texts, found, strict=True):
        mine = mine[: len(text)] if mine.ndim == 2 else mine  # BERT's is one vector of the text
        np.testing.assert_allclose(mine, model.lens(text)[0], rtol=1e-9, atol=1e-12)
    if name == "gpt2":
        each = [model.lens(text, return_type="loss", loss_per_token=True)[0] for text in texts]
        wanted = np.concatenate(each).mean()
        assert float(model.lens(texts, return_type="loss")) == pytest.approx(wanted)
        one = model.lens(texts, return_type="loss", loss_per_token=True)[0]
        np.testing.assert_allclose(one, [*each[0], *[0] * (len(one) - len(each[0]))])


@pytest.mark.parametrize(("name", "side"), [("gpt2", "left"), ("llama", "right")])
def test_values_by_other_names_are_those_of_each_text(name: str, side: str) -> None:
    """By TransformerLens' names too: with a mask, every value, hook and loss is a text's own."""
    lens = tiny(next(p for p in shipped() if Path(p).stem == name)).with_weights(seed=0).lens
    texts = [[1, 0, 2, 1], [2, 1, 0, 0, 1, 2]]
    pad = [0, 0]
    ids = [pad + texts[0] if side == "left" else texts[0] + pad, texts[1]]
    there = [[0] * 2 + [1] * 4 if side == "left" else [1] * 4 + [0] * 2, [1] * 6]
    places = np.flatnonzero(there[0])
    seen: list[str] = []
    lens.add_hook("blocks.0.hook_mlp_out", lambda v, hook: seen.append(hook.name) or 2 * v)
    logits, cache = lens.run_with_cache(ids, attention_mask=there)
    for k, (text, at) in enumerate(zip(texts, (places, np.arange(6)), strict=True)):
        wanted, alone = lens.run_with_cache([text])
        np.testing.assert_allclose(logits[k][at], wanted[0], rtol=1e-9, atol=1e-12)
        for key in alone:
            if "hook_rot" in key:
                continue  # of these only how far positions are apart is what a text has alone
            value = cache[key][k]
            for axis, label in enumerate(lens.names.get(lens.names.split(key)[0]).row.axes):
                value = np.take(value, at, axis) if label in ("pos", "query", "key") else value
            np.testing.assert_allclose(value, alone[key][0], rtol=1e-9, atol=1e-12, err_msg=key)
    assert len(seen) == 3
    stream = lens(ids, stop_at_layer=1, attention_mask=there)
    again = lens(stream, start_at_layer=1, attention_mask=there)
    np.testing.assert_allclose(again[0][places], logits[0][places], rtol=1e-9, atol=1e-12)
    each = [lens([text], return_type="loss", loss_per_token=True)[0] for text in texts]
    loss = lens(ids, return_type="loss", attention_mask=there)
    assert float(loss) == pytest.approx(np.concatenate(each).mean())
    with pytest.raises(VieteError, match="attention_mask is 1 at each token and 0 at padding"):
        lens(ids, attention_mask=[[2] * 6] * 2)
