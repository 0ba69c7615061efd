"""The greatest entries of an answer, with their names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")

import viete as vt
from tests.ask.vocabularies import reader
from tests.command_line import viete
from viete.errors import VieteError
from viete.notation.words import quoted

CARD = vt.read("attention-only-2").bind(V=5, d=4, H=2, n_max=8)
WEIGHTS = CARD.initial_weights(seed=0)
RUN = CARD.run([1, 2, 3], WEIGHTS)
ENTRIES = st.sampled_from((0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan))


@settings(max_examples=60)
@given(st.lists(ENTRIES, min_size=2, max_size=9), st.integers(1, 10))
def test_the_greatest_come_first_and_of_equals_the_first(row: list[float], k: int) -> None:
    z = np.array([row, row[::-1]])
    found = RUN.ask(f"top_{k}(probe)", probe=z)
    size = min(k, len(row))
    for j in range(2):
        keys = [(np.isnan(x), -x if x == x else 0, c) for c, x in enumerate(z[j])]
        wanted = [c for *_, c in sorted(keys)][:size]
        assert found.indices[j].tolist() == wanted
        assert np.array_equal(found.values[j], z[j][wanted], equal_nan=True)
        assert found.names[j].tolist() == [str(c) for c in wanted]
    assert np.asarray(found).shape == (2, size) and found.axes[-1] == "top"


def test_tokens_have_their_names() -> None:
    model = reader("bytes")
    run = model.run(["I live in Dublin", "I live in London"])
    for question in ("top_3(logits)", r"\operatorname{top}_{3}(logits)", "top_{3}( logits )"):
        found = run[question]
        assert found.axes == ("batch", "n", "top")
        assert np.array_equal(found.indices[..., 0], run["logits"].argmax(-1))
        assert np.array_equal(found.values[..., 0], run["logits"].max(-1))
        assert found.names[0, 0, 0] == quoted(model.words.name(int(found.indices[0, 0, 0])))
    one = model.run("I live in Dublin")
    last = one["top_4(logits_{-1})"]
    assert list(last.labels[-1]) == last.names.reshape(-1).tolist()
    assert repr(last).splitlines()[0] == "top_4(logits_{-1})"
    assert [line.split("  ")[1] for line in repr(last).splitlines()[1:]] == [
        x.strip() for x in last.labels[-1]]  # fmt: skip
    assert last.values.shape == (4,) and last.names.shape == (4,)
    lengths = one["top_9(|x^2|)"]
    assert np.array_equal(lengths.values, -np.sort(-one["|x^2|"][..., 0]))
    assert set(lengths.names) == set(one.labels("x^2")[0])
    heads = one["top_2(A^{2,h}_{-1})"]
    assert heads.names.shape == (2, 2) and heads.names[0, 0][0].isdigit()
    assert "h 1 = L1H0" in repr(heads)


def test_in_other_numbers() -> None:
    plain = RUN["top_3(logits)"]
    exact = CARD.run([1, 2, 3], WEIGHTS, meaning="exact")
    bounds = CARD.run([1, 2, 3], WEIGHTS, meaning="interval")
    for run in (exact, bounds):
        assert np.array_equal(run["top_3(logits)"].indices, plain.indices)
        assert len(repr(run["top_3(logits)"])) < 600
    assert np.allclose(np.array(exact["top_3(logits)"].values, float), plain.values)
    with pytest.raises(VieteError, match="greater: their bounds overlap"):
        bounds["top_1(logits_0 - logits_0)"]
    assert exact["top_2(logits_0 - logits_0)"].indices.tolist() == [0, 1]
    assert float(bounds["rank(logits_0; 2)"]["lower"]) == float(RUN["rank(logits_0; 2)"])


@pytest.mark.parametrize(("question", "message"), [
    ("top_0(logits)", "the number of entries must be at least 1, as in top_5"),
    ("top_2(logits) + 1", "so nothing can follow it"),
    ("top_2(logits", "this ( is never closed"),
    ("top_2(logits_{0,0})", "logits_{0,0} is one number"),
    ("top_2(nothing)", "unknown symbol nothing"),
])  # fmt: skip
def test_what_is_wrong(question: str, message: str) -> None:
    with pytest.raises(VieteError, match=re.escape(message)):
        RUN[question]


def test_the_rank_of_a_word() -> None:
    model = reader("spaces")
    run = model.run("I live in Dublin")
    k = model.words[" Mary"]
    order = np.argsort(-run["logits"][-1], kind="stable")
    assert run['rank(logits_{-1}, " Mary")'] == 1 + list(order).index(k)
    assert np.array_equal(run['rank(logits; " Mary")'][:, 0],
                          1 + (run["logits"] > run["logits"][:, [k]]).sum(-1))  # fmt: skip


def test_on_the_command_line(tmp_path: Path) -> None:
    model = reader("bytes")
    folder = model.save(tmp_path / "model")
    run = model.run("I live in")
    first, second = run["top_2(logits_{-1})"].names
    found = viete("ask", folder, "--text", "I live in", "top_2(logits_{-1})", "top_1(logits)").out
    assert re.search(f"top +{re.escape(first)} +{re.escape(second)}\n", found)
    assert re.search(f'2 " in" +{re.escape(first)} ', found)
    data = json.loads(viete("ask", folder, "--text", "I live in", "top_1(logits)", "--json").out)
    assert data["rows"][0]["answers"][0]["names"] == run["top_1(logits)"].names.tolist()
    (tmp_path / "texts").write_text("I live in\nMary\n")
    lines = viete("ask", folder, "--texts", tmp_path / "texts", "top_2(logits_{-1})").out
    assert f"{first}, {second}\n" in lines
    most = viete("ask", folder, "--text", "I live in", "top_9999(logits_{-1})").out
    assert f"top_9999 are all {run['logits'].shape[-1]} entries: there are no more" in most
