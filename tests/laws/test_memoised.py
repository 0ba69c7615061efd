"""What is made of a model is made once, and of an equal model anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import viete as vt
from viete.analysis.shapes import shapes_of
from viete.cards.catalogue import shipped
from viete.graph.card import CardData, memoised
from viete.graph.distinct import distinct
from viete.rewrite.adjoint.grad import grad, with_loss


def test_a_rewriting_is_done_once_for_a_model_and_its_arguments() -> None:
    done: list[object] = []

    @memoised
    def noted(model: CardData, *arguments: object, **options: object) -> int:
        done.append((arguments, options))
        return len(done)

    card = vt.read("simple-transformer")
    assert noted(card, 1) == noted(card, 1) == 1
    assert noted(card, 2) == 2 and noted(card, a=1) == 3 and noted(card, a=2) == 4
    assert noted(replace(card), 1) == 5 and noted(card.bind(d=8), 1) == 6
    assert done == [((1,), {}), ((2,), {}), ((), {"a": 1}), ((), {"a": 2}), ((1,), {}), ((1,), {})]
    assert card.grad() is card.grad() and card.grad() == replace(card).grad()


@pytest.mark.parametrize("first", [vt.Card, CardData])
def test_what_a_rewriting_makes_does_not_depend_on_which_noun_asked_first(
    first: type[CardData],
) -> None:
    @memoised
    def itself(card: CardData) -> CardData:
        return card

    made = replace(vt.read("simple-transformer"))
    asked = [first.of(made), *(kind.of(made) for kind in (vt.Card, CardData))]
    for rewriting in (itself, grad, lambda card: with_loss(card, None)[0], distinct):
        for card in asked:
            assert type(rewriting(card)) is type(card)
            assert rewriting(card) is type(card).of(rewriting(made))
    assert all(type(card.unstated) is CardData for card in asked)
    assert all(itself(card) is card for card in asked)


@pytest.mark.parametrize("first", [0, 1])
def test_two_nouns_of_one_content_share_what_is_found_out(first: int) -> None:
    made = replace(vt.read("simple-transformer"))
    nouns = made, CardData.of(made)
    assert nouns[first].scope is nouns[1 - first].scope
    assert shapes_of(nouns[first]) is shapes_of(nouns[1 - first])


def test_a_file_is_read_again_when_its_text_changes(tmp_path: Path) -> None:
    text, file = shipped()["simple-transformer"].read_text("utf-8"), tmp_path / "card.md"
    file.write_text(text, "utf-8")
    first = vt.read(file)
    assert vt.read(file) is first
    file.write_text(text.replace("| $V$ | 772", "| $V$ | 773"), "utf-8")
    assert vt.read(file) != first
    file.write_text(text, "utf-8")
    other = tmp_path / "other.md"
    other.write_text(text, "utf-8")
    assert vt.read(other) == first and vt.read(other).equations[0].text.file == str(other)
