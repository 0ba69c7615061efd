"""A page and a lesson say only what is so: what rows are, whose shares, and what is rounded."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.explore.data import page_data
from viete.explore.session import Session
from viete.report.lesson.making import lesson
from viete.report.lesson.telling import Teller

ROOT = Path(__file__).resolve().parents[2]
SMALL_T5 = {"V": 3, "N": 2, "N_e": 2, "H": 2, "d": 4, "d_k": 2, "n_b": 4, "D": 4, "d_f": 4}
SMALL = {"V": 5, "d": 4, "N": 2, "H": 2, "d_f": 4, "n_max": 8}
ANSWERS = """
globalThis.document = { createElement: () => ({}) };
const { powers } = await import("./page/src/numbers.js");
const { largest, tint } = await import("./page/src/matrix.js");
const { goOn } = await import("./page/src/generation.js");
const { overVocabulary } = await import("./page/src/bars.js");
const { Value } = await import("./page/src/values.js");
const words = ["a", "b", "c"];
const value = (data, whole) => new Value("x", [2, 3], ["", ""], [null, words], data, null, whole);
const wide = value([1, 2, 3, 4, 5, 6]), shares = value([0, 0.5, 0.5, 1, 0, 0]);
console.log(JSON.stringify({
  powers: ["e^0.3775", "e^−2", "2·e^(1 + x) + 1", "e^1.5e−3", "e^x"].map(powers),
  tint: [value([0, 1, 2, 0, 1, 2], true), value(Array(6).fill(1 / 3)), wide].map((x) => largest(x)),
  shade: [tint(2, 0), tint(-1, 2), tint(NaN, 2)],
  goesOn: goOn({ data: { tokens: { scores: "logits", next: false } } }),
  bars: [[wide, false], [wide, true], [shares, false]].map(([x, s]) => overVocabulary(x, words, s)),
}));
"""


def test_what_the_page_raises_shades_and_calls_probabilities() -> None:
    made = subprocess.run(["node", "--input-type=module", "-e", ANSWERS], cwd=ROOT,
                          capture_output=True, text=True)  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout) == {
        "powers": [["e", "^0.3775", ""], ["e", "^−2", ""], ["2·e", "^(1 + x)", " + 1"],
                   ["e", "^1.5e−3", ""], ["e", "^x", ""]],
        "tint": [0, 1, 6],  # token ids have none, and a uniform pattern is no full tint
        "shade": [0, 0.5, 0],
        "goesOn": None,  # BERT has scores of tokens, and none of the next one
        "bars": [False, True, True],  # ∂logits and W_U are as wide, and no scores
    }  # fmt: skip


@pytest.mark.parametrize(("name", "causal"), [("gpt2", True), ("letters-attention", False)])
def test_only_a_causal_model_predicts_the_next_token(name: str, causal: bool) -> None:
    card = vt.read(name)
    sizes = SMALL if causal else {}  # the letters have sizes of their own
    run = card.bind(**sizes).with_weights(seed=0).run([1, 0, 1])
    data = page_data(run, meanings=[])
    assert data["tokens"]["scores"] == "logits" and data["tokens"]["next"] is causal
    values, item = data["values"]["decimal"], data["tokens"]["input"]
    assert values[item]["whole"] and "whole" not in values["logits"]
    told = " ".join(Teller(run, "unicode", 6).lesson().intro)
    assert ("next" in told) is causal
    longer = run.of.run([1, 0, 1, 1, 0, 1, 0])
    said = " ".join(Teller(longer, "unicode", 6).about_positions())
    assert said and ("next token" in said) is causal
    assert "≈" in " ".join(Teller(run, "unicode", 6).lesson().predicted)


def test_shares_and_terms_say_whose_they_are() -> None:
    run = vt.read("t5").bind(**SMALL_T5).with_weights(seed=0).run([1, 0], t=[1, 0])
    told = Teller(run, "unicode", 6).lesson()
    heads = re.findall(r"\((head \d[^)]*)\)", " ".join(told.way))
    assert heads and len(heads) == len(set(heads))
    assert "2 stacks, of 2 and 2 blocks" in " ".join(told.intro)
    (added,) = [s for s in told.way if s.startswith("The attention output was added")]
    rows = re.findall(r"about \([^)]*\) (in [^,]*?)(?:,| and|\.)", added)
    assert len(rows) == len(set(rows)) == 4  # a decoder has two attentions in each block


def test_a_lesson_marks_what_it_rounds() -> None:
    card = vt.read("t5").bind(**{**SMALL_T5, "N": 1, "N_e": 1, "H": 1})
    told = lesson(card, [1, 0], card.with_weights(seed=0).weights, inputs={"t": [1, 0]})
    steps = [s for part in told.parts for s in part.steps]
    lines = [x for s in steps for column in s.sides for x in column.lines]
    exact = [side for x in lines for side in x.sides] + [c for s in steps for r in s.register
                                                        for c in r.cells]  # fmt: skip
    assert len(exact) > 50 and any("…" in x for x in exact)
    assert [x for x in exact if re.search(r"\d\.\d+(?![\d…])", x)] == []
    assert "per cent are rounded" in " ".join(told.numbers)


@pytest.mark.parametrize("right", ["1/2", "x_{0,0}", "n"])
def test_a_constant_family_has_a_lesson(right: str, tmp_path: Path) -> None:
    card = (
        "# M\n\n## Dimensions\n\n| symbol | value |\n| --- | --- |\n| $V$ | 5 |\n| $d$ | 4 |\n"
        "| $H$ | 2 |\n| $n$ | $≤ 7$ |\n| $h$ | $1, …, H$ |\n\n## Inputs\n\n"
        "- $t ∈ \\{0, …, V-1\\}^n$: tokens\n\n## Parameters\n\n| symbol | shape |\n| --- | --- |\n"
        f"| $E$ | $V \\times d$ |\n\n## Forward pass\n\n1. $x = E[t]$\n2. $y^h = {right}$\n"
    )
    (tmp_path / "m.md").write_text(card, encoding="utf-8")
    done = viete("lesson", str(tmp_path / "m.md"), "-t", "0,1", "--seed", "0")
    assert "the same for every h" in str(done)


def test_a_run_of_a_card_in_intervals_is_explored() -> None:
    card = vt.read("gpt2").bind(**SMALL)
    weights = card.with_weights(seed=0).weights
    session = Session.of(card.run([1, 2, 3], weights, meaning="interval"))
    assert "interval" in session.data["values"]
    assert all(np.array_equal(session.model.weights[k], w) for k, w in weights.items())


TARGETS = """# Targets

