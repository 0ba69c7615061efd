"""Letters over one range: a bound letter is never taken for another one, nor a 1 for a number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.lettered import HEAD, lettered

pytest.importorskip("torch")

from tests.laws.differentiating import along, by_autograd, error


def held(model: vt.Card, weights: dict[str, np.ndarray]) -> None:
    """The derived gradient of L is that of autograd, and of central differences."""
    truth = by_autograd(model, None, weights, {})
    derived = model.grad("L")
    run = derived.run(None, weights)
    assert error(run, truth) < 1e-8
    slope, way = along(lambda w: float(model.run(None, w)["L"]), weights)
    found = sum(float((np.asarray(run["∂" + k]) * way[k]).sum()) for k in truth)
    assert abs(slope - found) < 1e-6 * max(1, sum(np.abs(a).sum() for a in truth.values()))
    again = vt.read(derived.write())
    assert again == derived


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6))
def test_gradients_of_random_cards(seed: int) -> None:
    try:
        model = vt.read(lettered(seed))
    except vt.VieteError:  # a sum over a letter that nothing depends on, say
        assume(False)
    rng = np.random.default_rng(seed)
    weights = {k: rng.normal(0, 0.7, s) for k, s in model.parameter_shapes.items()}
    held(model, weights)


CASES = {
    "two letters over one range, shifted": r"y^s = \sum_q R_{q-1,s-1} z^q; L = \sum_s <y^s, v>",
    "a family read with its letters exchanged":
        r"A^{s,q} = s * P^{s,q}; y^{s,q} = A^{q,s} ⊙ z^s; L = \sum_s \sum_q (q * <y^{s,q}, v>)",
    "one letter in two places":
        r"y^s = P^{max(s - 1, 1),S + 1 - s} ⊙ P^{S,s}; L = \sum_s <y^s, v>",
    "one letter bound twice": r"y = \sum_q (\sum_q v G^q) G^q; L = sum(y)",
    "a declared letter, and its name with other bounds":
        r"y = \sum_{q=0}^{m-1} (q * \sum_q (q * v G^q)); L = sum(y)",
    "the left side's letter, bound on the right":
        r"y^s = (\sum_s z^s) ⊙ z^s; L = \sum_s <y^s, y^s>",
    "a length of a row": "y = x_0 / |x|_0; L = sum(y)",
    "a mean of a row": "y = x_0 - mean(x)_0; L = <y, v>",
    "a sum of a row": "y = x_0 / sum(x)_0; L = <y, v>",
    "letters that tables take":
        r"g = \sum_{j=0}^{d-1}(j * (table_{l<m, p<d}(c_{0,0}) ⊙ min(table_{l<m, p<m}(c_{1,0}))))"
        "; y = table_{j<d, l<m}(c_{0,0}) x; L = mean(g v) + sum(y_0)",
}  # fmt: skip


def card(equations: str, **sizes: int) -> vt.Card:
    lines = (f"1. ${e.strip()}$\n" for e in equations.split(";"))
    return vt.read(HEAD.format(**{"S": 3, "d": 2, "m": 3, **sizes}) + "".join(lines))


@pytest.mark.parametrize("equations", CASES.values(), ids=CASES.keys())
def test_gradients(equations: str) -> None:
    model = card(equations)
    rng = np.random.default_rng(5)
    held(model, {k: rng.normal(1, 0.3, s) for k, s in model.parameter_shapes.items()})


BLOCKS = r"""# Blocks
## Dimensions
| symbol | value |
| --- | --- |
| $d$ | 2 |
| $N$ | 3 |
| $h$ | $1, …, 2$ |
## Parameters
| symbol | shape |
| --- | --- |
| $E, F$ | $d × d$ |
| $W^i, T^i$ | $d × d$ |
| $M^h$ | $d × d$ |
## Forward pass
1. $x^0 = E$

For $i = 1, …, N$:

2. $x^i = x^{i-1} + tanh(x^{i-1} W^i)$

3. $v = """


@pytest.mark.parametrize("value", [
    r"\sum_{i=1}^{N} x^i T^i", "x^N T^1", "x^2 T^2 + x^0 T^3", r"mean_{i=1}^{N}(x^i T^i)",
    r"\sum_{i=1}^{N-1} x^{i+1} T^i", r"\sum_{i=1}^{N} \sum_h x^i T^i M^h T^2",
    r"\sum_{i=1}^{N} x^i W^i T^i", r"\sum_{i=2}^{N} x^{i-1} T^i",
])  # fmt: skip
def test_weights_of_blocks_that_are_read_after_their_loop(value: str) -> None:
    model = vt.read(f"{BLOCKS}{value}$\n4. $L = <v_0, F_1>$\n")
    rng = np.random.default_rng(2)
    held(model, {k: rng.normal(0, 0.7, s) for k, s in model.parameter_shapes.items()})


@pytest.mark.parametrize("meaning", ["float", "interval", "exact", "exported"])
def test_a_family_with_its_letters_exchanged(meaning: str) -> None:
    """``A^{q,s}`` is the member q, s: both letters change at once."""
    model = card(r"A^{s,q} = s * q * q * v; B^{s,q} = A^{q,s}; L = \sum_s \sum_q (s * B^{s,q}_0)")
    weights = {k: np.ones(s) for k, s in model.parameter_shapes.items()}
    k = np.arange(1, 4)
    if meaning == "exported":
        loss = model.to_torch(weights, "L")()[1]
        assert loss.item() == (k[:, None] ** 3 * k).sum()
        return
    run = model.run(None, weights, meaning=meaning)
    found = np.vectorize(
        lambda x: float(x[0]) if isinstance(x, tuple) else float(x), otypes=[float]
    )
    np.testing.assert_allclose(found(run["B^{s,q}"])[..., 0], k[:, None] ** 2 * k)
    assert float(found(run["L"])) == (k[:, None] ** 3 * k).sum()


def test_a_sum_over_a_declared_letter_keeps_its_range() -> None:
    model = card(r"L = \sum_{q=0}^{m-1} (q * \sum_q (q * v_0))")
    weights = {k: np.ones(s) for k, s in model.parameter_shapes.items()}
    assert float(model.run(None, weights)["L"]) == (0 + 1 + 2) * (1 + 2 + 3)
