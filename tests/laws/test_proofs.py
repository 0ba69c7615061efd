"""What is proved is true: of weights that are zero, equal, huge or of one entry, too.

Most false claims fail in a measurement, so that nobody tries to prove them. Here every claim goes
to the prover, and every proof is held against such weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import Card, cards, degenerate_weights
from viete.ask.claim_proofs import proof_of
from viete.ask.statements import broadcast, labels
from viete.cards.claims import read_claim
from viete.errors import Text, VieteError
from viete.evaluate.queries import query
from viete.evaluate.schedule import member_name
from viete.notation.tree import Expr, num
from viete.rewrite import bounds
from viete.rewrite.bounds import Bounds
from viete.rewrite.proof_rules import ProofRule

CARD = r"""# Shapes of every kind

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 5 |
| $d$ | 3 |
| $k$ | 2 |
| $N$ | 2 |
| $H$ | 2 |
| $n_{max}$ | 7 |
| $n$ | $≤ n_{max}$ |
| $h$ | $1, …, H$ |

## Inputs

- $t ∈ \{0, …, V-1\}^n$: tokens

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $M, W$ | $d × d$ |
| $U$ | $d × k$ |
| $w, u$ | $d$ |
| $b$ | $k$ |
| $c$ | $d × 1$ |
| $s$ | $1$ |
| $K^h$ | $d × d$ |
| $G^i$ | $d × d$ |

## Forward pass

1. $x^0 = E[t]$

For $i = 1, …, N$:

1. $x^i = x^{i-1} + tanh(x^{i-1} G^i)$

Then:

