"""Weights that a card gives: literals exactly, draws by their distribution and by their name."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from viete.cards.catalogue import find, shipped
from viete.cards.reader import read, reads
from viete.cards.writer import write
from viete.errors import VieteError
from viete.evaluate.initial_weights import initial_weights, literal_fractions, literal_weights
from viete.evaluate.schedule import parameter_shapes

CARD = """# C

## Dimensions

| symbol | value |
| --- | --- |
| $d$ | {rows} |
| $k$ | {columns} |
| $N$ | 2 |
| $H$ | 3 |
| $n$ | ≤ 4 |
| $h$ | $1, …, H$ |

## Parameters

| symbol | shape | {column} | meaning |
| --- | --- | --- | --- |
| ${symbol}$ | {shape} | {cell} | under test |

## Forward pass

1. $x^0 = 1$

For $i = 1, …, N$:

2. $x^i = x^{{i-1}}$
"""


def card(cell, shape=r"$d \times k$", column="value", symbol="W", rows=2, columns=3):
    return reads(CARD.format(**locals()), "c.md")


fractions = st.fractions(max_denominator=50).filter(lambda q: abs(q) < 10**6)


# -- literals --------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_a_matrix_is_what_is_written(data, rows, columns):
    m = [[data.draw(fractions) for _ in range(columns)] for _ in range(rows)]
    model = card(
        "[" + "; ".join(" ".join(map(str, r)) for r in m) + "]", rows=rows, columns=columns
    )
    assert literal_fractions(model) == {"W": m}
    floats = literal_weights(model)["W"]
    assert floats.dtype == np.float64
    assert floats.tolist() == [[float(q) for q in r] for r in m]


@pytest.mark.parametrize(
    "cell, number",
    [("1/2", Fraction(1, 2)), ("-0.1", Fraction(-1, 10)), ("−3", Fraction(-3)),
     ("$2$", Fraction(2)), ("1e-3", Fraction(1, 1000)), (".5", Fraction(1, 2)),
     ("1 / 3", Fraction(1, 3))],
)  # fmt: skip
def test_a_number_fills(cell, number):
    assert literal_fractions(card(cell)) == {"W": [[number] * 3] * 2}
    assert literal_fractions(card(cell, "$d$")) == {"W": [number] * 2}
    assert literal_fractions(card(cell, "")) == {"W": number}
    assert literal_weights(card(cell), "float32")["W"].dtype == np.float32


def test_the_identity():
    assert literal_fractions(card("I", columns=2)) == {"W": [[1, 0], [0, 1]]}
    assert np.array_equal(literal_weights(card("$I$", rows=3))["W"], np.eye(3))


def test_vectors_and_commas():
    assert literal_fractions(card("[1, 1/2]", "$d$")) == {"W": [1, Fraction(1, 2)]}


def test_every_block_and_head_gets_the_literal():
    model = card("[1 2; 3 4]", columns=2, symbol="W^{i,h}")
    exact = literal_fractions(model)
    assert exact == {"W^{1,h}": [[[1, 2], [3, 4]]] * 3, "W^{2,h}": [[[1, 2], [3, 4]]] * 3}
    assert literal_weights(model)["W^{2,h}"].shape == parameter_shapes(model)["W^{2,h}"]
    exact["W^{1,h}"][0][0][0] = 7  # lists of its own
    assert exact["W^{1,h}"][1][0][0] == 1 and exact["W^{2,h}"][0][0][0] == 1


def test_a_literal_for_each_member():
    """Block after block, in each head after head."""
    six = ", ".join(["I", "0", "[1 2; 3 4]", "-1", "I", "2"])
    model = card(six, columns=2, symbol="W^{i,h}")
    exact = literal_fractions(model)
    assert exact["W^{1,h}"] == [[[1, 0], [0, 1]], [[0, 0], [0, 0]], [[1, 2], [3, 4]]]
    assert exact["W^{2,h}"] == [[[-1, -1], [-1, -1]], [[1, 0], [0, 1]], [[2, 2], [2, 2]]]
    for name, array in literal_weights(model).items():
        assert np.array_equal(array, np.array(exact[name], dtype=float))
    with pytest.raises(VieteError, match=r"this cell has 2 values, and .* has 6, for its blocks"):
        literal_weights(card("I, 0", columns=2, symbol="W^{i,h}"))


def test_without_a_value_there_is_no_literal():
    assert literal_fractions(card("")) == literal_weights(card("")) == {}


@pytest.mark.parametrize(
    "cell, at, says",
    [
        ("[1 2; 3 4]", "[1 2; 3 4]", "this matrix is 2 × 2, but W is 2 × 3"),
        ("[1 2 3; 4 5]", "[1 2 3; 4 5]", "row 2 has 2 entries"),
        ("[1 2 3; 4 five 6]", "five", "a literal is a number"),
        ("[1 2 3; 4 5 6", "[", "never closed"),
        ("[1 2 1/0; 4 5 6]", "1/0", "divides by zero"),
        ("[]", "[]", "1 × 0"),
        ("I", "I", "I is a square matrix, but W is 2 × 3"),
        ("one", "one", "a literal is a number"),
        ("1 2", "1 2", "a literal is a number"),
        ("1e999", "1e999", "a literal is a number"),
        ("nan", "nan", "a literal is a number"),
    ],
)
def test_an_error_points_into_the_cell(cell, at, says):
    with pytest.raises(VieteError) as caught:
        literal_weights(card(cell))
    error = caught.value
    assert says in error.message
    assert error.where.file == "c.md" and error.where.line == 18
    start = error.where.column - 1
    assert error.where.text[start : start + error.where.width] == at


# -- draws -----------------------------------------------------------------------------------------

BIG = {"rows": 300, "columns": 200}


@pytest.mark.parametrize(
    "cell, spread, most",
    [
        ("normal(0.02)", 0.02, None),
        ("normal(0.02 / sqrt(2 N))", 0.01, None),
        (r"$normal(1 / \sqrt{d})$", 1 / sqrt(300), None),
        ("uniform(1/4)", 0.25 / sqrt(3), 0.25),
        ("uniform(1 / sqrt(k))", 1 / sqrt(600), 1 / sqrt(200)),
        ("xavier", sqrt(2 / 500), sqrt(6 / 500)),
        ("", 1 / sqrt(300), None),
    ],
)
def test_a_matrix_is_drawn_as_said(cell, spread, most):
    w = initial_weights(card(cell, column="init", **BIG), 0)["W"]
    assert abs(w.mean()) < 0.02 * spread
    assert abs(w.std() / spread - 1) < 0.02
    # A uniform draw fills its interval; a normal one has tails.
    assert abs(np.abs(w).max() / most - 1) < 0.01 if most else np.abs(w).max() > 3 * spread


@pytest.mark.parametrize("cell, number", [("0", 0), ("1", 1), ("-0.5", -0.5), ("1/d", 0.5)])
def test_a_number_in_init_fills(cell, number):
    assert np.array_equal(
        initial_weights(card(cell, column="init"), 0)["W"], np.full((2, 3), number)
    )


def test_vectors_without_an_init_are_standard_normal():
    w = initial_weights(card("", "$d$", rows=20_000), 0)["W"]
    assert abs(w.std() - 1) < 0.02
    assert initial_weights(card("", ""), 0)["W"].shape == ()


def test_the_documented_generator():
    wanted = np.random.default_rng([5, *b"W^{2,h}"]).normal(0.0, 0.5, (3, 2, 3))
    found = initial_weights(card("normal(1/2)", column="init", symbol="W^{i,h}"), 5)
    assert np.array_equal(found["W^{2,h}"], wanted)
    assert not np.array_equal(found["W^{1,h}"], wanted)


@pytest.mark.parametrize("name", ["simple-transformer", "dialog-transformer"])
def test_the_order_of_rows_does_not_matter(name):
    text = shipped()[name].read_text("utf-8")
    lines = text.splitlines()
    start = lines.index("## Parameters") + 4
    end = next(k for k in range(start, len(lines)) if not lines[k].startswith("|"))
    turned = reads("\n".join([*lines[:start], *reversed(lines[start:end]), *lines[end:]]))
    one, two = initial_weights(reads(text), 3), initial_weights(turned, 3)
    assert list(one) != list(two) and one.keys() == two.keys()
    assert all(np.array_equal(one[k], two[k]) for k in one)


def test_seeds_dtypes_and_values_first():
    model = read(find("exact-lesson"))
    assert all(
        np.array_equal(a, b)
        for a, b in zip(initial_weights(model, 1).values(), literal_weights(model).values(),
                        strict=True)
    )  # fmt: skip
    plain = card("")
    one, two = initial_weights(plain, 1)["W"], initial_weights(plain, 2)["W"]
    assert not np.array_equal(one, two)
    assert np.array_equal(initial_weights(plain, 1, "float32")["W"], one.astype(np.float32))


@pytest.mark.parametrize(
    "cell, says",
    [
        ("gauss(1)", "init must be normal(s), uniform(a), xavier or a number"),
        ("kaiming", "init must be normal(s), uniform(a), xavier or a number"),
        ("normal(q)", "unknown symbol q"),
        ("normal(n)", "the dimension n has no value"),
        ("normal(-1)", "needs a number from 0"),
        ("uniform()", "an expression is missing"),
        ("1/0", "divides by zero"),
        ("normal(10^{400})", "not one finite number"),
    ],
)
def test_an_init_that_cannot_be_read(cell, says):
    with pytest.raises(VieteError) as caught:
        initial_weights(card(cell, column="init"), 0)
    assert says in caught.value.message
    assert caught.value.where.line == 18


def test_xavier_needs_a_matrix():
    with pytest.raises(VieteError, match="needs a matrix"):
        initial_weights(card("xavier", "$d$", "init"), 0)


@pytest.mark.parametrize("seed, dtype", [(-1, "float64"), (1.5, "float64"), (0, "int32"), (0, "x")])
def test_bad_seeds_and_dtypes(seed, dtype):
    with pytest.raises(VieteError):
        initial_weights(card(""), seed, dtype)


@pytest.mark.parametrize("form", ["md", "latex", "json"])
def test_a_card_keeps_its_values_when_it_is_printed(form):
    small = read(find("pre-norm-pythia")).bind(V=9, d=8, H=2, d_f=6, L=2, n_max=4)
    for model in (read(find("exact-lesson")), small):
        again = reads(write(model, form))
        one, two = initial_weights(model, 4), initial_weights(again, 4)
        assert one.keys() == two.keys() and all(np.array_equal(one[k], two[k]) for k in one)
