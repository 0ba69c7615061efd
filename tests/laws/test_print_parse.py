"""Law 1: print ∘ parse = identity, in all three spellings, for formulas and for whole cards."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import cards, expressions, shipped, worlds
from viete import read
from viete.cards.writer import write
from viete.errors import VieteError
from viete.library.functions import library
from viete.notation.parser import parse
from viete.notation.printer import STYLES, show
from viete.notation.symbols import Scope
from viete.notation.tree import Apply, Bind, Idx, Ref, Slot, Symbol, num

FORMS = ("md", "latex", "json")


# Random formulas ----------------------------------------------------------------------------------


@settings(max_examples=150)
@given(st.data())
def test_a_formula_reads_back_as_itself(data: st.DataObject) -> None:
    world = data.draw(worlds())
    e, _ = data.draw(expressions(world))
    for style in STYLES:
        text = show(e, style)
        again = parse(text, world.model.scope)
        assert again == e, f"{style}: {text}\n gives {show(again, style)}"
        assert show(again, style) == text


@pytest.mark.parametrize("written", [
    "(2) (3)", "u_0 (2)", "2 (3) (k)", "u_0 (2^k)", "2 (2^k) (u_1)", "(2^2) (3)", "u_0 (1/2) (2)",
])  # fmt: skip
def test_numbers_side_by_side_read_back(written: str) -> None:
    scope = Scope.of([Symbol("value", "u"), Symbol("dim", "k")], "j")
    e = parse(written, scope)
    assert all(parse(show(e, style), scope) == e for style in STYLES)


@pytest.mark.parametrize(("written", "plain"), [
    ("|u| |v| cos θ_{u,c(v)}", "|u| |v| cos(angle(u, centred(v)))"),
    (r"|u| \cos{\theta^2_{u,v}}", "|u| cos(angle(u, v)^2)"),
    (r"\|u\| + ‖u‖ + \lVert u\rVert + \lvert u \rvert", "|u| + |u| + |u| + |u|"),
    (r"\left|u \left\|v\right\| \right|", "|u (|v|)|"), ("|u ‖v‖|", "|u (|v|)|"),
    ("||u|| |u - |v||", "||u|| |u - |v||"), ("|u| v |u|", "|u| v |u|"), ("|(u |v|)|", "|u (|v|)|"),
    ("|<u, v>| + <u, |v| u>", "|<u, v>| + <u, |v| u>"), ("cos |u|^2", "cos(|u|^2)"),
    ("cos(u, v) / |u v|", "cos(u, v) / |u v|"), ("|u_k - v_k|", "|u_k - v_k|"), ("tr(u)", "tr(u)"),
])  # fmt: skip
def test_the_words_for_vectors_read_back(written: str, plain: str) -> None:
    cap = Symbol("value", "c", (Slot("A", False),))  # no c by itself
    scope = Scope.of([Symbol("value", "u"), Symbol("value", "v"), cap], "k")
    scope.functions |= {f.name: f.signature for f in library().values()}
    e = parse(written, scope)
    assert show(e) == plain
    assert all(parse(show(e, style), scope) == e for style in STYLES)


@pytest.mark.parametrize("written", [
    "∂x'^3", "∂x′³", r"\partial x'^{3}", r"\partial{x'}^3", r"\partial x^{\prime3}", "∂x^3'",
])  # fmt: skip
def test_a_prime_is_part_of_a_name(written: str) -> None:
    third = Symbol("value", "partial{x'}", (), (Slot("i", True),))
    scope = Scope.of([third, Symbol("value", "x", (), third.sup)], "i")
    e = parse(written, scope)
    assert e == Ref(third, (num(3),))
    assert [show(e, style) for style in STYLES] == ["∂x'^3", r"\partial{x}'^3", "∂x′³"]


@pytest.mark.parametrize("written", ["W_Q'^{i,h''}", "W'_Q^{i,h''}", r"W'^{i,h^{\prime\prime}}_Q",
                                     r"W_{Q}^{\prime}^{i,h″}", "W_Q^{i,h''}'"])  # fmt: skip
def test_a_letter_has_primes_of_its_own(written: str) -> None:
    weight = Symbol("value", "W'", (Slot("Q"),), (Slot("i", True), Slot("h", True)))
    e = parse(written, Scope.of([weight, replace(weight, base="W")], ("i", "h''")))
    assert e == Ref(weight, (Idx("i"), Idx("h''")))
    assert show(e, "latex") == "W_Q'^{i,h''}"


@pytest.mark.parametrize(("written", "message"), [
    ("|u", "this | is never closed; expected |"), ("u|", "the formula ends too early here"),
    ("θ_u", "unknown symbol θ_u"), ("c", "unknown symbol c"),
    ("cos(u, v, u)", "cos takes 1 argument, not 3"),
])  # fmt: skip
def test_the_words_for_vectors_say_what_is_wrong(written: str, message: str) -> None:
    scope = Scope.of([Symbol("value", "u"), Symbol("value", "v")])
    scope.functions |= {f.name: f.signature for f in library().values()}
    with pytest.raises(VieteError, match=re.escape(message)):
        parse(written, scope)


# Whole cards --------------------------------------------------------------------------------------


def reads_back(model: vt.Card) -> None:
    for form in FORMS:
        text = write(model, form)
        again = read(text)
        assert again == model, form
        assert write(again, form) == text, form


@given(cards())
def test_a_random_card_reads_back(card) -> None:
    reads_back(card.model)


@given(worlds())
def test_a_card_of_random_names_reads_back(world) -> None:
    reads_back(world.model)


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_a_shipped_card_reads_back(path: str) -> None:
    reads_back(read(path))


# The same formula in three spellings --------------------------------------------------------------

SCOPE = read(r"""
# Spellings
## Dimensions
| symbol | value |
| --- | --- |
| $d$ | 6 |
| $V$ | 9 |
| $H$ | 2 |
| $L$ | 3 |
| $d_k$ | $d / H$ |
| $d_{model}$ | 6 |
| $ε$ | 1e-5 |
| $n_{max}$ | 8 |
| $n$ | $≤ n_{max}$ |
| $h$ | $1, …, H$ |
## Inputs
- $t ∈ \{0, …, V-1\}^n$: tokens
## Parameters
| symbol | shape |
| --- | --- |
| $W_E, W_U, p$ | $V × d$ |
| $W^Q, W^K$ | $d × d$ |
| $W_Q^{i,h}, W_K^{i,h}$ | $d × d_k$ |
| $W^{ff}_1, W^{ff}_2, W_{OV}$ | $d × d$ |
| $γ_1, β_1$ | $d$ |
| $\overline{\text{ublin}}, \underline{\text{ublin}}, u, v$ | $d$ |
| $Q, K, A$ | $n_{max} × n_{max}$ |
## Forward pass
1. $h_0 = W_E[t] + p[t]$
2. $x^0 = h_0$

