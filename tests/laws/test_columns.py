"""A row of a column is a vector of one number: in every meaning a value has the card's shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.laws.nearness import close
from viete.meanings.run import run

torch = pytest.importorskip("torch")

CARD = r"""# Columns

## Dimensions

| symbol | value |
| --- | --- |
| $n$ | $≤ 9$ |
| $d$ | 2 |
| $s$ | $1, …, 2$ |

## Inputs

- $x ∈ ℝ^{n \times d}$

## Parameters

| symbol | shape |
| --- | --- |
| $W^s$ | $d \times d$ |

## Forward pass

1. $c = |x|$
1. $a = |x|_0$
1. $b = c[-1]$
1. $v = max(x)_0 ⊙ sum(x)_1$
1. $w^s = |x W^s|_0$
1. $z = x_0 / |x|_0$
1. $y = \sum_s w^s$
1. $m = mean_{j=0}^{n-1}(|x|_j)$
1. $g = where(c_0 > 0, c[0], c[1])$
1. $p = x_0 |W^1| + x_1 sum(W^2)$
1. $L = sum(p) + sum(z) + sum(v) + sum(a) + sum(b) + sum(y) + sum(m) + sum(g)$
"""
SIZES = {"n": 3, "d": 2, "1": 1}
X = np.array([[3.0, 4.0], [0.0, 1.0], [1.0, 2.0]])
W = np.array([[[1.0, 2.0], [0.0, 1.0]], [[1.0, 0.0], [2.0, 2.0]]])


def runs() -> dict[str, Any]:
    card = vt.read(CARD)
    kinds = {"NumPy": W, "PyTorch": torch.tensor(W)}
    made = {k: run(card, None, {"W^s": w}, x=X) for k, w in kinds.items()}
    made |= {k: run(card, None, {"W^s": W}, meaning=k, x=X) for k in ("exact", "interval")}
    return made | {"backward": run(card.grad("L"), None, {"W^s": W}, x=X)}


def test_a_row_of_a_column_is_a_vector_of_one_number() -> None:
    for kind, made in runs().items():
        for name in made:
            symbol = made.symbol(name)
            shape = made.program.shapes.types[symbol.key].shape
            wanted = (2,) * len(symbol.slots) + tuple(
                {"n": 3, "d": 2, "1": 1}[str(s)] for s in shape
            )
            assert np.shape(made[name]) == wanted, f"{name} of the {kind} run"
        assert [np.shape(made[q]) for q in ("|x|_0", "c_j", "c[1, 0]")] == [(1,), (3, 1), ()], kind


def test_a_batch_of_columns_is_each_text_alone() -> None:
    card = vt.read(CARD)
    together = run(card, None, {"W^s": W}, x=np.stack([X, X[::-1]]))
    for k, x in enumerate((X, X[::-1])):
        alone = run(card, None, {"W^s": W}, x=x)
        for name in alone:
            close(together[name][k], alone[name], f"{name} of text {k}")
