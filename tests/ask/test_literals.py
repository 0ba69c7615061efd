"""Numbers, vectors and matrices written into a question: ``e``, ``[1 2]``, ``[1 0; 0 1]``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viete as vt
from viete.notation.printer import STYLES, show

CARD = vt.read("letters-attention")
RUN = CARD.run([0, 1, 0], CARD.initial_weights(0))
ENTRY = st.one_of(st.integers(-9, 9).map(str), st.just("1/2"), st.just("(1 + 2)"), st.just("e^2"),
                  st.just("x_{0,1}"))  # fmt: skip


ROWS = st.integers(1, 3).flatmap(
    lambda n: st.lists(st.lists(ENTRY, min_size=n, max_size=n), min_size=1, max_size=3)
)


@given(ROWS, st.sampled_from([" ", ", "]))
def test_a_matrix_has_its_entries(rows: list[list[str]], between: str) -> None:
    text = f"[{'; '.join(between.join(row) for row in rows)}]"
    wanted = np.array([[float(RUN[entry]) for entry in row] for row in rows])
    np.testing.assert_array_equal(RUN[text], wanted[0] if len(rows) == 1 else wanted)
    e = RUN.parse(text)
    assert all(RUN.parse(show(e, style)) is e for style in STYLES)


@pytest.mark.parametrize(
    ("question", "same"),
    [("x [1 -1/2; 0 (1 + 2)]", "x + x [0 -1/2; 0 2]"), ("2 [1 2]", "[2 4]"), ("x[0]", "x_0"),
     ("e/(e+e^2)", "exp(1) / (exp(1) + exp(2))"), ("2 e", "2 exp(1)"), ("x [0, 1]", "x_{0,1}"),
     ("sum_j(x_{j,0}) [1 2]", "[1 2] sum_j(x_{j,0})"), ("⟨x_0, [0 1]⟩", "x_{0,1}")],
)  # fmt: skip
def test_in_a_formula(question: str, same: str) -> None:
    np.testing.assert_allclose(RUN[question], RUN[same], atol=1e-15)


@pytest.mark.parametrize(
    ("question", "words"),
    [("[1 2; 3]", "each row as many"), ("[]", "have entries"), ("[1 2", "never closed"),
     ("[x_0 1]", "must be one number"), ("e_1", "unknown symbol e_1"), ("e(2)", "unknown symbol e"),
     ("[" + "1 " * 300 + "]", "at most 256 entries")],
)  # fmt: skip
def test_refusals(question: str, words: str) -> None:
    with pytest.raises(vt.VieteError, match=words):
        RUN[question]


def test_a_card_s_own_e_is_its_own() -> None:
    text = CARD.write().replace("$o =", "$e = A V$\n5. $o =")
    card = vt.read(text)
    assert card.run([0, 1], card.initial_weights(0))["e"].shape == (2, 2)
