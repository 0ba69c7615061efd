"""What is made of a model is made once, and of an equal model anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import viete as vt
from viete.cards.catalogue import shipped
from viete.graph.card import CardData, memoised


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
