"""pdfLaTeX takes every LaTeX document that is written of a shipped card. `make tex` runs these."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command_line import viete
from tests.docs.test_shown import blocks
from viete.cards.catalogue import shipped

pytestmark = pytest.mark.tex

CARDS = sorted(shipped())
PDFLATEX = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
LOSSES = {"bert": "<pooled, pooled>", "roberta": "<pooled, pooled>"}


def compiles(file: Path) -> None:
    """pdfLaTeX writes a page, and says nothing of a character or a reference that it lacks."""
    assert shutil.which("pdflatex"), "install pdfLaTeX: apt-get install texlive-latex-extra"
    made = subprocess.run([*PDFLATEX, file.name], cwd=file.parent, capture_output=True)
    log = made.stdout.decode("utf-8", "replace")
    wrong = [x for x in log.splitlines() if x.startswith("!") or "Missing character" in x]
    assert made.returncode == 0 and not wrong, log[-1500:]
    assert file.with_suffix(".pdf").stat().st_size > 1000


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("command", ["show", "doc"])
def test_a_card_and_its_document(command: str, card: str, tmp_path: Path) -> None:
    viete(command, card, "-f", "latex", "-o", tmp_path / "page.tex")
    compiles(tmp_path / "page.tex")


@pytest.mark.parametrize("card", CARDS)
def test_its_derivative(card: str, tmp_path: Path) -> None:
    model_inputs = ["--of", LOSSES[card]] if card in LOSSES else of(card)
    viete("grad", card, *model_inputs, "-o", tmp_path / "page.tex")
    compiles(tmp_path / "page.tex")


def of(card: str) -> list[str]:
    """The option that names a loss, for a card which has none."""
    import viete as vt

    model = vt.read(card)
    if any(e.name == "L" for e in model.equations):
        return []
    whole = next(i.name for i in reversed(model.inputs) if i.high is not None)
    target = "t" if any(i.name == "t" for i in model.inputs) else whole
    return ["--of", f"cross_entropy(logits; {target})"]


@pytest.mark.parametrize("card", CARDS)
def test_an_export(card: str, tmp_path: Path) -> None:
    """The exported article is a part of the paper that the guide shows."""
    viete("export", card, "--to", "latex", "-o", tmp_path / "model.tex")
    paper = next(b.text for b in blocks("guides/export.md") if b.file == "paper.tex")
    (tmp_path / "page.tex").write_text(paper, "utf-8")
    compiles(tmp_path / "page.tex")


LESSONS = {
    "exact-lesson": ["-t", "a b"],
    "symbolic-transformer": ["-t", "1,2", "--seed", "3", "--set", "V=3", "--set", "d=2"],
    "simple-transformer": ["-t", "1,2", "--seed", "3", "--input", "y=2,1", "--set", "V=3",
                           "--set", "d=4", "--set", "d_h=2", "--set", "H=2"],
    "attention-only-1": ["-t", "1,2", "--seed", "3", "--set", "V=3", "--set", "d=2", "--set",
                         "H=1", "--set", "d_k=2"],
}  # fmt: skip


@pytest.mark.parametrize("card", LESSONS)
def test_a_lesson(card: str, tmp_path: Path) -> None:
    viete("lesson", card, *LESSONS[card], "-o", tmp_path / "lesson.tex")
    compiles(tmp_path / "lesson.tex")


LADDER = {
    "letters-table": ["-t", "a b a"],
    "letters-vectors": ["-t", "a b a"],
    "letters-attention": ["-t", "a b a"],
    "letters-causal": ["-t", "a b a"],
    "letters-block": ["-t", "c a b"],
    "letters-induction": ["-t", "a b c a"],
    "letters-learned": ["-t", "a b a", "--seed", "1", "--among=-1,0,1"],
    "exact-lesson": ["-t", "a b"],
}  # fmt: skip
TOO_WIDE = re.compile(r"Overfull \\hbox \((?:[5-9]|\d{2,})[.\d]*pt")


@pytest.mark.parametrize("card", LADDER)
def test_nothing_of_the_ladder_is_wider_than_the_page(card: str, tmp_path: Path) -> None:
    """Lesson, worksheet, key, card, document and handout: no line is 5 points too wide."""
    for name, *given in (
        ("lesson", "lesson", card, *LADDER[card]),
        ("sheet", "lesson", card, *LADDER[card], "--exercise"),
        ("card", "show", card),
        ("doc", "doc", card),
        ("handout", "export", card, "--to", "latex"),
    ):
        viete(*given, "-o", tmp_path / f"{name}.tex")
    for file in sorted(tmp_path.glob("*.tex")):
        compiles(file)
        wide = TOO_WIDE.findall(file.with_suffix(".log").read_text("utf-8", "replace"))
        assert not wide, (file.name, wide)
