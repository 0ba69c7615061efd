"""What a card or an expansion prints, asked as a question, has its own value."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import viete as vt
from tests.laws.strategies import Card, cards, random_inputs, random_weights, shipped, tiny
from viete.notation.printer import show
from viete.notation.tree import num

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
