"""The three dialogs are learned: by the tour's settings, and by every dialog card."""

from __future__ import annotations

import shlex
from contextlib import chdir
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.command_line import viete
from viete.cards.catalogue import shipped
from viete.cli import tour
from viete.cli.app import command
from viete.text.data import SHIPPED
from viete.text.dialogs import Dialog, read_dialogs

DIALOGS = list(read_dialogs(SHIPPED / "dialogs.txt"))
BY_ENTRIES = ("--clip", "0", "--clip-entries", "5")
BY_LENGTH = ("--clip", "1")


def answer(run: Path, dialog: Dialog) -> str:
    return viete("sample", run, "--greedy", "--stop", "<eot>", "--text", dialog.prompt).out.rstrip()


def answers(run: Path, card: str, *settings: object) -> list[str]:
    viete("train", card, "--data", "dialogs", "-o", run, "--lr", 0.01, *settings)
    return [answer(run, dialog) for dialog in DIALOGS]


EXACT = ["hello!</assistant><eot>", "4</assistant><eot>", "blue</assistant><eot>"]


@pytest.mark.slow
@pytest.mark.parametrize("clipping", [BY_ENTRIES, BY_LENGTH], ids=["entries", "length"])
def test_the_answers_are_exact(tmp_path: Path, clipping: tuple[str, ...]) -> None:
    assert answers(tmp_path, "dialog-transformer", "--steps", 400, *clipping) == EXACT


# Two layers without residuals: the second reads what the first makes, and early steps are chaotic.
DEEP = ("--steps", 600, "--warmup", 100, "--schedule", "cosine", "--eps", 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("card", [name for name in shipped() if name.startswith("dialog-")])
def test_so_are_those_of_every_dialog_card(tmp_path: Path, card: str) -> None:
    how = DEEP if card == "dialog-depth" else ("--steps", 150)
    assert answers(tmp_path, card, *how, *BY_ENTRIES) == EXACT


# -- the tour --------------------------------------------------------------------------------------


def test_the_tour_does_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """It runs the very lines that it shows, and each is one that its command takes."""
    done: list[list[str]] = []

    def run(arguments: list[str], standalone_mode: bool) -> None:
        assert not standalone_mode
        done.append(arguments)
        name, *rest = arguments
        assert command().commands[name].make_context(name, rest)

    tour.tour(SimpleNamespace(find_root=lambda: SimpleNamespace(command=run)), tmp_path)  # type: ignore[arg-type]
    shown = capsys.readouterr().out.replace(" \\\n", "")
    lines = [x for x in shown.splitlines() if x.startswith("$ viete ")]
    assert len(lines) > 10 and [shlex.split(line)[2:] for line in lines] == done


@pytest.mark.slow
def test_a_part_of_the_tour_is_less_than_a_screen(tmp_path: Path) -> None:
    with chdir(tmp_path):
        parts = viete("tour").out.split("\n━━ ")[1:]
    titles = [part.split(" ━━")[0] for part in parts]
    assert len(titles) == len(tour.story("x")) and "badgebadgebadgeb" in "".join(parts)
    assert all(part.rstrip().count("\n") < 30 for part in parts)
