"""A card keeps the numbers that are written into it: they are read back as the same weights."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.cards.reader import reads
from viete.cards.writer import write
from viete.errors import VieteError
from viete.evaluate.initial_weights import initial_weights, literal_fractions, weights_among
from viete.evaluate.written_weights import with_values
from viete.graph.card import CardData
from viete.report.article import write_article

SMALL = {"V": 3, "d": 2, "H": 2, "d_k": 2}


def same(card: CardData, weights: dict[str, np.ndarray]) -> bool:
    found = literal_fractions(card)
    return found.keys() == weights.keys() and all(
        np.array_equal(np.array(found[k], dtype=object), weights[k]) for k in weights
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["attention-only-1", "attention-only-2", "symbolic-transformer"])
def test_fractions_are_read_back(name: str, seed: int) -> None:
    """Also those of several blocks and heads, and a weight whose entries are all equal."""
    card = vt.read(name)
    card = card.bind(**{d.name: SMALL[d.name] for d in card.dims if d.name in SMALL})
    weights = weights_among(card, seed, "-1, 0, 1/3")
    first = next(iter(weights))
    weights[first] = np.full(weights[first].shape, Fraction(-2, 7), dtype=object)
    assert same(reads(write(with_values(card, weights), "md")), weights)


def test_floats_are_read_back_as_the_same_floats() -> None:
    card = vt.read("attention-only-1").bind(**SMALL)
    weights = initial_weights(card, 5)
    found = literal_fractions(reads(write(with_values(card, weights), "md")))
    for name, array in weights.items():
        assert np.array_equal(np.array(found[name], dtype=float), array)


def test_a_value_keeps_its_spelling() -> None:
    card = vt.read("letters-attention")
    assert with_values(card, literal_fractions(card)) == card


def test_a_card_with_too_many_numbers() -> None:
    card = vt.read("attention-only-1").bind(V=500, d=64, H=1, d_k=2)
    with pytest.raises(VieteError, match="64,512 numbers are too many to write into a card"):
        with_values(card, initial_weights(card, 0))


def test_the_command_writes_the_numbers_that_a_lesson_has(tmp_path: Path) -> None:
    """A handout and a lesson of the written card have the weights that the options draw."""
    sizes = [x for name, n in SMALL.items() for x in ("--set", f"{name}={n}")]
    drawn = ["attention-only-1", *sizes, "--seed", "2", "--among=-1, 0, 1/2"]
    viete("show", *drawn, "-o", tmp_path / "mine.md")
    text = ["lesson", "-t", "1,2", "--position", "1"]
    own = viete(*text, tmp_path / "mine.md").out
    said = "The weights are random (seed 2): each is one of the numbers -1, 0, 1/2.\n\n"
    assert viete(*text, *drawn).out.replace(said, "") == own
    article = viete("export", *drawn, "--to", "latex").out
    assert article == viete("export", tmp_path / "mine.md", "--to", "latex").out


@pytest.mark.parametrize(
    "style, name", [("latex", "W_K^{2,1} ="), ("typst", "display(W_K^(2,1) =)")]
)
def test_a_handout_names_the_block_and_the_head_of_a_matrix(style: str, name: str) -> None:
    text = write_article(vt.read("letters-induction"), style)
    (row,) = [x for x in text.split("\n") if name in x]
    parts = row.split(name)[1][:40]
    assert ("pmatrix" if style == "latex" else "mat(") in parts


def test_a_formula_of_no_names_of_the_card_is_no_code_in_typst() -> None:
    text = write_article(vt.read("letters-attention"), "typst")
    assert "is #emph[(1, e, 1) \\/ (2 \\+ e)], and b is predicted because #emph[e \\> 2]" in text
