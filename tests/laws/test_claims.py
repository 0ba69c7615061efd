"""Law 10, of claims: one that was rewritten from an equation holds, and its negation fails."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import cards
from viete import read
from viete.analysis.shapes import Shapes
from viete.ask.card_claims import check_claims
from viete.cards.writer import write
from viete.graph.card import Claim, Equation
from viete.notation.tree import Apply, Bind, Expr, Idx, Num, transform, walk


def number(value: str) -> Num:
    return Num(Fraction(value))


def of(op: str, *args: Expr) -> Expr:
    return Apply(op, args)


def put_in(e: Expr, equation: Equation) -> Expr:
    """A formula with an equation's right side in the place of its left."""
    return transform(e, lambda x: equation.right if x == equation.left else None)


def rewritten(draw: st.DrawFn, model: vt.Card, e: Equation) -> tuple[Expr, Expr]:
    """Two sides that are equal because an equation is."""
    left: Expr = e.left
    right = e.right
    bound = {x.index for x in walk(right) if isinstance(x, Bind)}
    inner = [o for o in model.equations if o is not e and o.loop == e.loop and o.left in walk(right)
             and not bound & {x.name for x in walk(o.right) if isinstance(x, Idx)}]  # fmt: skip
    for other in inner[: draw(st.integers(0, 2))]:
        right = put_in(right, other)
    match draw(st.integers(0, 5)):
        case 0:
            left, right = right, left
        case 1:
            left, right = of("sub", left, right), number("0")
        case 2:
            left, right = of("times", number("2"), left), of("add", left, right)
        case 3 if isinstance(right, Apply) and right.op in ("add", "sub"):
            a, b = right.args
            left, right = of("sub" if right.op == "add" else "add", left, b), a
        case 4 if len(Shapes(model).types[e.name].shape) == 2:
            left, right = of("T", left), of("T", right)
    return left, right


NEGATED = {
    "≠": lambda a, b: of("ne", a, b),
    "not": lambda a, b: of("not", of("eq", a, b)),
    "<": lambda a, b: of("lt", a, b),
    ">": lambda a, b: of("gt", a, b),
    "+": lambda a, b: of("eq", a, of("add", b, number("1e-4"))),
}


@st.composite
def claims(draw: st.DrawFn) -> tuple[vt.Card, Expr, Expr]:
    """A card, and two sides that one of its equations makes equal."""
    model = draw(cards()).model
    types = Shapes(model).types
    real = [e for e in model.equations if types[e.name].kind == "real"]
    return model, *rewritten(draw, model, draw(st.sampled_from(real)))


@settings(max_examples=12)
@given(claims(), st.sampled_from(list(NEGATED)), st.sampled_from(["eq", "le", "ge"]))
def test_what_was_rewritten_holds_and_its_negation_fails(
    found: tuple[vt.Card, Expr, Expr], negation: str, op: str
) -> None:
    model, left, right = found
    assert left != right  # else the law would say nothing
    stated = (Claim(of(op, left, right)), Claim(NEGATED[negation](left, right)))
    as_read = read(write(replace(model, claims=stated), "md"))
    checked = check_claims(as_read)
    true, false = checked.verdicts
    assert true.failure is None and false.failure is not None, checked.lines()
