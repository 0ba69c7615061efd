"""A product of many factors is what it is from left to right, and never costs more."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from viete.evaluate.contraction import Contraction
from viete.evaluate.product_order import path

torch = pytest.importorskip("torch")

PYTHIA = vt.read("pythia").bind(V=9, d=16, N=2, H=2, n_max=8, d_f=12)
FLOATS = PYTHIA.run([3, 1, 4], PYTHIA.initial_weights(seed=0))
SMALL = vt.read("attention-only-2").bind(V=4, d=4, H=2, n_max=6)
EXACT, INTERVAL = (SMALL.run([1, 2, 3], SMALL.initial_weights(seed=0), meaning=meaning)
                   for meaning in ("exact", "interval"))  # fmt: skip
MATRICES = {  # by how many rows and columns they have
    "W_E": "Vd", "U": "Vd", "W_Q^{i,h}": "dk", "W_K^{i,h}": "dk", "W_V^{i,h}": "dk",
    "W_O^{i,h}": "kd", "W_OV^{i,h}": "dd", "W_QK^{i,h}": "dd", "A^{i,h}": "nn", "V^{i,h}": "nk",
}  # fmt: skip


@st.composite
def chains(draw: st.DrawFn) -> str:
    """A product that fits together, of blocks and heads with and without a prime; or of it the
    trace, a row, an entry, or what stands between two vectors.
    """
    parts, first, last = list[str](), "", ""
    for _ in range(draw(st.integers(2, 5))):
        fits = [(name, turn) for name, ends in MATRICES.items() for turn in (False, True)
                if not parts or ends[turn] == last]  # fmt: skip
        name, turn = draw(st.sampled_from(fits))
        if draw(st.booleans()):
            name = name.replace("^{i,h}", "^{i',h'}")
        ends = MATRICES[name.replace("'", "")][::-1] if turn else MATRICES[name.replace("'", "")]
        parts.append(f"{name}^T" if turn else name)
        first, last = first or ends[0], ends[1]
    whole = " ".join(parts)
    forms = [whole, f"({whole})_1", f"({whole})_{{1, -1}}", f"({whole})_{{-1}}", f"2 {whole} / 3"]
    forms.append(f"|{whole}|")
    forms += [f"tr({whole})"] * (first == last)
    forms += [f"⟨U_2 {whole}, U_1⟩", f"∑_j ⟨U_j {whole}, W_E[3]⟩"] * (first == last == "d")
    return draw(st.sampled_from(forms))


def from_left_to_right(run: Any, question: str) -> Any:
    with patch.object(Contraction, "of_many", lambda self, e, env: None):
        return run[question]


@settings(max_examples=60)
@given(question=chains())
def test_it_is_the_product_from_left_to_right(question: str) -> None:
    with patch("viete.evaluate.low_rank.WORTH", 0):  # of matrices as small as these, too
        found, wanted = FLOATS[question], from_left_to_right(FLOATS, question)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)


@settings(max_examples=12)
@given(question=chains())
def test_in_exact_numbers_and_intervals(question: str) -> None:
    found, wanted = EXACT[question], from_left_to_right(EXACT, question)
    assert np.shape(found) == np.shape(wanted) and np.all(found == wanted)
    found, wanted = INTERVAL[question], from_left_to_right(INTERVAL, question)
    assert np.all(found["lower"] <= wanted["upper"]) and np.all(wanted["lower"] <= found["upper"])


def cost(factors: list[frozenset[str]], order: Any, sizes: Any, out: frozenset[str]) -> int:
    """Of one order: the entries of both factors together, and those of each product."""
    total = 0
    for i, j in order:
        rest = [f for k, f in enumerate(factors) if k not in (i, j)]
        both = factors[i] | factors[j]
        made = both & out.union(*rest)
        total += sum(math.prod(sizes[a] for a in axes) for axes in (both, made))
        factors = [*rest, made]
    return total


@settings(max_examples=40)
@given(
    ends=st.lists(st.sampled_from([1, 2, 7, 30, 1000]), min_size=3, max_size=12),
    heads=st.lists(st.sampled_from(["", "h", "i"]), min_size=11, max_size=11),
    trace=st.booleans(),
)
def test_it_never_costs_more(ends: list[int], heads: list[str], trace: bool) -> None:
    names = [f"a{k}" for k in range(len(ends))]
    sizes = dict(zip(names, ends, strict=True)) | {"h": 12, "i": 6}
    if trace:
        names[-1] = names[0]
    axes = [(*h, a, b) for h, a, b in zip(heads, names, names[1:], strict=False)]
    factors = [frozenset(x) for x in axes]
    out = frozenset({"h", "i"} | (set() if trace else {names[0], names[-1]})) & frozenset().union(
        *factors
    )
    order = path(tuple((a, k) for k, a in enumerate(axes)), tuple(sizes.items()), out)
    straight = [(0, 1), *((m - 1, 0) for m in range(len(axes) - 1, 1, -1))]
    assert cost(factors, order, sizes, out) <= cost(factors, straight, sizes, out)


def test_what_stands_twice_is_multiplied_once() -> None:
    """Of ``tr(… O Q … Q^T O^T …)`` what is of one block once a block, not once for each pair."""
    calls, kind = list[Any](), type(FLOATS.arrays)
    contract = kind.contract
    question = ("tr(W_V^{i,h}^T W_V^{i,h} W_O^{i,h} W_Q^{i',h'} W_K^{i',h'}^T W_K^{i',h'} "
                "W_Q^{i',h'}^T W_O^{i,h}^T)")  # fmt: skip

    def counted(*args: Any) -> Any:
        calls.append(args)
        return contract(*args)

    with patch.object(kind, "contract", counted):
        FLOATS[question]
    assert len(calls) <= 2 * 3 + 2 * 3 + 4 * 4  # the blocks, the blocks again, their pairs
    whole = FLOATS["W_OV^{i,h} W_QK^{i',h'}"]
    np.testing.assert_allclose(FLOATS[question], (whole**2).sum((-2, -1)), rtol=1e-10)
