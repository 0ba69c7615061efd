"""Exact numbers as text: what is written has the value of what it is written for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.exact.trees import Pair, mp, pairs
from viete.errors import VieteError
from viete.meanings.exact.atoms import Atom
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.spelling import spell, spelled
from viete.notation.parser import parse
from viete.notation.printer import STYLES
from viete.notation.symbols import Scope
from viete.notation.tree import Apply, Expr, Num, Ref, Symbol, walk

N = Number.of
OPERATIONS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "neg": lambda a: -a,
    "prod": lambda a, b: a * b, "times": lambda a, b: a * b, "had": lambda a, b: a * b,
    "div": lambda a, b: a / b, "pow": lambda a, b: mp.power(a, b), "pi": lambda: +mp.pi,
    "exp": mp.exp, "log": mp.log, "sqrt": mp.sqrt, "erf": mp.erf, "tanh": mp.tanh,
    "sin": mp.sin, "cos": mp.cos,
}  # fmt: skip


def value(e: Expr, names: dict[str, Any]) -> Any:
    """A formula by mpmath, at 120 digits."""
    match e:
        case Num():
            return mp.mpf(e.value.numerator) / e.value.denominator
        case Ref():
            return names[e.key]
        case Apply():
            return OPERATIONS[e.op](*(value(a, names) for a in e.args))
    raise AssertionError(e)


def scope() -> Scope:
    out = Scope()
    for base in ("e", "u", "w"):
        out.declare(Symbol("value", base))
    return out


CONSTANTS = {"e": +mp.e}


def agrees(a: Any, b: Any) -> bool:
    return bool(abs(a - b) <= mp.mpf(10) ** -60 * (1 + abs(b)))


@settings(max_examples=100)
@given(pairs())
def test_what_is_written_has_the_value(x: Pair) -> None:
    assume(abs(x.approx) < 1e40)
    assert agrees(value(spelled(x.exact), CONSTANTS), x.approx)


@settings(max_examples=100)
@given(pairs())
def test_plain_text_reads_back(x: Pair) -> None:
    assume(abs(x.approx) < 1e40)
    text = spell(x.exact)
    assert agrees(value(parse(text, scope()), CONSTANTS), x.approx), text


@settings(max_examples=60)
@given(pairs())
def test_latex_and_unicode_read_back(x: Pair) -> None:
    assume(abs(x.approx) < 1e40)
    for style in STYLES:
        text = spell(x.exact, style=style)
        assert text == text.strip() != ""
        assert "None" not in text
        assert agrees(value(parse(text, scope()), CONSTANTS), x.approx), text


@settings(max_examples=40)
@given(pairs(depth=3), pairs(depth=3), st.integers(0, 3))
def test_names_are_written_out_as_deep_as_asked(x: Pair, y: Pair, levels: int) -> None:
    assume(abs(x.approx) < 1e10 and abs(y.approx) < 1e10)
    u = name("u", x.exact)
    w = name("w", u * u + y.exact)
    known = CONSTANTS | {"u": x.approx, "w": x.approx**2 + y.approx}
    z = w * w - u
    text = spell(z, levels)
    assert agrees(value(parse(text, scope()), known), known["w"] ** 2 - x.approx), text
    used = {r.key for r in walk(parse(text, scope())) if isinstance(r, Ref)}
    assert "w" not in used or levels < 1
    assert "u" not in used or levels < 2


def name(base: str, x: Number) -> Number:
    return Number.atom(Atom("name", x, x.atoms(), Ref(Symbol("value", base))))


@pytest.mark.parametrize(
    "number, text",
    [
        (lambda: N(0), "0"), (lambda: N(Fraction(-2, 3)), "-2/3"),
        (lambda: N(8).sqrt(), "2 sqrt(2)"),
        (lambda: N(Fraction(2, 3)).sqrt(), "sqrt(6) / 3"),
        (lambda: N(1).exp() / (N(1).exp() + N(2).exp()), "e / (e + e^2)"),
        (lambda: -(N(2).sqrt()), "-sqrt(2)"), (lambda: N(10) ** Fraction(2, 3), "10^{2/3}"),
        (lambda: 1 - N(2).sqrt(), "1 - sqrt(2)"), (lambda: N(2).sqrt().exp(), "e^{sqrt(2)}"),
        (lambda: 2 * N(1).exp(), "2 e"), (lambda: 1 / (N(1).exp() + 1).sqrt(), None),
        (lambda: Number.pi() ** 2, "pi^2"), (lambda: N(6).log(), "log(2) + log(3)"),
    ],
)  # fmt: skip
def test_how_numbers_are_written(number, text: str | None) -> None:
    x = number()
    assert text is None or spell(x) == text
    assert agrees(value(parse(spell(x), scope()), CONSTANTS), mp.mpf(x.decimal(80)))


def test_the_order_of_terms_does_not_hang_on_history() -> None:
    e = N(1).exp()
    early = spell((e + 1) ** 3 + N(5).sqrt() + N(2).sqrt())
    N(3).sqrt()
    late = spell(N(2).sqrt() + N(5).sqrt() + 1 + 3 * e * e + e**3 + 3 * e)
    assert early == late


def test_long_numbers_are_written_without_recursion() -> None:
    x = sum((N(k).sqrt() * N(1).exp() ** k for k in range(2, 400)), N(0))
    assert x.size > 390
    assert all(len(spell(x, style=style)) > 3000 for style in STYLES)


@given(st.integers(1, 6), st.integers(1, 6))
def test_roots_are_written_below_the_line(a: int, b: int) -> None:
    e = N(1).exp()
    x = a / (b * e + 1).sqrt()
    assert spell(x).count("sqrt") == 1
    assert agrees(value(parse(spell(x), scope()), CONSTANTS), a / mp.sqrt(b * mp.e + 1))


def test_unknown_styles() -> None:
    with pytest.raises((VieteError, KeyError, ValueError)):
        spell(N(2).sqrt(), style="braille")
