"""Cards and architecture documents as pages of HTML; a card from standard input."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.command_line import viete
from viete.cards.reader import reads
from viete.document.rendering import PAGES
from viete.report.architecture import write_architecture
from viete.report.article import write_article

HOSTILE = """# A <b>title</b>

Words with <script>alert(1)</script> and `a <i>` and **bold &amp; bolder**.

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $d$ | 3 | a <img src=x onerror=alert(1)> |

## Parameters

| symbol | shape |
| --- | --- |
| $a$ | $d$ |

## Forward pass

1. $u = 2 a$: twice
2. $w = u + a$
"""


class Tags(HTMLParser):
    """Every tag of a page; none may be left open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("command", ["show", "doc"])
def test_a_page(command: str, tmp_path: Path) -> None:
    (tmp_path / "card.md").write_text(HOSTILE, "utf-8")
    viete(command, tmp_path / "card.md", "-o", tmp_path / "card.html")
    page = (tmp_path / "card.html").read_text("utf-8")
    tags = Tags(page)
    assert not tags.open and not tags.seen & {"script", "img", "b", "i"}
    assert "<math" in page and "&lt;script&gt;" in page and "http" not in page.partition("<svg")[0]
    if command == "show":
        assert page.count('<div class="formula">') == page.count('<span class="meaning">') - 1 == 2
    else:
        start, end = page.index("<svg"), page.index("</svg>") + 6
        ElementTree.fromstring(page[start:end])


def test_the_suffix_says_the_format(tmp_path: Path) -> None:
    for suffix, start in ((".md", "# Gem"), (".json", "{"), (".svg", "<svg"), (".txt", "Gem")):
        viete("show", "gemma", "-o", tmp_path / f"card{suffix}")
        assert (tmp_path / f"card{suffix}").read_text("utf-8").lstrip().startswith(start)


def test_a_card_on_standard_input() -> None:
    assert viete("show", "-", stdin=HOSTILE).out.startswith("A <b>title</b>\n")
    refused = viete("show", "-", stdin=HOSTILE.replace("2 a$", "2 z$"), code=2)
    assert "<stdin>:19:11: unknown symbol z" in refused.err


def test_a_cards_own_words_for_its_names_stay() -> None:
    """Its section Notation stands in every document that is made of it."""
    glossary = "## Notation\n\n- $a$: what is added\n\n## Dimensions"
    card = reads(HOSTILE.replace("## Dimensions", glossary, 1))
    for form in PAGES:
        assert "what is added" in write_architecture(card, form), form
    for form in ("latex", "typst"):
        assert "what is added" in write_article(card, form), form


@pytest.mark.parametrize("meaning", ["float", "exact"])
def test_values_of_a_run_are_written_in_the_format_of_the_file(
    tmp_path: Path, meaning: str
) -> None:
    run = ["run", "letters-attention", "-t", "a b a", "--all", "--meaning", meaning]
    begins = {"html": "<!doctype html>", "tex": r"\documentclass", "md": "", "txt": ""}
    for suffix, begin in begins.items():
        file = tmp_path / f"all.{suffix}"
        assert viete(*run, "-o", file).err == f"written: {file}\n"
        text = file.read_text("utf-8")
        assert text.startswith(begin) and "logits" in text
    assert (tmp_path / "all.md").read_text("utf-8") != (tmp_path / "all.txt").read_text("utf-8")
