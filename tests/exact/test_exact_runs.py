"""Exact runs of whole cards: they agree with floats, with mpmath, and prove their identities."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

import viete as vt
from tests.evaluate.exact_by_mpmath import bounds, forward
from tests.exact.symbolic import TOKENS, model, weights
from tests.laws.strategies import random_inputs, shipped, tiny
from tests.laws.test_interval import check
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.run import ExactRun
from viete.meanings.exact.spelling import spell
from viete.report.exact_values import report

# Bounds widen in each norm, and a number of which only bounds are known may be above itself.
WIDE = {"dialog-all", "mixtral", "t5", "transformer-2017"}
LESSON = {"t": [1, 1]}  # its first row has no variance under other tokens


def run(card: Any, tokens: Any = None, w: Any = None, **inputs: Any) -> ExactRun:
    return card.run(tokens, w, meaning="exact", **inputs)


def numbers(array: Any) -> list[Any]:
    return list(np.asarray(array, dtype=object).flat)


def same(a: Any, b: Any) -> bool:
    return all(x == y for x, y in zip(numbers(a), numbers(b), strict=True))


def close(exact: Any, floats: Any, what: str) -> None:
    """Enclosures of 200 bits against float64, relative to the largest entry."""
    exact, floats = np.asarray(exact), np.asarray(floats, dtype=np.float64)
    assert exact.shape == floats.shape, what
    finite = np.isfinite(floats)
    scale = np.abs(floats[finite]).max(initial=0)
    for x, y in zip(exact.flat, floats.flat, strict=True):
        if not np.isfinite(y):
            assert float(x) == y, what
            continue
        ball = x.ball(200) if isinstance(x, Number) else arb(float(x))
        assert ball.is_finite(), what
        assert float(ball.rad()) < 1e-40 * (1 + scale), what
        assert abs(float(ball.mid()) - y) <= 1e-9 * scale, what


# -- law 2: the exact meaning agrees with the float meaning ----------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_every_shipped_card_agrees_with_floats_and_lies_between_its_bounds(path: str) -> None:
    card = tiny(path)
    given = LESSON if Path(path).stem == "exact-lesson" else random_inputs(card, n=2)
    w = card.initial_weights(0)
    exact, floats = run(card, w=w, **given), card.run(weights=w, **given)
    assert list(exact) == list(floats)
    for name in floats:
        close(exact[name], floats[name], name)
    bounds = card.run(weights=w, meaning="interval", **given)
    check(bounds, exact)
    check(bounds, card.run(weights=w, exact_definitions=True, **given))
    last = np.asarray(bounds[list(bounds)[-1]])
    if Path(path).stem not in WIDE:  # and they say something
        assert (last["upper"] - last["lower"]).max() < 1e-9


@pytest.mark.parametrize("path", [p for p in shipped() if Path(p).stem in ("gpt2", "llama")])
def test_batches(path: str) -> None:
    card = tiny(path)
    given = random_inputs(card, n=2, batch=2)
    w = card.initial_weights(0)
    names = [*card.run(weights=w, **given)][-1:]
    exact = card.run(weights=w, meaning="exact", names=names, **given)
    close(exact[names[0]], card.run(weights=w, **given)[names[0]], names[0])


def test_a_batch_is_its_texts() -> None:
    card = model()
    w = weights(card)
    both = run(card, [TOKENS[:3], TOKENS[3:6]], w)
    for k in range(2):
        alone = run(card, TOKENS[3 * k : 3 * k + 3], w)
        assert same(both["A^{1,h}"][k], alone["A^{1,h}"])
        assert list(both["choice"][k]) == list(alone["choice"])


# -- the symbolic card, against mpmath's intervals -------------------------------------------------


def inside(exact: Any, intervals: Any, what: str) -> None:
    """Every entry is inside the interval that mpmath computed by itself."""
    if isinstance(intervals, list):
        assert len(exact) == len(intervals), what
        for x, y in zip(exact, intervals, strict=True):
            inside(x, y, what)
        return
    low, high = bounds(intervals)
    assert high - low < Fraction(1, 10**50) * (1 + abs(low)), what
    q = exact.rational
    if q is not None:
        assert low <= q <= high, what
        return
    with ctx.workprec(500):
        ball = exact.ball(400)
        assert arb(low.numerator) / low.denominator < ball, what
        assert ball < arb(high.numerator) / high.denominator, what


@pytest.mark.slow
@pytest.mark.parametrize(
    "dims, n, seed",
    [({}, 5, 0), ({}, 5, 1), ({}, 3, 2), ({"N": 2}, 3, 3), ({"N": 4}, 3, 4),
     ({"N": 2, "H": 2, "d": 4}, 3, 5), ({"N": 4, "H": 2, "d": 4}, 3, 6)],
)  # fmt: skip
def test_the_symbolic_card_is_inside_mpmath(dims: Mapping[str, int], n: int, seed: int) -> None:
    card = model(**dims)
    w = weights(card, seed)
    exact = run(card, TOKENS[:n], w)
    theirs = forward(TOKENS[:n], {name: a.tolist() for name, a in w.items()}, digits=80)
    assert len(theirs) > 8
    for name, intervals in theirs.items():
        inside(exact[name], intervals, name)
    logits = np.array([[float(bounds(x)[0]) for x in row] for row in theirs["logits"]])
    assert list(exact["choice"]) == list(logits.argmax(axis=1))


# -- identities, proven ----------------------------------------------------------------------------


def proven(array: Any, value: int) -> None:
    for x in numbers(array):
        assert isinstance(x, Number)
        assert (x - value).is_zero() is True


@pytest.mark.slow
@pytest.mark.parametrize(
    "dims, seed", [({}, 0), ({"N": 2}, 1), ({"N": 4}, 2), ({"N": 2, "H": 2, "d": 4}, 3)]
)
def test_identities_are_proven_in_every_block(dims: Mapping[str, int], seed: int) -> None:
    card = model(**dims)
    exact = run(card, TOKENS[:2], weights(card, seed, plain_norm=True))
    for i in range(1, dims.get("N", 1) + 1):
        for h in range(1, dims.get("H", 1) + 1):
            proven(exact[f"sum(A^{{{i},{h}}})"], 1)
        proven(exact[f"sum(softmax(S^{{{i},1}}))"], 1)
        proven(exact[f"mean(y^{i})"], 0)
        proven(exact[f"mean(LN(x^{i}; 1, 0))"], 0)
        proven(exact[f"sum(r^{i} - mean(r^{i}))"], 0)
        proven(exact[f"mean((y^{i})^2)"], 1)
        proven(exact[f"var(y^{i})"], 1)


def test_a_softmax_does_not_hang_on_a_shift() -> None:
    card = model()
    exact = run(card, TOKENS[:3], weights(card))
    proven(exact["softmax(S^{1,1} + 7/3) - A^{1,1}"], 0)
    proven(exact["exp(logsoftmax(S^{1,1})) - A^{1,1}"], 0)


def test_equal_tokens_tie_by_proof() -> None:
    """Without positions equal tokens have equal rows, by construction."""
    card = model(N=2)
    exact = run(card, [3, 1, 3], weights(card))
    proven(exact["logits[0] - logits[2]"], 0)


# -- growth ----------------------------------------------------------------------------------------


def measured(n: int, **dims: int) -> tuple[int, int]:
    """How many names a run makes, and the size of the longest definition."""
    card = model(**dims)
    exact = run(card, TOKENS[:n], weights(card))
    return len(exact.names), max(x.of.size for x in exact.names)


@pytest.mark.slow
def test_names_grow_linearly_with_blocks() -> None:
    count = {N: measured(3, N=N) for N in (1, 2, 4, 8)}
    steps = [(count[b][0] - count[a][0]) / (b - a) for a, b in ((2, 4), (4, 8))]
    assert 0 < steps[1] <= 1.2 * steps[0]
    assert max(size for _, size in count.values()) < 200


@pytest.mark.slow
def test_names_grow_polynomially_with_length_and_width() -> None:
    by_length = {n: measured(n, N=2) for n in (2, 4, 8)}
    assert by_length[8][0] < 5 * by_length[4][0] < 25 * by_length[2][0]
    by_width = {d: measured(2, N=2, d=d) for d in (3, 6, 12)}
    assert by_width[12][0] < 5 * by_width[6][0] < 25 * by_width[3][0]
    assert max(size for _, size in [*by_length.values(), *by_width.values()]) < 1000


DEEP = r"""# Deep

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $V$ | 3 | vocabulary |
| $d$ | 2 | width |
| $N$ | 60 | blocks |
| $n_{max}$ | 8 | context |
| $n$ | $≤ n_{max}$ | length |

