"""Law 6, of rules: what a rule puts in the place of a formula has the same value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from viete.evaluate.array import COL, ROW, Arrays, Value
from viete.graph.card import CardData
from viete.graph.matching import Match, put
from viete.graph.rules import Rule, rewrite, rules
from viete.notation.printer import show
from viete.notation.substitution import Abstraction
from viete.notation.tree import Apply, Bind, Expr, Idx, Pick, Ref, Symbol, num, walk
from viete.rewrite.simplify import simplified

SIMPLER, NAMED = (rules("rewrite", page) for page in ("simplify.md", "recognition.md"))


def stand_ins(rule: Rule, data: st.DataObject) -> Match:
    """Something for each letter of a rule: a matrix, unless it has to be a number or the like."""
    whole = data.draw(st.integers(0, 2))
    special = {"n": num(whole - 1), "u": num("1/3"), "i": num(whole), "c": test(),
               "epsilon": num("1/10")}  # fmt: skip
    letters: dict[str, Any] = {}
    for x in (*walk(rule.pattern), *walk(rule.formulas[0][1])):
        if isinstance(x, Ref) and x.index:
            entry = Pick(matrix(x.symbol.base), (Idx("k"),))
            value = Apply("sum", (entry,)) if x.symbol.base == "r" else (
                Apply("times", (Idx("k"), matrix(x.symbol.base))))  # fmt: skip
            letters[x.key] = Abstraction(("k",), value)
        elif isinstance(x, Ref):
            letters[x.key] = special.get(x.key, matrix(x.key))
    if "r^k" in letters:
        letters |= {"a": num(whole), "b": num(2)}
    if any(isinstance(x, Pick) for x in walk(rule.pattern)):
        letters["b"] = num(data.draw(st.integers(0, 2)))
    return Match(letters, {"k": ("k", Bind("sum", "k", num(0), num(2), num(0)))})


def matrix(name: str) -> Expr:
    return Ref(Symbol("value", name))


def test() -> Expr:
    return Apply("lt", (matrix("c"), num(0)))


test.__test__ = False  # type: ignore[attr-defined]


def value(e: Expr, matrices: dict[str, Value]) -> Any:
    found = Arrays(CardData("rule"), {}, np.zeros(1), lambda key, loops: matrices[key], False).of(e)
    array = np.asarray(found.array, np.float64)
    return array.T if found.axes == (COL, ROW) else array


@pytest.mark.parametrize("rule", SIMPLER + NAMED, ids=lambda rule: rule.text.text)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_a_rule_keeps_the_value(rule: Rule, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    matrices = {k: Value(rng.standard_normal((3, 3)), (ROW, COL)) for k in "abcxfgr"}
    found = stand_ins(rule, data)
    before, after = (put(e, found) for e in (rule.pattern, rule.formulas[0][1]))
    fits = rule.fits(before)
    assert fits is not None
    wanted = value(before, matrices)
    for e in (after, put(rule.formulas[0][1], fits), simplified(before)):
        got = np.broadcast_to(value(e, matrices), wanted.shape)  # a 0 has no shape of its own
        np.testing.assert_allclose(got, wanted, atol=1e-12, err_msg=f"{show(before)} → {show(e)}")
    assert simplified(simplified(before)) == simplified(before)


def test_the_driver_says_which_rule_made_what() -> None:
    model = vt.read("""# Small
## Inputs
- $x ∈ ℝ^{3}$
## Forward pass
1. $y = -(-x) + 0$
2. $z = y$
""")
    after, steps = rewrite(model, SIMPLER)
    assert show(after.equations[0].right) == "x" and after.equations[1] == model.equations[1]
    assert [(s.value, s.rule.text.text, show(s.after)) for s in steps] == [
        ("y", "-(-a) → a", "x"),
        ("y", "a + 0 → a", "x"),
    ]
    assert {s.rule.text.file for s in steps} == {"simplify.md"}
    assert all(s.rule.text.line > 1 for s in steps)


def test_what_a_card_writes_out_gets_its_name() -> None:
    model = vt.read("""# Small
## Inputs
- $x ∈ ℝ^{3 × 4}$
## Forward pass
1. $y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + 1e-5)$
2. $A = exp(y - max(y)) / sum(exp(y - max(y)))$
3. $B = max(A / (1 + exp(-A)), 0)$
""")
    found, steps = rewrite(model, NAMED)
    named = ["LN(x; 1, 0, 1e-5)", "softmax(y)", "ReLU(SiLU(A))"]
    assert [show(e.right) for e in found.equations] == named
    assert [s.value for s in steps] == ["y", "y", "A", "B", "B"]
