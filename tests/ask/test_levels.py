"""A vector that is a term of a matrix is a term of each of its rows."""

from __future__ import annotations

import numpy as np
import pytest

import viete as vt
from viete.ask.reading_notes import reading_notes

CARD = r"""# Levels

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | 3 |
| $d$ | 2 |

## Inputs

- $x ∈ ℝ^{n \times d}$

## Parameters

| symbol | shape |
| --- | --- |
| $W$ | $d \times d$ |

## Forward pass

1. $y = x + x_0 W$
1. $z = y W$
1. $A = x x^⊤$
1. $u = A y$
1. $v = sum_{c=1}^{2}(c * y)$
1. $w = LN(y; 1, 0, 1/1000000) W$
"""
QUESTIONS = ["z[-1]", "z_j", "z[1, 0]", "z[0:2]", "z[:, 1]", "sum(z)[-1]", "(z^⊤)_0", "u", "u[-1]",
             "v[-1]", "w[-1]"]  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_vector_is_a_term_of_every_row(question: str) -> None:
    x, W = np.array([[0.5, 1.5], [2.5, -3.5], [4.5, 5.0]]), np.array([[1.0, 2.0], [-1.0, 0.5]])
    run = vt.read(CARD).run(None, {"W": W}, x=x)
    found = run.expand(question, "block")
    total = sum(np.asarray(t.value) for t in found)
    np.testing.assert_allclose(total, run[question], rtol=1e-12, atol=1e-12)


def test_terms_of_which_almost_all_cancels_add_up() -> None:
    x = np.array([[0.3, 0.3 + 1e-13], [1.0, 2.0], [3.0, 4.0]])
    run = vt.read(CARD).run(None, {"W": np.array([[0.1, 0.1], [0.7, 0.7]])}, x=x)
    found = run.expand("(y_0 - mean(y_0))", "block")
    total = sum(np.asarray(t.value) for t in found)
    np.testing.assert_allclose(total, run["y_0 - mean(y_0)"], atol=1e-15)


def test_sides_that_differ_by_rounding_are_said_to() -> None:
    x, W = np.array([[0.5, 1.5], [2.5, -3.5], [4.5, 5.1]]), np.array([[1.0, 2.1], [-1.3, 0.7]])
    card = vt.read(CARD)
    run = card.run(None, {"W": W}, x=x)
    question = "z = x W + x_0 W W"
    assert not np.all(run[question])
    (note,) = reading_notes(run, question)
    assert "differ by" in note and "which is rounding" in note
    assert not reading_notes(run, "z = x W") and not reading_notes(run, "z = z")
    exact = card.run(None, {"W": W}, meaning="exact", x=x)
    assert np.all(exact[question]) and not reading_notes(exact, question)
