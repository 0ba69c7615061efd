"""Documents as numbers: encoded once, written to flat files, and mapped into memory from there.

``tokens-KEY.bin`` holds the ids, uint16 or uint32 as the vocabulary needs; for dialogs
``starts-KEY.bin`` (int64) says where each begins, and ``own-KEY.bin`` (uint8) which tokens are the
assistant's. ``tokens-KEY.json`` comes last and says that all of it is there. KEY is made of the
content of the sources and of the vocabulary, so that what has changed is encoded anew.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from viete.atomic import replacing
from viete.errors import VieteError, Where
from viete.printable import overwrite
from viete.regular import SETTINGS, regular
from viete.text.data import Documents
from viete.text.files import stamp
from viete.text.vocabulary import Ids, Vocabulary, digest

Tell = Callable[[str], None]
FORM = "1"  # another as soon as the same text would be encoded differently


@dataclass(frozen=True)
class Tokens:
    """Ids in one row. For dialogs, the k-th is ``starts[k]`` to ``starts[k + 1]``.

    ``own`` is 1 where a token is the assistant's. ``source`` and ``vocabulary`` are digests, of
    ``size`` bytes of text; ``note`` is the file that says where all of it is kept, if it is.
    """

    ids: Ids
    starts: Ids | None
    own: Ids | None
    source: str
    vocabulary: str
    size: int
    name: str
    note: Path | None = None

    def __len__(self) -> int:
        return len(self.ids)


def tokenize(
    documents: Documents,
    vocabulary: Vocabulary,
    cache: str | Path | None = None,
    tell: Tell | None = None,
) -> Tokens:
    """Encode documents, or map what an earlier run wrote to the folder ``cache``.

    Without a folder all stays in memory. ``tell`` is given a line to show twice a second; by
    default one appears on a terminal's stderr. Raises VieteError for a character that the
    vocabulary lacks, for sources that change meanwhile, and for a full disk.
    """
    work = Encoding(documents, vocabulary, tell or on_terminal())
    before = stamp(documents.files)
    key = hashlib.blake2b(
        f"{FORM} {documents.digest} {work.vocabulary_digest}".encode(), digest_size=8
    ).hexdigest()
    names = ["tokens", *(["starts", "own"] if documents.dialogs else [])]
    if cache is None:
        memory = {name: bytearray() for name in names}
        work.write({name: extending(memory[name]) for name in names})
        unchanged(documents, before)
        return work.tokens({n: np.frombuffer(memory[n], work.dtypes[n]) for n in names})
    folder = Path(cache)
    note = folder / f"tokens-{key}.json"
    if (there := kept(note)) is not None:
        return there
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VieteError(f"{folder}: cannot be made ({error.strerror or error})") from None
    with ExitStack() as stack:
        open_files: dict[str, BinaryIO] = {
            name: stack.enter_context(replacing(folder / f"{name}-{key}.bin")) for name in names
        }
        sizes = work.write({name: file.write for name, file in open_files.items()})
        unchanged(documents, before)
    said = {
        "bytes": sizes, "dtypes": {name: work.dtypes[name] for name in names},
        "source": documents.digest, "vocabulary": work.vocabulary_digest, "size": documents.size,
        "name": str(documents.path), "files": [str(f) for f in documents.files],
    }  # fmt: skip
    with replacing(note) as file:
        file.write(json.dumps(said).encode())
    written = kept(note)
    if written is None:
        raise VieteError(f"{folder}: what was just written there is gone")
    return written


def kept(note: Path) -> Tokens | None:
    """The tokens that a note speaks of, mapped; None where they are not there, or not whole."""
    try:
        said = json.loads(regular(note, SETTINGS).read_bytes())
        key = note.stem.removeprefix("tokens-")
        found = {}
        for name, size in said["bytes"].items():
            path = note.with_name(f"{name}-{key}.bin")
            if path.stat().st_size != size:
                return None
            found[name] = np.memmap(path, said["dtypes"][name], mode="r")
        return Tokens(
            found["tokens"], found.get("starts"), found.get("own"), said["source"],
            said["vocabulary"], said["size"], said["name"], note,
        )  # fmt: skip
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None


class Encoding:
    """Documents on their way through a vocabulary."""

    def __init__(self, documents: Documents, vocabulary: Vocabulary, tell: Tell) -> None:
        self.documents, self.vocabulary, self.tell = documents, vocabulary, tell
        self.vocabulary_digest = digest(vocabulary)
        small = len(vocabulary) <= 1 << 16
        self.dtypes = {"tokens": "<u2" if small else "<u4", "starts": "<i8", "own": "|u1"}

    def write(self, to: dict[str, Callable[[bytes], Any]]) -> dict[str, int]:
        """Encode everything; how many bytes went where."""
        total, shown, seen = 0, time.monotonic(), 0
        whole = self.documents.size
        starts = array("q", [0])
        for ids, own, text, ends in self.stretches():
            to["tokens"](ids.astype(self.dtypes["tokens"]).tobytes())
            total += len(ids)
            if "own" in to:
                to["own"](np.full(len(ids), own, np.uint8).tobytes())
                if ends:
                    starts.append(total)
            seen += text
            if time.monotonic() - shown > 0.5:
                shown = time.monotonic()
                self.tell(f"{self.documents.path}: {seen / 1e6:.1f} M characters of "
                          f"{whole / 1e6:.1f} MB are {total:,} tokens")  # fmt: skip
        self.tell("")
        if not total:
            raise VieteError(f"{self.documents.path}: there is nothing in it to train on")
        sizes = {"tokens": total * np.dtype(self.dtypes["tokens"]).itemsize}
        if "starts" in to:
            to["starts"](np.frombuffer(starts, np.int64).astype("<i8").tobytes())
            sizes |= {"starts": 8 * len(starts), "own": total}
        return sizes

    def stretches(self) -> Iterator[tuple[Ids, bool, int, bool]]:
        """(ids, whether the assistant's, characters, whether a dialog ends) for all there is."""
        encode, end = self.vocabulary.encode, self.vocabulary.end
        if self.documents.dialogs:
            for dialog in self.documents.conversations():

                def where(_: int, file: str = dialog.file, line: int = dialog.line) -> Where:
                    return Where(file, line, 1, "")

                parts = dialog.parts
                for k, (text, own) in enumerate(parts):
                    yield encode(text, where), own, len(text), k == len(parts) - 1
            return
        opened = False
        for piece in self.documents.pieces():
            if piece.opens and opened:
                if end is None:
                    raise VieteError(
                        f"{self.documents.path} holds several documents, and the vocabulary has no "
                        f"token that ends one"
                    )
                yield np.array([end]), False, 0, False
            opened = True
            yield encode(piece.text, piece.where), False, len(piece.text), False

    def tokens(self, found: dict[str, Ids]) -> Tokens:
        return Tokens(
            found["tokens"], found.get("starts"), found.get("own"), self.documents.digest,
            self.vocabulary_digest, self.documents.size, str(self.documents.path),
        )  # fmt: skip


def extending(memory: bytearray) -> Callable[[bytes], Any]:
    return memory.extend


def unchanged(documents: Documents, before: list[tuple[int, int]]) -> None:
    """Refuse sources that somebody wrote to while they were read."""
    if stamp(documents.files) != before:
        raise VieteError(f"{documents.path}: the data changed while it was read; start again")


def on_terminal() -> Tell:
    """A line on stderr that overwrites itself, where a person can see it."""
    if not sys.stderr.isatty():
        return lambda line: None
    shown = [False]

    def tell(line: str) -> None:
        if line or shown[0]:
            overwrite(line)
            shown[0] = True

    return tell


__all__ = ["Tokens", "kept", "tokenize"]
