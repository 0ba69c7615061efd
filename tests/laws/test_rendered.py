"""Law 10, cards: what a reader sees on a page that renders Markdown is what runs.

Random edits of a card's layout (comments, fences, raw HTML, headings, blank lines in tables, lines
joined and indented) are rendered by markdown-it, which follows CommonMark, with GitHub's tables.
What stands there as an equation or a table's row is what the model holds, in that order, or the
card is refused with its line.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import viete as vt
from tests.laws.programs import program
from viete.cards.reader import reads
from viete.cards.writer import write
from viete.document.commonmark import comment_at
from viete.errors import VieteError

CARD = """# Page

Words.

## Dimensions

| symbol | value |
| --- | --- |
| $d$ | 3 |
| $e$ | 4 |
| $N$ | 2 |

## Parameters

| symbol | shape |
| --- | --- |
| $a$ | $d$ |
| $b$ | $e$ |

## Forward pass

1. $u = 2 a$: twice
2. $v = 3 b$
   - Shape: (e)

For $i = 1, …, N$:

3. $w^i = i a$

### Part

4. $x = u + a$
5. $y = x +
   a$

## Derived

- $z = x + u$

## Claims

- $u = a + a$
"""
INSERTED = [
    "", "", "<!--", "-->", "<!-- $p = q$ -->", "<!-- a", "b -->", "```", "````", "~~~", "```text",
    "## Output", "### Output", "#### Output", "##Output", "# Output", "## Notes ##", "---", "===",
    "- - -", "<div>", "</div>", "<pre>", "</pre>", "<!DOCTYPE", "<br>", "Words.", "> words", "|",
    "| $e$ | 4 |", "| --- | --- |", "- $p = 2 a$", "1. $p = 2 a$", "$p = 2 a$", "> 1. $p = 2 a$",
    "    1. $p = 2 a$", "\t- $p = 2 a$", "   - $p = 2 a$", "7. `p = 2 a`",
    "We set $p = 2 a$.", "* * *", "1.", "-",
]  # fmt: skip
APPENDED = [
    " <!-- $p = q$ -->", " <!--", " -->", "  ", " and $p = 2 a$", ", $p = 2 a$", ": $p = 2 a$",
    " $p = 2 a$", " `", " ~~~", " ##", " |", ": words", " words", "\u2028- $p = 2 a$", "\r",
]  # fmt: skip
PREFIXED = [" ", "  ", "   ", "    ", "\t", "      ", "> ", "<!-- x -->", "<!-- x --> ", "- ", "~~"]


class Page(HTMLParser):
    """Text of a page under its headings of level 1 and 2, and the rows of its tables."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.sections: list[list[str]] = [["", ""]]
        self.rows: list[list[str]] = []
        self.inside: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.inside.append(tag)
        if tag in ("h1", "h2"):
            self.sections.append(["", ""])
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
        if tag == "code" and "pre" not in self.inside:
            self.sections[-1][1] += "$"  # formulas may also stand in backticks
        if tag in ("li", "p", "td", "tr"):
            self.sections[-1][1] += "\n"

    def handle_endtag(self, tag: str) -> None:
        if tag == "code" and "pre" not in self.inside:
            self.sections[-1][1] += "$"
        while tag in self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        heading = {"h1", "h2"} & set(self.inside)
        if "pre" in self.inside:
            return
        self.sections[-1][not heading] += data.replace("\n", " ")
        if "td" in self.inside:
            self.rows[-1][-1] += data


def equations_in(text: str) -> list[str]:
    """Formulas that say what something is; not a loop's range."""
    found = re.findall(r"\$([^$]*)\$", text)
    return ["".join(f.split()) for f in found if "=" in f and "…" not in f]


