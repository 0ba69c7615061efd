"""A padded text gives what it gives alone, whatever in the card reads other positions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt

CARD = r"""# Padded
## Dimensions
| symbol | value |
| --- | --- |
| $V$ | 7 |
| $d$ | 2 |
| $n$ | $≤ 9$ |
| $h$ | $1, …, 2$ |
## Inputs
- $t ∈ \{0, …, V-1\}^n$
- $y ∈ \{0, …, V-1\}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $W^h$ | $d × d$ |
| $v$ | $d$ |
| $P$ | $20 × d$ |
## Forward pass
1. $x = E[t]$
"""
ATTENTION = [  # n × n weights made of scores
    "softmax(@)", "softmax(@) ⊙ sigmoid(logsumexp(@) - 1/2)", "exp(@) / (1 + sum(exp(@)))",
    "sigmoid(@)", "ReLU(@)^2 / (1 + sum(ReLU(@)^2))", "exp(@) / sum(exp(@))", "tanh(@) / n",
    "exp(@ - max(@)) / sum(exp(@ - max(@)))", "table_{j<n,k<n}(softmax(@_j)_k)",
    "table_{j<n,k<n}(exp(@_{j,k}) / sum(exp(@_j)))", "softmax(softmax(@) (@))",
    "softmax(@ - mean(@))", "(@) / (1 + |@|)", "softmax(@) (@)^⊤ / 9",
]  # fmt: skip
SCORES = ["(x W^1 x^⊤)", "causal(x W^1 x^⊤)"]
FINITE = ("tanh", "max", "mean", "|", "softmax(softmax", "softmax(@) (@)")  # no −∞ in the scores
ROWS = [  # n × d
    r"x - mean_{j=0}^{n-1}(x_j)", r"x + \sum_{j=0}^{n-1}(x_j) / n", "x ⊙ mean(x^⊤)^⊤",
    r"x / sqrt(n) + max_{j=0}^{n-1}(x_j)", "x + max(x^⊤)^⊤ - min(x^⊤)^⊤", "x W^1 (x^⊤ x) / n",
    "x + softmax(x v) x", "LN(x^⊤; 1, 0, 1)^⊤", r"\sum_h softmax(causal(x W^h x^⊤)) x W^h",
    r"table_{j<n,c<d}(\sum_{k=0}^{n-1}(where(k ≤ j, x_{k,c}, 0)))", "x ⊙ (<x v, x v> / n)",
    "x + sigmoid(x x^⊤) x", "x ⊙ logsumexp(x v)", "x ⊙ sqrt(var(x v))",
    "x + table_{j<n,c<d}(j / 5)", "x ⊙ table_{j<n,c<d}(where(j ≥ 1, c, 3))",
    "x ⊙ table_{j<n,c<d}(where(j = n - 1, 3, 4 - j / n))",
    "table_{j<n,k<n}(where(k = 0, 3, j - k)) x", "x / n", "where(not (1 ≥ n - 1), 2 x, x)",
    "x ⊙ table_{j<n,c<d}(where(j < c or j = 1, c, 3))", "(tanh(x)[:n] + x) W^1",
    "x ⊙ table_{j<n,c<d}(where(n - j < 3, c, 3))", "x + P[:n] + P[2:n + 2]", "x + P[n]",
    "table_{j<n,k<n}(where(j + k < n, 3, 1)) x", "x + table_{j<n,c<d}(P_{j+1,c})",
    "x ⊙ sinusoidal(n, d)", "RoPE(x W^1)", "x + (RoPE(x) x^⊤) x", "x + (RoPE(x) RoPE(x)^⊤) x",
    "x + (RoPE(x) RoPE(x; 1, 9)^⊤) x", "RoPE_pairs(x; 2)", "spun(x; table_{m<1}(1/3))",
    "(concat_h(softmax(x W^h x^⊤) x)) concat(W^1, W^2)^⊤",
]  # fmt: skip


def alone_and_padded(lines: list[str], seed: int) -> None:
    text = CARD + "".join(f"1. ${e}$\n" for e in lines)
    card = vt.read(text)
    made = card.padded()
    assert vt.read(made.write()) == made
    rng = np.random.default_rng(seed)
    weights = {k: rng.normal(0, 0.8, s) for k, s in card.parameter_shapes.items()}
    tokens, targets = rng.integers(0, 7, (2, 3))
    alone = card.run(tokens, weights, y=targets)
    name = next(i.name for i in made.inputs if i not in card.inputs)
    for before, after in ((0, 2), (2, 0), (1, 1)):
        around = (before, after)
        a = np.pad(np.ones(3, int), around)
        t, y = (np.pad(z, around, constant_values=5) for z in (tokens, targets))
        run = made.run(t, weights, **{"y": y, name: a})
        for e in card.equations:
            want, found = np.asarray(alone[e.name]), np.asarray(run[e.name])
            for axis, (small, large) in enumerate(zip(want.shape, found.shape, strict=True)):
                if small != large:
                    found = found.compress(a == 1, axis)
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9, err_msg=str(e.text))


@settings(max_examples=5, deadline=None)
@given(st.data())
def test_random_cards(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(ATTENTION))
    scores = data.draw(st.sampled_from(SCORES[: 1 if any(f in form for f in FINITE) else 2]))
    rows = data.draw(st.lists(st.sampled_from(ROWS), min_size=1, max_size=2))
    named = data.draw(st.booleans())
    lines = [f"S = {scores}"] if named else []
    lines += [f"A = {form.replace('@', 'S' if named else scores)}", "r = A x"]
    lines += [f"{name} = r + {row}" for name, row in zip("uw", rows, strict=False)]
    lines.append(f"L = cross_entropy({'uw'[len(rows) - 1]} E^⊤; y)")
    alone_and_padded(lines, data.draw(st.integers(0, 99)))


@pytest.mark.parametrize("form", [*ATTENTION, *ROWS])
def test_every_form(form: str) -> None:
    lines = [f"A = {form.replace('@', SCORES[0])}", "r = A x"] if "@" in form else [f"r = {form}"]
    alone_and_padded([*lines, "q = r^⊤ r", "L = cross_entropy(r E^⊤; y)"], 3)


@pytest.mark.parametrize("line", [
    "r = x + x_0", "r = table_{j<n,c<d}(x_{max(j - 1, 0),c})", "r = sum((x[1:])^⊤)",
    "r = x^⊤ placed(x; 1, n)", r"r = \sum_{j=1}^{n-1}(x_j)", "r = max(concat((x v), v))",
    "r = argmax(x v)", "r = P[1:n]", "r = x + P[n:2 n]",
])  # fmt: skip
def test_what_picks_positions_is_refused_with_its_line(line: str) -> None:
    card = vt.read(CARD + f"2. ${line}$\n")
    with pytest.raises(vt.VieteError, match=r".*:21:.* takes no padding"):
        card.padded()
