"""Lists of questions: a Markdown page of formulas, or a file with one question a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from viete.document.markdown import read_markdown
from viete.document.tree import Heading, ListItem, Paragraph, TextTable
from viete.errors import Text, VieteError, os_refusals
from viete.regular import regular

MOST_BYTES = 1_000_000
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$")


@dataclass(frozen=True)
class ListedQuestion:
    """A formula that is asked, the words beside it, and the title above it.

    It is ``typed`` where it is no part of a file.
    """

    text: Text
    words: str = ""
    title: str = ""
    typed: bool = False


def questions_of(given: list[str]) -> list[ListedQuestion]:
    """The questions that are given: a formula, or ``@FILE`` for all questions of a file.

    Raises VieteError for a file that cannot be read, and for a file without a question.
    """
    out: list[ListedQuestion] = []
    for one in given:
        if one.strip() == "@":
            raise VieteError("@ stands before the name of a file of questions: @questions.md")
        if one.startswith("@"):
            out += read_questions(Path(one[1:]))
        else:
            out.append(ListedQuestion(Text(one, "<question>"), typed=True))
    return out


def read_questions(path: Path) -> list[ListedQuestion]:
    """The questions of a file. In Markdown: the formulas of its items, paragraphs and tables.

    In any other file: each line that is not empty, without the comment after a ``#``.
    """
    with os_refusals(path):
        content = regular(path, MOST_BYTES).read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise VieteError(f"{path}: the file is not UTF-8; write questions in UTF-8") from None
    found = in_markdown(text, path) if path.suffix.lower() == ".md" else in_lines(text, path)
    if not found:
        what = "a formula between dollar signs" if path.suffix.lower() == ".md" else "a line"
        raise VieteError(f"{path}: the file has no question; a question is {what}")
    return found


def in_lines(text: str, path: Path) -> list[ListedQuestion]:
    """One question a line; a line ``# Title`` is the title of the questions that follow."""
    out, title = list[ListedQuestion](), ""
    for k, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            title = line.strip().lstrip("# ")
        elif line.strip():
            out.append(ListedQuestion(Text(line, str(path), k, 1, line).cut(0), "", title))
    return out


def in_markdown(text: str, path: Path) -> list[ListedQuestion]:
    """Each formula between dollar signs that a page shows, in reading order."""
    out, title = list[ListedQuestion](), ""
    for block in read_markdown(text, str(path)):
        match block:
            case Heading():
                title = block.text.text
            case ListItem():
                for part in (block.text, *block.notes):
                    out += formulas(part, title)
            case Paragraph():
                out += formulas(block.text, title)
            case TextTable():
                for row in block.rows:
                    out += [q for cell in row for q in formulas(cell, title)]
    return out


def formulas(part: Text, title: str) -> list[ListedQuestion]:
    """The formulas of one item or paragraph; its words belong to a formula that is alone."""
    found = list(_FORMULA.finditer(part.text))
    words = _FORMULA.sub(" ", part.text).strip(" :,;.—–-") if len(found) == 1 else ""
    return [
        ListedQuestion(part.cut(m.start(k), m.end(k)), " ".join(words.split()), title)
        for m in found for k in (1, 2) if m[k] is not None
    ]  # fmt: skip


__all__ = ["ListedQuestion", "questions_of", "read_questions"]