1. $X = x^N$
1. $p = softmax(X_0)$
1. $A = softmax(X X^⊤)$
1. $B = softmax(M)$
1. $v = X w$
1. $y = X U$
1. $q = X c$
1. $z^h = softmax(X K^h)$
"""

ATOMS = st.sampled_from(
    "X X_0 M W U w u b c s p A B v y q z^1 E G^1 x^1 1 2 d n t 0".split()
)  # fmt: skip
WITHIN = ("({})^⊤", "({})_0", "({})[0:2]", "({})[t]", "({})_{{0,1}}", "({})[:,0:1]", "sum({})",
          "softmax({})", "({}) - ({})", "({}) - ({}) + 1", "({}) / ({})", "cos({})", "-({})",
          "({})^2", "sqrt({})", "mean({})", "max({})", "|{}|", "exp({})",
          "table_{{j<d, k<1}}(k)", "table_{{j<d}}(M_{{j,j}})")  # fmt: skip
PARTS = st.one_of(ATOMS, ATOMS, ATOMS, st.builds(
    lambda outer, inner: outer.format(*[inner] * outer.count("{}")),
    st.sampled_from(WITHIN), ATOMS,
))  # fmt: skip
# What is so of some shapes and weights, and of others not.
TEMPTING = (
    "sum(({a}) + ({b})) = sum({a}) + sum({b})", "sum(({a}) - ({a}) + 1) = sum(({b}) - ({b}) + 1)",
    "(({a}) + ({b})) ({c}) = ({a}) ({c}) + ({b}) ({c})",
    "({c}) (({a}) + ({b})) = ({c}) ({a}) + ({c}) ({b})",
    "({c}) (({a}) + ({b})) = ({c}) ({a}) + ({b})",
    "({a}) ({b}) = ({b})", "({a}) ({b}) = ({b}) ({a})", "(({a}) ({b})) ({c}) = ({a}) (({b}) ({c}))",
    "(({a}) - ({a}) + 1) ({b}) = ({b})", "⟨{a}, ({b}) ({c})⟩ = ⟨({a}) ({b}), {c}⟩",
    "⟨{a}, ({b}) + ({c})⟩ = ⟨{a}, {b}⟩ + ⟨{a}, {c}⟩", "⟨({a}) - ({a}) + 1, {b}⟩ = sum({b})",
    "|({a}) - ({a}) + 1| = |({b}) - ({b}) + 1|", "|({a}) - ({a}) + 1| = 1",
    "|({a}) ⊙ ({b})| = |{b}|",
    "(({a}) ({b}))_0 = ({a})_0 ({b})", "(({a}) + ({b}))_0 = ({a})_0 + ({b})_0",
    "(({a}) + ({b}))_{{0,1}} = ({a})_{{0,1}} + ({b})_{{0,1}}",
    "(({a}) ⊙ ({b}))_{{0,1}} = ({a})_{{0,1}} ({b})_{{0,1}}",
    "(({a}) ({b}))[0:2] = ({a})[0:2] ({b})", "(({a}) ({b}))^⊤ = ({b})^⊤ ({a})^⊤",
    "(({a}) + ({b}))^⊤ = ({a})^⊤ + ({b})^⊤", "({a})[t]_0 = ({a})_{{t_0}}",
    "where(({a}) / ({a}) ≥ 0, {b}, {c}) = where(1 ≥ 0, {b}, {c})",
    "ReLU(({a}) - ({a}) + ({b})) = ReLU({b})", "max(({a}) - ({a}) + ({b})) = max({b})",
    "argmax(({a}) ⊙ ({b}) / ({b})) = argmax({a})", "mean(({a}) + ({b})) = mean({a}) + mean({b})",
    "rank(({a}) / ({a}) ⊙ ({b}); 0) = rank({b}; 0)",
    "cos(({a}) + ({b})) = cos({a}) ⊙ cos({b}) - sin({a}) ⊙ sin({b})",
    "cos({a}, {b}) = cos({b}, {a})",
    "sum(cos({a})^2 + sin({a})^2) = sum(cos({b})^2 + sin({b})^2)", "({a})^2 = ({a}) ⊙ ({a})",
    "sqrt(({a}) ⊙ ({b})) = sqrt({a}) ⊙ sqrt({b})", "sqrt(({a})^2) = ({a})", "({a}) / ({a}) = 1",
    "sqrt(({a}) ⊙ ({b})) ⊙ sqrt(({a}) ⊙ ({c})) = ({a}) ⊙ sqrt(({b}) ⊙ ({c}))",
    "softmax(({a}) + ({b})) = softmax({a})", "sum(softmax({a})) = 1", "sum({a}) = 1",
    "sum({a}) ≥ 1",
    "sum(({a})[0:2]) ≥ 1/1000", "sum({a}) ≥ 1/1000", "({a}) ≥ 0", "({a}) ≤ 1", "({a}) ({b}) ≥ 1",
    "({a}) ({b}) ≤ 1", "({a}) ⊙ ({b}) ≥ 0", "cos({a}, {b}) ≤ 1", "({a}) / ({b}) ≥ 0",
    "({a}) - ({b}) ≥ ({a}) - ({b})", "max({a}) ≥ ({a})", "({a}) + ({b}) ≥ ({b})", "mean({a}) ≤ 1",
    r"\sum_{{i=1}}^{{N}} (x^i - x^{{i-1}}) + ({a}) = x^N - x^0 + ({a})",
    r"\sum_h z^h + ({a}) = H ({a})", r"\sum_h (({a}) + z^h) = H ({a}) + \sum_h z^h",
    "table_{{j<d}}({a})_0 = ({a})", "concat({a}, {b}) ≤ 1", "cross_entropy({a}; t) ≥ 0",
    "tr({a}) ≥ -1", "tr(({a}) + ({b})) = tr({a}) + tr({b})", "top({a}; 1) ≥ 0",
    "logsumexp({a}) ≥ 0",
    "LN({a})_0 = LN(({a})_0)",
)  # fmt: skip


def claims_of(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Tempting claims about such parts."""
    return st.builds(lambda claim, a, b, c: claim.format(a=a, b=b, c=c),
                     st.sampled_from(TEMPTING), parts, parts, parts)  # fmt: skip


@cache
def card() -> vt.Card:
    return vt.read(CARD)


@cache
def runs() -> list[Any]:
    """The card on weights of every kind."""
    return [card().run(np.array([0, 1, 1, 3]), weights=w) for w in degenerate_weights(card())]


def sides(run: Any, e: Expr) -> list[np.ndarray]:
    """Both sides of a comparison, where both are finite."""
    made = [run.evaluate(query(run, x)) for x in e.children]
    pairs = ((np.asarray(x.array, dtype=np.float64), x.axes) for x in made)
    left, right = broadcast(labels(*(x.axes for x in made)), *pairs)
    finite = np.isfinite(left) & np.isfinite(right)
    return [left[finite], right[finite]]


