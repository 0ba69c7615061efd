"""docs/reference/commands.md: every help text, and what the examples print, as the program has it.

The page is written anew by `python -m tests.docs.test_commands`.
"""

from __future__ import annotations

import os
import random
import shlex
import tempfile
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.command_line import viete
from viete.cli.app import GROUPS
from viete.cli.examples import EXAMPLES
from viete.printable import display_width

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
WORDS = ("plankton", "spectrum", "workshop", "jackdaw", "vexing", "quartz")
WIDTH, SHORT = 80, 30  # columns of a terminal; lines of an output that the page shows
UNRUN = ("tour",)  # has a test of its own
VARIES = ("features", "train", "plot", "sample")  # numbers differ from machine to machine; times
FILES = {  # that examples read
    "words.txt": " ".join((random.Random(k).choice(WORDS) * 4)[:24] for k in range(60)),
    "pairs.jsonl": '{"text": "planktonpl", "against": "plinktonpl", "usual": "a", "other": "i"}\n'
    '{"text": "spectrumsp", "against": "spoctrumsp", "usual": "e", "other": "o"}\n',
}
INTRODUCTION = """---
tags: [command line, help, options]
---
# Commands

Every command with its help, as `viete COMMAND --help` prints it, and what its examples print where
that is short. A path or the name of a shipped card stands for a card, a folder or the name of a
shipped model for a model; `two-layers` is a small trained model that comes with Viète.

Each command names the files that it writes, as in `written: page.html`. It does so on standard
error, so standard output holds only the result. The exit code is 0 for success, 1 where
`viete check` finds something false, 2 for bad input, and 130 after Ctrl-C.
"""


def page() -> tuple[str, list[str]]:
    """The page, and the lines of outputs that are wider than the terminal."""
    for file, content in FILES.items():
        Path(file).write_text(content, "utf-8")
    out, wide = [INTRODUCTION, "```text", viete("--help").out.rstrip(), "```"], list[str]()
    for heading, functions in GROUPS.items():
        out += ["", f"## {heading}"]
        for name in (f.__name__ for f in functions):
            out += ["", f"### viete {name}", "", "```text"]
            out += [viete(name, "--help").out.rstrip(), "```"]
            for words, line in EXAMPLES[name]:
                if name in UNRUN:
                    continue
                ended = viete(*shlex.split(line))
                shown = ended.out + (ended.err if "written: " in ended.err else "")
                wide += [x for x in shown.splitlines() if display_width(x) > WIDTH]
                if shown.count("\n") <= SHORT and name not in VARIES:
                    out += ["", words, "", "```console", f"$ viete {line}", shown.rstrip(), "```"]
    return "\n".join(out) + "\n", wide


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    with chdir(tmp_path_factory.mktemp("examples")), patch.dict(os.environ, COLUMNS=str(WIDTH)):
        return page()


def test_the_page_of_commands_is_what_the_program_says(made: tuple[str, list[str]]) -> None:
    assert PAGE.read_text("utf-8") == made[0], "python -m tests.docs.test_commands writes it anew"


def test_the_page_of_commands_has_every_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    there = PAGE.read_text("utf-8")
    for name in (f.__name__ for functions in GROUPS.values() for f in functions):
        assert f"```text\n{viete(name, '--help').out.rstrip()}\n```" in there, name


def test_what_the_examples_print_fits_the_terminal(made: tuple[str, list[str]]) -> None:
    assert not made[1]


def test_every_command_has_examples() -> None:
    assert all(EXAMPLES.values())
    assert EXAMPLES.keys() == {f.__name__ for functions in GROUPS.values() for f in functions}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        os.environ["COLUMNS"] = str(WIDTH)
        text, wide = page()
    PAGE.write_text(text, "utf-8")
    print("\n".join(wide))
