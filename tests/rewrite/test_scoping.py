"""A function means the functions that were there where it was written."""

from __future__ import annotations

import numpy as np
import pytest

import viete as vt

CARD = """# Scopes

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | 3 |
| $m$ | 4 |

## Inputs

- $z ∈ ℝ^{{n × m}}$

## Functions

{functions}

## Forward pass

1. $y = {formula}$
"""


def value(functions: str, formula: str, slow: bool) -> np.ndarray:
    model = vt.read(CARD.format(functions=functions, formula=formula))
    z = np.random.default_rng(0).normal(size=(3, 4))
    return np.asarray(model.run(z, {}, exact_definitions=slow)["y"])


@pytest.mark.parametrize("slow", [False, True])
def test_the_library_means_its_own(slow: bool) -> None:
    """SiLU is over the library's sigmoid, whatever a card calls by that name."""
    own = "- $sigmoid(z) = z / 3$"
    np.testing.assert_allclose(
        value(own, "SiLU(z) + sigmoid(z)", slow),
        value("- $other(z) = z / 3$", "SiLU(z) + other(z)", slow),
    )


@pytest.mark.parametrize("slow", [False, True])
def test_a_definition_may_use_what_it_hides(slow: bool) -> None:
    """Cooler softmax: the name on the right is the library's, there being no other yet."""
    own = "- $softmax(z) = softmax(z / 2)$\n- $twice(z) = softmax(z) + softmax_library(z)$"
    np.testing.assert_allclose(
        value(own, "twice(z)", slow),
        value("- $f(z) = z$", "softmax(z / 2) + softmax(z)", slow),
    )


def test_a_fast_form_is_of_the_library_s_functions() -> None:
    """softmax(z) − onehot(t, c) has a fast form, which a card's own softmax has not."""
    own = "- $softmax(z) = z / 7$"
    formula = "softmax(z) - onehot(table_{j<3}(j), 4)"
    np.testing.assert_allclose(value(own, formula, False), value(own, formula, True))


def test_a_name_behind_one_is_taken() -> None:
    with pytest.raises(vt.VieteError, match="softmax_library is the library's softmax"):
        value("- $softmax_library(z) = z$", "z", False)


COLUMNS = {
    "sum(sum(z))": lambda z: z.sum(1, keepdims=True),
    "sum(sum(z)_0)": lambda z: z[0].sum(),
    "max(mean(z)) + min(sum(z))": lambda z: z.mean(1, keepdims=True) + z.sum(1, keepdims=True),
    "softmax(sum(z))": lambda z: np.ones((3, 1)),
    "concat(sum(z), z)": lambda z: np.concatenate([z.sum(1, keepdims=True), z], 1),
    "<sum(z)_0, sum(z)_1>": lambda z: z[0].sum() * z[1].sum(),
    "sum(sum(z)[:2])": lambda z: z[:2].sum(1, keepdims=True),
    "sum(z)[:, :1]": lambda z: z.sum(1, keepdims=True),
    "cols(sum(z)) + 0 * z": lambda z: np.ones((3, 4)),
    "argmax(sum(z))": lambda z: np.zeros(3),
}


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("formula", COLUMNS)
def test_a_column_has_one_entry_in_each_row(formula: str, slow: bool) -> None:
    """It is kept without an axis for that entry; what asks for the axis finds it."""
    z = np.random.default_rng(0).normal(size=(3, 4))
    found, true = value("- $f(z) = z$", formula, slow), COLUMNS[formula](z)
    assert found.shape == np.shape(true)
    np.testing.assert_allclose(found, true)
