"""Identities proved by algebra: those of shipped cards are, and nothing false ever is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import shipped
from tests.laws.test_claims import claims, of
from viete.ask.card_claims import check_claims
from viete.cards.claims import read_claim
from viete.errors import Text, VieteError
from viete.graph.claim import Claim
from viete.notation.tree import Apply, Expr, walk
from viete.rewrite.identity import identity

PYTHIA = vt.read("pythia").bind(V=9, d=16, N=2, H=2, n_max=8, d_f=12)
UNPROVED = {"attention-only-2": 1}  # equations with sums over pairs of heads of two blocks


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_the_equations_that_shipped_cards_claim(path: str) -> None:
    card = vt.read(path)
    made = [identity(card, *c.statement.args) for c in card.claims
            if isinstance(c.statement, Apply) and c.statement.op == "eq"]  # fmt: skip
    assert sum(x is None for x in made) == UNPROVED.get(Path(path).stem, 0)


TRUE = [
    r"a^i = \sum_h A^{i,h} (u^i W_{OV}^{i,h} + b_V^{i,h} W_O^{i,h}) + b_O^i",  # rows of A sum to 1
    "logits_{j,k} = <W_U[:,k], LN(x^N; γ, β, ε)_j>",
    r"x^N - x^0 = \sum_{i=1}^{N} (x^i - x^{i-1})",
    "(x^1 + x^2)^2 = x^1 ⊙ x^1 + 2 * x^1 ⊙ x^2 + x^2 ⊙ x^2",
    "<x^1_j, LN(x^2_j)> = sqrt(d) |x^1_j| cos(x^1_j, c(x^2_j))",
    "<x^1_j, x^2_j> = |x^1_j| |x^2_j| cos(x^2_j, x^1_j)",
    "sum(c(x^1_j)) = 0", "sum(A^{i,h}) = 1", "(x^1 W_1^1)^T = {W_1^1}^T {x^1}^T",
    "cos(x^1 - x^2) = cos(x^2) ⊙ cos(x^1) + sin(x^2) ⊙ sin(x^1)", "cos(t_0 - t_0) = 1",
    "sin(2 π (t_0 + 3) / V) sin(t_0) = sin(t_0) cos(2 π t_0 / V) sin(6 π / V)"
    " + sin(2 π t_0 / V) sin(t_0) cos(6 π / V)", "table_{j<n,k<d}(x^1_{j,k}^2)_{j,k} = x^1_{j,k}^2",
    "table_{k<9}(cos(t_0 - k))_c = cos(t_0) cos(c) + sin(t_0) sin(c)",
    "cos(x^1 + x^2)^2 + sin(x^1 + x^2)^2 = 1",
]  # fmt: skip
FALSE = [
    "<x^1_j, LN(x^2_j)> = |x^1_j| cos(x^1_j, c(x^2_j))", "x^i = x^{i-1}",
    "x^i = x^{i-1} + a^i", "x^1 {W_1^1} = x^1", r"x^N = x^0 + \sum_{i=1}^{N} a^i",
    "x^1 ⊙ x^2 = x^1 + x^2", "cos(x^1 - x^2) = cos(x^1) ⊙ cos(x^2) - sin(x^1) ⊙ sin(x^2)",
    "sin(x^1 - x^2) = sin(x^2 - x^1)", "sin(x^1) ⊙ sin(x^1) = cos(x^1) ⊙ cos(x^1)",
    "A^{i,h} V^{i,h} = V^{i,h}",
]  # fmt: skip


@pytest.mark.parametrize("claim", TRUE)
def test_what_algebra_shows(claim: str) -> None:
    made = read_claim(Text(claim), PYTHIA.scope)
    assert isinstance(made.statement, Apply)
    assert identity(PYTHIA, *made.statement.args) is not None
    (verdict,) = check_claims(PYTHIA, claims=[made]).verdicts
    assert verdict.ok and verdict.proof


@pytest.mark.parametrize("claim", FALSE)
def test_what_is_false(claim: str) -> None:
    made = read_claim(Text(claim), PYTHIA.scope)
    assert isinstance(made.statement, Apply)
    assert identity(PYTHIA, *made.statement.args) is None


def changed(draw: st.DrawFn, e: Expr) -> Expr:
    """A formula with two arguments of an operation exchanged, or one of them alone."""
    nodes = [x for x in walk(e) if isinstance(x, Apply) and len(x.args) == 2]
    if not nodes:
        return of("neg", e)
    at = draw(st.sampled_from(nodes))
    a, b = at.args
    new = draw(st.sampled_from([of(at.op, b, a), a, b, of("sub", a, b), of("had", a, b)]))

    def go(x: Expr) -> Expr:
        if x is at:
            return new
        return x.over([go(y) for y in x.children]) if x.children else x

    return go(e)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[vt.Card, Expr, Expr]:
    """A card, and two formulas that may be equal."""
    card, left, right = draw(claims())
    return card, left, changed(draw, right) if draw(st.booleans()) else right


@settings(max_examples=15)
@given(pairs())
def test_what_is_proved_is_never_false(found: tuple[vt.Card, Expr, Expr]) -> None:
    card, left, right = found
    claim = Claim(of("eq", left, right))
    try:
        proved = identity(card, left, right)
        (verdict,) = check_claims(card, claims=[claim]).verdicts
    except VieteError:  # the sides of what was changed do not fit
        return
    assert proved is None or verdict.failure is None
