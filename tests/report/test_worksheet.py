"""A worksheet asks for numbers of a lesson, and its key has exactly those."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from tests.report.test_lesson import of, small
from viete.cli.app import command
from viete.document.rendering import STYLES
from viete.document.tree import Chain
from viete.errors import VieteError
from viete.evaluate.initial_weights import literal_fractions, weights_among
from viete.evaluate.schedule import program
from viete.report.lesson.document import Lesson, write_lesson
from viete.report.lesson.formulas import NumberFormulas
from viete.report.lesson.making import lesson, run_to_the_end
from viete.report.lesson.worksheet import NARROW, ROOM, Worksheet, worksheet

CARDS = ["exact-lesson", "dialog-all", "attention-only-2"]


def questions(found: Worksheet) -> dict[int, Chain]:
    """The lines with fields, by their numbers."""
    return {x.number: x for s in found.sheet.steps for c in s.sides for x in c.lines if x.blanks}


def answers(found: Worksheet) -> dict[int, Chain]:
    return {x.number: x for x in found.key if isinstance(x, Chain) and x.number}


@pytest.mark.parametrize("name", CARDS)
def test_the_key_has_the_numbers_of_the_lesson(name: str) -> None:
    """Every question has its answer, which is the lesson's own line at the last position."""
    told = of(name, [1, 0])
    found = worksheet(told)
    asked, known = questions(found), answers(found)
    assert [*asked] == [*known] == [*range(1, len(asked) + 1)] and len(asked) > 5
    lines = [x for s in told.steps[1:] for c in s.sides if c.place == 1 for x in c.lines if x.name]
    for (number, line), own in zip(known.items(), lines, strict=True):
        assert (line.name, line.sides, line.digits) == (own.name, own.sides, own.digits)
        assert line.value + line.digits
        blank = asked[number]
        assert (blank.name, blank.value, blank.digits, blank.put_in) == (line.name, "", "", "")


def test_the_answers_are_the_values_of_the_run() -> None:
    card, weights = small("exact-lesson")
    run, _ = run_to_the_end(card, {"t": np.array([0, 1])}, weights)
    known = {x.name: x for x in answers(worksheet(of("exact-lesson", [0, 1]))).values()}
    write = NumberFormulas("unicode", 6)
    for value in ("x", "Q", "S", "A", "r", "u", "m", "s", "z", "logits"):
        row = list(run.store[value, ()].array[1])
        assert known[f"{value}₁"].value == write.value(row, False)[0]


def test_a_sheet_does_not_tell_its_answers() -> None:
    """Neither the register, nor the summaries, nor the example that reads what is asked."""
    told = of("exact-lesson", [0, 1])
    text = write_lesson(worksheet(told).sheet, "text")
    assert "27%" not in text and "predicts a" not in text and "1 / (1 + e)" not in text
    assert "K₀ = x₀ W^K = x₀ = (1, 0)" in text and "1·1 + 0·1" not in text
    whole = write_lesson(told, "text")
    assert "1·1 + 0·1" in whole and "1 / (1 + e)" in whole


def test_the_values_to_ask_for_are_named() -> None:
    found = worksheet(of("exact-lesson", [0, 1]), ["Q", "A"])
    assert {x.name for x in questions(found).values()} == {"Q₁", "exp(S₁)", "sum(exp(S₁))", "A₁"}
    assert "S₁ = causal(w)₁ = (1, 2)" in write_lesson(found.sheet, "text")
    with pytest.raises(VieteError, match="no step makes B; the steps make x, Q, K"):
        worksheet(of("exact-lesson", [0, 1]), ["B"])


def test_a_name_may_say_the_block_and_the_head() -> None:
    told = of("attention-only-2", [1, 0])

    def asked(name: str) -> str:
        return " ".join(x.name for x in questions(worksheet(told, [name])).values())

    both = "Q₁^{1,1} Q₁^{1,2}"
    assert [asked(x) for x in ("Q^1", "Q^{1,h}", "Q^{1,1}", "Q^{i,2}")] == [
        both,
        both,
        *both.split(),
    ]
    for name, why in (
        ("Q^{1,3}", r"no step makes Q\^\{1,3\}; the steps make .*Q\^\{i,h\}.* \(for .*h = 1, 2"),
        ("Q_0", "Q_0 is one row of Q; write --blank Q, and --position for the position"),
    ):
        with pytest.raises(VieteError, match=why):
            asked(name)


def sheets(style: str) -> list[tuple[Lesson, Worksheet]]:
    told = [of("exact-lesson", [0, 1], style=style), of("dialog-all", [1, 0], style=style)]
    return [(x, worksheet(x)) for x in told]


@pytest.mark.parametrize("form", STYLES)
def test_every_format_has_fields(form: str) -> None:
    marks = {"html": "<input", "typst": "#box(width", "text": "________", "md": r"\underline{\qq",
             "latex": r"\underline{\qq"}  # fmt: skip
    for told, found in sheets(STYLES[form]):
        sheet, key = found.write(form)
        count = sum(len(x.blanks) for x in questions(found).values())
        assert len(re.findall(re.escape(marks[form]) + "_*", sheet)) == count
        assert marks[form] not in key and found.write_both(form).count(marks[form]) >= count
        assert marks[form] not in write_lesson(told, form)


