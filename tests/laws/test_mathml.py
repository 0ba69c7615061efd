"""Law 1 for what a browser sets: MathML says the formula that was printed, and names its names.

A small reader turns the elements back into the plain spelling; the parser must find the same tree.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import expressions, shipped, worlds
from viete.document.formulas import math
from viete.document.html import prose
from viete.notation.mathml import mathml, mathml_equation, numbered
from viete.notation.parser import parse
from viete.notation.tree import Apply, Bind, Expr, Ref, walk

ACCENTS = {"~": "tilde", "^": "hat", "¯": "bar", "→": "vec", "‾": "overline", "_": "underline"}
SIGNS = {"\u2061": "", "\u2062": " ", "′": "'", "−": " - ", "…": "...", "⋯": "..."}


def linear(e: Element) -> str:
    """An element as one line of the notation."""
    parts = [linear(child) for child in e]
    match e.tag:
        case "mi" | "mn" | "mo" | "mtext":
            text = (e.text or "").replace("\u00a0", " ")
            return SIGNS.get(text, text)
        case "mrow" | "math":
            if parts[:1] == ["|"]:
                return f"length({''.join(parts[1:-1])})"
            if parts[:1] == ["⟨"]:
                return f"inner({''.join(parts[1:-1])})"
            return "".join(parts)
        case "msup":
            above = f"({parts[1]})" if parts[1] == "T" else parts[1]
            within = e[0].tag in ("msup", "msubsup")
            base = f"({parts[0]})" if within and parts[1] != "'" else parts[0]
            return f"{base}^{{{above}}} "
        case "msub":
            return f"{parts[0]}_{{{parts[1]}}} "
        case "msubsup":
            above = f"({parts[2]})" if parts[2] == "T" else parts[2]
            return f"{parts[0]}_{{{parts[1]}}}^{{{above}}} "
        case "mfrac":
            return f" \\frac{{{parts[0]}}}{{{parts[1]}}} "
        case "msqrt":
            return f"sqrt({''.join(parts)})"
        case "mover" | "munder" if e.get("accent"):
            return f"{ACCENTS[parts[1]]}{{{parts[0]}}}"
        case "munder":
            return f"{parts[0]}_{{{parts[1]}}} "
        case "munderover":
            return f"{parts[0]}_{{{parts[1]}}}^{{{parts[2]}}} "
        case "mtable":
            (yes, test), (no, _) = [[linear(cell) for cell in row] for row in e]
            return f"where({test.strip().removeprefix('if ')}, {yes}, {no})"
        case "mtd" | "mtr":
            return "".join(parts)
    raise AssertionError(e.tag)


def read_back(text: str) -> str:
    """A formula's MathML in the notation."""
    return linear(fromstring(text)).replace("{where", "where").replace("∂", " ∂")


def keys(e: Expr) -> list[str]:
    return sorted({x.key for x in walk(e) if isinstance(x, Ref) and x.symbol.kind != "argument"})


def holds(e: Expr, card: vt.Card) -> None:
    """Reads back as itself; each name has its key, each operation that is seen its number."""
    text = mathml(e, nodes=True)
    assert parse(read_back(text), card.scope) == e, read_back(text)
    found = list(fromstring(text).iter())
    assert sorted({k for x in found if (k := x.get("data-key"))}) == keys(e)
    places = {str(k): x for x, k in numbered(e).items()}
    for x in found:
        if (number := x.get("data-node")) is not None:
            assert not isinstance(places[number], Ref)
    if isinstance(e, Apply | Bind):
        assert fromstring(text)[0].get("data-node") == "0"
    assert "$" not in text
    again = math(mathml(e).removeprefix("<math>").removesuffix("</math>"))
    assert again.replace(' form="prefix"', "") == mathml(e)


@settings(max_examples=100)
@given(st.data())
def test_a_formula_is_set_as_it_is(data: st.DataObject) -> None:
    world = data.draw(worlds())
    e, _ = data.draw(expressions(world))
    holds(e, world.model)


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_a_shipped_card_is_set_as_it_is(path: str) -> None:
    card = vt.read(path)
    for equation in card.equations:
        holds(equation.right, card)
        text = mathml_equation(equation.left, equation.right, nodes=True)
        assert f'data-key="{equation.left.key}"' in text
        fromstring(text)


def test_signs_of_somebodys_prose_have_an_operators_place() -> None:
    bars = re.findall(r"<mo ([^>]*)>\|</mo>", math(r"\lvert x_j \rvert^2 ≤ |y| \bmod 3"))
    assert len(bars) == 4 and len(set(bars)) == 1 and "false" in bars[0]
    assert "≤</mo>" in math("a ≤ b").replace("&#x02264;", "≤")
    assert re.search(r"<mo lspace[^>]*>mod</mo>", math(r"a \bmod p"))
    assert "<mo>;</mo>" in math("LN(x; γ)") and "<mi>…</mi>" in math("1, …, N")


@pytest.mark.parametrize(
    ("prose", "spaces"),
    [("20 wave(4)", 1), ("x_1 wave(4)", 1), ("x[2] wave_{ab}", 1),
     (r"\mathrm{open} \operatorname{held}(W)", 1), (r"\mathrm{open} W_1", 1),
     (r"\mathrm{size}_1 (x)", 0), (r"f(\mathrm{gate})", 0), ("|wave(4)|", 0),
     (r"\partial loss", 0), ("a + wave(4)", 0), (r"\log_2 x", 1), ("log x", 1),
     ("0 for k > j", 2)],
)  # fmt: skip
def test_a_word_of_somebodys_prose_stands_apart_from_a_factor(prose: str, spaces: int) -> None:
    assert math(prose).count("<mspace") == spaces


@pytest.mark.parametrize("word", ["softmax", "logits", "ReLU", "LN", "mean", "answer"])
@pytest.mark.parametrize(
    "prose", ["{}(x)", r"\frac{{{}}}{{2}}", "A = {}(S)", "x_{{{}}}", "d_{}", r"\overline{{{}}}"]
)
def test_a_word_of_somebodys_prose_is_upright_and_letters_are_a_product(
    word: str, prose: str
) -> None:
    assert f"<mi>{word}</mi>" in math(prose.format(word))
    assert f"<mtext>{word}</mtext>" in math(rf"\text{{{word}}}")
    assert "<mi>Q</mi><mi>K</mi>" in math(r"QK + \alpha")


@pytest.mark.parametrize(
    ("prose", "grown", "small"),
    [(r"f(g(\frac{a}{b})) (x)", 2, 1), (r"\log(\frac{a}{b}) + (x)", 1, 1), ("f(x)", 0, 1),
     (r"(x) (\frac{a}{b}", 0, 1), (r"\frac{f(x)}{2}", 0, 1)],
)  # fmt: skip
def test_brackets_around_a_fraction_grow_with_it(prose: str, grown: int, small: int) -> None:
    shown = math(prose)
    assert shown.count("<mo>)</mo>") == grown
    assert shown.count('<mo stretchy="false">)</mo>') == small
    assert shown.count("<mspace") == 0


def test_no_line_breaks_between_a_formula_and_its_punctuation() -> None:
    shown = prose("as $x$, then ($y$) and $z$ **of $w$.**")
    joined = re.findall(r'<span class="unbroken">(.*?)</span>', shown)
    assert [re.sub(r"<[^>]*>", "", x) for x in joined] == ["x,", "(y)", "w."]
    assert shown.count("<math>") == 4
