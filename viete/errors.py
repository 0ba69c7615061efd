"""`VieteError`, the one exception for bad input, and the place in a text to which it points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from viete.printable import display_width, in_place, printable

WIDEST = 120  # characters of a quoted line


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
        return f"{printable(self.file, 400)}:{self.line}:{self.column}"

    def underlined(self) -> str:
        """The line with a caret below it; of a long line, the part around the caret."""
        start = max(0, min(self.column - 1 - WIDEST // 2, len(self.text) - WIDEST))
        shown = in_place(self.text[start : start + WIDEST])
        before = shown[: self.column - 1 - start]
        caret = " " * display_width(before) + "^" * max(1, min(self.width, WIDEST))
        return f"    {shown}\n    {caret}"


class VieteWarning(UserWarning):
    """A sentence about something that was read in one way, and could be meant in another.

    The command line prints it on standard error.
    """


class ConventionWarning(VieteWarning):
    """A question can be read in two ways, and this says which was chosen."""


class VieteError(Exception):
    """Bad input: one clear sentence that says where, what is wrong and what would be right.

    The command line prints it and exits with 2. Nothing has been written when it is raised.
    ``message`` is one line of printable text, whatever the names hold that it quotes; ``lines``
    are the entries of a list below it, and each is one such line.
    """

    def __init__(
        self, message: str, where: Where | None = None, lines: Sequence[str] = ()
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message = printable(message)
        self.where = where
        self.lines = tuple(map(printable, lines))

    def __str__(self) -> str:
        place = self.where
        said = self.message if place is None else f"{place}: {self.message}"
        if place is not None and place.text:
            said += f"\n{place.underlined()}"
        return "\n".join([said, *self.lines])


@contextmanager
def os_refusals(path: object, done: str = "read") -> Iterator[None]:
    """Turn errors of the system into VieteErrors: ``path: cannot be read (No such file …)``."""
    try:
        yield
    except OSError as error:
        raise VieteError(f"{path}: cannot be {done} ({error.strerror or error})") from None


@contextmanager
def memory_refusals(remedy: str) -> Iterator[None]:
    """Turn a lack of memory into a VieteError with the ``remedy``: Python's or PyTorch's own."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        said = str(error)  # PyTorch has a class of errors for a GPU, and none for a processor
        if not (isinstance(error, MemoryError) or "allocate memory" in said
                or "out of memory" in said):  # fmt: skip
            raise
        raise VieteError(f"this needs more memory than there is; {remedy}") from None


@dataclass(frozen=True)
class Text:
    """Part of a line of a reader's file, which knows its place."""

    text: str
    file: str = "<text>"
    line: int = 1
    column: int = 1
    whole: str | None = None
    # Where the parts of a formula stand that was read from it, as offsets in ``text``; of a part
    # that stands in it more than once the first place.
    places: dict[object, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)

    def where(self, start: int = 0, end: int | None = None) -> Where:
        """The place of ``text[start:end]`` in the file."""
        end = len(self.text) if end is None else end
        whole = self.text if self.whole is None else self.whole
        column = self.column + start
        width = min(end - start, len(whole) + 1 - column)  # a text may go on in the next line
        return Where(self.file, self.line, column, whole, max(1, width))

    def error(self, message: str, start: int = 0, end: int | None = None) -> VieteError:
        """An error that points at ``text[start:end]``."""
        return VieteError(message, self.where(start, end))

    def place(self, part: object) -> tuple[int, int | None]:
        """The offsets of a part of the formula, for `error`; of the whole text if unknown."""
        return self.places.get(part, (0, None))

    def cut(self, start: int, end: int | None = None) -> Text:
        """``text[start:end]`` without spaces at its ends, with its place."""
        piece = self.text[start:end]
        start += len(piece) - len(piece.lstrip())
        whole = self.text if self.whole is None else self.whole
        return Text(piece.strip(), self.file, self.line, self.column + start, whole)
