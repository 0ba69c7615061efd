"""What a card, an expansion or a lesson prints, asked as a question, has its own value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import viete as vt
from tests.laws.programs import program
from tests.laws.strategies import Card, cards, random_inputs, random_weights, shipped, tiny
from viete.document.tree import Chain
from viete.notation.printer import show
from viete.notation.tree import num
from viete.report.lesson.document import Lesson
from viete.report.lesson.making import lesson

# Norms with and without parameters, columns beside rows.
CARD = r"""# As both write

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 5 |
| $d$ | 4 |
| $N$ | 2 |
| $n$ | $≤ 7$ |

## Inputs

- $t ∈ \{0, …, V-1\}^n$: tokens

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V \times d$ |
| $γ^i, γ_F, g$ | $d$ |
| $W^i$ | $d × d$ |
| $b^i$ | $d$ |

## Forward pass

1. $x^0 = E[t]$

For $i = 1, …, N$:

1. $u^i = LN(x^{i-1}; γ^i)$
1. $v^i = LN(x^{i-1})$
1. $x^i = x^{i-1} + u^i + v^i + W^i b^i$

Then:

1. $z = LN(x^N; γ_F) + LN(x^N)$
1. $q = W^1 W^2 g$
1. $r = ⟨W^1 g, g⟩ + ⟨(W^1 + W^2) b^1, W^2 g⟩$
"""


@cache
def run() -> Any:
    card = vt.read(CARD)
    return card.run([0, 1, 3], weights=random_weights(card, 1))


def near(a: Any, b: Any) -> bool:
    return np.allclose(*np.broadcast_arrays(a, b), rtol=1e-7, atol=1e-9, equal_nan=True)


def wrong(run: Any) -> list[str]:
    """The equations whose right side, asked or claimed, is not the left."""
    card, out = run.program.model, []
    for e in (*card.equations, *card.derived):
        letters = {x: num(run.program.range_of(x)[-1]) for x in e.left.free & card.ranges.keys()}
        left, right = (card.substitute(x, letters=letters) for x in (e.left, e.right))
        for style in ("unicode", "latex"):
            said = show(left, style), show(right, style)
            if not near(*(run[x] for x in said)):
                out.append(" = ".join(said))
    return out


def test_a_card_that_writes_as_both_do() -> None:
    assert wrong(run()) == []
    card = run().program.model
    claims = [f"{show(e.left)} = {show(e.right)}" for e in card.equations]
    found = run().of.check(None, *claims)
    assert found.ok and len(found.verdicts) == len(claims), found.lines()


@pytest.mark.parametrize("name", ["pythia", "mixtral", "t5", "gemma2", "symbolic-transformer"])
def test_the_equations_of_shipped_cards(name: str) -> None:
    card = tiny(next(path for path in shipped() if Path(path).stem == name))
    assert wrong(card.run(**random_inputs(card, 1, 4), weights=random_weights(card, 1))) == []


@settings(max_examples=5)
@given(cards())
def test_the_equations_of_random_cards(card: Card) -> None:
    assert wrong(card.model.run(**card.given(4), weights=card.weights())) == []


@pytest.mark.parametrize("asked", ["z_{0,1}", "r", "q_1", "x^2_{1,0}"])
def test_the_terms_of_an_expansion(asked: str) -> None:
    terms = [t for into in ("block", "sublayer") for t in run().expand(asked, into=into)
             if t.kind in ("term", "constant", "unopened")]  # fmt: skip
    assert terms
    assert [t.expression for t in terms if not near(run()[t.expression], t.value)] == []


# -- lessons ---------------------------------------------------------------------------------------

# Words, of which one begins a parameter's name; experts; norms of norms, with numbers too long to
# write; columns by number.
LESSON = r"""# As lessons write

## Vocabulary

`a` `b` `c`

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 3 |
| $d$ | 2 |
| $S$ | 2 |
| $k$ | 1 |
| $n$ | $≤ 7$ |
| $s$ | $1, …, S$ |

## Inputs

- $t ∈ \{0, …, V-1\}^n$: tokens

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V \times d$ |
| $W^s$ | $d × d$ |
| $R$ | $d × S$ |
| $b_1$ | $d$ |

## Forward pass

1. $x = E[t] + b_1$
1. $p = top(softmax(x R); k)$
1. $y = x + \sum_s (column(p; s - 1) ⊙ x) W^s$
1. $z = LN(y + softmax(y); 1, 0, 1/100)$
1. $r = LN(z E^⊤; 1, 0, 1/100)$
"""


def lines_of(told: Lesson) -> Iterator[tuple[Chain, dict[str, str]]]:
    """Every line with numbers, and the formulas for which the letters of its step stand."""
    for step in (step for part in told.parts for step in part.steps):
        letters = re.findall(r"\$([^$]*)\$ stands for \$([^$]*)\$", " ".join(step.letters))
        for line in (line for column in step.sides for line in column.lines):
            if line.name not in ("", "…"):
                yield line, dict(letters)


def asked(run: Any, formula: str, letters: Mapping[str, str], heads: Mapping[str, int]) -> Any:
    """The value of a formula of a lesson, with its letters written out, for its heads."""
    for _ in letters:  # a letter may stand for a formula with another in it
        for letter, whole in letters.items():
            formula = re.sub(rf"(?<!\w){re.escape(letter)}(?![A-Za-zα-ω(])", f"({whole})", formula)
    answer = run.answer(formula)
    free = [heads[a] - run.program.range_of(a).start if a in heads else slice(None)
            for a in answer.axes]  # fmt: skip
    return np.asarray(answer.array, float)[tuple(free)]


def wrong_lines(card: vt.Card, inputs: Mapping[str, Any], weights: Any) -> list[str]:
    """The formulas and numbers of a lesson that have another value as questions."""
    first, out = card.inputs[0].name, []
    told = lesson(
        card, inputs[first], weights, inputs={k: v for k, v in inputs.items() if k != first}
    )
    run, lines = card.run(**inputs, weights=weights), list(lines_of(told))
    assert lines
    for line, letters in lines:
        own, *rows = (asked(run, x, letters, dict(line.heads)) for x in (line.name, *line.rows))
        out += [f"{line.name} = {x}" for x, row in zip(line.rows, rows, strict=True)
                if not near(row, own)]  # fmt: skip
        if line.entries and all(line.entries):
            numbers = [float(asked(run, x, {}, {})) for x in line.entries]
            out += [f"{line.name} = {line.value}"] * (
                not near(np.reshape(numbers, np.shape(own)[-1:]), own)
            )
    return out


def test_the_lines_of_a_lesson() -> None:
    card = vt.read(LESSON)
    halves = {k: np.round(2 * w) / 2 for k, w in random_weights(card, 1).items()}
    assert wrong_lines(card, {"t": np.array([0, 1, 2])}, halves) == []
    numbers = [x for line, _ in lines_of(lesson(card, [0, 1, 2], halves)) for x in line.entries]
    assert any("e" in x for x in numbers)
    assert [x for x in numbers if re.search("[a-df-zα-ω]", x)] == []  # none is another's name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["letters-block", "mixtral", "gpt2", "transformer-2017"])
def test_the_lines_of_lessons(name: str) -> None:
    card = tiny(next(path for path in shipped() if Path(path).stem == name))
    assert wrong_lines(card, random_inputs(card, 1, 3), random_weights(card, 1)) == []


@pytest.mark.parametrize(("seed", "size"), [(6, 2), (12, 2)])
def test_the_lines_of_lessons_on_random_programs(seed: int, size: int) -> None:
    random = program(seed, size)
    assert wrong_lines(random.card, random.given(2), random.weights()) == []