def refute(claim: str, card: vt.Card, runs: Sequence[Any]) -> Any:
    """The proof of a claim, after every try to refute it."""
    try:
        made = read_claim(Text(claim), card.scope)
        card.shapes.claimed(made)
    except VieteError:  # shapes that do not fit
        return None
    proof = proof_of(card, made)
    for run in runs if proof is not None else ():
        try:
            with np.errstate(all="ignore"):
                left, right = sides(run, made.statement)
        except VieteError:  # a token that is no row of a small matrix
            continue
        slack = 1e-7 * (1 + np.maximum(np.abs(left), np.abs(right)))
        apart = {"eq": np.abs(left - right), "ge": right - left, "le": left - right}
        assert (apart[made.statement.op] <= slack).all(), f"{claim}: {proof}"
    return proof


@settings(max_examples=25)
@given(claims_of(PARTS))
def test_what_is_proved_holds_of_degenerate_weights(claim: str) -> None:
    refute(claim, card(), runs())


@settings(max_examples=4)
@given(cards(), st.data())
def test_what_is_proved_of_random_cards(found: Card, data: st.DataObject) -> None:
    model = found.model
    symbols = {x.symbol for x in (*model.parameters, *(e.left for e in model.equations))}
    names = sorted(member_name(x, dict.fromkeys(x.slots, 1)) for x in symbols)
    made = [model.run(**found.given(4), weights=w) for w in islice(degenerate_weights(model), 3)]
    for claim in data.draw(st.lists(claims_of(st.sampled_from(names)), min_size=8, max_size=8)):
        refute(claim, model, made)


FALSE = (
    "sum(p[0:2]) ≥ 1/1000", "sum(p[0:2]) = 1", "sum(p[t]) ≥ 1/1000", "sum(B[:,0]) ≥ 1/1000",
    "A d ≥ d", "A 2 ≥ 2",
    "A (1 + |w_0|) ≥ 1", "A v = v", "sum(X_0 + s) = sum(X_0) + sum(s)",
    "sum(M + c) = sum(M) + sum(c)",
    "(M + table_{j<d, k<1}(k))_{0,1} = M_{0,1} + 1", "sum(M - M + 1) = sum(U - U + 1)",
    "sum(cos(M)^2 + sin(M)^2) = sum(cos(U)^2 + sin(U)^2)", "(M - M + 1) W + X_0 = W + x^N_0",
    "|w - w + 1| = |b - b + 1|", "|w - w + 1| = 1", "cos(s, w) ≤ 1",
    "where(w/w ≥ 0, 1, 0) = where(1 ≥ 0, 1, 0)", "argmax(w ⊙ u / u) = argmax(w)",
    "rank(u / u ⊙ w; 0) = rank(w; 0)",
)  # fmt: skip


def test_claims_that_were_proved_and_are_false() -> None:
    assert [c for c in FALSE if proof_of(card(), read_claim(Text(c), card().scope))] == []


