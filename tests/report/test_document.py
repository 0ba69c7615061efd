"""The document tree: every format writes every kind of node, and escapes every text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings

from tests.laws.test_escaping import texts
from tests.report.test_pages import Tags
from viete.document.rendering import STYLES, render
from viete.document.tree import (
    Block,
    Chain,
    Chip,
    CodeBlock,
    Equations,
    Panel,
    Pipeline,
    TextTable,
    heading,
    item,
    paragraph,
    table,
)
from viete.errors import Text, VieteError

NODES: list[Block] = [
    heading(1, "Title"), paragraph("some *stressed* and **strong** words, `code` and $x$"),
    item("$f$", "meaning"), item("first", numbered=True), item("second", numbered=True),
    paragraph("between"), item("third", numbered=True), table(["head"], [["cell"], ["a | b"]]),
    TextTable([], [[Text("7"), Text("8")]], "caption"), CodeBlock("drawing"),
    Equations([("l", "r", "because")]), Pipeline([Chip("begin"), Chip("$y$", now=True)]),
    Chain("u", "v", "w", "0.5", "left out", "z"), Panel(1, "Step", [paragraph("inside")]),
]  # fmt: skip
WORDS = """Title some stressed strong words code meaning first second between third head cell
caption drawing because begin 0.5 out Step inside""".split()


@pytest.mark.parametrize("form", STYLES)
def test_every_format_writes_every_node(form: str) -> None:
    text = render(NODES, form)
    assert all(word in text for word in WORDS)
    assert "**" not in text or form == "md"
    assert "stressed*" not in text or form == "md"


def test_numbers_go_on_up_to_the_next_section() -> None:
    assert "\n3. third\n" in render(NODES, "md")
    assert "[resume]\n\\item third" in render(NODES, "latex")
    assert '<ol start="3"><li>third' in render(NODES, "html")
    assert "1.  third" in render([*NODES[:5], heading(2, "New"), NODES[6]], "text")


def test_a_format_that_there_is_not_is_refused() -> None:
    with pytest.raises(VieteError, match="text, md, latex, html or typst, not 'pdf'"):
        render(NODES, "pdf")


def everywhere(text: str) -> list[Block]:
    """A document with this text wherever a document has words."""
    cells = [[Text(text), Text("1")]]
    return [
        heading(1, text), paragraph(text), item(text), TextTable([Text(text), Text("n")], cells),
        TextTable([], cells, text), CodeBlock(text), Panel(1, text, [paragraph(text)]),
        Pipeline([Chip(text)]), Chain("x", "", "y", note=text),
    ]  # fmt: skip


@settings(max_examples=40)
@given(texts)
def test_a_page_has_no_tag_of_a_texts(text: str) -> None:
    tags = Tags(render(everywhere(text), "html"))
    assert not tags.open and not tags.seen & {"script", "img", "b", "iframe", "link"}


COMMANDS = {"set", "show", "align", "table", "strong", "emph", "raw", "text"}


@settings(max_examples=40)
@given(texts)
def test_typst_runs_no_command_of_a_texts(text: str) -> None:
    text = text.replace("$", "")  # formulas are Typst's own by then
    whole = re.sub(
        r'#raw\((block: true, )?"(?:[^"\\]|\\.)*"\)', "", render(everywhere(text), "typst")
    )
    assert set(re.findall(r"(?<!\\)(?:\\\\)*#(\w*)", whole)) <= COMMANDS


def test_titles_wrap_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    words = "Compare every query with every key and mask later positions"
    text = render(
        [heading(1, words), heading(2, words), Panel(13, words, [paragraph(words)])], "text"
    )
    lines = text.splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[:3] == [words[:38], words[39:], "═" * 38]
    assert f"13. {words[:34]}\n   {words[35:]}\n" in text
