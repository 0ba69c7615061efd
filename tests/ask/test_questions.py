"""What a question may mean otherwise than it says is said in one sentence."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.errors import VieteWarning

SIZES = {"V": 11, "d": 8, "N": 2, "H": 2, "d_f": 8}
MODEL = vt.read("gpt2").bind(**SIZES)
RUN = MODEL.run([1, 2, 3], MODEL.initial_weights())
LN = (
    "LN(x²[1]) takes γ = 1, β = 0, ε = 0, as its definition does; the card has LN(x^N; γ, β, ε): "
    "give those too if they are meant"
)
COLUMN = (
    "W_OV^{1,1} x¹[2] takes x¹[2] for a column; the card's vectors are rows: write "
    "x¹[2] W_OV^{1,1} if what the matrix makes of it is meant"
)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("<W_E_3, LN(x^2_1)>", LN),
        ("W_{OV}^{1,1} x^1_2", COLUMN),
        ("W_QK^{1,1} (x^1_2 + x^0_1)", "write (x¹[2] + x⁰[1]) W_QK^{1,1} if"),
    ],
)
def test_what_may_be_meant_otherwise(question: str, sentence: str) -> None:
    with pytest.warns(VieteWarning, match=re.escape(sentence)) as found:
        assert np.isfinite(RUN[question]).all()
    assert len(found) == 1 and found[0].filename == __file__


@pytest.mark.parametrize(
    "question",
    ["<W_E_3, LN(x^2_1; γ, β, ε)>", "x^1_2 W_OV^{1,1}", "A^{1,1} x^1", "W_E x^1_2",
     "W_O^{1,1} W_E_3", "softmax(logits)", "x^1", "W_OV^{1,1} W_OV^{2,1}"],
)  # fmt: skip
def test_what_means_what_it_says(question: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = RUN[question]


def test_on_the_command_line() -> None:
    sets = [x for k, v in SIZES.items() for x in ("--set", f"{k}={v}")]
    said = viete("run", "gpt2", *sets, "--seed", "0", "-t", "1,2", "--show",
                 "<W_E_1, LN(x^2_1)>, W_{OV}^{1,1} x^1_1")  # fmt: skip
    lines = said.err.splitlines()
    assert lines[0] == f"viete: {LN}" and lines[1].startswith("viete: W_OV^{1,1} x¹[1] takes")
    assert len(lines) == 2 and "LN(x^2_1)> = " in said.out
