"""What README.md shows is true: its card, its commands, its Python."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.command_line import viete

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.M | re.S)


def test_the_equations_are_those_of_the_card() -> None:
    (shown,) = (text for language, text in BLOCKS if language == "markdown")
    card = (ROOT / "viete/cards/shipped/pythia.md").read_text("utf-8")
    assert all(line in card for line in shown.splitlines())


def test_the_commands_print_what_is_shown() -> None:
    block = next(text for _, text in BLOCKS if "$ viete " in text)
    line, *shown = re.split(r"^\$ ", block, flags=re.M)[1].splitlines()
    assert viete(*shlex.split(line)[1:]).out.split() == " ".join(shown).split()


def test_the_python_runs_and_the_files_exist() -> None:
    exec(next(text for language, text in BLOCKS if language == "python"), {})
    links = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(TEXT.splitlines()) <= 70 and all((ROOT / link).exists() for link in links)
