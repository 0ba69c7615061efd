"""Documents as token ids: encoded once, written to flat files, and memory-mapped from there.

``tokens-KEY.bin`` holds the ids, uint16 or uint32 as the vocabulary needs. For dialogs and lines,
``starts-KEY.bin`` (int64) says where each begins; for dialogs, ``own-KEY.bin`` (uint8) says which
tokens are the assistant's. ``tokens-KEY.json`` is written last and says that everything is there.
KEY depends on the content of the sources and on the vocabulary, so changed data is encoded anew.
"""

from __future__ import annotations

import hashlib
import json
import time
from array import array
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from viete.atomic import replacing
from viete.errors import VieteError, os_refusals
from viete.printable import Tell, on_terminal
from viete.regular import SETTINGS, decoded, regular
from viete.text.data import Documents
from viete.text.files import stamp
from viete.text.vocabulary import Ids, Vocabulary, digest

FORM = "1"  # another as soon as the same text would be encoded differently


@dataclass(frozen=True)
class Tokens:
    """Ids in one vector. For dialogs and lines, the k-th is ``starts[k]`` to ``starts[k + 1]``.

    ``own`` is 1 where a token is the assistant's. ``source`` and ``vocabulary`` are digests, of
    ``size`` bytes of text; ``note`` is the file that describes where they are stored, if they are.
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
    documents: Documents, vocabulary: Vocabulary, cache: str | Path | None = None,
    tell: Tell | None = None,
) -> Tokens:  # fmt: skip
    """Encode documents, or map the files of an earlier run in the folder ``cache``.

    Without a folder all stays in memory. ``tell`` is called with a line to show twice a second; by
    default a terminal on standard error shows it. Raises VieteError for text without a token in the
    vocabulary, for data that changes meanwhile, and for a full disk; then the folder gets no new
    files.
    """
    before, known, tell = stamp(documents.files), digest(vocabulary), tell or on_terminal()
    facts = {"source": documents.digest, "vocabulary": known, "size": documents.size,
             "name": str(documents.path)}  # fmt: skip
    dtypes = {"tokens": "<u2" if len(vocabulary) <= 1 << 16 else "<u4"}
    if documents.apart:
        dtypes["starts"] = "<i8"
    if documents.dialogs:
        dtypes["own"] = "|u1"
    if cache is None:
        memory = {name: BytesIO() for name in dtypes}
        encode(documents, vocabulary, memory, dtypes, tell)
        check_unchanged(documents, before)
        return tokens_of(lambda name: np.frombuffer(memory[name].getvalue(), dtypes[name]),
                         dtypes, facts)  # fmt: skip
    folder = Path(cache)
    key = hashlib.blake2b(f"{FORM} {documents.digest} {known}".encode(), digest_size=8).hexdigest()
    note = folder / f"tokens-{key}.json"
    if (there := memory_mapped(note)) is not None:
        return there
    with os_refusals(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        on_disk = {name: stack.enter_context(replacing(folder / f"{name}-{key}.bin"))
                   for name in dtypes}  # fmt: skip
        encode(documents, vocabulary, on_disk, dtypes, tell)
        check_unchanged(documents, before)
        sizes = {name: file.tell() for name, file in on_disk.items()}
    with replacing(note) as file:
        file.write(json.dumps({"bytes": sizes, "dtypes": dtypes, **facts}).encode())
    if (there := memory_mapped(note)) is None:
        raise VieteError(f"{folder}: what was just written there is gone")
    return there


def tokens_of(
    load: Callable[[str], Ids], names: Mapping[str, Any], facts: Mapping[str, Any],
    note: Path | None = None,
) -> Tokens:  # fmt: skip
    """The tokens made of arrays with these names, and of their facts."""
    found = {name: load(name) for name in names}
    return Tokens(found["tokens"], found.get("starts"), found.get("own"), facts["source"],
                  facts["vocabulary"], facts["size"], facts["name"], note)  # fmt: skip


def memory_mapped(note: Path) -> Tokens | None:
    """The tokens described by a note, memory-mapped; None if files are missing or incomplete."""
    try:
        facts = decoded(regular(note, SETTINGS).read_bytes())
        key = note.stem.removeprefix("tokens-")
        paths = {name: note.with_name(f"{name}-{key}.bin") for name in facts["bytes"]}
        if any(paths[name].stat().st_size != size for name, size in facts["bytes"].items()):
            return None
        return tokens_of(lambda name: np.memmap(paths[name], facts["dtypes"][name], mode="r"),
                         paths, facts, note)  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def encode(
    documents: Documents, vocabulary: Vocabulary, to: Mapping[str, BinaryIO],
    dtypes: Mapping[str, str], tell: Tell,
) -> None:  # fmt: skip
    """Write the ids of all documents, the starts of separate ones, and the assistant's tokens."""
    total, characters, told = 0, 0, time.monotonic()
    starts = array("q")
    for piece in documents.pieces():
        if piece.opens and starts and not documents.apart:
            if vocabulary.end is None:
                raise VieteError(
                    f"{documents.path} holds several documents, and the vocabulary has no token "
                    f"that ends one"
                )
            to["tokens"].write(np.array([vocabulary.end], dtypes["tokens"]).tobytes())
            total += 1
        if piece.opens:
            starts.append(total)
        ids = vocabulary.encode(piece.text, piece.where)
        to["tokens"].write(ids.astype(dtypes["tokens"]).tobytes())
        if "own" in to:
            to["own"].write(np.full(len(ids), piece.own, np.uint8).tobytes())
        total += len(ids)
        characters += len(piece.text)
        if time.monotonic() - told > 0.5:
            told = time.monotonic()
            tell(f"{documents.path}: {characters / 1e6:.1f} M characters of "
                 f"{documents.size / 1e6:.1f} MB are {total:,} tokens")  # fmt: skip
    tell("")
    if not total:
        raise VieteError(f"{documents.path}: it has nothing to train on")
    if "starts" in to:
        starts.append(total)
        to["starts"].write(np.frombuffer(starts, np.int64).astype(dtypes["starts"]).tobytes())


def check_unchanged(documents: Documents, before: list[tuple[int, int]]) -> None:
    """Raise VieteError if sources changed while they were read."""
    if stamp(documents.files) != before:
        raise VieteError(f"{documents.path}: the data changed while it was read; start again")


__all__ = ["Tokens", "memory_mapped", "tokenize"]
