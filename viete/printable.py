"""Makes foreign text fit to print: escaped, shortened, measured.

Names and values come from cards, configs, tensor files, tokenizers and archives. Any of them may
contain escape sequences, line breaks, bidirectional overrides or 100,000 characters. Every message
passes `printable`, and everything that a command prints passes `Screen`.
"""

from __future__ import annotations

import io
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

LONGEST = 1_200  # characters of a message's line, enough for a list of a few dozen names
# Controls, overrides of the reading direction, separators of lines, halves of characters: what
# steers a terminal, reorders what is read, or cannot be encoded.
UNSEEN = "\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
STEERING = re.compile(f"[\x00-\x08\x0b-\x1f{UNSEEN}]")
COLOUR = re.compile(r"(\x1b\[(?:[34]8;2;\d+;\d+;\d+|0)m)")  # of a drawing; 0 ends it
Tell = Callable[[str], None]  # shows a line of progress
ERASED = "\r\x1b[K"  # back to the start of the terminal's line, and the line emptied


def printable(text: str, most: int = LONGEST) -> str:
    r"""Text as one printable line: ``\x1b`` for control characters, ``…`` for a long middle."""
    text = shortened(text, most)
    if not text.isprintable():
        text = shortened("".join(c if c.isprintable() else escaped(c) for c in text), most)
    return text


def shortened(text: str, most: int) -> str:
    """``text``, or its beginning and its end if it is long."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    return f"{text[:head]} … {text[head - most :]}"


def escaped(character: str) -> str:
    r"""``\x1b``, ``\n``, ``\u202e``."""
    return character.encode("unicode_escape").decode()


def in_place(text: str) -> str:
    """A quoted line with one character for each of its own, so that a caret points correctly."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def display_width(text: str) -> int:
    """Columns of a terminal: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    upright = [c for c in text if unicodedata.category(c) not in ("Mn", "Me")]
    return len(upright) + sum(unicodedata.east_asian_width(c) in "WF" for c in upright)


class Unread(OSError):
    """Nobody reads the output any more: the other end of the pipe, such as head, is closed.

    It has no number: for that of BrokenPipeError, typer would end the program as failed.
    """


class Screen:
    """A text stream that writes control characters as text, except line breaks and tabs.

    What the stream's encoding does not have is written out too, instead of ending the command.
    Without a stream, where the caller has closed it, nothing is written. Raises Unread where nobody
    reads.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self.stream = io.StringIO() if stream is None else stream

    def write(self, text: str) -> int:
        shown = STEERING.sub(lambda m: escaped(m[0]), text)
        known = self.stream.encoding or "utf-8"
        try:
            self.stream.write(shown.encode(known, "backslashreplace").decode(known))
        except BrokenPipeError as error:
            raise Unread(error.strerror) from None
        return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except BrokenPipeError as error:
            raise Unread(error.strerror) from None

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def print_coloured(text: str) -> None:
    """Print text with the colours of a drawing on the terminal; the rest passes `Screen`."""
    plain, colours = sys.stdout, getattr(sys.stdout, "stream", sys.stdout)
    for k, part in enumerate(COLOUR.split(text)):
        (colours if k % 2 else plain).write(part)


def columns() -> int:
    """The width of the terminal that standard error is shown on."""
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    return 80


def overwrite(line: str) -> None:
    """Show a line on standard error, replacing the last line shown this way.

    It is cut to the terminal's width: what goes on in a second line would stay.
    """
    stream = getattr(sys.stderr, "stream", sys.stderr)
    room = columns() - 1
    text = printable(line)[:room]
    while display_width(text) > room:
        text = text[:-1]
    stream.write(ERASED + text)
    stream.flush()


def on_terminal() -> Tell:
    """A line on stderr that overwrites itself, if stderr is a terminal."""
    if not sys.stderr.isatty():
        return lambda line: None
    shown = [False]

    def tell(line: str) -> None:
        if line or shown[0]:
            overwrite(line)
            shown[0] = True

    return tell


__all__ = [
    "STEERING",
    "Screen",
    "Tell",
    "Unread",
    "columns",
    "display_width",
    "in_place",
    "on_terminal",
    "overwrite",
    "print_coloured",
    "printable",
    "shortened",
]
