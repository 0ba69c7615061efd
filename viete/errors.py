"""The one exception that Viète raises for bad input, and the place in a text it points to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Where:
    """A stretch of a reader's own text.

    ``line`` and ``column`` count from 1; ``text`` is the whole line, ``width`` the number of
    characters the caret underlines.
    """

    file: str
    line: int
    column: int
    text: str
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class VieteError(Exception):
    """Bad input: one clear sentence that says where, what is wrong and what would be right.

    The command line prints it and exits with 2. Nothing has been written when it is raised.
    """

    def __init__(self, message: str, where: Where | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def __str__(self) -> str:
        if self.where is None:
            return self.message
        place = self.where
        if not place.text:
            return f"{place}: {self.message}"
        # Long lines are cut around the caret, so that an error fits on a screen.
        start = max(0, place.column - 1 - 60)
        shown = place.text[start : start + 120]
        caret = " " * (place.column - 1 - start) + "^" * max(1, min(place.width, 120))
        return f"{place}: {self.message}\n    {shown}\n    {caret}"


@dataclass(frozen=True)
class Text:
    """A piece of one line of somebody's file, which remembers where it stood."""

    text: str
    file: str = "<text>"
    line: int = 1
    column: int = 1
    whole: str | None = None

    def where(self, start: int = 0, end: int | None = None) -> Where:
        """The place of ``text[start:end]`` in the file."""
        end = len(self.text) if end is None else end
        whole = self.text if self.whole is None else self.whole
        column = self.column + start
        return Where(self.file, self.line, column, whole, max(1, end - start))

    def error(self, message: str, start: int = 0, end: int | None = None) -> VieteError:
        """An error that points at ``text[start:end]``."""
        return VieteError(message, self.where(start, end))

    def cut(self, start: int, end: int | None = None) -> Text:
        """``text[start:end]``, stripped, still knowing its place."""
        piece = self.text[start:end]
        start += len(piece) - len(piece.lstrip())
        whole = self.text if self.whole is None else self.whole
        return Text(piece.strip(), self.file, self.line, self.column + start, whole)
