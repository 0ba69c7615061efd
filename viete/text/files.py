"""Text files as training data: which files there are, their contents, and whether they changed.

Files are read in pieces, so a file may be larger than memory.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from viete.errors import VieteError, os_refusals
from viete.regular import regular

PIECE = 1 << 18  # characters: few enough for a tokenizer, enough for negligible overhead
# Before a single space or line break between two words: no byte-level tokenizer joins across it.
_CUT = re.compile(r".*(?<=\S)(?=\s\S)", re.DOTALL)


def text_files(path: Path) -> tuple[list[Path], list[Path]]:
    """The text files of a folder and all below it, sorted, and its other files.

    Hidden and empty files are skipped. For a file, the file itself is returned. Raises VieteError
    if there is nothing to read.
    """
    if not path.exists():
        raise VieteError(f"{path}: there is no such file or folder")
    if path.is_file():
        if path.stat().st_size == 0:
            raise VieteError(f"{path}: this file is empty; there is nothing to train on")
        return [path], []
    if not path.is_dir():
        raise VieteError(f"{path}: neither a file nor a folder")
    found: list[Path] = []
    other: list[Path] = []
    for folder, below, names in os.walk(path):
        below[:] = sorted(b for b in below if not b.startswith("."))
        for name in sorted(n for n in names if not n.startswith(".")):
            file = Path(folder, name)
            if file.is_file() and file.stat().st_size:
                (found if looks_like_text(file) else other).append(file)
    if not found:
        has = f"only {len(other)} that are not text" if other else "no files with anything in them"
        raise VieteError(f"{path}: this folder holds no text files ({has})")
    return sorted(found), sorted(other)


def looks_like_text(path: Path) -> bool:
    """Whether a file's beginning is UTF-8 without zero bytes."""
    with os_refusals(path), open(path, "rb") as file:
        head = file.read(4096)
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4 and len(head) == 4096  # cut in a character
    return b"\0" not in head


def blocks(path: Path) -> Iterator[str]:
    r"""A file's text in pieces of about `PIECE` characters; line breaks become ``\n``.

    Raises VieteError for a binary file and, with the byte's offset, for a file that is not UTF-8.
    """
    try:
        with os_refusals(path), open(regular(path), encoding="utf-8-sig") as file:
            while block := file.read(PIECE):
                if "\0" in block:
                    raise VieteError(f"{path}: this is a binary file; training data is UTF-8 text")
                yield block
    except UnicodeDecodeError:
        raise not_utf8(path) from None


def pieces(path: Path) -> Iterator[tuple[int, str]]:
    """As `blocks`, cut between words, each with the number of its first line."""
    held, line = "", 1
    for block in blocks(path):
        held += block
        if len(block) < PIECE:  # the last
            break
        at = _CUT.match(held)
        # A text without spaces is cut somewhere, before it fills the memory.
        cut = at.end() if at else len(held) if len(held) > 64 * PIECE else 0
        if cut:
            yield line, held[:cut]
            line += held.count("\n", 0, cut)
            held = held[cut:]
    if held:
        yield line, held


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """A file's lines with their numbers, without their line breaks."""
    number, rest = 0, ""
    for block in blocks(path):
        *whole, rest = (rest + block).split("\n")
        for line in whole:
            number += 1
            yield number, line
    if rest:
        yield number + 1, rest


def digest(files: Sequence[Path], salt: str = "") -> str:
    """A digest of the content of files, in their order: 32 hexadecimal digits."""
    total = hashlib.blake2b(salt.encode(), digest_size=16)
    for path in files:
        with os_refusals(path), open(path, "rb") as file:
            total.update(hashlib.file_digest(file, hashlib.blake2b).digest())
    return total.hexdigest()


def stamp(files: Sequence[Path]) -> list[tuple[int, int]]:
    """Size and time of each file, which must not change while it is read."""
    try:
        return [(s.st_size, s.st_mtime_ns) for s in (path.stat() for path in files)]
    except OSError as error:
        raise VieteError(f"the data changed while it was read ({error})") from None


def not_utf8(path: Path) -> VieteError:
    """The error for a file that is not UTF-8, with the offset of its first bad byte."""
    before, held = 0, b""
    with open(path, "rb") as file:
        binary = b"\0" in file.read(4096)
        file.seek(0)
        while block := file.read(1 << 20):
            held += block
            try:
                held.decode("utf-8")
                good = len(held)
            except UnicodeDecodeError as error:
                good = error.start
            before, held = before + good, held[good:]
            if len(held) >= 4:  # more than a character cut by the end of a block
                break
    if binary or b"\0" in held[:4096]:
        return VieteError(f"{path}: this is a binary file; training data is UTF-8 text")
    bad = f" (0x{held[0]:02x})" if held else ""
    return VieteError(f"{path}: byte {before:,}{bad} is not UTF-8; save the file as UTF-8 text")
