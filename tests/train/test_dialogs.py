"""The three dialogs are learned: by the tour's settings, and by every dialog card."""

from __future__ import annotations

import inspect
import shlex
from enum import Enum
from pathlib import Path
from typing import Any

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
    return viete(
        "sample", run, "--greedy", "--stop", "<eot>", "--prompt", dialog.prompt
    ).out.rstrip()


def answers(run: Path, card: str, *settings: object) -> list[str]:
    viete("train", card, "--data", "dialogs", "-o", run, "--lr", 0.01, *settings)
    return [answer(run, dialog) for dialog in DIALOGS]


EXACT = ["hello!</assistant><eot>", "4</assistant><eot>", "blue</assistant><eot>"]


@pytest.mark.parametrize("clipping", [BY_ENTRIES, BY_LENGTH], ids=["entries", "length"])
def test_the_answers_are_exact(tmp_path: Path, clipping: tuple[str, ...]) -> None:
    assert answers(tmp_path, "dialog-transformer", "--steps", 400, *clipping) == EXACT


# Two layers without residuals: the second reads what the first makes, and early steps are chaotic.
DEEP = ("--steps", 600, "--warmup", 100, "--schedule", "cosine", "--eps", 1e-4)


@pytest.mark.parametrize("card", [name for name in shipped() if name.startswith("dialog-")])
def test_so_are_those_of_every_dialog_card(tmp_path: Path, card: str) -> None:
    how = DEEP if card == "dialog-depth" else ("--steps", 150)
    assert answers(tmp_path, card, *how, *BY_ENTRIES) == EXACT


# -- the tour --------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return str(value) if isinstance(value, Path) else value


def typed(line: str) -> tuple[str, dict[str, Any]]:
    """What a command line gives to which command."""
    name, *arguments = shlex.split(line)[1:]
    made = command().commands[name].make_context(name, arguments)
    given = {k: plain(v) for k, v in made.params.items()
             if getattr(made.get_parameter_source(k), "name", "") == "COMMANDLINE"}  # fmt: skip
    return name, given


def test_the_tour_does_what_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[tuple[str, dict[str, Any]]] = []
    done: list[tuple[str, dict[str, Any]]] = []

    def follow(name: str) -> None:
        module = getattr(tour, name)
        command = getattr(module, name)

        def note(*args: Any, **options: Any) -> None:
            bound = inspect.signature(command).bind(*args, **options)
            done.append((name, {k: plain(v) for k, v in bound.arguments.items()}))
            if name == "export":  # its file is read
                command(*args, **options)

        monkeypatch.setattr(module, name, note)

    for name in "show run lesson grad export train sample plot doc check".split():
        follow(name)
    monkeypatch.setattr(
        tour, "step", lambda title, text: printed.extend(
            typed(line.removeprefix("$ ")) for line in text.splitlines() if "viete " in line
        )
    )  # fmt: skip
    monkeypatch.setattr(
        tour.subprocess, "run", lambda *args, **options: type("R", (), {"stdout": ""})
    )
    tour.tour(tmp_path)
    assert len(printed) > 15 and done == printed
