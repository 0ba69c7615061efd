"""The checks of the built site, which run on it in `make docs`."""

from __future__ import annotations

from pathlib import Path

from tests.docs.hooks import hook

ROOT = Path(__file__).parents[2]


checks = hook("checks")


def test_dollars_are_found_in_text_alone() -> None:
    assert checks.dollars("<p>the pattern $A^{1,2}$ of <code>$x$</code></p>") == [
        "shows '$A^{1,2}$'"
    ]
    assert checks.dollars("<pre>$ viete\n$ run</pre><p>5 $ a day</p><math>$a$</math>") == []


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    other = tmp_path / "other.html"
    other.write_text('<h2 id="here">', "utf-8")
    page = '<a href="other.html#here"></a><a href="other.html#there"></a><img src="none.svg">'
    assert checks.dead_links(tmp_path / "page.html", page) == [
        "the link other.html#there leads to no place of that page",
        "the link none.svg leads to no file",
    ]
    assert checks.dead_links(other, '<a href="#here"></a><a href="https://viete.org/x"></a>') == []


def test_the_home_page_shows_equations_of_the_card() -> None:
    page = (ROOT / "docs/index.md").read_text("utf-8")
    card = iter((ROOT / "viete/cards/shipped/letters-attention.md").read_text("utf-8").split("\n"))
    shown = page.split("```markdown\n")[1].split("```")[0].splitlines()
    assert len(shown) > 10 and all(line in card for line in shown)
