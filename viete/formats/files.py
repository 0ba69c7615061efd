"""Opens a file of tensors in any format, and writes tensors as safetensors.

    file = open_tensors("model.safetensors")
    file.infos["wte"]               # TensorInfo(name='wte', shape=(50257, 768), dtype='float32')
    file.load("wte")                # a read-only NumPy array, mapped where the format allows
    file.load("wte", "torch")       # a PyTorch tensor that you may change

Nothing in a file is ever executed, and every size in it is checked against the file's own size. A
file must not be changed in place while it is open; `save_safetensors` may write to its name, since
it puts a new file there.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from viete.atomic import replacing
from viete.errors import VieteError
from viete.formats import gguf_file, pickled, readers, safetensors_file
from viete.formats.safetensors_file import save_safetensors
from viete.formats.tensors import Bytes, Mapped, TensorFile, TensorInfo, in_a_sentence, in_memory

__all__ = ["TensorFile", "TensorInfo", "in_memory", "open_tensors", "save_npz", "save_safetensors"]

FORMATS = "safetensors (or its index.json), .npz, .npy, PyTorch, ONNX, GGUF or llama2.c's .bin"

Reader = Callable[[TensorFile, Bytes], None]


def open_tensors(path: str | os.PathLike[str]) -> TensorFile:
    """The tensors of `path`, in the format of its first bytes; none is loaded yet.

    `pickled.read` says what a PyTorch checkpoint's nested tables become.
    """
    return _open(Path(path))


def _open(path: Path, part: bool = False) -> TensorFile:
    format, read, mapped = in_a_sentence(path, "a tensor file", _detect, path)
    if part and read is _read_index:
        raise VieteError(f"{path}: is an index, and another index names it as a part")
    file = TensorFile(path, format, mapped)
    in_a_sentence(path, format, read, file, mapped.bytes)
    return file


def _detect(path: Path) -> tuple[str, Reader, Mapped]:
    if path.is_dir():
        raise VieteError(f"{path}: is a folder; give the file in it, such as model.safetensors")
    if path.exists() and not path.is_file():
        raise VieteError(f"{path}: is not a regular file; give one that is")
    if not path.stat().st_size:
        raise VieteError(f"{path}: is empty; a tensor file is one of {FORMATS}")
    data = Mapped(path)
    head = data.bytes[:64].tobytes()
    if readers.is_llama2c(head):
        return "llama2.c", readers.read_llama2c, data
    for start, at, format, read in SIGNATURES:
        if head[at:].startswith(start):
            if format == "npz" and holds_pickle(path):
                return "PyTorch", pickled.read, data
            return format, read, data
    if head.startswith(b"version https://git-lfs"):
        raise VieteError(f"{path}: is a Git LFS pointer, not the weights: run git lfs pull")
    text = is_text(data.bytes[:1000])
    # The suffix counts only where the first bytes are damaged, so that the right reader says how.
    if not text and path.suffix in (".safetensors", ".onnx"):
        _, _, format, read = next(x for x in SIGNATURES if x[2].lower() == path.suffix[1:])
        return format, read, data
    hint = "; it is text, and a card's name ends in .md" if text else ""
    raise VieteError(f"{path}: is not a tensor file; it must be one of {FORMATS}{hint}")


def holds_pickle(path: Path) -> bool:
    """Whether a zip file is PyTorch's rather than NumPy's."""
    return any(name.split("/")[-1] == "data.pkl" for name in zipfile.ZipFile(path).namelist())


def is_text(head: Bytes) -> bool:
    """Whether the first bytes of a file are text written by a person."""
    words = head.tobytes().decode("utf-8", "replace").rstrip("\ufffd")  # a character that is cut
    return "\ufffd" not in words and all(c.isprintable() or c in "\t\r\n" for c in words)


def _read_index(file: TensorFile, data: Bytes) -> None:
    """A `*.index.json`, which lists the file of each tensor, next to it."""
    for path, names in safetensors_file.read_index(file, data).items():
        part = _open(path, part=True)
        for name in names:
            if name in part.infos:
                file.add(part.infos[name], part.loads[name])
            elif name in part.refused:
                file.refuse(name, part.refused[name])
            else:
                raise ValueError(f"it places tensor '{name}' in {path.name}, which lacks it")


def save_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write NumPy arrays to ``path``, completely or not at all. Raises VieteError."""
    with replacing(path) as file:
        np.savez(file, **dict(arrays))


# What a file begins with, from which byte on, its format and who reads it.
SIGNATURES: tuple[tuple[bytes, int, str, Reader], ...] = (
    (b"GGUF", 0, "GGUF", gguf_file.read),
    (b"\x93NUMPY", 0, "npy", readers.read_npy),
    (b"PK", 0, "npz", readers.read_npz),
    (b"{", 8, "safetensors", safetensors_file.read),
    (b"{", 0, "an index", _read_index),
    (b"\x80", 0, "PyTorch", pickled.read),
    (b"\x08", 0, "ONNX", readers.read_onnx),
)
