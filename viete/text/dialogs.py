"""Dialogs: lines of a file or chat messages with their speakers, and the text that a model sees.

The format is that of a plain-Ruby transformer for short dialogs (*03_tiny_transformer*):

    System: <system>You are helpful.</system>
    User: <user>hi</user>
    Assistant: <assistant>hello!</assistant>
    End: <eot>

The labels are for people. A model only sees the markup, with nothing between the lines, so a prompt
ends with ``<assistant>`` and the answer is ``hello!</assistant><eot>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viete.errors import Text
from viete.text.files import blocks, lines

EOT = "<eot>"
ROLES = ("system", "user", "assistant")
MARKUP = tuple(t for role in ROLES for t in (f"<{role}>", f"</{role}>")) + (EOT,)
# The roles that may follow each. A dialog is answered before it ends.
AFTER = {
    "": ("system", "user"),
    "system": ("user",),
    "user": ("assistant",),
    "assistant": ("user", "end"),
}
_LABEL = re.compile(r"(\w+):[ \t]*(.*)")
_OPENS = re.compile(r"(System|User|Assistant|End):[ \t]*<")
_FENCE = re.compile(r"\s*(```|~~~)\w*\s*")  # of Markdown, around a dialog or several


@dataclass(frozen=True)
class Dialog:
    """Turns of (role, text), and their place in a file."""

    turns: tuple[tuple[str, str], ...]
    file: str = "<dialog>"
    line: int = 1

    @property
    def parts(self) -> tuple[tuple[str, bool], ...]:
        """The text that a model sees, cut where the assistant begins; True for its own words.

        The tags that close its turn and the dialog belong to the assistant's words.
        """
        parts: list[tuple[str, bool]] = []
        asked = ""
        for role, text in self.turns:
            if role != "assistant":
                asked += f"<{role}>{text}</{role}>"
                continue
            parts += [(f"{asked}<{role}>", False), (f"{text}</{role}>", True)]
            asked = ""
        answer, _ = parts.pop()
        return (*parts, (answer + EOT, True))

    @property
    def prompt(self) -> str:
        """The text up to the last answer."""
        return "".join(text for text, _ in self.parts[:-1])

    @property
    def answer(self) -> str:
        """The last answer, as the model should give it: ``hello!</assistant><eot>``."""
        return self.parts[-1][0]

    def __str__(self) -> str:
        return self.prompt + self.answer


def looks_like_dialogs(path: Path) -> bool:
    """Whether a file begins as a dialog, in a code fence or not."""
    head = next(blocks(path), "").lstrip()
    fence = _FENCE.match(head)
    return _OPENS.match(head, fence.end() if fence else 0) is not None


def read_dialogs(path: Path) -> Iterator[Dialog]:
    """The dialogs of a file, one after the other.

    A turn may continue over several lines, to its closing tag. Raises VieteError with file and line
    for an unknown role, lines out of order and markup that is not closed.
    """
    turns: list[tuple[str, str]] = []
    began = last = 1
    numbered = lines(path)
    for number, line in numbered:
        if not turns and (not line.strip() or _FENCE.fullmatch(line)):
            continue
        here, last = Text(line, str(path), number), number
        role, rest = labelled(here)
        check_order(turns, role, here, 0, len(role))
        began = began if turns else number
        if role == "end":
            if rest != EOT:
                raise here.error(f"a dialog's last line is 'End: {EOT}'")
            yield Dialog(tuple(turns), str(path), began)
            turns = []
            continue
        opened, closed = f"<{role}>", f"</{role}>"
        if not rest.startswith(opened):
            raise here.error(f"the {role}'s words must stand between {opened} and {closed}")
        while closed not in rest:
            _, more = next(numbered, (0, None))
            if more is None or _OPENS.match(more):
                raise here.error(f"{opened} is not closed with {closed}")
            rest += "\n" + more
        said, _, after = rest.partition(closed)
        if after.strip():
            raise here.error(f"nothing may follow {closed}; begin each turn on a new line")
        turns.append((role, checked(said.removeprefix(opened), here)))
    if turns:
        raise Text("", str(path), last).error(
            f"the dialog that begins in line {began} does not end with 'End: {EOT}'"
        )


def labelled(line: Text) -> tuple[str, str]:
    """The role that a line names, in lower case, and the rest of the line."""
    m = _LABEL.match(line.text)
    if m is None:
        raise line.error("a line of a dialog begins with System:, User:, Assistant: or End:")
    role = m[1].lower()
    if role not in (*ROLES, "end"):
        raise line.error(
            f"there is no role {m[1]}; a line begins with System:, User:, Assistant: or End:",
            0, len(m[1]),
        )  # fmt: skip
    return role, m[2].rstrip() if role == "end" else m[2]


def check_order(turns: list[tuple[str, str]], role: str, where: Text, *underlined: int) -> None:
    """Raise VieteError for a turn of ``role`` that may not follow these, naming those that may."""
    before = turns[-1][0] if turns else ""
    if role not in AFTER[before]:
        right = " or ".join(r.capitalize() for r in AFTER[before])
        came = f"after {before.capitalize()}" if before else "at the beginning of a dialog"
        raise where.error(f"{role.capitalize()} is out of order: {came} comes {right}", *underlined)


def checked(said: str, where: Text) -> str:
    """The words of a turn. Raises VieteError if they contain markup."""
    for tag in MARKUP:
        if tag in said:
            raise where.error(f"{tag} cannot stand inside a turn, where it would begin or end one")
    return said


def from_messages(messages: Any, where: Text) -> Dialog:
    """A dialog from chat messages, ``[{"role": "user", "content": "hi"}, …]``.

    Raises VieteError at ``where`` for messages that are invalid or out of order.
    """
    if not isinstance(messages, list) or not messages:
        raise where.error('\'messages\' is a list of {"role": …, "content": …}')
    turns: list[tuple[str, str]] = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        said = message.get("content") if isinstance(message, dict) else None
        if role not in ROLES:
            raise where.error(f"there is no role {role!r:.40}; roles are {', '.join(ROLES)}")
        if not isinstance(said, str):
            raise where.error(f"the {role}'s 'content' is text, not {type(said).__name__}")
        check_order(turns, role, where)
        turns.append((role, checked(said, where)))
    if turns[-1][0] != "assistant":
        raise where.error("the dialog ends before the assistant answers")
    return Dialog(tuple(turns), where.file, where.line)


__all__ = ["EOT", "MARKUP", "ROLES", "Dialog", "from_messages", "read_dialogs"]
