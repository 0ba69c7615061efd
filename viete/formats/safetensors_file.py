"""Safetensors: an 8-byte length, a JSON header (names, dtypes, shapes, offsets), then the bytes.

The header is read here, not by the `safetensors` library, so that the bytes map into NumPy for
every dtype without PyTorch, and every error is our own sentence. Tests compare the reader with that
library's verdict on damaged files, and the writer with its bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from viete.atomic import replacing
from viete.errors import VieteError
from viete.formats.tensors import (
    SIZES,
    Bytes,
    TensorFile,
    TensorInfo,
    byte_count,
    info_of,
    raw_bytes,
    sibling,
)
from viete.regular import decoded

# In the library's order: it writes the last of these first, so that every tensor is aligned.
CODES = {
    **{"BOOL": "bool", "U8": "uint8", "I8": "int8"},
    **{"F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E8M0": "float8_e8m0fnu"},
    **{"F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"},
    **{"I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16"},
    **{"I32": "int32", "U32": "uint32", "F32": "float32"},
    **{"C64": "complex64", "F64": "float64", "I64": "int64", "U64": "uint64"},
}
NAMES = {name: code for code, name in CODES.items()}
LONGEST_HEADER = 100_000_000  # the library's limit


def read(file: TensorFile, data: Bytes) -> None:
    """The place of each tensor in the file; together they must fill it exactly."""
    length = int.from_bytes(data[:8].tobytes(), "little")
    if data.size < 8 or length > min(LONGEST_HEADER, data.size - 8):
        raise ValueError(f"its header claims {length} bytes and the file has {data.size}")
    start = 8 + length
    header = _json(data[8:start].tobytes())
    file.metadata = header.pop("__metadata__", None) or {}
    if not _is_text(file.metadata):
        raise ValueError("its __metadata__ is not a table of strings")
    spans = []
    for name, entry in header.items():
        try:
            code, shape, (begin, end) = (entry[k] for k in ("dtype", "shape", "data_offsets"))
            info = TensorInfo(name, tuple(shape), CODES[code])
        except (TypeError, ValueError, KeyError):
            what = f"its header is wrong about tensor '{name}', or its dtype is unknown: {entry}"
            raise ValueError(what) from None
        size = byte_count(name, info.shape, SIZES[info.dtype])
        if type(begin) is not int or type(end) is not int or begin < 0 or end - begin != size:
            raise ValueError(f"tensor '{name}' ({code}, {shape}) cannot fill bytes {begin}:{end}")
        spans.append((begin, end, name))
        file.place(info, start + begin, start + end)
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            raise ValueError(f"tensor '{name}' starts at byte {begin} of the data, not at {at}")
        at = end
    if start + at != data.size:
        raise ValueError(f"its tensors end at byte {start + at} and the file has {data.size}")


def read_index(file: TensorFile, data: Bytes) -> dict[Path, list[str]]:
    """The files that an index lists, with the names of the tensors in each."""
    index = _json(data[:LONGEST_HEADER].tobytes())
    places, file.metadata = index.get("weight_map"), index.get("metadata") or {}
    if not isinstance(places, dict) or not isinstance(file.metadata, dict):
        raise ValueError("it is JSON without a 'weight_map', so it is not the index of a model")
    parts: dict[Path, list[str]] = {}
    for name, place in places.items():
        parts.setdefault(sibling(file.path, place), []).append(name)
    return parts


def save_safetensors(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write NumPy arrays or PyTorch tensors to `path`, completely or not at all.

    Other objects with ``shape``, ``dtype`` and ``__array__`` work too: each is read when it is
    written, one after the other, sorted by name within a dtype. The bytes go to a new file in the
    same folder, which takes the name `path` once it is on disk. The same arrays always give the
    same bytes, those of the `safetensors` library.
    """
    target = Path(path)
    if not _is_text(dict(metadata or {})):
        raise VieteError(f"{target}: the metadata must be a table of strings")
    found: dict[str, TensorInfo] = {}
    for name, array in arrays.items():
        if not _is_text({name: ""}) or name == "__metadata__":
            raise VieteError(f"{target}: {name!r} cannot be a tensor's name; use other text")
        try:
            found[name] = info_of(name, array if hasattr(array, "dtype") else np.asarray(array))
            if found[name].dtype not in NAMES:
                raise ValueError(f"a {type(array).__name__} of dtype {found[name].dtype}")
        except (TypeError, ValueError, RuntimeError) as error:
            raise VieteError(
                f"{target}: '{name}' cannot be written ({error}); "
                f"it must be an array of dtype {', '.join(NAMES)}"
            ) from None
    rank, at = {dtype: -place for place, dtype in enumerate(NAMES)}, 0
    order = sorted(found, key=lambda name: (rank[found[name].dtype], name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    for name in order:
        shape, dtype = found[name].shape, found[name].dtype
        span = (at, at := at + math.prod(shape) * SIZES[dtype])
        header[name] = {"dtype": NAMES[dtype], "shape": shape, "data_offsets": span}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with replacing(target) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(raw_bytes(arrays[name]).data)


def _json(raw: bytes) -> dict[str, Any]:
    """A JSON object without repeated keys."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for name, value in pairs:
            if name in table:
                raise KeyError(name)
            table[name] = value
        return table

    try:
        table = decoded(raw.decode(), object_pairs_hook=once)
    except KeyError as error:
        raise ValueError(f"it holds the name {error} twice") from None
    except ValueError:
        table = None
    if not isinstance(table, dict) or not raw.startswith(b"{"):
        raise ValueError("its header is not a JSON table")
    return table


def _is_text(table: object) -> bool:
    """Whether an object is a table of strings that UTF-8 can encode."""
    if not isinstance(table, dict):
        return False
    words = [*table, *table.values()]
    return all(isinstance(w, str) and not any("\ud800" <= c <= "\udfff" for c in w) for w in words)
