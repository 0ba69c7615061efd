"""A value that is cut is given: fed with its own values the card computes what it did.

With attention patterns, norm scales and MLPs given, what is left is linear in the stream.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from viete.analysis.well_formed import check_well_formed
from viete.errors import VieteError
from viete.notation.printer import show
from viete.notation.tree import Apply, walk

GPT2 = vt.read("gpt2").bind(V=11, d=8, N=3, H=2, n_max=16)
MODEL = GPT2.with_weights(random_weights(GPT2, 3))
TOKENS = [1, 7, 3, 4, 7, 6]
FROZEN = ("A^{i,h}", "scale_A^i", "scale_M^i", "scale")


def cuttable(card: vt.Card) -> list[str]:
    """Patterns of attention, and the scales of norms."""
    patterns = [show(e.left) for e in card.equations
                if any(isinstance(x, Apply) and card.library_name(x) == "softmax"
                       for x in walk(e.right)) and e.loop is not None]  # fmt: skip
    return patterns + [show(d.left) for d in card.derived if d.name.startswith("scale")]


@pytest.mark.parametrize("path", shipped(), ids=lambda path: Path(path).stem)
def test_its_own_values_change_nothing(path: str, tmp_path: Path) -> None:
    card = tiny(path)
    names = cuttable(card)
    if not names or len(names) == sum(n.startswith("scale") for n in names):
        return
    model, inputs = card.with_weights(random_weights(card)), random_inputs(card)
    run = model.run(None, **inputs)
    cut = model.cut(*names, values=run)
    check_well_formed(cut.card)
    assert vt.read(cut.card.write("md")) == cut.card
    assert len(cut.card.equations) < len(card.equations)
    again = cut.run(None, **inputs)
    for name in set(run) & set(again):
        np.testing.assert_allclose(again[name], run[name], rtol=1e-10, atol=1e-10)
    read = vt.load(cut.save(tmp_path / "cut"))  # with the values
    assert read.card == cut.card
    last = card.equations[-1].name
    np.testing.assert_array_equal(read.run(None, **inputs)[last], again[last])


def test_what_is_left_is_linear() -> None:
    run = MODEL.run(TOKENS)
    linear = MODEL.cut(*FROZEN, r"\tilde{M}^i", "x^0", values=run)
    assert [e.name for e in linear.card.equations if "W_1" in show(e.right)] == []
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(2, 6, 8))

    def logits(x: Any) -> Any:
        return linear.run(TOKENS, **{"x_given^0": x})["logits"]

    np.testing.assert_allclose(logits(p + q) + logits(0 * p), logits(p) + logits(q), rtol=1e-10)
    np.testing.assert_allclose(logits(run["x^0"]), run["logits"], rtol=1e-10)
    assert not np.allclose(MODEL.cut("x^0").run(TOKENS, **{"x_given^0": p + q})["logits"],
                           logits(p + q))  # fmt: skip


def test_the_adjoint_passes_through_what_is_left() -> None:
    """Of a frozen pattern no gradient reaches queries; through values it does."""
    frozen = MODEL.cut("A^{i,h}", values=MODEL.run(TOKENS))
    names = {p.name for p in frozen.card.parameters}
    assert "W_V^{i,h}" in names and "b_K^{i,h}" not in names  # W_QK is made of W_K still
    graded = frozen.grad()
    run = graded.run(TOKENS, target=TOKENS[::-1])
    torch = pytest.importorskip("torch")
    weights = {k: torch.tensor(v, requires_grad=True) for k, v in MODEL.weights.items()}
    plain = GPT2.run(torch.tensor(TOKENS), weights)
    fixed = {f"A^{{{i},h}}": plain[f"A^{{{i},h}}"].detach() for i in (1, 2, 3)}
    logits = GPT2.run(torch.tensor(TOKENS), weights, put=fixed)["logits"]
    torch.nn.functional.cross_entropy(logits, torch.tensor(TOKENS[::-1])).backward()
    np.testing.assert_allclose(run["∂W_V^{1,h}"], weights["W_V^{1,h}"].grad, rtol=1e-9, atol=1e-12)


def test_members_and_refusals() -> None:
    run = MODEL.run(TOKENS)
    one = MODEL.cut("A^{2,1}", "x^1", values=run)
    assert {i.name for i in one.card.inputs} == {"t", "A_given^{2,1}", "x_given^1"}
    np.testing.assert_allclose(one.run(TOKENS)["logits"], run["logits"], rtol=1e-12)
    other = one.run(TOKENS, **{"x_given^1": 2 * run["x^1"]})
    assert not np.allclose(other["logits"], run["logits"])
    with pytest.raises(VieteError, match=r"is derived, .* no equation of GPT-2 computes it"):
        MODEL.cut("W_QK^{i,h}")
    for names, why in (
        (["A^{i,h}", "A^{i,h}"], "is already given: it is an input of GPT-2"),
        (["A^{2,1}", "A^{2,1}"], "is given already, as A_given"),
        (["logits"], "no equation of GPT-2 reads logits"),
        (["A^{2,9}"], "there is no A^{2,9}: h runs from 1 to 2"),
    ):
        with pytest.raises(VieteError, match=re.escape(why)):
            for name in names:
                MODEL.cut(*names[:-1]).cut(name)
    with pytest.raises(VieteError, match="values must be a run, or arrays by name, not 3"):
        MODEL.cut("x^1", values=3)  # type: ignore[arg-type]
    with pytest.raises(VieteError, match="cut takes a value"):
        MODEL.cut("W_Q^{i,h}")
    with pytest.raises(VieteError, match=r"x\^1 is cut, but values has no x\^1"):
        MODEL.cut("x^1", values={"x^2": run["x^2"]})
    with pytest.raises(VieteError, match="is a card and keeps no values"):
        GPT2.cut("A^{i,h}", values=run)


def test_a_stream_that_only_its_end_is_read_of_keeps_its_blocks() -> None:
    """No equation of the loop is left, so the equations say what is given."""
    run = MODEL.run(TOKENS)
    cut = MODEL.cut("x^i", values=run)
    check_well_formed(cut.card)
    np.testing.assert_allclose(cut.run(TOKENS)["logits"], run["logits"], rtol=1e-12)


def test_a_head_of_grouped_queries_is_cut_by_its_number() -> None:
    card = tiny("llama").bind(H=4, G=2)
    model = card.with_weights(random_weights(card))
    run = model.run(None, **random_inputs(card))
    names = "scale_A^i", "scale_M^i", "scale"
    assert model.cut("A^{i,h}", *names, values=run).card == model.cut("A^{i,g,r}", *names).card
    assert model.cut("A^{1,3}").card == model.cut("A^{1,2,1}").card
    assert model.cut("K^{i,h}").card == model.cut("K^{i,g}").card
    with pytest.raises(VieteError, match="is neither a number nor the letter"):
        model.cut("A^{i,h+1}")


def test_the_command_line_holds_what_the_unchanged_model_has() -> None:
    """Of cards in every kind of number; what is put comes after what is cut."""
    sizes = {"V": 11, "d": 8, "N": 2, "H": 2, "d_f": 8}
    model = vt.read("gpt2").bind(**sizes).with_weights(seed=3)
    given = [x for k, v in sizes.items() for x in ("--set", f"{k}={v}")]
    command = ["ask", "gpt2", *given, "--seed", "3", "-t", "1,7,3", "--cut", "A^{i,h}", "--json"]
    for changes in ([], ["x^1_2 = 0"], ["A^{2,1} = 0"]):
        put = [x for change in changes for x in ("--put", change)]
        found = json.loads(viete(*command, "--cut", "scale", *put, "logits").out)
        want = model.cut("A^{i,h}", "scale", values=model.run([1, 7, 3])).put(*changes)
        answer = found["rows"][0]["answers"][0]["value"]
        np.testing.assert_allclose(answer, want.run([1, 7, 3])["logits"], rtol=1e-12)
    lesson = ["run", "exact-lesson", "--meaning", "exact", "-t", "0,1", "--show", "logits"]
    assert viete(*lesson, "--cut", "A").out == viete(*lesson).out
    for refused in (["sample", "gpt2", "-t", "1"], ["train", "gpt2", "--data", "x", "-o", "y"]):
        assert "leave out --cut" in viete(*refused, "--cut", "A^{i,h}", code=2).err