## Inputs

- $t ∈ \{0, …, V-1\}^n$: token ids

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V \times d$ |

## Forward pass

1. $x^0 = E[t]$

For $i = 1, …, N$:

2. $x^i = BLOCK$

3. $y = x^N$
"""
E_DEEP = [[Fraction(1, 3), Fraction(2, 5)], [Fraction(-1, 2), 1], [Fraction(3, 7), Fraction(1, 4)]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [
        "tanh(x^{i-1})", "tanh(x^{i-1}) ⊙ erf(x^{i-1}) + 1", "x^{i-1} + softmax(x^{i-1})",
        "x^{i-1} ⊙ x^{i-1} + 1", "x^{i-1} ⊙ x^{i-1} / 3", "sqrt(1 + exp(x^{i-1}) / 3)",
        "x^{i-1} / (1 + x^{i-1} ⊙ x^{i-1})", "x^{i-1} + GELU(LN(x^{i-1}))",
        "softmax(x^{i-1} x^{i-1}^⊤) x^{i-1}", "ReLU(x^{i-1}) + 1/3", "cos(x^{i-1}) + exp(-x^{i-1})",
    ],
)  # fmt: skip
def test_sixty_blocks(block: str) -> None:
    """No recursion limit, no explosion: neither of terms nor of digits nor of nested functions."""
    exact = run(vt.read(DEEP.replace("BLOCK", block)), [0, 1, 2], {"E": E_DEEP})
    for x in (exact["y"][0, 0], exact["x^{30}"][2, 1]):
        assert x.size < 50
        text = x.decimal(20)
        assert text == "1" or float(text) == pytest.approx(float(x)) or "e" in text
        assert len(repr(x)) < 20_000
        assert len(spell(x, levels=1)) < 10**6


# -- which numbers may be given --------------------------------------------------------------------


def test_weights_are_read_exactly_in_every_precision() -> None:
    import torch

    card = model()
    base = {k: np.array(v, dtype=np.float64) for k, v in weights(card).items()}
    kinds = {
        "float32": {k: v.astype(np.float32) for k, v in base.items()},
        "float16": {k: v.astype(np.float16) for k, v in base.items()},
        "float64": base,
        "bfloat16": {k: torch.tensor(v).to(torch.bfloat16) for k, v in base.items()},
        "torch32": {k: torch.tensor(v, dtype=torch.float32) for k, v in base.items()},
    }
    for kind, w in kinds.items():
        exact = run(card, [3, 1], w)
        fractions = {
            k: np.vectorize(Fraction, otypes=[object])(
                v.double().numpy() if hasattr(v, "double") else v.astype(np.float64)
            )
            for k, v in w.items()
        }
        assert exact["E"][3, 1].rational == fractions["E"][3, 1], kind
        again = run(card, [3, 1], fractions)
        assert all(
            x == y
            for x, y in zip(numbers(exact["S^{1,h}"]), numbers(again["S^{1,h}"]), strict=True)
        )


def test_lists_of_fractions_and_whole_numbers() -> None:
    card = model()
    w = weights(card)
    lists = {k: v.tolist() for k, v in w.items()}
    a, b = run(card, [3, 1], w), run(card, [3, 1], lists)
    assert [x.rational for x in numbers(a["Q^{1,h}"])] == [
        x.rational for x in numbers(b["Q^{1,h}"])
    ]


def test_a_single_number_stands_under_the_question() -> None:
    card = vt.read("exact-lesson")
    run = card.run([0, 1], card.exact_weights, meaning="exact")
    lines = report(run, ['logits_{-1,"c"}', 'logits_{j,"c"}']).splitlines()
    assert [line.strip(" ·") for line in lines if " = " in line] == [
        'logits_{-1,"c"} = 0', "logits_{0,2} = 0", "logits_{1,2} = 0",
    ]  # fmt: skip


def test_only_what_is_asked_for_is_computed() -> None:
    card = model(N=2)
    some = run(card, [3, 1], weights(card), names=["A^{1,h}"])
    assert set(some) == {"A^{1,h}"} or "logits" not in set(some)
    assert some["logits"].shape == (2, card.sizes["V"]) and "logits" in set(some)


def test_any_expression_is_a_key() -> None:
    card = model()
    exact = run(card, [3, 1], weights(card))
    one = exact["Q^{1,1} {K^{1,1}}^⊤ / sqrt(d_k) - S^{1,1}"]
    proven(one, 0)
    proven(exact["x^0[0] - E[3]"], 0)
    assert exact["x^0[0, 1]"] == exact["E[3, 1]"]


REAL = r"""# Real inputs

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $d$ | 2 | width |
| $n_{max}$ | 4 | length |
| $n$ | $≤ n_{max}$ | length |

