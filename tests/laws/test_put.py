"""Interventions are equations: a card with one changed computes what a hook makes of the card.

What is held to the hook are random members of random values of every shipped family, some of their
rows. The changed card is well-formed, prints and reads back, derives its cache and its gradient.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import viete as vt
from tests.ask.vocabularies import reader
from tests.command_line import viete
from tests.laws.strategies import (
    random_inputs,
    random_weights,
    shipped,
    tiny,
    with_rows_changed,
)
from viete.analysis.well_formed import check_well_formed
from viete.errors import VieteError

GPT2 = vt.read("gpt2").bind(V=11, d=8, N=3, H=2, n_max=16)
WEIGHTS = random_weights(GPT2, 3)
TOKENS = [1, 7, 3, 4, 7, 6]


@pytest.mark.parametrize("path", shipped(), ids=lambda path: Path(path).stem)
def test_an_equation_is_the_hook_that_does_the_same(path: str) -> None:
    card = tiny(path)
    inputs, weights = random_inputs(card), random_weights(card)
    for name, heads, changed in with_rows_changed(card, Path(path).stem):
        check_well_formed(changed)
        assert vt.read(changed.write("md")) == changed

        def by_hand(a: np.ndarray, heads: int = heads) -> np.ndarray:
            rows = a[(0,) * heads]  # of the first head, as a view
            rows[1:] = 2 * rows[1:] + 1
            return a

        run, want = (c.run(None, weights, **inputs, **more) for c, more in (
            (changed, {}), (card, {"put": {name: by_hand}})))  # fmt: skip
        for value in want:
            np.testing.assert_allclose(run[value], want[value], rtol=1e-11, atol=1e-11)


CHANGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "A^{2,1} = 0": ({"A^{2,h}": lambda a: np.stack([0 * a[0], a[1]])}, {}),
    "A^{2,1} = A^{2,2}": ({"A^{2,h}": lambda a: a[[1, 1]]}, {}),
    "A^{i,h}_{j,0} = 0 for i = 1, …, 2, h ≤ 1": (
        {f"A^{{{i},h}}": lambda a: a * ((np.arange(6) > 0) | (np.arange(2) > 0)[:, None, None])
         for i in (1, 2)}, {}),
    "x^2 = 0": ({"x^2": lambda a: 0 * a}, {}),
    "x^2 = 2 |γ|": ({"x^2": lambda a: 0 * a + 2 * np.linalg.norm(WEIGHTS["gamma"])}, {}),
    "x^N = x^1": ({}, {"x^3": "x^1"}),
    "A^{3,h} = A^{1,h}": ({}, {"A^{3,h}": "A^{1,h}"}),
    "x^i_j = 0 for i in {0, 2}, j = 2": (
        {f"x^{i}": lambda a: a * (np.arange(6) != 2)[:, None] for i in (0, 2)}, {}),
    "x^0_j = x^0_j + γ for t_j = 7": (
        {"x^0": lambda a: a + (np.array(TOKENS) == 7)[:, None] * WEIGHTS["gamma"]}, {}),
    r"\tilde{A}^2 = -\tilde{A}^2": ({"a^2": lambda a: -a}, {}),
    "W_O^{2,1} = 0": ({"A^{2,h}": lambda a: np.stack([0 * a[0], a[1]])}, {"but": "A^{2,h}"}),
}  # fmt: skip


@pytest.mark.parametrize("text", CHANGES)
def test_changes_and_the_cache(text: str) -> None:
    """Heads, entries, other blocks, tokens, derived names, weights; and each with its KV cache."""
    by_hand, others = CHANGES[text]
    changed = GPT2.put(text)
    assert vt.read(changed.write("md")) == changed
    run, plain = changed.run(TOKENS, WEIGHTS), GPT2.run(TOKENS, WEIGHTS)
    hooks = by_hand | {k: plain[v] for k, v in others.items() if k != "but"}
    want = GPT2.run(TOKENS, WEIGHTS, put=hooks)
    for name in set(want) - {others.get("but")}:
        np.testing.assert_allclose(run[name], want[name], rtol=1e-12, atol=1e-13)
    cached, whole = (list(changed.sample(TOKENS, WEIGHTS, most=4, greedy=True, cache=c))
                     for c in (True, False))  # fmt: skip
    assert changed.incremental() and cached == whole


def test_a_value_with_a_label_is_changed_and_named_by_no_new_name() -> None:
    card = vt.read("symbolic-transformer")
    changed = card.put("h_attn = 0")
    run = changed.run([0, 1], random_weights(changed))
    assert not changed.derived and not np.any(run["h_{attn}"])


def test_gradient_and_program() -> None:
    card = GPT2.put("A^{2,1} = 0", "x^3_j = x^3_j + 4 γ for j ≥ 3", "m^1 = x^0")
    weights = {k: torch.tensor(v, requires_grad=True) for k, v in WEIGHTS.items()}

    def by_hand(a: torch.Tensor) -> torch.Tensor:
        return a + 4 * weights["gamma"] * (torch.arange(6) >= 3)[:, None]

    hooked = GPT2.run(torch.tensor(TOKENS), weights, put={
        "A^{2,h}": lambda a: a * torch.tensor([0.0, 1.0])[:, None, None], "x^3": by_hand,
        "m^1": lambda a: GPT2.run(torch.tensor(TOKENS), weights)["x^0"],
    })["logits"]  # fmt: skip
    targets = torch.tensor(TOKENS[::-1])
    torch.nn.functional.cross_entropy(hooked, targets).backward()
    run = card.grad().run(TOKENS, WEIGHTS, target=targets.numpy())
    for name in ("W_E", "gamma", "W_Q^{2,h}", "W_1^2", "W_O^{2,h}"):
        np.testing.assert_allclose(run[f"∂{name}"], weights[name].grad, rtol=1e-9, atol=1e-11)
    net = card.to_torch(WEIGHTS)
    torch.testing.assert_close(net(torch.tensor(TOKENS)), hooked, rtol=1e-9, atol=1e-11)


def test_values_and_names_of_ones_own(tmp_path: Path) -> None:
    model = GPT2.with_weights(WEIGHTS)
    v = np.linspace(-1, 1, 8)
    steered = model.put("both = probe - γ", "x^2_j = x^2_j + 4 both for j ≥ 3", probe=v)
    by_hand = model.run(
        TOKENS, put={"x^2": lambda a: a + 4 * (v - WEIGHTS["gamma"]) * (np.arange(6) > 2)[:, None]}
    )
    np.testing.assert_allclose(steered.run(TOKENS)["logits"], by_hand["logits"], rtol=1e-12)
    again = vt.load(steered.save(tmp_path / "steered"))
    np.testing.assert_array_equal(again.run(TOKENS)["logits"], steered.run(TOKENS)["logits"])
    as_card = GPT2.put("x^2_j = x^2_j + 4 probe for j ≥ 3", probe=v)
    assert as_card.initial_weights()["probe"].tolist() == v.tolist()
    with pytest.raises(VieteError, match="γ is a weight of GPT-2"):
        model.put("x^2 = 0", γ=v)


EDIT = """# Steering