def test_the_last_question_fits_scores_that_are_equal() -> None:
    card = vt.read("letters-attention")
    told = lesson(card, [0, 1], literal_fractions(card) | {"W_U": np.ones((2, 2), dtype=int)})
    assert "have exactly the same score" in told.predicted[0]
    (question,) = worksheet(told).sheet.closing
    assert "is one of them greater, and why?" in question


def block(style: str) -> Lesson:
    """The lesson of letters-block with its own numbers."""
    card = vt.read("letters-block")
    return lesson(card, [0, 1], literal_fractions(card), style=style)


def test_a_row_of_fields_stands_on_one_line() -> None:
    """However many fields it has, they fit a line of paper, and neither writer breaks them."""
    told = block("latex")
    rows = [x.blanks for x in questions(worksheet(told)).values() if x.row]
    assert {len(r) for r in rows} >= {2, 3, 6}, rows
    assert all(sum(r) <= ROOM for r in rows)
    assert all(min(r) >= NARROW for r in rows)
    latex, _ = worksheet(told).write("latex")
    assert latex.count(r"{(\underline") == len(rows)
    typst, _ = worksheet(block("typst")).write("typst")
    assert typst.count('"("#box(width') == len(rows)


def test_each_matrix_of_a_sheet_has_a_line() -> None:
    sheet, _ = worksheet(block("latex")).write("latex")
    items = [x for x in sheet.split("\n") if x.startswith(r"\item") and "pmatrix" in x]
    assert len(items) == 10 and all(x.count(r"\begin{pmatrix}") == 1 for x in items)


def test_typst_takes_lessons_and_worksheets() -> None:
    typst = pytest.importorskip("typst")
    for told, found in sheets("typst"):
        for text in (write_lesson(told, "typst"), found.write_both("typst")):
            assert typst.compile(text.encode()).startswith(b"%PDF")


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    made = viete("lesson", "exact-lesson", "-t", "a b", "--exercise", "-o", tmp_path / "s.html")
    assert "s.html (the worksheet)" in made.err and "s-key.html (its key)" in made.err
    assert "<input" in (tmp_path / "s.html").read_text("utf-8")
    assert "a₁" not in (tmp_path / "s-key.html").read_text("utf-8")
    printed = viete("lesson", "exact-lesson", "-t", "a b", "--blank", "Q").out
    assert "Q₁ = x₁ W^Q = x₁ = (________, ________)" in printed and "\nKey\n" in printed
    with pytest.raises(VieteError, match=r"give -o NAME\.pdf"):
        command()(["lesson", "exact-lesson", "-t", "a b", "-f", "pdf"], standalone_mode=False)


def test_a_sheet_is_not_written_without_its_key(tmp_path: Path) -> None:
    (tmp_path / "s-key.html").mkdir()
    sheet = tmp_path / "s.html"
    ended = viete("lesson", "letters-table", "-t", "a", "--exercise", "-o", sheet, code=2)
    assert ended.err.endswith("s-key.html: cannot be written (Is a directory); it is unchanged\n")
    assert [x.name for x in tmp_path.iterdir()] == ["s-key.html"]


# -- random weights among given numbers -----------------------------------------------------------


@pytest.mark.parametrize("name", ["dialog-all", "exact-lesson", "symbolic-transformer"])
def test_random_weights_are_among_the_numbers(name: str) -> None:
    card = vt.read(name).bind(**({} if name == "exact-lesson" else {"V": 5}))
    found = weights_among(card, 3, "-1, 0, 1/3")
    assert found.keys() == card.parameter_shapes.keys()
    own = literal_fractions(card)
    for key, (p, _, shape) in program(card).parameters.items():
        values = set(found[key].flat)
        if p.value:
            assert np.array_equal(found[key], np.broadcast_to(own[key], shape))
        elif p.init in ("0", "1"):
            assert values == {Fraction(p.init)}
        else:
            assert values <= {-1, 0, Fraction(1, 3)}
    again = weights_among(card, 3, "-1 0 1/3")
    assert all(np.array_equal(found[k], again[k]) for k in found)


def test_bad_numbers_are_one_sentence() -> None:
    small_card = ["run", "symbolic-transformer", "-t", "1", "--set", "V=3", "--set", "d=2"]
    for more, why in (
        (["--among", "-1,0"], "give --seed too"),
        (["--seed", "1", "--among", " "], "numbers to draw from"),
        (["--seed", "1", "--among", "1/0"], "'1/0' is not a number"),
        (["--seed", "1", "--among", "a"], "--among: 'a' is not a number"),
    ):
        with pytest.raises(VieteError, match=why):
            command()([*small_card, *more], standalone_mode=False)
