"""Law 11, outputs: whatever stands in a card's text, an output is escaped for its format.

LaTeX holds no command but those that the writers use; Markdown shows no HTML; and what was escaped
reads back as it was.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import viete as vt
from tests.laws.strategies import cards, expressions, shipped, worlds
from viete.cards.writer import write
from viete.document.latex import prose, unescape
from viete.document.tex import is_formula
from viete.errors import VieteError
from viete.notation.printer import show
from viete.report.architecture import write_architecture

CARD = vt.read("""# T

About it.

- **size**: small

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $d$ | 4 | width |

## Inputs

- $x ∈ ℝ^d$: what comes in

## Forward pass

### Part

1. $y = 2 * x$: twice as much
""")
HOSTILE = [
    r"\input{/etc/passwd}", r"$\input{/etc/passwd}$", r"$\immediate\write18{ls}$", "$^^5cinput x$",
    r"$\catcode`\@=0$", r"$x % y$", r"$x^a^b$", "$x_$", "${$", r"$\frac{a}$", r"\end{document}",
    r"$\end{document}$", r"$\text{\input x}$", r"$\begin{cases} a \end{align}$", "$a & b$",
    r"$\def\x{y}$", r"$\csname input\endcsname$", r"$\left( x$", "[1pt] x", "*", "$#1$", "~", "^^M",
    "γ and ε, ϕ", "$γ_1$", "é ß 水 ∀", r"\$5", "``a`` `b", "**", "`$x$`", "a $ b", "100%", "{", "}",
    "<script>alert(1)</script>", "&lt;b>", "&amp;lt;", "<!-- no", "<javascript:x>", "a < b & c > d",
    r"\<b>", r"\`<b>`", "``x`<b>`", "` `` `<b>`", "`<eos>`", "| a |", "# x", "- x", "1. x", "```",
    "For i = 1, …, 2:", "_x_", "a_b^c",
]  # fmt: skip
pieces = st.sampled_from(HOSTILE) | st.text("\\${}^_%&#~<>`*[]()ab γ/!-\"'=:", max_size=12)
texts = st.lists(pieces, min_size=1, max_size=3).map(" ".join)
COMMANDS = re.compile(r"\\([A-Za-z]+|.)", re.S)


def with_text(text: str) -> vt.Card:
    """The card with ``text`` wherever a card has text of its own."""
    said: dict[str, Any] = {"meaning": text}
    return replace(
        CARD, title=text, about=(text,), dims=tuple(replace(d, **said) for d in CARD.dims),
        inputs=tuple(replace(i, **said) for i in CARD.inputs),
        equations=tuple(replace(e, part=text, **said) for e in CARD.equations),
    )  # fmt: skip


def formulas(tex: str) -> list[str]:
    """What stands between dollar signs that are not characters."""
    return re.findall(r"(?<!\\)\$((?:[^$\\]|\\.)*)\$", tex)


# -- LaTeX -----------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.data())
def test_what_we_print_is_a_formula(data: st.DataObject) -> None:
    e, _ = data.draw(expressions(data.draw(worlds())))
    assert is_formula(show(e, "latex")), show(e, "latex")


@pytest.mark.parametrize("name", ["pythia", "symbolic-transformer", "gemma2", "t5"])
def test_the_formulas_of_a_card_stay_formulas(name: str) -> None:
    model = vt.read(name)
    for text in (write(model, "latex"), write_architecture(model, "latex", 2)):
        assert r"\$" not in text and all(map(is_formula, formulas(text)))


@pytest.mark.parametrize("tex", [
    r"x^i_j = \frac{a}{b}", r"\langle \overline{\text{ublin}}, x \rangle", r"x'_1", r"O(n^2)",
    r"\mathbb{R}^{n \times d}", r"\begin{cases} a & b \\ c & \text{otherwise} \end{cases}",
    r"\left(\frac{1}{2}, \cdots\right)", r"\sqrt{d_k}", r"\hat{y} \in \{0, \dots, V-1\}", "<",
])  # fmt: skip
def test_mathematics(tex: str) -> None:
    assert is_formula(tex)


@pytest.mark.parametrize("text", [t for t in HOSTILE if t.startswith(("$\\", "$^", "${", "$#"))])
def test_what_is_no_mathematics(text: str) -> None:
    assert not is_formula(text[1:-1]) and "$" not in prose(text).replace(r"\$", "")


ESCAPED = "textbackslash textasciitilde textasciicircum dots texttt textbf emph ensuremath".split()
SIGNS = {*"_&%#{}$,\\ ", "gamma", "varepsilon", "phi", "le", "mathbb", "begin", "end"}
BREAKS = {"arraybackslash", "allowbreak"}  # of wide tables and long formulas


def commands(text: str) -> set[str]:
    """What TeX is told to do by an article and a card in LaTeX."""
    return {
        command
        for whole in (write(with_text(text), "latex"), with_text(text).export("latex"))
        for command in COMMANDS.findall(whole.split(r"\begin{document}")[1])
    }


@settings(max_examples=25)
@example(" ".join(HOSTILE))
@given(texts)
def test_latex_runs_no_command_of_a_cards(text: str) -> None:
    assert commands(text) <= commands("words") | SIGNS | BREAKS | set(ESCAPED)
    for whole in (write(with_text(text), "latex"), with_text(text).export("latex")):
        body = whole.split(r"\begin{document}")[1]
        assert "^^" not in body and body.count(r"\end{document}") == 1
        assert all(map(is_formula, formulas(body.replace(r"\textbackslash{}", "/"))))


@settings(max_examples=40)
@given(texts)
def test_escaped_prose_reads_back(text: str) -> None:
    text = " ".join(text.split())
    assert unescape(prose(text)) == text


@pytest.mark.parametrize("text", [t for t in HOSTILE if t.count("`") in (0, 3)])
def test_a_hostile_card_reads_back(text: str) -> None:
    try:
        model = vt.read(write(with_text(text), "json"))
    except VieteError:  # what a page would show otherwise is refused when a card is read
        return
    for form in ("md", "latex", "json"):
        assert vt.read(write(model, form)) == model, form


# -- Markdown --------------------------------------------------------------------------------------


@settings(max_examples=25)
@example(" ".join(HOSTILE))
@given(texts)
def test_markdown_shows_no_html(text: str) -> None:
    try:
        model = vt.read(write(with_text(text), "json"))
    except VieteError:  # a formula that a page takes for HTML is refused when a card is read
        return
    page = MarkdownIt("commonmark", {"html": True}).enable("table")
    for whole in (write(model, "md"), write_architecture(model, "md", 2)):
        for token in page.parse(whole):
            for t in (token, *(token.children or ())):
                assert not t.type.startswith("html"), (t.content, text)


@pytest.mark.parametrize("formula", ["<b>", "a <b c> d", "</b>", "<?php", "<script x='1'/>"])
def test_a_formula_that_a_page_takes_for_html_is_refused(formula: str) -> None:
    for text in (f"# T\n\nIt is ${formula}$.\n", f"# T\n\n## Forward pass\n\n1. $y = {formula}$\n"):
        with pytest.raises(VieteError, match="takes this for HTML; in a formula put a space after"):
            vt.read(text)


@pytest.mark.parametrize("path", shipped())
def test_shipped_cards_hold_no_html(path: str) -> None:
    page = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = page.parse(write(vt.read(path), "md"))
    assert not any(t.type.startswith("html") for x in tokens for t in (x, *(x.children or ())))


@settings(max_examples=15)
@given(cards())
def test_random_cards_are_formulas_in_latex(card: Any) -> None:
    assert all(map(is_formula, formulas(write(card.model, "latex"))))