## Parameters

| symbol | shape | value |
| --- | --- | --- |
| $w$ | $d$ | 1/2 |

## Equations

- $A^{2,1} = 0$: without this head
- $x^3_j = x^3_j + 4 w$ for $j ≥ 2$, $j ≤ 4$: steer
"""


def test_the_same_as_a_card_and_on_the_command_line(tmp_path: Path) -> None:
    file, card = tmp_path / "edit.md", tmp_path / "card.md"
    file.write_text(EDIT)
    changed = GPT2.put(file)
    lines = GPT2.write("md").splitlines()
    place = next(k for k, x in enumerate(lines) if x.startswith("## Derived"))
    row = next(k for k, x in enumerate(lines) if x.startswith("| $\\beta$"))
    lines[place:place] = ["14. $A^{2,1} = 0$", "15. $x^3_j = x^3_j + 4 w$ for $2 ≤ j$, $j ≤ 4$", ""]
    lines[row + 1 : row + 1] = ["| $w$ | $d$ | 1/2 | | |"]
    card.write_text("\n".join(lines))
    equations = [(e.left, e.right) for e in vt.read(card).equations]
    assert len(equations) == len(changed.equations) == len(GPT2.equations) + 1
    assert (changed.equations[5].left, changed.equations[5].right) == equations[5]
    shown = viete("show", "gpt2", "--put", str(file), "--against", "gpt2").out
    assert "+ A^{i,h} = where(i = 2 and h = 1, 0, softmax(" in shown and "x_oldⁱ = yⁱ + mⁱ" in shown
    assert "W_E" not in shown


def test_conditions_of_a_card_are_formulas() -> None:
    text = GPT2.write("md").replace("## Derived", "14. $x^3_j = 0$ for j ≥ 2: zeros\n\n## Derived")
    with pytest.raises(VieteError, match=re.escape("a condition is a formula: for $j ≥ 5$")):
        vt.read(text)
    changed = vt.read(text.replace("for j ≥ 2", "in $logits$ for $j ≥ 2$, $j ≤ 4$"))
    assert any(e.name == "x_via^i" for e in changed.equations)


def test_a_direction_is_named_by_tokens() -> None:
    model = reader("characters")
    named = model.put(r"way = \overline{a} - \overline{b}", "x^1_j = x^1_j + way for j ≥ 1")
    words = model.words
    way = model.weights["W_E"][words.get("a")] - model.weights["W_E"][words.get("b")]
    run = named.run("ab")
    np.testing.assert_allclose(np.ravel(run["way"]), way)


WRONG = {
    "A^{2,3} = 0": "there is no A^{2,3}: h runs from 1 to 2",
    "x^7 = 0": "there is no x^7",
    "x^2 = x^3": "x^3 is computed from x^2",
    "u^2 = y^2": "equations are circular",
    "A^{2,1} = x^1": "shape (n, n), and this has (n, d)",
    "x^2_j = x^2": "shape (d), and this has (n, d)",
    "B^{2,1} = 0": "GPT-2 has no B",
    "A^{2,1}": "write a change as an equation",
    "A^{2,1} = A^{2,h}": "h is not a letter of A^{2,1}",
    "x^2_j = 0 for": "the formula ends too early",
    "x^2_j = 0 for j ≥ 3 ≥ 1": "join two comparisons",
    "dir = γ for j ≥ 2": "dir is a new name",
    "n = 3": "the left side of a change must be a value",
    "x^{2}_{1:3} = 0": "some rows are written with a letter",
    "x^2_{99} = 0": "there is no x^2_{99}: its places run from 0 to 15 at most",
    "x^2_{-17} = 0": "there is no x^2_{-17}: its places run from 0 to 15 at most",
    "x^2_{3,8} = 0": "there is no x^2_{3,8}: its places run from 0 to 7",
    "x^2_j = 0 for j ≥ 16": "there is no x^2_j that these conditions admit",
    "x^2_j = 0 for j ≥ 3, j in {1, 2}": "there is no x^2_j that these conditions admit",
    "A^{i,h} = 0 for h = 9": "there is no A^{i,h} that these conditions admit",
    "x^i = 0 for i = 9": "there is no x^i that these conditions admit",
    "W_{E,77} = 0": "there is no W_{E,77}: its places run from 0 to 10",
    "t_2 = 11": "t_2 is a whole number from 0 to 10, and this is 11",
    "t_2 = 1/2": "t_2 is a whole number from 0 to 10, and this is no whole number",
}


def test_tokens_are_changed_and_places_are_met() -> None:
    model, other = GPT2.with_weights(WEIGHTS), [1, 7, 5, 4, 7, 6]
    changed = model.put("t_2 = 5")
    np.testing.assert_array_equal(changed.run(TOKENS)["logits"], model.run(other)["logits"])
    again = changed.put("t_{-1} = t_2")
    assert again.run(TOKENS)["t_new"].tolist() == [*other[:-1], 5]
    assert again.card == GPT2.put("t_2 = 5", "t_{-1} = t_2")
    assert not changed.put("x^2_j = 0 for t_j = 5").run(TOKENS)["x^2_2"].any()
    assert not changed.run(TOKENS)["x^2_2 with x^2_j = 0 for t_j = 5"].any()
    late = model.put("x^2_j = 0 for j ≥ 7")
    with pytest.raises(VieteError, match=re.escape("a change is for j >= 7, and here j runs from")):
        late.run(TOKENS)
    assert not late.run([1] * 8)["x^2_7"].any()
    whole, cached = (list(late.sample(TOKENS, most=4, greedy=True, cache=c)) for c in (False, True))
    assert whole == cached


@pytest.mark.parametrize("text", WRONG)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(VieteError, match=re.escape(WRONG[text])) as caught:
        GPT2.put(text)
    assert caught.value.where is not None and caught.value.where.file == "<put>"


def test_heads_of_grouped_queries_have_one_letter_wherever_a_change_is_said() -> None:
    card = vt.read("llama").bind(V=11, d=8, N=2, H=4, G=2, d_k=4, d_f=8, n_max=8)
    model = card.with_weights(random_weights(card, 3))
    shapes: list[tuple[int, ...]] = []

    def third(a: np.ndarray, hook: object = None) -> None:
        shapes.append(a.shape)
        a[..., 2, :, :] = 0

    want = model.run(TOKENS, put={"A^{2,g,r}": lambda a: a * [[[[1]], [[1]]], [[[0]], [[1]]]]})
    with model.lens.hooks([("A^{2,h}", third)]):
        hooked = model.run(TOKENS), model.lens(TOKENS)[0]
    for logits in (
        model.run(TOKENS, put={"A^{2,h}": third})["logits"],
        model.run([TOKENS, TOKENS], put={"A^{2,h}": third})["logits"][1],
        hooked[0]["logits"], hooked[1],
        model.put("A^{2,3} = 0").run(TOKENS)["logits"],
        model.put("A^{i,h} = 0 for i = 2, h = 3").run(TOKENS)["logits"],
        model.run(TOKENS)["logits with A^{2,h} = 0 for h = 3"],
    ):  # fmt: skip
        np.testing.assert_allclose(logits, want["logits"], rtol=1e-9)
    assert shapes == [(1, 4, 6, 6), (1, 4, 6, 6), (4, 6, 6), (2, 4, 6, 6)]
    for name in ("A^{2,h}", "|x^1_j|"):
        np.testing.assert_array_equal(
            model.run(TOKENS, names=[name])[name], model.run(TOKENS)[name]
        )
    for equation, why in {
        "A^{2,5} = 0": "there is no A^{2,5}: h runs from 1 to 4",
        "A^{2,0} = 0": "there is no A^{2,0}: h runs from 1 to 4",
        "A^{i,h} = 0 for h ≥ 5": "there is no A^{i,h} that these conditions admit: h runs from",
        "x^1 = 0 in Q^{2,5}": "there is no Q^{2,5}: h runs from 1 to 4",
        "W_Q^{1,7} = 0": "there is no W_Q^{1,7}: h runs from 1 to 4",
        "K^{2,h} = 0": "K^{2,h} is what all heads of a group have in common: write K^{2,g} to",
    }.items():
        with pytest.raises(VieteError, match=re.escape(why)):
            model.put(equation)
    with pytest.raises(VieteError, match=re.escape("there is no A^{2,5}: h runs from 1 to 4")):
        model.run(TOKENS)["logits with A^{2,5} = 0"]
    with pytest.raises(VieteError, match="what all heads of a group have in common; write g for h"):
        model.run(TOKENS, put={"K^{2,h}": third})


def test_values_of_another_run() -> None:
    model, other = GPT2.with_weights(WEIGHTS), [4, 4, 3, 1, 5, 9]
    run, here = model.run(other), np.arange(6)[:, None]
    by_hand: dict[str, dict[str, Any]] = {
        "x^2_4 = x'^2_4": {"x^2": lambda a: np.where(here == 4, run["x^2"], a)},
        "x^2_j = x'^2_{-1} for j = 0": {"x^2": lambda a: np.where(here == 0, run["x^2"][-1], a)},
        r"\tilde{A}^2 = \tilde{A}'^2": {"a^2": run["a^2"]},
        "A^{2,1} = A'^{2,1}": {"A^{2,h}": lambda a: np.stack([run["A^{2,1}"], a[1]])},
        "x^i_j = x^i_j + 0.5 (x'^i_j - x^i_j) for i ≥ 2, j ≥ 3": {
            f"x^{i}": lambda a, b=run[f"x^{i}"]: np.where(here >= 3, a + 0.5 * (b - a), a)
            for i in (2, 3)
        },
    }
    for text, hooks in by_hand.items():
        changed, want = model.put(text, against=run), model.run(TOKENS, put=hooks)
        np.testing.assert_allclose(changed.run(TOKENS)["logits"], want["logits"], rtol=1e-12)
        assert vt.read(changed.card.write()) == changed.card
    with pytest.raises(VieteError, match="n is at most 6"):
        model.put("x^2 = x'^2", against=run).run([1] * 7)


def test_a_change_that_some_readers_see() -> None:
    """The reader has what a change for all gives it, and nothing else has."""
    plain = GPT2.run(TOKENS, WEIGHTS)
    for text, seen in (("x^1_j = 0 {} for j ≥ 2", "Q^{3,1}"), ("x^1 = x^1 ⊙ x^1 {}", "K^{2,h}")):
        everywhere = GPT2.put(text.format("")).run(TOKENS, WEIGHTS)
        path = GPT2.put(text.format(f"in {seen}"))
        run = path.run(TOKENS, WEIGHTS)
        np.testing.assert_allclose(run[seen], everywhere[seen], rtol=1e-12)
        for name in ("x^1", "V^{2,h}", "Q^{2,h}"):
            np.testing.assert_array_equal(run[name], plain[name])
        assert not np.allclose(run["logits"], plain["logits"])
        assert vt.read(path.write("md")) == path and path.incremental()
    for wrong in ("x^2 = 0 in Q^{2,1}", "x^1 = 0 in W_E", "logits = 0 in Q^{3,1}"):
        with pytest.raises(VieteError, match=r"is computed before|after 'in' write|does not read"):
            GPT2.put(wrong)


def test_a_row_in_one_block_is_every_row() -> None:
    """What a block's condition chooses has the shape that the other branch gives it."""
    card = vt.read("""# Rows
## Dimensions
| symbol | value |
| --- | --- |
| $d$ | 4 |
| $N$ | 3 |
| $n$ | ≤ 9 |
## Inputs
- $X ∈ ℝ^{n × d}$
## Parameters
| symbol | shape |
| --- | --- |
| $γ$ | $d$ |
## Forward pass
1. $x^0 = X$
For $i = 1, …, N$:
1. $x^i = where(i = 2, γ, 2 x^{i-1})$
2. $s^i = x^i {x^i}^⊤$
""")
    row = np.arange(4.0)
    run = card.run(None, {"gamma": row}, X=np.ones((5, 4)))
    np.testing.assert_array_equal(run["x^2"], np.tile(row, (5, 1)))
    np.testing.assert_array_equal(run["s^3"], np.full((5, 5), 4 * row @ row))


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_change_says_something(text: str) -> None:
    with pytest.raises(VieteError, match="a change is empty; write an equation, such as"):
        GPT2.put(text)
