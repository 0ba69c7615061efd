"""The recipes run on the families, and say what their names say, by NumPy; arrows are formulas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.ask.test_expand import check, run_of
from tests.laws.strategies import random_inputs, random_weights, shipped
from tests.laws.test_derived_names import FAMILIES
from viete.ask.recipes import recipes


def asked(run: Any, name: str) -> Any:
    recipe = next(r for r in recipes() if r.name == name)
    return (
        run[recipe.question] if recipe.verb == "ask" else run.expand(recipe.question, recipe.into)
    )


def with_a_head(name: str) -> Any:
    """BERT or RoBERTa as it scores tokens."""
    kind = {"bert": "BertForMaskedLM", "roberta": "RobertaForMaskedLM"}[name]
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 9,
             "intermediate_size": 12, "max_position_embeddings": 12, "pad_token_id": 1,
             "type_vocab_size": 2, "layer_norm_eps": 1e-5, "hidden_act": "gelu"}  # fmt: skip
    card = vt.read(name, config={"model_type": name, "architectures": [kind], **sizes})
    return card.run(**random_inputs(card, 1, 4), weights=random_weights(card, 1))


def by_hand(run: Any) -> dict[str, Any]:
    """What recipes that ask are, by NumPy, of weights with an axis of blocks and one of heads."""
    q, k, v, o, a = (run[f"{x}^{{i,h}}"] for x in ("W_Q", "W_K", "W_V", "W_O", "A"))
    e, u = run["W_E"], run["U"]
    ov, qk = v @ o, q @ k.swapaxes(-1, -2)

    def norm(m: Any) -> Any:
        return np.sqrt((m**2).sum((-2, -1)))

    def composed(second: Any) -> Any:
        both = ov[:, :, None, None] @ second
        return norm(both) / (norm(ov)[:, :, None, None] * norm(second))

    def components(x: Any) -> Any:
        _, v = np.linalg.eigh(np.cov(x.T))
        v = v[:, :-3:-1]
        return (x - x.mean(0)) @ (v * np.sign(v[np.abs(v).argmax(0), [0, 1]]))

    unit = run["x^i"][:, -1] / np.linalg.norm(run["x^i"][:, -1], axis=1, keepdims=True)

    def last_is(x: Any) -> Any:
        inputs = {i.name: run[i.name] for i in run.of.inputs}
        return run.of.run(**inputs, weights=random_weights(run.of, 1), put={"x^2": x})["logits"]

    return {
        "logit lens": np.stack([last_is(x) for x in run["x^i"]]),
        "logit lens without a norm": run["x^i"] @ u[5],
        "attention attractors": run["Q^{2,h}"] @ run["K^{2,h}"].swapaxes(-1, -2),
        "QK circuit": e @ qk[1] @ e.T, "OV circuit": e @ ov[1] @ u.T,
        "copying": np.trace(e @ ov @ u.T, axis1=-2, axis2=-1),
        "Q-composition": composed(qk), "K-composition": composed(qk.swapaxes(-1, -2)),
        "V-composition": composed(ov), "virtual heads": a[1][:, None] @ a[0],
        "OV directions": np.linalg.svd(ov[1], compute_uv=False)[..., :2],
        "principal components": components(run["x^1"]), "cosines of the stream": unit @ unit.T,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FAMILIES, "bert with a head", "roberta with a head"])
def test_every_recipe_has_its_value_on_every_family(name: str) -> None:
    family, _, head = name.partition(" ")
    run = with_a_head(family) if head else run_of(family)
    if lacks := family in ("bert", "roberta") and not head:
        refused(run)
    expected = {} if lacks else by_hand(run)
    for recipe in [r for r in recipes() if not lacks or "U" not in r.question + r.name]:
        if lacks and "logits" in recipe.question:
            continue
        found = asked(run, recipe.name)
        if recipe.verb == "expand":
            check(found, run[recipe.question])
            if recipe.name == "logit difference" and family != "gemma2":  # which caps its logits
                assert float(found.total) == pytest.approx(run["logits_{-1,5} - logits_{-1,3}"])
        elif recipe.name in expected:
            np.testing.assert_allclose(found, expected[recipe.name], rtol=1e-9, atol=1e-12)
        else:  # which has tests of its own
            assert np.isfinite(found).all(), recipe.name
    assert lacks or {r.name for r in recipes() if r.verb == "ask"} == {
        *expected, "position influencers"}  # fmt: skip


def refused(run: Any) -> int:
    """How many recipes a card has no value for; the error is a sentence with the name it lacks."""
    count = 0
    for recipe in recipes():
        try:
            asked(run, recipe.name)
        except vt.VieteError as error:
            count += 1
            assert "\n" not in error.message and not error.message.endswith(".")
            names = re.findall(r"[A-Za-z]+(?:_[A-Z]+)?|\b\d", recipe.question)
            assert any(x in error.message for x in [*names, run.of.title]), error.message
    return count


def test_a_recipe_says_what_a_card_lacks() -> None:
    others = [Path(p).stem for p in shipped() if Path(p).stem not in FAMILIES]
    assert all(refused(run_of(name)) for name in others)
    with pytest.raises(vt.VieteError, match="BERT has no unembedding: none of its values scores"):
        asked(run_of("bert"), "direct logit attribution")
    with pytest.raises(vt.VieteError, match=r"W_QK\^h has fewer indices than are written here"):
        asked(run_of("attention-only-1"), "QK circuit")


@pytest.mark.parametrize("name", FAMILIES)
def test_one_name_for_the_embedding_and_for_what_positions_add(name: str) -> None:
    run = run_of(name)
    weights = random_weights(run.of, 1)
    own = weights["W_E"]
    np.testing.assert_array_equal(run["W_E_3"], own[3])
    if name != "mixtral":  # whose E is how many experts there are
        np.testing.assert_array_equal(run["E[3]"], own[3])
        np.testing.assert_array_equal(run.ask("E[3]", against=run), own[3])
    try:
        added = run["p_j"][: len(run["t"])]
    except vt.VieteError as error:
        assert not weights.keys() & {"W_P", "p"} and (
            name == "mixtral" or "adds no such vector" in error.message
        )
        return
    (table,) = weights.keys() & {"W_P", "p"}
    inputs = {i.name: run[i.name] for i in run.of.inputs}
    zero = run.of.run(**inputs, weights=weights | {table: 0 * weights[table]})
    if name in ("bert", "roberta"):  # whose embeddings have a norm
        rows = run["W_E[t]"] + added + run["W_S[s]"]
        np.testing.assert_allclose(run.ask("LN(r; γ_E, β_E, ε)", r=rows), run["x^0"])
    else:
        np.testing.assert_allclose(zero["x^0"] + added, run["x^0"], rtol=1e-12)


def test_composition_scores_by_whole_matrices() -> None:
    run = run_of("gpt2")
    ov, qk = run["W_OV^{i,h}"], run["W_QK^{i,h}"]

    def norm(m: Any) -> Any:
        return np.sqrt((m**2).sum((-2, -1)))

    for name, second in (("Q", qk), ("K", qk.swapaxes(-1, -2)), ("V", ov)):
        product = ov[:, :, None, None] @ second
        by_hand = norm(product) / (norm(ov)[:, :, None, None] * norm(second))
        np.testing.assert_allclose(asked(run, f"{name}-composition"), by_hand, rtol=1e-10)
    by_hand = np.trace(run["W_E"] @ ov @ run["U"].T, axis1=-2, axis2=-1)
    np.testing.assert_allclose(asked(run, "copying"), by_hand, rtol=1e-10)


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "bert", "attention-only-2"])
def test_an_arrow_is_what_a_head_carries(name: str) -> None:
    run = run_of(name)
    grouped = name == "gemma2"
    head = "1,2" if grouped else "1"
    carried = run[rf"x^1_0 \xrightarrow{{A^{{2,{head}}}}} x^2_3"]
    np.testing.assert_allclose(carried, run[f"x^1_0 →(A^{{2,{head}}}) x^2_3"])
    # With the head's own biases it is the term of an expansion by head and source.
    e = run.expand("x^2_3", "head, source, path", depth=1)
    marks = [("head", int(x)) for x in head.split(",")] + [("source", 0)]
    same = [t for t in [*e.terms, *e.constants, *e.unopened]
            if [(m.word, m.number) for m in t.marks][1 : 1 + len(marks)] == marks
            and t.marks[0].number == 2]  # fmt: skip
    own = 1 + len(marks)  # a constant of the head itself, not of the stream that it reads
    stream = sum(t.value for t in same if t.kind != "constant" or len(t.marks) > own)
    if name != "bert":  # whose stream is normed, so that its terms hold more than one scale
        np.testing.assert_allclose(carried, stream, atol=1e-12)
    if name != "bert":
        run[r"x^1_0 \xrightarrow{W_U} U_3"]
    with pytest.raises(vt.VieteError, match="begins at a residual vector"):
        run[f"W_E[0] →(A^{{2,{head}}}) x^2_3"]
    with pytest.raises(vt.VieteError, match="goes by a head"):
        run["x^1_0 →(W_E) x^2_3"]
    for inside in ("|{}|", "sum({})"):
        with pytest.raises(vt.VieteError, match="an arrow is a whole question"):
            run[inside.format(f"x^1_0 →(A^{{2,{head}}}) x^2_3")]


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "attention-only-2"])
def test_an_arrow_with_letters_has_every_arrow(name: str) -> None:
    """Of each block, head and position; and nothing comes from a block that is not before."""
    run = run_of(name)
    found = run.answer("x^i_j →(A^{i',h}) x^{i'}_3")
    assert found.axes == ("i", "i'", "h", "j", found.axes[-1])
    for i, to, j in ((0, 1, 0), (0, 2, 3), (1, 2, 2), (1, 1, 0), (2, 1, 1)):
        arrow = f"x^{i}_{j} →(A^{{{to},h}}) x^{to}_3"
        mine = found.array[i, to - 1, :, j]
        if i < to:
            np.testing.assert_allclose(mine, run[arrow], rtol=1e-9)
            assert np.abs(mine).max() > 0 or j == 0  # beyond the window of Gemma 2
        else:
            assert not mine.any()
            with pytest.raises(vt.VieteError, match="comes after it"):
                run[arrow]
    np.testing.assert_allclose(run["x^1_0 →(A^{2,h}) x^2_3"], found.array[1, 1, :, 0], rtol=1e-9)
    token = run["x^i_j →(W_U) U_3"]
    np.testing.assert_allclose(token[1, 2], run["x^1_2 →(W_U) U_3"], atol=1e-12)
    with pytest.raises(vt.VieteError, match="ends at x of that block"):
        run["x^i_j →(A^{i',h}) x^2_3"]
    with pytest.raises(vt.VieteError, match="comes after it"):
        run["x^i_j →(A^{i,h}) x^i_3"]


def test_tensor_products_act_on_what_follows() -> None:
    run = run_of("attention-only-2")
    for written, meant in (
        ("(A^{1,h} ⊗ W_{OV}^{1,h}) x^0", "A^{1,h} x^0 W_OV^{1,h}"),
        (r"(\sum_h (A^{1,h} \otimes W_{OV}^{1,h})) \cdot x^0", r"\sum_h A^{1,h} x^0 W_OV^{1,h}"),
        ("(A^{2,1} ⊗ W_{OV}^{2,1}) (A^{1,1} ⊗ W_{OV}^{1,1}) x^0",
         "A^{2,1} A^{1,1} x^0 W_OV^{1,1} W_OV^{2,1}"),
        ("x^0 + (2 (A^{1,1} ⊗ W_{OV}^{1,1}) - A^{2,1} ⊗ W_{OV}^{2,1} / 3) x^0 W_E^⊤ W_E",
         "x^0 + (2 A^{1,1} x^0 W_OV^{1,1} - A^{2,1} x^0 W_OV^{2,1} / 3) W_E^⊤ W_E"),
    ):  # fmt: skip
        np.testing.assert_allclose(run[written], run[meant], atol=1e-12)
    with pytest.raises(vt.VieteError, match="acts on what stands behind it"):
        run["x^0 (A^{1,1} ⊗ W_{OV}^{1,1})"]
    with pytest.raises(vt.VieteError, match="adds to another ⊗ only"):
        run["(A^{1,1} ⊗ W_{OV}^{1,1} + 1) x^0"]


def test_an_arrow_to_a_token_is_the_lens_without_biases() -> None:
    run = run_of("gpt2")
    to_token = run["x^2_1 →(W_U) U_3"]
    assert to_token == pytest.approx(run["logits_{1, 3}"] - run["⟨β, U_3⟩"])
