"""A question about a change is one of the changed card; a sweep equals its single runs.

What a change does not reach is the run's own: it is not computed again.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.laws.strategies import random_inputs, random_weights, shipped, tiny
from viete.errors import VieteError
from viete.evaluate.run import Run
from viete.evaluate.schedule import program
from viete.notation.printer import show

GPT2 = vt.read("gpt2").bind(V=11, d=8, N=3, H=2, n_max=16)
MODEL = GPT2.with_weights(random_weights(GPT2, 3))
TOKENS, OTHER = [1, 7, 3, 4, 7, 6], [4, 4, 3, 1, 5, 9]
FAMILIES = "bert formal-decoder gemma2 mixtral pythia t5".split()


@pytest.mark.parametrize("name", FAMILIES)
def test_heads_and_positions_of_every_block(name: str) -> None:
    card = tiny(next(p for p in shipped() if p.endswith(f"/{name}.md")))
    model, inputs = card.with_weights(random_weights(card)), random_inputs(card)
    run, ready, random = model.run(None, **inputs), program(card), Random(name)
    last = card.equations[-1].name
    heads = next(e for e in card.equations if e.loop and card.heads_of(e.left.symbol)
                 and "softmax" in show(e.right))  # fmt: skip
    assert heads.loop is not None
    free = [heads.loop.index, *card.heads_of(heads.left.symbol)]
    row = next(x for x in "juv" if x not in card.names)
    whole = show(heads.left)
    for text, letters in (
        (f"{whole} = 0", free),
        (f"{whole}_{row} = 0 for {row} ≥ 2, {free[0]} = 1", free[1:]),
    ):
        found = run.answer(f"{last} with {text}")
        assert found.axes[: len(letters)] == tuple(letters)
        for _ in range(3):
            at = {s: random.choice(ready.range_of(s)) for s in letters}
            where = ", ".join(f"{s} = {k}" for s, k in at.items())
            single = model.put(text + (", " if "for" in text else " for ") + where)
            place = tuple(k - ready.range_of(s).start for s, k in at.items())
            want = single.run(None, **inputs)[last]
            np.testing.assert_allclose(found.array[place], want, rtol=1e-10, atol=1e-11)
        if found.array.ndim - len(letters) == 2:  # of rows alone no more is computed, and no other
            row = run[f"{last}_{{-1}} with {text}"]
            np.testing.assert_allclose(row, found.array[..., -1, :], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("change", ["A^{2,h} = 0", "A^{i,h} = A^{i,1}", "Q^{2,h}_j = 2 Q^{2,h}_j"])
def test_heads_of_grouped_queries(change: str) -> None:
    """One letter counts the heads of all groups; put has all of them at once."""
    card = tiny(next(p for p in shipped() if p.endswith("/llama.md")))
    model, inputs = card.with_weights(random_weights(card)), random_inputs(card)
    run = model.run(None, **inputs)
    found, heads = run.answer(f"logits_{{-1}} with {change}"), int(card.sizes["H"])
    h = found.axes.index("h")
    assert found.array.shape[h] == heads > int(card.sizes["G"])
    place = [1 if a in "ij" else slice(None) for a in found.axes]
    where = [f"{a} = {2 if a == 'i' else 1}" for a in found.axes if a in "ij"]
    for k in range(heads):
        place[h] = k
        single = model.put(f"{change} for {', '.join([f'h = {k + 1}', *where])}")
        np.testing.assert_allclose(
            found.array[tuple(place)], single.run(None, **inputs)["logits_{-1}"], rtol=1e-10
        )
    each = (f"{change} for h = {k}" for k in range(1, heads + 1))
    both = model.put(change), model.put(*each)
    if change != "A^{i,h} = A^{i,1}":  # where the first of several is the others' right side
        a, b = (m.run(None, **inputs)["logits"] for m in both)
        np.testing.assert_allclose(a, b, rtol=1e-10)


SINGLE: dict[str, Any] = {
    "logits_{-1} with A^{2,1} = 0": ["A^{2,1} = 0"],
    "logits with x^N = x^1": ["x^N = x^1"],
    "|x^N_{-1}| with x^2_j = x^2_j + 3 γ for j ≥ 3, j ≤ 4, x^1 = x^0": [
        "x^2_j = x^2_j + 3 γ for j ≥ 3, j ≤ 4", "x^1 = x^0"],
    "logits with scale_A^2 = 2 scale_A^2": ["scale_A^2 = 2 scale_A^2"],
    "logits with W_O^{2,1} = 0, x^3_{-1} = 0": ["W_O^{2,1} = 0", "x^3_{-1} = 0"],
}  # fmt: skip


@pytest.mark.parametrize("question", SINGLE)
def test_one_change_and_several(question: str) -> None:
    changed = MODEL.put(*SINGLE[question]).run(TOKENS)
    run = MODEL.run(TOKENS)
    found = run[question]
    assert np.array_equal(run["logits with x^N = x^i"][1], run["logits with x^N = x^1"])
    np.testing.assert_allclose(found, changed[question.partition(" with")[0]], rtol=1e-11)


def test_the_lens_of_every_block_is_that_of_each() -> None:
    run = MODEL.run(TOKENS)
    lens = run["logits_{-1} with x^N = x^i"]
    for i in range(4):
        single = MODEL.put(f"x^N = x^{i}").run(TOKENS)["logits_{-1}"]
        np.testing.assert_allclose(lens[i], single, rtol=1e-11, atol=1e-13)


def test_activation_patching_shares_what_does_not_change(monkeypatch: Any) -> None:
    run, other = MODEL.run(TOKENS), MODEL.run(OTHER)
    found = run.ask("logits_{-1} with x^i_j = x'^i_j", against=other)
    assert found.shape == (4, 6, 11)
    for i, j in ((0, 0), (2, 3), (3, 5)):
        single = MODEL.put(f"x^{i}_{j} = x'^{i}_{j}", against=other).run(TOKENS)
        np.testing.assert_allclose(found[i, j], single["logits"][-1], rtol=1e-11)
    batch = MODEL.run([TOKENS, OTHER])["logits_{-1,3} with A^{i,h} = 0"]
    assert batch.shape == (2, 3, 2)
    np.testing.assert_allclose(batch[1], other["logits_{-1,3} with A^{i,h} = 0"], rtol=1e-11)
    steps: list[str] = []
    evaluated = Run.evaluated

    def counted(self: Run, step: Any) -> Any:
        steps.append(step.equation.name)
        return evaluated(self, step)

    monkeypatch.setattr(Run, "evaluated", counted)
    run["logits with x^i_j = 0 for i = 3"]
    assert steps == ["x^i", "logits"]
    steps.clear()
    run["logits_{-1,5} with x^i_j = 0 for i = 3"]  # without the other logits
    assert steps == ["x^i"]


PAIRS = {
    "logits_{-1} with A^{i,h} = 0 in Q^{i',h'}": ("i", "i'", "h", "h'"),
    "logits_{-1} with x^i_j = x'^i_j in K^{i',h}": ("i", "i'", "j", "h"),
    "logits_{-1} with x^1_j = 2 x^1_j in A^{i,h} for j ≥ 2": ("i", "h"),
}


@pytest.mark.parametrize("question", PAIRS)
def test_paths_of_all_pairs_at_once(question: str) -> None:
    """A sender and a reader behind it are as `put` has them; any other pair changes nothing."""
    run, other, random = MODEL.run(TOKENS), MODEL.run(OTHER), Random(question)
    answer = run.ask(question, against=other) if "x'" in question else run[question]
    letters, change = PAIRS[question], question.partition(" with ")[2]
    first = {x: int(x != "j" and (x != "i" or "x^i" not in change)) for x in letters}
    pairs = [{x: k + first[x] for x, k in zip(letters, place, strict=True)}
             for place in np.ndindex(answer.shape[:-1])]  # fmt: skip
    later = 0
    for at in random.sample(pairs, min(len(pairs), 12)):
        found = answer[tuple(k - first[x] for x, k in at.items())]
        sender, reader = (at["i"], at["i'"]) if "i'" in at else (1, at["i"])
        want, text = run, change
        if reader > sender:
            for letter, k in sorted(at.items(), key=lambda x: -len(x[0])):
                text = re.sub(rf"(?<=[\^_{{,]){letter}(?![a-z'])", str(k), text)
            want, later = MODEL.put(text, against=other).run(TOKENS), later + 1
        np.testing.assert_allclose(found, want["logits"][-1], rtol=1e-11, atol=1e-14)
    assert later > 3


@pytest.mark.parametrize("card", [GPT2, vt.read("llama").bind(
    V=11, d=8, N=3, H=2, G=1, d_f=8, n_max=16)])  # fmt: skip
@pytest.mark.parametrize("change", ["x^2 = x^2 - r^{1,h} in Q^{3,h'}", "x^2 = x^2 - r^{1,h}",
                                    "x^2_j = x^2_j - r^{1,h}_k"])  # fmt: skip
def test_a_letter_of_the_right_side_alone(card: vt.Card, change: str) -> None:
    """The direct path from every head: one answer for each, as `put` has it with its number."""
    model = card.with_weights(random_weights(card, 3))
    found = model.run(TOKENS).answer(f"logits_{{-1}} with {change}")
    letters = [x for x in ("h", "h'", "j", "k") if re.search(rf"[,_]{x}(?!')", change)]
    assert sorted(found.axes[:-1]) == letters
    for at in [[0] * len(letters), [1] * len(letters)]:
        text = change
        for letter, k in sorted(zip(letters, at, strict=True), key=lambda x: -len(x[0])):
            number = str(k + (letter[0] == "h"))
            text = re.sub(rf"(?<=[,_]){letter}(?![a-z'])", number, text)
        place = tuple(at[letters.index(a)] for a in found.axes[:-1])
        want = model.put(text).run(TOKENS)["logits_{-1}"]
        np.testing.assert_allclose(found.array[place], want, rtol=1e-10, atol=1e-12)


def test_a_second_value_is_made_once_and_only_where_it_differs(monkeypatch: Any) -> None:
    run, steps = MODEL.run(TOKENS), list[str]()
    evaluated = Run.evaluated

    def counted(self: Run, step: Any) -> Any:
        steps.append(f"{step.equation.name} {step.loops.get('i')}")
        return evaluated(self, step)

    monkeypatch.setattr(Run, "evaluated", counted)
    run["logits_{-1,5} with x^2_j = 0 in A^{3,h}"]  # for all positions and heads in one pass
    assert steps.count("x_via^i 2") == 1 and "x_via^i 1" not in steps and "A^{i,h} 2" not in steps


def test_what_else_is_asked_of_the_changed_model() -> None:
    """The greatest entries, and the terms of an expansion."""
    run, other = MODEL.run(TOKENS), MODEL.run(OTHER)
    for question in ("top_3(logits_{-1}) with A^{2,1} = 0", "top_3(logits_{-1} with A^{2,1} = 0)"):
        want = MODEL.put("A^{2,1} = 0").run(TOKENS)["top_3(logits_{-1})"]
        assert run[question].indices.tolist() == want.indices.tolist()
    for change in ("A^{2,1} = 0", "x^1_j = 0 in Q^{3,1} for j ≥ 2", "x^2 = x'^2", "t_2 = 5"):
        changed = MODEL.put(change, against=other).run(TOKENS)
        e = run.expand(f"logits_{{-1, 5}} with {change}", "block, head", against=other)
        np.testing.assert_allclose(e.total, changed["logits_{-1,5}"], rtol=1e-11)
        assert np.allclose(e.rest, 0, atol=1e-12)
    with pytest.raises(VieteError, match="with a free letter h this is many changes"):
        run.expand("logits_{-1, 5} with A^{2,h} = 0")


def test_in_other_numbers_and_what_is_refused() -> None:
    weights = {k: np.round(v, 2) for k, v in MODEL.weights.items()}
    question = "logits_{-1,7} with A^{i,h}_{-1,j} = 0"
    interval = GPT2.run(TOKENS, weights, meaning="interval")[question]
    plain = GPT2.run(TOKENS, weights)[question]
    assert plain.shape == (3, 2, 6)
    ends = zip(interval.reshape(-1), plain.reshape(-1), strict=True)
    assert all(a <= x + 1e-12 and x <= b + 1e-12 for (a, b), x in ends)
    run = MODEL.run(TOKENS)
    for wrong, why in {
        "x^i with A^{i,h} = 0": "i is free on both sides of with",
        "A^{2,h}_{-1} with A^{1,h} = 0": "h is free on both sides of with",
        "logits with x^2 = x^3": "x^3 is computed from x^2",
        "logits with": "an equation must follow",
        "logits with x^1_6 = 0": "there is no x^1_6: its places run from 0 to 5",
        "logits with A^{1,1}_{-1,-7} = 0": "places run from 0 to 5",
        "logits with x^9 = 0": "there is no x",
        "logits with A^{2,1}": "write a change as an equation",
        "logits with foo = 0": "foo is not a value",
        "logits with x^2 = 0 in Q^{2,1}": "Q^{2,1} is computed before x^2",
        "logits with x^1 = 0 in W_E": "after 'in' write the values",
    }.items():
        with pytest.raises(VieteError, match=re.escape(why)):
            run[wrong]


@pytest.mark.parametrize("total", [r"\sum_i Δx^i", r"\sum_i r^{i,1}"])
def test_a_sum_over_blocks_after_with_has_the_bounds_of_a_question(total: str) -> None:
    run, bounded = MODEL.run(TOKENS), total.replace(r"\sum_i", r"\sum_{i=1}^3")
    np.testing.assert_allclose(run[total], run[bounded], rtol=1e-12)
    one, other = (run[f"logits_{{-1}} with x^3 = {x}"] for x in (total, bounded))
    np.testing.assert_allclose(one, other, rtol=1e-12)
    for equation in (f"x^3 = {total}", f"D = {total}"):  # of a card's equation they must be said
        with pytest.raises(VieteError, match=r"needs bounds in an equation: write sum_\{i=1\}\^N "):
            MODEL.put(equation)