For $i = 1, …, L$:

3. $x^i = LN(x^{i-1})$
4. $A^{i,h} = softmax(x^{i-1} W_Q^{i,h} (x^{i-1} W_K^{i,h})^⊤)$
5. $logits = x^L {W_U}^⊤$
## Derived
- $Δx^i = x^i - x^{i-1}$: what block i adds
- $\tilde{A}^i = x^{i-1} W_{OV}$: attention with its norm
- $\tilde{M}^i = x^i W^{ff}_1$: MLP with its norm
""").scope

SAME = [
    # plain, LaTeX, Unicode
    ("Q K^T / sqrt(d_k)", r"\frac{QK^\top}{\sqrt{d_k}}", "Q Kᵀ / √d_k"),
    ("QK^T / sqrt(d_k)", r"\frac{Q K^{\top}}{\sqrt{d_k}}", "QKᵀ / √(d_k)"),
    ("h_0 W^Q", r"h_0 W^Q", "h₀ W^Q"),
    ("gamma_1", r"\gamma_1", "γ₁"),
    ("LN(h_0; gamma_1, beta_1)", r"\mathrm{LN}(h_0; \gamma_1, \beta_1)", "LN(h₀; γ₁, β₁)"),
    ("GELU(h_0 W^{ff}_1) W^{ff}_2", r"\operatorname{GELU}(h_0 W^{ff}_1) W^{\text{ff}}_2",
     "GELU(h₀ W_1^ff) W_2^ff"),
    ("x^{i-1} + x^0", r"x^{i-1} + x^{0}", "xⁱ⁻¹ + x⁰"),
    ("(h_0)^2 - 1", r"{h_0}^2 - 1", "(h₀)² − 1"),
    ("1/2 * u", r"\frac{1}{2} \times u", "1/2 × u"),
    ("1e-5", r"10^{-5}", "0.00001"),
    ("0.5", r"\frac{1}{2}", "1/2"),
    ("sum_{h=1}^H h", r"\sum_{h=1}^{H} h", "∑_{h=1}^{H} h"),
    ("e^{-u}", r"\exp(-u)", "exp(−u)"),
    ("inner(u, v)", r"\langle u, v \rangle", "⟨u, v⟩"),
    ("<u, v>", r"\left\langle u, v \right\rangle", "⟨ u, v ⟩"),
    ("where(d <= 3 and not d_k = 2, u, v)",
     r"\begin{cases} u & d \le 3 \land \text{not } d_k = 2 \\ v & \text{otherwise} \end{cases}",
     "where(d ≤ 3 and not d_k = 2, u, v)"),
    ("where(d <= 3, u, where(d <= 4, v, where(d <= 5, u, v)))",
     r"\begin{cases} u & d \le 3 \\ v & \text{if } d \le 4 \\ u & d \le 5 \\ v & \text{else} \\"
     r" \end{cases}",
     "where(d ≤ 3, u, where(d ≤ 4, v, where(d ≤ 5, u, v)))"),
    ("-inf", r"-\infty", "−∞"),
    ("2^{3^2}", r"2^{3^{2}}", "2^3^2"),  # a tower is read from its top
    ("e^{u^2}", r"e^u^2", "exp(u²)"),
    ("floor(d / 4)", r"\lfloor d / 4 \rfloor", "⌊d / 4⌋"),
    ("concat(u, v)", "concat([u, v])", "concat([ u, v ])"),
    ("A^{2,1} · p", "A^{2,1} @ p", "A^{2,1} p"),
    ("p[-1, :]", "p[:, -1, :]", "p[−1, :]"),
    ("p_{-1,-2}", r"p[-1, -2]", "p_{−1,−2}"),
    ("p_{-1}", "p[-1]", "p₋₁"),
    ("p[-1, 0]", "p_{-1, 0}", "p_{−1,0}"),
    ("p_{0-1}", "p[(0 - 1)]", "p[0 − 1]"),
    ("softmax(Q)_1^2", r"\operatorname{softmax}(Q)[1]^2", "softmax(Q)₁²"),
    ("(Q^T)_1", r"Q^\top[1]", "(Qᵀ)₁"),
    ("(p_{j+1})_2", "p[j + 1][2]", "(pⱼ₊₁)₂"),
    ("softmax(p_j)_{u_{j-1}}", "softmax(p[j])[u[j - 1]]", "softmax(pⱼ)_{uⱼ₋₁}"),
    ("2 * pi", r"2 \times \pi", "2 × π"),
    ("u ⊙ v", r"u \odot v", "u⊙v"),
    ("p[:n]", r"p[:n]", "p[: n]"),
    ("overline{ublin}", r"\overline{\text{ublin}}", "overline{ublin}"),
    ("x^i_j", r"x_j^{i}", "xⁱⱼ"),
    ("Delta{x}^i", r"\Delta x^i", "Δxⁱ"),
    ("-floor(-d / 4)", r"\lceil d / 4 \rceil", "⌈d / 4⌉"),
    ("concat_h(A^{2,h})", r"\operatorname{concat}_h(A^{2,h})", "concat_h(A^{2, h})"),
    ("max_j(u_j)", r"\max_{j}(u_{j})", "max_j(uⱼ)"),
    ("u_j != 0 or u_j >= 1", r"u_j \neq 0 \lor u_j \geq 1", "u_j ≠ 0 ∨ u_j ≥ 1"),
    # the displayed formulas of the notation that the language grew from
    ("LN(x^L_j)", r"LN(x_j^L)", "LN(x_jᴸ)"),
    ("inner(overline{ublin}, LN(x^L_j))", r"\langle \overline{\text{ublin}}, LN(x_j^L) \rangle",
     "⟨overline{ublin}, LN(x_j^L)⟩"),
    ("W_U · LN(x^L_j)", r"W_U \cdot LN(x_j^L)", "W_U ⋅ LN(x_j^L)"),
    ("x^L_j = x^0_j + sum_{i=1}^L Delta{x}^i_j",
     r"x_j^L = x_j^0 + \sum_{i=1}^{L} \Delta x_j^i", "x_j^L = x_j^0 + ∑_{i=1}^L Δx_j^i"),
    ("x^0_j = underline{ublin} + p_j", r"x_j^0 = \underline{\text{ublin}} + p_j",
     "x_j^0 = underline{ublin} + p_j"),
    ("x^{i-1} + tilde{A}^i + tilde{M}^i", r"x^{i-1} + \tilde{A}^i + \widetilde{M}^i",
     "xⁱ⁻¹ + Ãⁱ + M̃^i"),
    ("Delta{x}^i_j = tilde{A}^i_j + tilde{M}^i_j", r"\Delta x_j^i = \tilde{A}_j^i + \tilde{M}_j^i",
     "Δx_j^i = Ã_j^i + M̃ⁱⱼ"),
    ("<overline{ublin}, x^i_j>", r"\langle \overline{\text{ublin}}, x^i_j \rangle",
     "⟨overline{ublin}, xⁱⱼ⟩"),
    ("A^{i,h}", r"A^{i,h}", "A^{i,h}"),
    ("W_OV · x^i_j", r"W_{OV} \, x^i_j", "W_OV xⁱ_j"),
]  # fmt: skip


@pytest.mark.parametrize(
    "style, row", [("latex", r" \\ "), ("typst", '&"if"'), ("mathml", "</mtr><mtr>")]
)
def test_nested_cases_are_one_list(style: str, row: str) -> None:
    """Three values make three rows, and no case stands inside another."""
    text = show(parse("where(d <= 3, u, where(d <= 4, v, u))", SCOPE), style)
    assert text.count(row) == 2
    assert text.count("cases") == {"latex": 2, "typst": 1, "mathml": 0}[style]


@pytest.mark.parametrize("spellings", SAME, ids=lambda s: s[0])
def test_three_spellings_one_tree(spellings: tuple[str, str, str]) -> None:
    scope = SCOPE.inside(["j"])
    first, *others = (parse(s, scope) for s in spellings)
    for text, other in zip(spellings[1:], others, strict=True):
        assert other == first, f"{text} reads as {show(other)}, not {show(first)}"
    for style in STYLES:
        assert parse(show(first, style), scope) == first


# Letters run together -----------------------------------------------------------------------------


def scope_of(*names: str) -> Scope:
    from viete.errors import Text
    from viete.notation.cursor import parse_name

    scope = Scope()
    for name in names:
        scope.declare(parse_name(Text(name), "parameter", set()))
    return scope


@pytest.mark.parametrize(
    ("names", "run", "apart"),
    [
        (("Q", "K"), "QK^T", "Q K^T"),
        (("A", "V", "W^O"), "(AV)W^O", "(A V) W^O"),
        (("a", "b", "c"), "abc_2", "a b c_2"),
        (("x", "W"), "xW + Wx", "x W + W x"),
        (("ab", "c"), "abc", "ab c"),
        (("W^Q", "X"), "W^QX", "W^Q X"),
        (("x", "W"), "xLN(W)", "x LN(W)"),
        (("Q", "QK", "K"), "QK", "(QK)"),  # a name that is declared as a whole is that name
    ],
)
def test_letters_run_together_are_split_by_the_declared_names(
    names: tuple[str, ...], run: str, apart: str
) -> None:
    scope = scope_of(*names)
    scope.functions |= SCOPE.functions
    assert parse(run, scope) == parse(apart, scope)


@given(st.lists(st.sampled_from("ABCDEFGH"), min_size=2, max_size=6))
def test_any_run_of_single_letters_splits_into_them(letters: list[str]) -> None:
    scope = scope_of(*"ABCDEFGH")
    assert parse("".join(letters), scope) == parse(" ".join(letters), scope)


@pytest.mark.parametrize(
    ("names", "run", "ways"),
    [
        (("a", "ab", "b", "c", "bc"), "abc", ("ab c", "a bc")),
        (("W", "WO", "O", "OV", "V"), "WOV", ("WO V", "W OV")),
    ],
)
def test_a_run_with_two_readings_is_an_error(
    names: tuple[str, ...], run: str, ways: tuple[str, str]
) -> None:
    with pytest.raises(VieteError) as error:
        parse(run, scope_of(*names))
    assert all(way in str(error.value) for way in ways)


def test_a_sum_whose_letter_is_read_behind_it_is_printed_in_brackets() -> None:
    scope = Scope(indices={"k"})
    total = Bind("sum", "k", num(0), num(2), Idx("k"))
    e = Apply("times", (total, Idx("k")))
    for style in STYLES:
        assert parse(show(e, style), scope) == e


@pytest.mark.parametrize(
    ("equation", "shown"), [("p = r[1]", "p = r_1"), ("r_1 = r[1]", "r_1 = r[1]")]
)
def test_a_row_is_no_other_name(equation: str, shown: str) -> None:
    """A row of r is r_1, and r[1] beside a value that is called r_1."""
    card = vt.read(f"{read('exact-lesson').write('md')}\n99. ${equation}$\n")
    written = card.write("md")
    assert (
        shown.replace("_1", "₁") in card.write("text") and vt.read(written).write("md") == written
    )
    assert vt.read(written).equations[-1].right == card.equations[-1].right