## Inputs

- $u ∈ ℝ^{n × d}$: points

## Parameters

| symbol | shape |
| --- | --- |
| $W$ | $d \times d$ |

## Forward pass

1. $z = u W$
2. $p = softmax(z)$
"""


def test_real_inputs_stay_exact() -> None:
    card = vt.read(REAL)
    u = [[Fraction(1, 3), Fraction(2, 7)], [0, 1]]
    exact = run(card, u, {"W": [[1, Fraction(1, 2)], [0, 3]]})
    assert [x.rational for x in numbers(exact["z"])] == [
        Fraction(1, 3), Fraction(1, 6) + Fraction(6, 7), 0, 3,
    ]  # fmt: skip
    proven(exact["sum(p)"], 1)


# -- parts that cards are made of ------------------------------------------------------------------

PART = r"""# Part

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $V$ | 4 | vocabulary |
| $d$ | 4 | width |
| $H$ | 2 | heads |
| $n_{max}$ | 8 | context |
| $n$ | $≤ n_{max}$ | length |
| $h$ | $1, …, H$ | head |

## Inputs

- $t ∈ \{0, …, V-1\}^n$: token ids
- $a ∈ \{0, 1\}^n = 1$: who is there

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V \times d$ |

## Forward pass

1. $x = E[t]$
2. $z = PART$
"""
PARTS = [
    "softmax(causal(x x^⊤))", "softmax(window(x x^⊤; 2))", "softmax(visible(x x^⊤; a))",
    "softmax(causal(visible(x x^⊤; a)))", "sum_h softmax(ALiBi(x x^⊤; h, H))", "RoPE(x)",
    "RoPE(x; 1/2, 100)", "x + sinusoidal(n, d)", "cross_entropy(x; t)", "RMSNorm(x)",
    "LN(x; 1, 0, 1/100000)", "SiLU(x)", "GELU_tanh(x)", "ReLU(x)", "sigmoid(x)", "logsoftmax(x)",
    "max(x)", "std(x)", "concat_h(h * x[:, :2])", "x^3 - abs(x)", "mean_{j=0}^{n-1}(x_j)",
    "where(x > 0, sqrt(abs(x)), x)", "log(1 + exp(x))",
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_parts_agree_with_floats(part: str) -> None:
    card = vt.read(PART.replace("PART", part))
    table = [[Fraction(p - 7, 3 + q) for q in range(4)] for p in (9, 4, 12, 6)]
    given = {"t": [0, 2, 1, 0], "a": [1, 1, 0, 1]}
    floats = card.run(weights={"E": np.array(table, dtype=float)}, **given)
    exact = run(card, w={"E": table}, **given)
    close(exact["z"], floats["z"], part)
    if part.startswith("softmax"):
        proven(exact["sum(z)"], 1)


def test_hidden_positions_weigh_exactly_nothing() -> None:
    card = vt.read(PART.replace("PART", "softmax(causal(x x^⊤))"))
    exact = run(card, [0, 1, 2], {"E": np.eye(4)})
    assert [x.rational for x in numbers(exact["z"][0])] == [1, 0, 0]
    assert exact["z"][1, 2].rational == 0


def test_ties_are_proven_and_said() -> None:
    card = vt.read(PART.replace("PART", "argmax(x + exp(1))"))
    exact = run(card, [0, 1], {"E": [[1, 3, 3, 0], [5, 1, 1, 1], [0] * 4, [0] * 4]})
    assert list(exact["z"]) == [1, 0]
    assert any("proven equal" in tie for s in exact.status.values() for tie in s.ties)
