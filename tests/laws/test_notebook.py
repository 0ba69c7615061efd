"""What a notebook shows of every noun: well-formed, escaped, short, and without a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt

import viete as vt
from tests.laws.strategies import cards, shipped
from tests.laws.test_escaping import HOSTILE, texts, with_text
from viete.document.displayed import Displayed
from viete.document.notebook import BLOCKS, CHARACTERS, ROWS, html_part, in_short, style
from viete.document.tex import is_formula
from viete.document.tree import Block, heading, paragraph, table

SCRIPT = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
TOKENS = [3, 1, 4, 1, 5]
HARMLESS = set("div span style p h3 h4 h5 h6 ul ol li table thead tbody tr th td figure figcaption "
               "code pre strong em".split())  # fmt: skip
MATHML = set("math mrow mi mn mo ms mtext mspace msub msup msubsup munder mover munderover mfrac "
             "msqrt mroot mtable mtr mtd mstyle mpadded".split())  # fmt: skip
MOST = 100_000  # characters of an output


def small(**words: Any) -> vt.Card:
    card = vt.read("gpt2").bind(V=11, d=8, N=2, H=2, d_f=8, n_max=16)
    return replace(card, **words)


def model(**words: Any) -> vt.Model:
    return small(**words).with_weights(seed=1)


NOUNS: dict[str, Callable[..., Any]] = {
    "a card": small,
    "a backward pass": lambda **w: small(**w).grad(),
    "a model": model,
    "a run": lambda **w: model(**w).run(TOKENS),
    "an answer": lambda **w: model(**w).run(TOKENS).answer("A^{1,h}"),
    "a number": lambda **w: model(**w).run(TOKENS).answer("logits_{-1,5}"),
    "the greatest": lambda **w: model(**w).run(TOKENS).answer("top_3(logits)"),
    "an expansion": lambda **w: model(**w).run(TOKENS).expand("logits_{-1,5}", "block, source"),
    "sums": lambda **w: model(**w).run(TOKENS).expand("x^2_{-1}", cumulative=True),
    "an attribution": lambda **w: model(**w).run(TOKENS).attribute("logits_{-1,5}", "A^{i,h}"),
    "claims": lambda **w: model(**w).check("A^{1,1}_{2,1} ≥ 0", "x^1 = 0", tokens=TOKENS),
    "a comparison": lambda **w: model(**w).check(),
    "costs": lambda **w: small(**w).cost,
    "names": lambda **w: model(**w).lens.names,
}
PICTURES: dict[str, Callable[..., Any]] = {
    "a data flow": lambda **w: small(**w).draw(),
    "its equations": lambda **w: small(**w).draw("equations"),
    "a heat map": lambda **w: model(**w).run(TOKENS).draw("A^{1,h}"),
}


class Tags(HTMLParser):
    """The elements and attributes of a part of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.words = set[str](), set[str](), ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


def check_html(text: str) -> Tags:
    found = Tags(text)
    assert found.tags <= HARMLESS | MATHML, found.tags
    assert not [a for a in found.attributes if a.startswith("on") or a in ("id", "href", "src")]
    assert text.startswith('<div class="viete"><style>') and len(text) <= MOST
    ElementTree.fromstring(re.sub("<style>.*?</style>", "", text, count=1, flags=re.S))
    return found


@pytest.mark.parametrize("noun", NOUNS)
def test_a_notebook_shows_it(noun: str) -> None:
    x = NOUNS[noun]()
    assert isinstance(x, Displayed)
    check_html(x._repr_html_())
    latex = x._repr_latex_()
    assert "documentclass" not in latex and latex.count(r"\begin{") == latex.count(r"\end{")


@pytest.mark.parametrize("noun", NOUNS)
def test_whatever_stands_in_a_card_is_escaped(noun: str) -> None:
    """Its title, its prose and its words of tokens: one of them is in most of what is shown."""
    vocabulary = tuple(f"{SCRIPT}{k}" for k in range(11))
    x = NOUNS[noun](title=SCRIPT, about=(SCRIPT,), vocabulary=vocabulary)
    found = check_html(x._repr_html_())
    assert noun in ("an attribution", "sums", "a number") or "alert(1)" in found.words
    page = MarkdownIt("commonmark", {"html": True}).enable("table")
    for token in page.parse(x._repr_markdown_()):
        assert not any(t.type.startswith("html") for t in (token, *(token.children or ())))


@pytest.mark.parametrize("picture", PICTURES)
def test_pictures_are_drawings_without_scripts(picture: str) -> None:
    vocabulary = tuple(f"{SCRIPT}{k}" for k in range(11))
    svg = PICTURES[picture](title=SCRIPT, vocabulary=vocabulary)._repr_svg_()
    tags = {e.tag.split("}")[-1] for e in ElementTree.fromstring(svg).iter()}
    assert tags <= set(
        "svg g rect text tspan path line title polygon polyline circle style".split()
    )
    assert len(svg) <= MOST


@settings(max_examples=20)
@given(texts)
def test_any_text_of_a_card(text: str) -> None:
    check_html(with_text(text)._repr_html_())
    check_html(with_text(" ".join(HOSTILE))._repr_html_())


@settings(max_examples=3)
@given(cards())
def test_random_cards(card: Any) -> None:
    check_html(vt.Card.of(card.model)._repr_html_())


@pytest.mark.parametrize("path", shipped()[::4])
def test_shipped_cards(path: str) -> None:
    card = vt.read(path)
    check_html(card._repr_html_())
    assert all(map(is_formula, re.findall(r"(?<!\\)\$([^$]*)\$", card._repr_latex_())))


def test_large_answers_are_short() -> None:
    """A thousand positions, 4096 heads, 100,000 terms: the ends are shown, and what is left out."""
    from viete.evaluate.answers import Answer

    labels = (list(map(str, range(64))), [SCRIPT * 9] * 700, [SCRIPT * 9] * 700)
    shown = Answer("A^{i,h}", np.zeros((64, 700, 700)), ("h", "n", "n"), labels)._repr_html_()
    assert "56 more" in check_html(shown).words
    run = vt.read("gpt2").bind(V=11, d=8, N=2, H=2, d_f=8, n_max=64).with_weights(seed=1)
    e = run.run([k % 11 for k in range(64)]).expand("logits_{-1,5}", "head, source")
    assert len(e.terms) > 200 and "more)" in check_html(e._repr_html_()).words


def test_what_is_left_out_is_counted() -> None:
    rows = [[str(k), "b"] for k in range(1000)]
    long: list[Block] = [heading(1, "T" * 9999), table(["a", "c"], rows)]
    long += [paragraph("$x$" * CHARACTERS)] * 999
    found = in_short(long)
    text = html_part(found)
    assert len(found) == BLOCKS + 1 and text.count("<tr>") == ROWS + 1
    assert "… (961 more)" in text and "… (761 more)" in text and "<math" not in text


def test_the_style_is_of_what_is_ours_alone() -> None:
    """Every rule stands below our own class; none begins with an element of the page."""
    assert style().startswith(".viete.viete {") and style().count("{") == style().count("}")
    assert not re.search(r"(^|[}\s,])(:root|html|body|main)\s*[{,]", style())
    depth, outside = 0, ""
    for c in style():
        depth += (c == "{") - (c == "}")
        outside += c if depth == 0 else ""
    assert outside.strip() == ".viete.viete }"