def seen(text: str) -> tuple[list[str], list[str]]:
    """The equations that a page of the card shows, and the symbols of its tables' rows.

    Outside the sections with equations a sentence may hold a formula, but no line be one; so may
    the words behind an equation's colon.
    """
    page = Page(MarkdownIt("commonmark").enable("table").render(text))
    equations = []
    for heading, body in page.sections:
        if heading.strip() == "Functions":  # which are no equations
            continue
        listed = heading.strip() in ("Forward pass", "Derived", "Claims")
        lines = (
            re.sub(r"(?m)(?<=\$)\s*: [a-z].*$", "", body).split("\n")
            if listed
            else re.findall(r"(?m)^[ >]*(?:\d+\. )?(\$[^$]*\$)", body)
        )
        equations += [e for line in lines for e in equations_in(line)]
    return equations, [row[0].strip("$ ") for row in page.rows if any(row)]


def held(model: vt.Card) -> tuple[list[str], list[str]]:
    """The same of what was read."""
    parts = [*model.equations, *model.derived, *model.claims]
    texts = ["".join(p.text.text.split()) for p in parts]
    return texts, [x.symbol.key for x in (*model.dims, *model.parameters)]


@st.composite
def layouts(draw: st.DrawFn, card: str = CARD) -> str:
    lines = card.split("\n")
    for _ in range(draw(st.integers(1, 3))):
        k = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from("insert append prefix join cut swap".split())):
            case "insert":
                lines.insert(k, draw(st.sampled_from(INSERTED)))
            case "append":
                lines[k] += draw(st.sampled_from(APPENDED))
            case "prefix":
                lines[k] = draw(st.sampled_from(PREFIXED)) + lines[k]
            case "join":
                lines[k : k + 2] = [" ".join(lines[k : k + 2])]
            case "cut":
                del lines[k]
            case "swap":
                lines.insert(k, lines.pop(draw(st.integers(0, len(lines) - 1))))
    return "\n".join(lines)


def test_the_card_itself() -> None:
    assert seen(CARD) == held(reads(CARD))


@pytest.mark.parametrize(
    "comment", ["\\begin{comment}\n{}\n\\end{comment}", "\\iffalse\n{}\n\\fi", "% {}"]
)
def test_a_comment_in_latex_is_ignored(comment: str) -> None:
    text = write(reads(CARD), "latex")
    first = "\\item $u"
    hidden = text.replace(first, comment.replace("{}", "\\item $p = 2 a$") + "\n" + first, 1)
    assert hidden != text and reads(hidden) == reads(text)


def test_comments_and_code_of_one_line() -> None:
    lines = ("a <!-- b", "`<!--` x", "`<!--` <!-- x", "``<!--` <!-- x", "`` ` `` <!--", "` <!-- x")
    assert [comment_at(line) for line in lines] == [2, -1, 7, 2, 8, 2]


@settings(max_examples=60)
@given(layouts())
@example(CARD.replace("4. $x", "<!-- 4. $x = u$ -->\n4. $x"))
def test_what_is_seen_is_what_runs(text: str) -> None:
    try:
        model = reads(text)
    except VieteError as error:
        assert error.where is not None or "no equations" in error.message
        return
    assert held(model) == seen(text)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.data())
def test_what_is_seen_of_a_random_program_is_what_runs(seed: int, data: st.DataObject) -> None:
    text = data.draw(layouts(program(seed, 1).text))
    try:
        model = reads(text)
    except VieteError as error:
        assert error.where is not None or "no equations" in error.message
        return
    assert held(model)[0] == seen(text)[0]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("### Part", "## Output", 32, "### Output"),
        ("| $d$ | 3 |\n", "| $d$ | 3 |\n\n", 11, "a blank line ends a table"),
    ],
)
def test_it_is_refused_where_it_stands(old: str, new: str, line: int, words: str) -> None:
    assert CARD.count(old) == 1
    with pytest.raises(VieteError) as refused:
        reads(CARD.replace(old, new))
    assert refused.value.where is not None and refused.value.where.line == line
    assert words in refused.value.message
