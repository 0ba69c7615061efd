"""Causal scrubbing is what one computes by hand with the same texts drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import viete as vt
from tests.command_line import viete
from tests.model.small import small
from viete.causes.findings import scrub_findings
from viete.causes.hypothesis import read_hypothesis
from viete.causes.scrubbing import Scrubbing
from viete.evaluate.execution import execute
from viete.evaluate.schedule import program
from viete.notation.printer import show
from viete.nouns.causal import scrubbing

NUMBER = "logits_{-1,5} - logits_{-1,3}"
TEXTS = [list(map(int, x)) for x in np.random.default_rng(2).integers(0, 3, (9, 4))]
HYPOTHESIS = """# Two layers

- $r^{2,1} \\to logits$: t_{-1}, t_0
  - `x^0 -> Q^{2,1}`: t_{-1}
  - r^{1,2} → K^{2,1}: t_0
    - x^0 → V^{1,2}: t_1
- x^0 → logits: nothing
"""


class Drawn:
    """In place of a generator: any texts in turn from a list, and of those that agree the last."""

    def __init__(self, any_text: list[np.ndarray]) -> None:
        self.any_text = any_text

    def integers(self, _: int, size: int) -> np.ndarray:
        return self.any_text.pop(0)[:size]

    def choice(self, group: list[int]) -> int:
        return max(group)


def last_like(features: Any, places: np.ndarray) -> np.ndarray:
    """Of each text the last one whose features are the same."""
    keys = [features(x) for x in TEXTS]
    return np.array([max(j for j, key in enumerate(keys) if key == keys[k]) for k in places])


def test_a_tree_of_claims_by_hand_in_pytorch() -> None:
    model = small("attention-only-2").bind(N=2)
    weights = {n: w for n, w in small("attention-only-2").weights.items() if "^{3" not in n}
    model = model.with_weights(weights)
    made = scrubbing(model, HYPOTHESIS, NUMBER, TEXTS)
    (group,) = made.groups
    places, draw = np.arange(9), np.random.default_rng(1)
    u, v, w = (draw.integers(0, 9, 9) for _ in range(3))
    streams = made.streams(made.values[None], group, places, Drawn([u, v, w]), None)  # type: ignore[arg-type]
    found = made.computed(made.values[None], group, places, streams)

    arrays = {n: torch.as_tensor(x) for n, x in weights.items()}
    x0 = arrays["W_E"][torch.tensor(TEXTS)]

    def head(i: int, h: int, q: Any, k: Any, v: Any) -> Any:
        wq, wk, wv, wo = (arrays[f"W_{x}^{{{i},h}}"][h - 1] for x in "QKVO")
        scores = (q @ wq) @ (k @ wk).transpose(1, 2)
        scores = scores.masked_fill(torch.ones(4, 4).tril() == 0, -torch.inf)
        return scores.softmax(-1) @ (v @ wv) @ wo

    r1 = {h: head(1, h, x0, x0, x0) for h in range(1, 7)}
    x1 = x0 + sum(r1.values())
    r2 = {h: head(2, h, x1, x1, x1) for h in range(1, 7)}
    x2 = x1 + sum(r2.values())
    alike = last_like(lambda t: (t[-1], t[0]), places)
    queries = x1[v] + x0[last_like(lambda t: t[-1], alike)] - x0[v]
    keyed = last_like(lambda t: t[0], alike)
    values = x0[w] + x0[last_like(lambda t: t[1], keyed)] - x0[w]
    r12 = head(1, 2, x0[w], x0[w], values)
    keys = x1[v] + r12 - r1[2][v]
    r21 = head(2, 1, queries, keys, x1[v])
    embedded = x0[last_like(lambda t: (), places)]
    logits = ((x2[u] + r21 - r2[1][u] + embedded - x0[u]) @ arrays["W_U"])[:, -1]
    np.testing.assert_allclose(found, (logits[:, 5] - logits[:, 3]).numpy(), rtol=0, atol=1e-10)
    whole = (x2 @ arrays["W_U"])[:, -1]
    np.testing.assert_allclose(made.model.of_model, (whole[:, 5] - whole[:, 3]).numpy(), atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "gemma2", "pythia"])
def test_claims_about_the_number_are_hooks_of_the_last_stream(name: str) -> None:
    """And a value that is made anew is what the whole card makes with these streams put in."""
    model = small(name)
    none = scrubbing(model, "- x^0 → logits: nothing", NUMBER, TEXTS)
    (port,) = none.values[None].ports
    runs = [model.run(x) for x in TEXTS]
    known = [w for w in port.writers if show(w) in runs[0]][-2:]
    lines = [f"- {show(w)} → {show(port.reader)}: t_{{-1}}" for w in known]
    made = scrubbing(model, "\n".join(lines), NUMBER, TEXTS)
    (group,) = made.groups
    places, u = np.arange(9), np.random.default_rng(1).integers(0, 9, 9)
    streams = made.streams(made.values[None], group, places, Drawn([u]), None)  # type: ignore[arg-type]
    found = made.computed(made.values[None], group, places, streams)
    alike = last_like(lambda t: t[-1], places)
    for k in (0, 4):
        other, like = runs[u[k]], runs[alike[k]]
        stream = other["x^3"] + sum(like[show(w)] - other[show(w)] for w in known)
        hooked = model.card.run(TEXTS[k], model.weights, put={"x^3": lambda _, s=stream: s})
        assert found[k] == pytest.approx(hooked[NUMBER], abs=1e-10)
    writer = port.writers[-1]
    edges = [e for e in made.model.edges if e.reader != port.reader]
    inner = next(e for e in reversed(edges) if any(
        p.reader == e.reader for p in made.ports_of(writer)))  # fmt: skip
    lines = [f"- {show(writer)} → {show(port.reader)}: t_0",
             f"  - {show(inner.writer)} → {show(inner.reader)}: t_1"]  # fmt: skip
    deep = scrubbing(model, "\n".join(lines), NUMBER, TEXTS)
    value = deep.values[deep.claims[0]]
    given = {p.stream: group.values[p.stream][u] for p in value.ports}
    put = {(ref.key, ()): lambda v, _, a=a: type(v)(a, v.axes) for ref, a in given.items()}
    run = execute(program(deep.model.whole.card), dict(group.given), deep.model.whole_weights, [],
                  put=put)  # fmt: skip
    run.supply({(writer.key, ())})
    expected = deep.model.array(run, writer)
    np.testing.assert_allclose(deep.computed(value, group, places, given), expected, atol=1e-10)


def test_nothing_is_lost_where_every_value_is_of_the_text_itself() -> None:
    model = small("gpt2")
    every = scrubbing(model, "- x^0 → logits: t", NUMBER, TEXTS).values[None].ports[0]
    lines = "\n".join(f"- {show(w)} → logits: t, t_0" for w in every.writers)
    different = [[k, 1, 2, k] for k in range(6)]
    made = scrubbing(model, lines, NUMBER, different)
    np.testing.assert_allclose(made.numbers(2, 0), np.repeat(made.model.of_model, 2), atol=1e-10)
    found = scrub_findings(made, "texts", 2, 0)
    assert found.recovered == pytest.approx(1) and not any(map(abs, found.agreement.values()))
    assert all(cost == pytest.approx(0, abs=1e-9) for cost in found.costs.values())
    again = scrub_findings(made, "texts", 2, 0)
    np.testing.assert_array_equal(found.of_random, again.of_random)
    np.testing.assert_array_equal(made.random(2, 0), Scrubbing(made.model, (), {}).numbers(2, 0))


def test_the_command_prints_cards_of_what_was_computed(tmp_path: Path) -> None:
    page, texts = tmp_path / "hypothesis.md", tmp_path / "texts.jsonl"
    page.write_text(HYPOTHESIS.replace("t_{-1}, t_0", "right"))
    texts.write_text("".join(json.dumps({"text": t, "right": t[0]}) + "\n" for t in TEXTS))
    small_card = "attention-only-2 --set V=13 --set d=8 --set H=2 --set n_max=8 --seed 1".split()
    asked = ("cause", *small_card, "--of", "logits_{-1,right}", "--texts", texts,
             "--hypothesis", page)  # fmt: skip
    said = viete(*asked).out
    assert "x_logits²" in said and "r^{2,1} of a text that agrees on right" in said
    assert "A^{2,1} = softmax(causal(Q^{2,1} K^{2,1}ᵀ))" in said and "W_Q^{1,1}" not in said
    data = json.loads(viete(*asked, "-f", "json").out)
    assert len(data["scrubbed"]) == 45 and data["claims"][0]["parts"][1]["parts"]
    assert "<svg" in viete(*asked, "-f", "html").out


def test_a_page_is_a_tree() -> None:
    top = read_hypothesis(HYPOTHESIS)
    assert [str(c) for c in top] == ["r^{2,1} → logits", "x^0 → logits"]
    assert top[0].features == ("t_{-1}", "t_0") and top[1].features == ()
    assert [len(c.parts) for c in top[0].walk()] == [2, 0, 1, 0]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("no list", "the file has no claim"),
        ("- r^{2,1}: t_0", "a claim is an edge and what it depends on"),
        ("- r^{2,1} → logits", "a claim is an edge and what it depends on"),
        ("- r^{2,1} → logits: t_0,,t_1", "write features with commas"),
        ("- q → logits: t_0", "unknown symbol q"),
        ("- t → logits: t_0", "neither writes to the stream nor reads it"),
        ("- x^0 → r^{2,1}: t_0", "nothing is read by"),
        ("- x^0 → Q^{2,1}: t_0", "does not lead to the value of the claim above"),
        ("- r^{2,1} → logits: t_9", "t_9"),
    ],
)
def test_what_is_no_hypothesis(page: str, message: str) -> None:
    with pytest.raises(vt.VieteError) as refused:
        small("attention-only-2").bind(N=2).with_weights(seed=0).scrub(page, NUMBER, TEXTS)
    assert message in str(refused.value)


def test_texts_of_which_none_is_like_another() -> None:
    with pytest.raises(vt.VieteError, match="no two texts have the same length"):
        small("attention-only-2").scrub("- x^0 → logits: t_0", NUMBER, [[1, 2], [3]])
