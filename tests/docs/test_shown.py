"""What the documentation shows is what the program prints."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from viete.cli.app import command as viete
from viete.errors import VieteError

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    *(
        f"guides/{name}.md" for name in (
            "asking", "causal", "checking", "checkpoints", "circuits", "claims", "exact",
            "expanding", "export", "graphs", "interventions", "probing", "transformerlens",
        )
    ),
    "internals/plan.md", "reference/backward.md",
)  # fmt: skip
AFTER_PYTHON = ("guides/graphs.md",)  # whose commands read what its Python wrote
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def fences(page: str) -> list[tuple[str, str]]:
    """The kind and the text of every fenced block."""
    return FENCE.findall((DOCS / page).read_text("utf-8"))


def shown() -> list[tuple[str, list[str], list[str]]]:
    """Page, commands and the lines shown below the last; … stands for lines left out.

    Those before it show nothing, and write what it reads.
    """
    out = []
    for page in (p for p in PAGES if p not in AFTER_PYTHON):
        for _, text in fences(page):
            commands: list[str] = []
            for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
                command, *lines = part.rstrip().splitlines()
                if command.startswith("viete "):
                    commands.append(command)
                    if lines:
                        out.append((page, list(commands), lines))
                        commands.pop()
    return out


def in_order(lines: list[str], printed: list[str]) -> str | None:
    """The first line that the output does not have after those before it."""
    rest = iter(x.rstrip() for x in printed)
    return next((x for x in lines if x.strip() != "…" and x.rstrip() not in rest), None)


def execute(command: str) -> None:
    """Run a command of a page."""
    try:
        viete()(shlex.split(command)[1:], standalone_mode=False)
    except VieteError as error:  # as the command line prints it
        print(f"viete: {error}")


@pytest.mark.parametrize(("page", "commands", "lines"), shown(), ids=lambda x: str(x)[:40])
def test_a_command_prints_what_is_shown(
    page: str, commands: list[str], lines: list[str], capsys: pytest.CaptureFixture,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("docs").symlink_to(DOCS)
    for command in commands:
        capsys.readouterr()
        execute(command)
    lines = [x for x in lines if x.strip()]
    missing = in_order(lines, capsys.readouterr().out.splitlines())
    assert missing is None, missing


@pytest.mark.parametrize("page", PAGES)
def test_a_python_block_prints_the_text_after_it(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").symlink_to(DOCS)
    blocks = fences(page)
    names: dict[str, object] = {}  # a page's blocks go on where the one before stopped
    for (kind, code), (following, text) in pairwise([*blocks, ("", "")]):
        if kind == "console" and page in AFTER_PYTHON:
            command, *lines = code.removeprefix("$ ").rstrip().splitlines()
            capsys.readouterr()
            execute(command)
            missing = in_order(lines, capsys.readouterr().out.splitlines())
            assert missing is None, missing
        if kind == "python" and following == "text":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, page, "exec"), names)
            if "…" in text.splitlines():
                missing = in_order(text.splitlines(), printed.getvalue().splitlines())
                assert missing is None, missing
            else:
                assert printed.getvalue().strip() == text.strip()


def test_the_architecture_names_what_there_is() -> None:
    """Its number begins at the line that it says, and every file that it names exists."""
    text = (DOCS / "internals/architecture.md").read_text("utf-8")
    found = re.search(r"Line (\d+) of `(\S+)` says\s+(\$.*?\$)\.", text, re.S)
    assert found is not None
    line, page, equation = found.groups()
    assert equation in (DOCS.parent / page).read_text("utf-8").split("\n")[int(line) - 1]
    for name in re.findall(r"`([a-z_/]+\.(?:py|md))`", text):
        assert any((DOCS.parent / root / name).exists() for root in ("", "viete")), name
