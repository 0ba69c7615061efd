"""Training data: plain text, lines, JSON lines and dialogs, from one file or a folder of them.

Nothing is held in memory: `Documents` knows its files and reads them again on every pass.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from viete.errors import Text, VieteError, Where
from viete.regular import decoded
from viete.text import files
from viete.text.dialogs import Dialog, from_messages, looks_like_dialogs, read_dialogs

KINDS = ("text", "lines", "dialogs", "jsonl")
SHIPPED = Path(__file__).parent / "shipped"


@dataclass(frozen=True)
class Piece:
    """A stretch of text that is encoded at once, and its place in a file.

    A document, or a dialog, begins with a piece that ``opens``; ``own`` marks the assistant's
    words.
    """

    text: str
    file: str
    line: int
    opens: bool
    exact: bool = True  # whether columns can be counted: JSON escapes some characters
    own: bool = False

    def where(self, position: int) -> Where:
        """The place of a character in its file."""
        if not self.exact:
            return Where(self.file, self.line, 1, "")
        start = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", position)
        line = self.line + self.text.count("\n", 0, position)
        whole = self.text[start : end if end >= 0 else None]
        return Where(self.file, line, position - start + 1, whole)


@dataclass(frozen=True)
class Documents:
    """Training data: files, each of one kind, all with plain text or all with dialogs.

    ``skipped`` are files of the folder that are not text.
    """

    path: Path
    files: tuple[Path, ...]
    kinds: tuple[str, ...]
    dialogs: bool
    skipped: tuple[Path, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of all files together."""
        return sum(size for size, _ in files.stamp(self.files))

    @property
    def apart(self) -> bool:
        """Whether each text is a separate sequence from position 0, as dialogs and lines are."""
        return self.dialogs or "lines" in self.kinds

    @property
    def several(self) -> bool:
        """Whether more than one document is possible, so that a token must separate them."""
        return len(self.files) > 1 or "jsonl" in self.kinds

    @cached_property
    def digest(self) -> str:
        """A digest of the content of all files, which changes with every byte."""
        return files.digest(self.files, " ".join(self.kinds))

    def pieces(self) -> Iterator[Piece]:
        """All text to encode, in order: plain text in pieces of about 256 k characters."""
        if self.dialogs:
            for dialog in self.conversations():
                for k, (text, own) in enumerate(dialog.parts):
                    yield Piece(text, dialog.file, dialog.line, k == 0, False, own)
            return
        for path, kind in zip(self.files, self.kinds, strict=True):
            if kind == "jsonl":
                for here, record in records(path):
                    yield Piece(checked(record, here, "text"), here.file, here.line, True, False)
            elif kind == "lines":
                for line, text in files.lines(path):
                    if text:
                        yield Piece(text, str(path), line, True)
            else:
                for k, (line, text) in enumerate(files.pieces(path)):
                    yield Piece(text, str(path), line, k == 0)

    def conversations(self) -> Iterator[Dialog]:
        """The dialogs, in order."""
        for path, kind in zip(self.files, self.kinds, strict=True):
            if kind == "dialogs":
                yield from read_dialogs(path)
            else:
                for here, record in records(path):
                    yield from_messages(checked(record, here, "messages"), here)

    def texts(self) -> Iterator[str]:
        """The texts of all pieces."""
        return (piece.text for piece in self.pieces())


def read_data(path: str | Path, kind: str | None = None) -> Documents:
    """The training data at ``path``, a file or a folder.

    ``kind`` is 'text', 'lines' (each a separate sequence), 'dialogs' or 'jsonl' (a ``text`` field,
    or chat ``messages``, on each line). By default the extension ``.jsonl`` or ``.ndjson`` decides,
    and dialogs are recognised by their first line. The path 'dialogs' means the three dialogs that
    Viète ships, if no file has that name.

    Raises VieteError for a path that is missing, empty, not text, or a mixture of text and dialogs.
    """
    if kind is not None and kind not in KINDS:
        raise VieteError(f"unknown kind of data {kind!r:.40}; the kinds are {', '.join(KINDS)}")
    path = Path(path)
    if str(path) == "dialogs" and not path.exists():
        path = SHIPPED / "dialogs.txt"
    found, skipped = files.text_files(path)
    kinds = [kind or kind_of(file) for file in found]
    spoken = [holds_dialogs(file, k) for file, k in zip(found, kinds, strict=True)]
    if len(set(spoken)) > 1:
        one, other = found[spoken.index(True)], found[spoken.index(False)]
        raise VieteError(
            f"{path}: {one.name} holds dialogs and {other.name} plain text; train on one or the "
            f"other, or read all as text with the kind 'text'"
        )
    return Documents(path, tuple(found), tuple(kinds), spoken[0], tuple(skipped))


def kind_of(path: Path) -> str:
    """The kind of data in a file, by its name and its first line."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return "jsonl"
    return "dialogs" if looks_like_dialogs(path) else "text"


def holds_dialogs(path: Path, kind: str) -> bool:
    """Whether a file's documents are dialogs; for JSON lines, the first one decides."""
    if kind == "jsonl":
        here, record = next(records(path), (None, None))
        if here is None or record is None:
            raise VieteError(f"{path}: the file has only blank lines")
        if not {"text", "messages"} & record.keys():
            raise here.error("a line of data needs 'text' or 'messages', and this line has neither")
        return "messages" in record
    return kind == "dialogs"


def records(path: Path) -> Iterator[tuple[Text, dict[str, Any]]]:
    """The JSON objects of a file, one for each line, with their places. Blank lines are skipped."""
    for number, line in files.lines(path):
        if not line.strip():
            continue
        here = Text("", str(path), number)
        try:
            record = decoded(line)
        except json.JSONDecodeError as error:
            raise Text(line, str(path), number).error(
                f"this line is not JSON ({error.msg})", error.pos, error.pos + 1
            ) from None
        except ValueError:  # a number of 5,000 digits, or 5,000 brackets
            raise here.error("this line is not JSON that could be data") from None
        if not isinstance(record, dict):
            raise here.error(f"a line of data is a JSON object, not {type(record).__name__}")
        if "\\u" in line:
            try:
                json.dumps(record, ensure_ascii=False).encode("utf-8")
            except UnicodeEncodeError:
                raise here.error(
                    "this line holds half of a surrogate pair, which is not a character"
                ) from None
        yield here, record


def checked(record: dict[str, Any], here: Text, key: str) -> Any:
    """A record's text or messages. Raises VieteError if the record has none."""
    if key not in record:
        raise here.error(f"the lines before this one have {key!r}, but this line does not")
    if key == "text" and not isinstance(record[key], str):
        raise here.error(f"'text' is text, not {type(record[key]).__name__}")
    return record[key]


__all__ = ["KINDS", "Dialog", "Documents", "Piece", "read_data"]
