"""Law 5 for sparse sums: rows left out for a factor of 0 change nothing; who is left out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viete import read
from viete.analysis.sparsity import sparse_sums
from viete.cards.catalogue import find
from viete.evaluate import sparse
from viete.evaluate.initial_weights import initial_weights
from viete.meanings.run import run

CARD = """# Experts

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $d$ | {d} | width |
| $E$ | {E} | experts |
| $k$ | {k} | experts kept |
| $n$ | $≤ 9$ | length |
| $e$ | $1, …, E$ | expert |

## Inputs

- $x ∈ ℝ^{{n \\times d}}$

## Parameters

| symbol | shape |
| --- | --- |
| $R$ | $d \\times E$ |
| $W^e$ | $d \\times d$ |
| $U^e$ | $d \\times d$ |

## Forward pass

1. $c = top(softmax(x R); k)$
2. $p = c / sum(c)$
3. $g^e = {inside}$
4. $h^e = ReLU(g^e)$
5. $m = {total}$
"""
TOTALS = (
    r"\sum_e (column(p; e - 1) ⊙ h^e) U^e",
    r"\sum_e (column(p; e - 1) ⊙ (h^e U^e))",
    r"\sum_e ((h^e ⊙ column(p; e - 1)) / 2) U^e",
)


@given(
    st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.integers(1, 6),
    st.sampled_from(TOTALS), st.sampled_from(["numpy", "torch"]), st.booleans(), st.integers(0, 9),
)  # fmt: skip
def test_rows_left_out_change_nothing(
    d: int, E: int, k: int, n: int, total: str, library: str, batched: bool, seed: int
) -> None:
    card = read(CARD.format(d=d, E=E, k=min(k, E), inside="x W^e", total=total))
    assert [e.name for e in sparse_sums(card)["m"].inside] == ["g^e", "h^e"]
    weights = initial_weights(card, seed)
    x = np.random.default_rng(seed).normal(size=(3, n, d) if batched else (n, d))
    if library == "torch":
        torch = pytest.importorskip("torch")
        weights = {name: torch.asarray(w) for name, w in weights.items()}
        x = torch.asarray(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "LEAST", 0)
        some = run(card, None, weights, x=x)
        found, inside = np.asarray(some["m"]), np.asarray(some["h^e"])
    every = run(card, None, weights, x=x, exact_definitions=True)
    assert np.allclose(found, np.asarray(every["m"]), rtol=1e-12, atol=1e-12)
    assert np.allclose(inside, np.asarray(every["h^e"]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "inside",
    [
        "causal(x x^⊤) x W^e",
        "x W^e + table_{j<n, a<d}(j)",
        "x W^e / rows(x)",
        "x W^e + table_{j<n, a<d}(x_{j,a} * j)",
        "x W^e + table_{j<n, a<d}(where(j < 1, x_{j,a}, 0))",
    ],
)
def test_what_rows_say_of_each_other_is_computed_for_all(inside: str) -> None:
    """Rows that read others, or that say which or how many they are, are not left out."""
    card = read(CARD.format(d=2, E=3, k=1, inside=inside, total=TOTALS[0]))
    found = sparse_sums(card).get("m")
    assert found is None or "g^e" not in {e.name for e in found.inside}


def test_which_families_have_sparse_sums() -> None:
    """Told by the equations: the family with experts, and no other of these."""
    some = {name: [*sparse_sums(read(find(name)))] for name in ("mixtral", "llama", "gpt2")}
    assert some == {"mixtral": ["m^i"], "llama": [], "gpt2": []}