## Vocabulary

`a` `b` `c`

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 3 |
| $d$ | 2 |
| $n$ | $≤ 6$ |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$
- $y ∈ \\{-100, …, V-1\\}^n$

## Parameters

| symbol | shape | value |
| --- | --- | --- |
| $E$ | $V × d$ | [1 0; 0 1; 1 1] |

## Forward pass

1. $X = E[t]$
2. $logits = X E^⊤$
3. $L = cross_entropy(logits; y)$
"""


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ("b,-100,c", "`b`, no target, `c`, as the numbers"),
        ("-100,-100,-100", "divides by exactly zero"),
        ("b,c", "the input y is 2 long where n = 3"),
        ("b,c,9", "the input y holds 9"),
    ],
)
def test_targets_that_are_none_or_wrong(targets: str, said: str, tmp_path: Path) -> None:
    card = tmp_path / "m.md"
    card.write_text(TARGETS, encoding="utf-8")
    given = (str(card), "-t", "a b c", "--input", f"y={targets}")
    code = 2 if said.startswith("the input") else 0
    told = viete("lesson", *given, "-f", "md", code=code)
    assert said in told.out + told.err
    page = tmp_path / "page.html"
    refused = viete("explore", *given, "-o", str(page), code=code)
    assert page.exists() is not bool(code) and (not code or said in refused.err)