# What each rule says. It is held against the same weights, and the prover has to name it.
SAYS = {
    ProofRule.ALGEBRA: ("M ⊙ (W + 2) = W ⊙ M + 2 M", "(M + w) - (w - 1) = M + 1"),
    ProofRule.MATRICES: ("(X M) W = X (M W)", "(M + w) U + M U = 2 M U + w U",
                         "w (M + W) = w W + w M",
                    r"X (\sum_h K^h) = \sum_h X K^h"),
    ProofRule.INNER: ("⟨w, M u⟩ = ⟨w M, u⟩", "⟨w, u + 2⟩ = ⟨u, w⟩ + 2 sum(w)",
                      "sum(w - w + 1) = d"),
    ProofRule.TRANSPOSES: ("(X M)^⊤ = M^⊤ X^⊤", "(M + 2 W)^⊤ = M^⊤ + 2 W^⊤", "(M^⊤)^⊤ = M"),
    ProofRule.POWERS: ("sqrt(w)^2 = w", "w / w^2 = 1 / w", "(w + u)^2 = w^2 + 2 * w ⊙ u + u^2"),
    ProofRule.MEANS: ("mean(w) = sum(w) / d", "mean(M + W) = mean(M) + mean(W)"),
    ProofRule.ENTRIES: ("(X M)_0 = X_0 M", "(M W)_{0,1} = ⟨M_0, W[:,1]⟩", "(M^⊤)_{0,1} = M_{1,0}",
                   "(M ⊙ W)_0 = W_0 ⊙ M_0", "table_{j<d}(j^2 + w_j)_1 = 1 + w_1",
                   "E[t]_0 = E_{t_0}"),
    ProofRule.SUMS: (r"\sum_h 3 z^h = 3 \sum_h z^h", r"\sum_h (z^h + w) = \sum_h z^h + H w"),
    ProofRule.TELESCOPE: (r"\sum_{i=1}^{N} (x^i - x^{i-1}) = x^N - x^0",),
    ProofRule.ANGLES: ("cos(w + u) = cos(w) ⊙ cos(u) - sin(w) ⊙ sin(u)", "sin(-w) = -sin(w)"),
    ProofRule.CIRCLE: ("sin(w)^2 + cos(w)^2 = 1",),
    ProofRule.ROWS: ("sum(A) = 1", "sum(p) ≥ 1", "sum(A[0:2]) = 1", "A (X + w) = A X + w",
                "sum(z^1_0) = 1"),
    ProofRule.AVERAGES: ("A tanh(X) ≤ 1", "p (M^2) ≥ 0"),
    ProofRule.SOFTMAX: ("p ≥ 0", "B ≤ 1", "softmax(w)_0 ≤ 1"),
    ProofRule.COSINE: ("cos(w, u) ≤ 1", "cos(M, W) ≥ -1"),
    ProofRule.SQUARES: ("w^2 ≥ 0", "⟨w, w⟩ ≥ 0", "M ⊙ M ≥ 0"),
    ProofRule.RANGES: ("exp(w) ≥ 0", "sqrt(w) ≥ 0", "tanh(w) ≤ 1", "erf(w) ≥ -1", "sin(w) ≤ 1",
                  "cos(w) ≥ -1", "arctan(w) ≤ 2", "pi ≥ 3", "pi ≤ 4"),
    ProofRule.SIZES: ("n ≥ 0", "argmax(w) ≥ 0"),
    ProofRule.INPUTS: ("t ≤ V - 1", "t ≥ 0"),
    ProofRule.INTERVALS: ("max(p, 3) ≤ 3", "|w| ⊙ |u| + 1 ≥ 1", "1 / (1 + w^2) ≤ 1", "w^3 ⊙ 0 ≥ 0"),
}  # fmt: skip


@pytest.mark.parametrize("rule", ProofRule)
def test_each_rule_is_true_and_is_named(rule: ProofRule) -> None:
    for claim in SAYS[rule]:
        proof = refute(claim, card(), runs())
        assert proof is not None, claim
        assert rule in proof.rules, (claim, proof.rules)


ENDS = st.one_of(st.integers(-3, 3).map(Fraction), st.sampled_from((-np.inf, np.inf)))


@given(ENDS, ENDS, ENDS, ENDS, st.integers(1, 4))
def test_bounds_of_operations_hold_of_all_numbers_within(
    a: Any, b: Any, c: Any, d: Any, k: int
) -> None:
    x, y = Bounds(min(a, b), max(a, b)), Bounds(min(c, d), max(c, d))
    grid = [Fraction(n, 2) for n in range(-12, 13)]
    of = {
        bounds.plus: lambda u, v: u + v, bounds.times: lambda u, v: u * v,
        lambda x, y: bounds.union((x, y)): lambda u, v: u,
        lambda x, y: bounds.extreme(max, (x, y)): max,
        lambda x, y: bounds.extreme(min, (x, y)): min,
        lambda x, y: bounds.summed(x): lambda u, v: u * k,
        lambda x, y: bounds.power(x, num(k)): lambda u, v: u**k,
        lambda x, y: bounds.reciprocal(x): lambda u, v: 1 / u if u else None,
    }  # fmt: skip
    for rule, operation in of.items():
        made = rule(x, y)
        for u, v in product(grid, grid):
            if x.least <= u <= x.most and y.least <= v <= y.most:
                value = operation(u, v)
                assert value is None or made.least <= value <= made.most
