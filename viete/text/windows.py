"""Texts as windows of token ids: from the lines of a file, or from running text.

Only the unfinished window is held, so a corpus may have any length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.text.data import checked, kind_of, read_data, records
from viete.text.files import lines
from viete.text.vocabulary import Vocabulary

HELD = 1 << 20  # tokens, in all, of windows that wait for others of the same length


def line_windows(
    path: Path, encode: Callable[[str], Any], length: int
) -> Iterator[np.ndarray]:  # fmt: skip
    """The texts of a file, one for each line or ``text`` of JSON lines, in pieces of ``length``.

    Raises VieteError for a missing file, and for a file without text.
    """
    if not path.is_file():
        raise VieteError(f"{path}: the file of texts does not exist")
    found = False
    given = (
        (checked(record, here, "text") for here, record in records(path))
        if kind_of(path) == "jsonl" else (line for _, line in lines(path))
    )  # fmt: skip
    for text in given:
        if text.strip():
            found = True
            yield from cut(np.asarray(encode(text)).reshape(-1), length)
    if not found:
        raise VieteError(f"{path}: the file has no text")


def running_windows(path: str, vocabulary: Vocabulary, length: int) -> Iterator[np.ndarray]:
    """Consecutive windows of the running text of a file or folder."""
    documents = read_data(path)
    if documents.apart:
        raise VieteError(f"{documents.path} is not running text; give its texts with --texts")
    rest = np.zeros(0, np.int64)
    for piece in documents.pieces():
        ids = np.concatenate([rest, np.asarray(vocabulary.encode(piece.text, piece.where))])
        whole = len(ids) // length * length
        yield from ids[:whole].reshape(-1, length)
        rest = ids[whole:]
    if len(rest):
        yield rest


def cut(ids: np.ndarray, length: int) -> Iterator[np.ndarray]:
    """A text in pieces of ``length``, the last one possibly shorter."""
    for k in range(0, len(ids), length):
        yield ids[k : k + length]


def alike(
    windows: Iterable[np.ndarray], room: Callable[[int], int], held: int = HELD
) -> Iterator[np.ndarray]:
    """Windows grouped by length, at most ``room`` of them together, (texts, n)."""
    waiting: dict[int, list[np.ndarray]] = {}
    count = 0
    for window in windows:
        if not (n := len(window)):
            continue
        here = waiting.setdefault(n, [])
        here.append(window)
        count += n
        if len(here) >= room(n) or count > held:
            if len(here) < room(n):
                n = max(waiting, key=lambda k: k * len(waiting[k]))
                here = waiting[n]
            count -= n * len(here)
            yield np.stack(waiting.pop(n))
    for here in waiting.values():
        for k in range(0, len(here), step := room(len(here[0]))):
            yield np.stack(here[k : k + step])


__all__ = ["alike", "line_windows", "running_windows"]
