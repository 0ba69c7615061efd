"""A page that several cards share: a row or an item that links to it stands for its section."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from viete.cards.catalogue import shipped
from viete.cards.reader import read, reads
from viete.cards.writer import write
from viete.errors import VieteError

CARD = """# Card

## Dimensions

| symbol | value |
| --- | --- |
| $e$ | 4 |
| [sizes](shared/page.md) | |
| $f$ | $d + 1$ |

## Parameters

| symbol | shape | meaning |
| --- | --- | --- |
| [weights](shared/page.md) | | |

## Functions

- [functions](shared/page.md)

## Forward pass

1. $y = g(W)$
- [the rest](shared/page.md)

## Claims

- [what holds](shared/page.md)
"""
PAGE = """# Page

Prose that no card includes.

## Dimensions

| symbol | meaning | value |
| --- | --- | --- |
| $d$ | width | 3 |

## Parameters

| symbol | shape |
| --- | --- |
| $W$ | $d × f$ |

## Functions

- $g(x: n × m) = 2 x$: twice

## Forward pass

### Part

1. $z = y + W$: more

## Claims

- $z = y + W$
"""


@pytest.fixture
def card(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "page.md").write_text(PAGE, "utf-8")
    (tmp_path / "card.md").write_text(CARD, "utf-8")
    return tmp_path / "card.md"


def inlined(text: str, page: str) -> str:
    """The card with the page's lines where its links stand."""
    parts = re.split(r"^## (.+)\n", page, flags=re.M)
    lines = {name: [x for x in body.splitlines() if x.strip()]
             for name, body in zip(parts[1::2], parts[2::2], strict=True)}  # fmt: skip
    out, section = [], ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        if "](shared/" not in line:
            out.append(line)
        elif line.startswith("|"):
            out += ["", *lines[section], ""]
        else:
            out += lines[section]
    return "\n".join(out) + "\n"


def test_a_card_is_as_if_the_page_stood_in_it(card: Path) -> None:
    model = read(card)
    text = CARD.replace("| $f$", "\n| symbol | value |\n| --- | --- |\n| $f$")
    assert model == reads(inlined(text, PAGE))
    assert [d.name for d in model.dims] == ["e", "d", "f"]
    assert [e.part for e in model.equations] == ["", "Part"] and model.about == ()
    assert "shared" not in write(model, "md") and reads(write(model, "md")) == model
    assert model.equations[1].text.file == str(card.parent / "shared" / "page.md")
    assert model.equations[1].text.line == 25


def refusal(card: Path) -> str:
    with pytest.raises(VieteError) as caught:
        read(card)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("z = y + W$: more", "z = y + q$: more", "shared/page.md:25:13", "unknown symbol q"),
        ("d × f", "d × × f", "shared/page.md:15:10", "at most two sizes"),
        ("## Functions", "## Function words", "card.md:19:3", "page.md has no section Functions"),
        ("| $d$ | width | 3 |", "| $d$ | width |", "shared/page.md:9:3", "2 of the table"),
        ("| $d$ | width | 3 |", "| [more](other.md) | | |", "shared/page.md:9:3", "no page other"),
        ("# Page\n", "# Page\n\n$a = b$\n", "shared/page.md:3", "would not be read"),
        ("1. $z", "1. $z<a\n   b> ", "shared/page.md", ""),
        ("# Page\n", "# Page\n\n\u202e\n", "shared/page.md:3:1", "U+202E does not show"),
    ],
)  # fmt: skip
def test_errors_point_into_the_page(card: Path, old: str, new: str, where: str, what: str) -> None:
    assert old in PAGE
    (card.parent / "shared" / "page.md").write_text(PAGE.replace(old, new), "utf-8")
    message = refusal(card)
    assert message.startswith(str(card.parent / where)) and what in message, message


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("(shared/page.md) | |\n", "(shared/page.md) | 3 |\n", "8:29: a row that is a link"),
        ("[sizes](shared/page.md)", "[sizes](shared/none.md)", "8:3: there is no page shared/none"),
        ("[sizes](shared/page.md)", "[sizes](../x/page.md)", "8:3: there is no page ../x/page.md"),
        ("[sizes](shared/page.md)", "[sizes](/shared/page.md)", "8:3: there is no page /shared"),
        ("[sizes](shared/page.md)", "[a](shared/page.md) b", "8:"),
    ],
)
def test_errors_point_at_the_link(card: Path, old: str, new: str, what: str) -> None:
    card.write_text(CARD.replace(old, new), "utf-8")
    assert refusal(card).startswith(f"{card}:{what}")


def test_a_text_has_no_pages() -> None:
    with pytest.raises(VieteError, match=r"<card>:8:3: there is no page shared/page.md in the"):
        reads(CARD)


def test_a_card_is_read_again_when_its_page_changes(card: Path) -> None:
    first = read(card)
    assert read(card) is first
    (card.parent / "shared" / "page.md").write_text(PAGE.replace("2 x", "3 x"), "utf-8")
    assert read(card) != first


def test_every_shipped_page_is_shared() -> None:
    """By two cards at least, so that what is said once is not said elsewhere."""
    pages = {p: 0 for p in (next(iter(shipped().values())).parent / "shared").glob("*.md")}
    rows = {p: {x for x in p.read_text("utf-8").splitlines() if x.startswith("| ") and "$" in x}
            for p in pages}  # fmt: skip
    for path in shipped().values():
        text = path.read_text("utf-8")
        for page in pages:
            if f"(shared/{page.name})" in text:
                pages[page] += 1
                assert not rows[page] & set(text.splitlines()), f"{path.name} repeats {page.name}"
    assert len(pages) == 12 and min(pages.values()) > 1, pages
