"""GGUF, the format of llama.cpp, with block-quantised tensors.

The `gguf` package decodes the quantised blocks. Its reader is not used: it never ends on a header
that claims a huge array, and it is slow over a real vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from viete.formats.tensors import Bytes, TensorFile, TensorInfo, byte_count, from_array, require

# GGUF's metadata types by number; 8 is a string and 9 an array.
SCALARS = dict(enumerate(["u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?"]))
SCALARS |= {10: "<u8", 11: "<i8", 12: "<f8"}
STRING, ARRAY = 8, 9
PLAIN = {"F16": "float16", "F32": "float32", "F64": "float64", "BF16": "bfloat16"}
PLAIN |= {"I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64"}


class ByteCursor:
    """A position in a file's bytes, which never passes their end."""

    def __init__(self, data: Bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> Bytes:
        """The next `count` bytes."""
        if count > self.data.size - self.at:
            raise ValueError(f"it claims {count} bytes at byte {self.at} of {self.data.size}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        """An unsigned integer."""
        return int.from_bytes(self.take(size).tobytes(), "little")

    def string(self, errors: str = "strict") -> str:
        """A string, preceded by its length."""
        return self.take(self.number(8)).tobytes().decode(errors=errors)

    def value(self, kind: int) -> Any:
        """A metadata value."""
        if kind == STRING:
            return self.string("replace")  # a token may be a piece of a character
        if kind == ARRAY:
            kind, count = self.number(4), self.number(8)
            if kind in (STRING, ARRAY):
                return [self.value(kind) for _ in range(count)]
            return self.scalars(kind, count)
        return self.scalars(kind, 1)[0]

    def scalars(self, kind: int, count: int) -> Any:
        """Metadata numbers, as a list."""
        if kind not in SCALARS:
            raise ValueError(f"it has a value of unknown type {kind} at byte {self.at}")
        dtype = np.dtype(SCALARS[kind])
        return self.take(count * dtype.itemsize).view(dtype).tolist()

    def head(self) -> tuple[str, tuple[int, ...], int, int]:
        """A tensor's name, shape, type and offset; GGUF lists the fastest axis first."""
        name, sizes = self.string(), [self.number(8) for _ in range(self.number(4))]
        return name, tuple(reversed(sizes)), self.number(4), self.number(8)


def read(file: TensorFile, data: Bytes) -> None:
    """The tensors with their shapes in NumPy's order; a quantised one loads as float32."""
    gguf = require("gguf.constants", f"{file.path}: to read a GGUF file")
    cursor = ByteCursor(data[4:])
    version = cursor.number(4)
    if version not in (2, 3):
        raise ValueError(f"its version is {version}, not a little-endian 2 or 3")
    tensors, keys = cursor.number(8), cursor.number(8)
    for _ in range(keys):
        key = cursor.string()
        if key in file.metadata:
            raise ValueError(f"it holds the key '{key}' twice")
        file.metadata[key] = cursor.value(cursor.number(4))
    heads = [cursor.head() for _ in range(tensors)]
    if isinstance(kind := file.metadata.get("general.architecture"), str):
        tied = all(name != "output.weight" for name, *_ in heads)
        file.metadata["config"] = _config(kind, file.metadata) | {"tie_word_embeddings": tied}
    step = file.metadata.get("general.alignment", 32)
    if type(step) is not int or step < 1:
        raise ValueError(f"its alignment is {step!r} and must be a positive number")
    start, expected = -(-(4 + cursor.at) // step) * step, 0
    for name, shape, code, offset in heads:
        kind = gguf.GGMLQuantizationType(code)
        block, width = gguf.GGML_QUANT_SIZES[kind]
        count = byte_count(name, shape, 8)
        if (shape or (1,))[-1] % block:
            raise ValueError(f"tensor '{name}' has rows of {shape[-1]}, not blocks of {block}")
        size = count // 8 // block * width
        # llama.cpp, too, wants each tensor right behind the one before.
        if offset != expected or start + offset + size > data.size:
            raise ValueError(f"tensor '{name}' lies at {offset}, not at {expected}, or is cut off")
        expected += -(-size // step) * step
        begin, end = start + offset, start + offset + size
        info = TensorInfo(name, shape, PLAIN.get(kind.name, kind.name))
        if info.dtype == kind.name:
            file.add(info, partial(_dequantise, kind, data[begin:end], info))
        else:
            file.place(info, begin, end)


def _config(kind: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model as llama.cpp has them: those that begin with its architecture."""
    own: dict[str, Any] = {}
    for key, value in metadata.items():
        top, *way = key.split(".")
        here = own
        for part in way[:-1] if top == kind else ():
            inner = here.setdefault(part, {})
            if not isinstance(inner, dict):
                raise ValueError(f"its key '{key}' is below a key with a value")
            here = inner
        if top == kind and way:
            here[way[-1]] = value
    return {"model_type": kind, kind: own}


def _dequantise(kind: Any, raw: Bytes, info: TensorInfo, framework: str) -> Any:
    quants = require("gguf.quants", "to read a quantised tensor")
    array = np.zeros(info.shape, np.float32)
    if raw.size:
        with np.errstate(all="ignore"):  # a block's scale may be infinite or NaN
            array[...] = quants.dequantize(raw.reshape(*info.shape[:-1], -1), kind)
    return from_array(array, info, framework)
