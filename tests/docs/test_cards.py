"""The gallery has every shipped card, in one group, with a page that is made from it."""

from __future__ import annotations

import shlex
from itertools import pairwise

import pytest

import viete as vt
from tests.docs.hooks import hook
from viete.cards.catalogue import named

gallery = hook("cards")


def test_it_lists_every_card_once() -> None:
    listing = gallery.listing("reference/cards.html")
    for name in named():
        assert listing.count(f'href="cards/{name}.html"') == 1, name
    assert all(f"## {title}\n" in listing for title in gallery.GROUPS)


@pytest.mark.parametrize("name", ["gpt2", "exact-lesson", "t5", "sae", "letters-causal"])
def test_a_page_has_a_picture_the_equations_and_the_sizes(name: str) -> None:
    card = vt.read(name)
    page = gallery.page(name, card)
    assert f"# {card.title}\n" in page and f"viete show {name} -f svg" in page
    assert all(f"\n{k}. $" in page for k in range(1, len(card.equations) + 1))
    assert f"{len(card.equations) + 1}. $" not in page
    assert "| symbol | value |" in page
    takes_tokens = all(x.low is not None for x in card.inputs)
    assert (f"```embed\nviete explore {name} " in page) is takes_tokens


def test_the_sizes_of_its_commands_are_the_cards() -> None:
    for name in named():
        card = vt.read(name)
        words = shlex.split(gallery.explore_command(name, card))
        sets = [b.split("=") for a, b in pairwise(words) if a == "--set"]
        assert card.bind(**{k: int(v) for k, v in sets}).parameter_shapes
