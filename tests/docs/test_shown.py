"""What the documentation shows is what the program prints.

A page is played from its first block to its last, in a folder of its own:

- a block with a title, such as ```` ```markdown title="card.md" ````, is written to that file, and
  one of the language ``diff`` changes the file;
- a block with commands behind ``$`` is run if it shows what one of them prints;
- a block of Python is run if a block of text follows, which is what it must print.

A line … stands for lines left out, and … within a line for whatever stands there.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.command_line import viete

DOCS = Path(__file__).parents[2] / "docs"
UNPLAYED = {
    "guides/dynamics.md": "trains for a minute",
    "guides/exploring.md": "serves a page",
    "reference/commands.md": "test_commands.py writes and plays it",
}
FENCE = re.compile(r"^```(\w*)([^\n`]*)\n(.*?)^```$", re.M | re.S)
TITLE = re.compile(r'title="([^"]+)"')
SHELL = ("ls", "cat", "head", "python")  # what pages show besides our own commands


class Block(NamedTuple):
    """A fenced block: its language, the file that its title names, and its text."""

    language: str
    file: str | None
    text: str


class Command(NamedTuple):
    """A command of a page, and the lines that stand below it."""

    line: str
    shown: list[str]


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    found = FENCE.findall((DOCS / page).read_text("utf-8"))
    titles = (TITLE.search(rest) for _, rest, _ in found)
    return [
        Block(language, title and title[1], text)
        for (language, _, text), title in zip(found, titles, strict=True)
    ]


def commands(block: Block) -> list[Command]:
    """The commands of a block up to the last that shows what it prints."""
    found = []
    for part in re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.M)[1:]:
        line, *shown = part.rstrip().splitlines()
        found.append(Command(re.sub(r"\s+# .*", "", line), shown))
    while found and not found[-1].shown:
        found.pop()
    return found


def played(block: Block, after: Block) -> bool:
    """Whether something of this block is compared with what the program prints."""
    if block.language == "python":
        return after.language == "text"
    return block.language in ("", "console") and bool(commands(block))


def pages() -> list[str]:
    """The pages that show what the program prints."""
    found = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    shows = (
        page for page in found
        if any(played(a, b) for a, b in pairwise([*blocks(page), Block("", None, "")]))
    )  # fmt: skip
    return [page for page in shows if page not in UNPLAYED]


def save(block: Block) -> None:
    """Write the file of a block with a title, or change it as a diff says."""
    assert block.file is not None
    path = Path(block.file)
    if block.language != "diff":
        path.write_text(block.text, "utf-8")
        return
    lines, before = block.text.splitlines(), path.read_text("utf-8")
    old, new = ("\n".join(x[1:] for x in lines if x[:1] in (" ", sign)) for sign in "-+")
    assert before.count(old) == 1, f"{block.file} does not have once what the diff changes: {old}"
    path.write_text(before.replace(old, new), "utf-8")


def printed_by(line: str) -> str:
    """What a command prints, errors too."""
    program, *words = shlex.split(line)
    if program == "viete":
        ended = viete(*words, code=None)
        return ended.out + ended.err
    assert program in SHELL, f"{line}: no page's command is run by this test unless it is in SHELL"
    words = [sys.executable if program == "python" else program, *words]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def missing(shown: list[str], printed: list[str]) -> str | None:
    """The first line that is not printed where the page shows it, next to the one before."""
    rest = iter([x.rstrip() for x in printed if x.strip()])
    anywhere = False
    for line in (x.rstrip() for x in shown if x.strip()):
        if line.strip() == "…":
            anywhere = True
            continue
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        if anywhere:
            found = next((x for x in rest if pattern.fullmatch(x)), None)
        else:
            found = next(rest, None)
        if found is None or not pattern.fullmatch(found):
            return f"shown: {line!r}; printed there: {found!r}"
        anywhere = False
    return None


@pytest.mark.parametrize("page", pages())
def test_a_page_shows_what_is_printed(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").symlink_to(DOCS)
    names: dict[str, object] = {}  # a page's Python goes on where the block before stopped
    for block, after in pairwise([*blocks(page), Block("", None, "")]):
        if block.file:
            save(block)
        if not played(block, after):
            continue
        if block.language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block.text, page, "exec"), names)
            wrong = missing(after.text.splitlines(), output.getvalue().splitlines())
            assert wrong is None, wrong
        else:
            for line, shown in commands(block):
                wrong = missing(shown, printed_by(line).splitlines())
                assert wrong is None, f"{line}\n{wrong}"


def test_the_architecture_names_what_there_is() -> None:
    """Its number begins at the line that it says, and every file that it names exists."""
    text = (DOCS / "internals/architecture.md").read_text("utf-8")
    found = re.search(r"Line (\d+) of `(\S+)` says\s+(\$.*?\$)\.", text, re.S)
    assert found is not None
    line, page, equation = found.groups()
    assert equation in (DOCS.parent / page).read_text("utf-8").split("\n")[int(line) - 1]
    for name in re.findall(r"`([a-z_/]+\.(?:py|md))`", text):
        assert any((DOCS.parent / root / name).exists() for root in ("", "viete")), name
