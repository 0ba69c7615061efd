"""Readers of `.npy`, `.npz`, ONNX and llama2.c's `.bin`: each fills a `TensorFile` from bytes.

Each reader checks what a file claims about its tensors before it reads any of their numbers.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from viete.formats.tensors import (
    SIZES,
    Bytes,
    Mapped,
    TensorFile,
    TensorInfo,
    byte_count,
    from_array,
    from_bytes,
    require,
    sibling,
)

# -- NumPy -----------------------------------------------------------------------------------------


def read_npy(file: TensorFile, data: Bytes) -> None:
    """A single array without a name, which gets NumPy's name, 'arr_0'."""
    stream = io.BytesIO(data[:65536].tobytes())
    add_npy(file, "arr_0", stream, data.size, lambda start: data[start:])


def read_npz(file: TensorFile, data: Bytes) -> None:
    """One array for each member, loaded in full, so that the zip file's checksums are verified."""
    archive = zipfile.ZipFile(file.path)
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        # Deflate cannot do better than 1032 to 1: a larger claim would only fill the memory.
        if member.compress_size > data.size or member.file_size > 1040 * member.compress_size + 64:
            raise ValueError(f"its member '{member.filename}' claims {member.file_size} bytes")
        if name == member.filename:
            file.refuse(name, "a member that is not a .npy")
            continue

        def load(start: int, member: zipfile.ZipInfo = member) -> Bytes:
            return np.frombuffer(archive.read(member), np.uint8)[start:]

        with archive.open(member) as stream:
            add_npy(file, name, stream, member.file_size, load)


def add_npy(
    file: TensorFile, name: str, stream: IO[bytes], size: int, load: Callable[[int], Bytes]
) -> None:
    """Add the array whose header is in `stream`, and whose numbers `load(start)` reads.

    An array of pickled objects is refused: nothing in a file is executed.
    """
    major, _ = npy.read_magic(stream)
    header = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
    shape, fortran, dtype = header(stream)
    if dtype.name not in SIZES:
        what = "an array of pickled objects" if dtype.hasobject else f"an array of dtype {dtype}"
        file.refuse(name, what)
        return
    start = stream.tell()
    if byte_count(name, shape, dtype.itemsize) != size - start:
        raise ValueError(f"array '{name}' of shape {shape} cannot fill {size - start} bytes")
    info = TensorInfo(name, shape, dtype.name)

    def array(framework: str) -> Any:
        flat = load(start).view(dtype)
        whole = flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
        return from_array(whole, info, framework)

    file.add(info, array)


# -- ONNX ------------------------------------------------------------------------------------------


def read_onnx(file: TensorFile, data: Bytes) -> None:
    """A graph's initialisers, in the file or next to it; nodes and subgraphs are not read."""
    onnx = require("onnx", f"{file.path}: to read an ONNX file")
    model = onnx.ModelProto.FromString(data.tobytes())
    if not model.ir_version or not model.HasField("graph"):
        raise ValueError("it holds no graph")
    for sparse in model.graph.sparse_initializer:
        file.refuse(sparse.values.name, "it is sparse")
    beside: dict[Path, Bytes] = {}
    for proto in model.graph.initializer:
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type).name
        except KeyError:
            dtype = f"number {proto.data_type}"
        if dtype not in SIZES:
            file.refuse(proto.name, f"it is of dtype {dtype}")
            continue
        info = TensorInfo(proto.name, tuple(proto.dims), dtype)
        size = byte_count(info.name, info.shape, SIZES[dtype])
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            where = {entry.key: entry.value for entry in proto.external_data}
            part = sibling(file.path, where.get("location"))
            if part not in beside:
                beside[part] = Mapped(part).bytes if part.stat().st_size else np.empty(0, np.uint8)
            start, length = int(where.get("offset") or 0), int(where.get("length") or size)
            raw = beside[part][start : start + length] if start >= 0 else beside[part][:0]
        elif proto.HasField("raw_data"):
            raw, length = np.frombuffer(proto.raw_data, np.uint8), size
        else:
            file.add(info, partial(load_typed, onnx.numpy_helper, proto, info))
            continue
        if not raw.size == length == size:
            raise ValueError(f"tensor '{info.name}' has {raw.size} bytes and needs {size}")
        file.add(info, partial(from_bytes, raw, info))


def load_typed(helper: Any, proto: Any, info: TensorInfo, framework: str) -> Any:
    """A `Load` of the numbers in the field of their type."""
    return from_array(helper.to_array(proto), info, framework)


# -- llama2.c --------------------------------------------------------------------------------------
# Such a file has no names: sizes, then the float32 numbers of one tensor after another, each for
# all blocks at once. The names, the shapes and both orders are those of run.c and export.py
# (Karpathy 2023).

MAGIC = b"24ka"  # 0x616b3432 as it lies in a file of version 1
KEYS = ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len")
LARGEST = 2**20
SHAPES = {
    "token_embedding_table": "vocab_size dim", "rms_att_weight": "n_layers dim",
    "wq": "n_layers dim dim", "wk": "n_layers kv_dim dim", "wv": "n_layers kv_dim dim",
    "wo": "n_layers dim dim", "rms_ffn_weight": "n_layers dim", "w1": "n_layers hidden_dim dim",
    "w2": "n_layers dim hidden_dim", "w3": "n_layers hidden_dim dim", "rms_final_weight": "dim",
    "freq_cis_real": "seq_len turns", "freq_cis_imag": "seq_len turns", "wcls": "vocab_size dim",
}  # fmt: skip
FIRST_IN_VERSION_1 = ("rms_att_weight", "rms_ffn_weight", "rms_final_weight")


def is_llama2c(head: bytes) -> bool:
    """Whether a file begins with llama2.c's magic word, or with seven consistent sizes."""
    if head.startswith(MAGIC):
        return True
    if len(head) < 28:
        return False
    dim, hidden, layers, heads, groups, vocabulary, length = struct.unpack_from("<7i", head)
    sizes = (dim, hidden, layers, heads, groups, abs(vocabulary), length)
    return all(0 < n < LARGEST for n in sizes) and dim % heads == 0 and heads % groups == 0


def read_llama2c(file: TensorFile, data: Bytes) -> None:
    """The place of each tensor in the file; together they must fill it exactly."""
    head = data[:256].tobytes()
    names, at, sizes_at = list(SHAPES), 28, 0
    if head.startswith(MAGIC):
        (version,) = struct.unpack_from("<i", head, 4)
        if version != 1:
            raise ValueError(
                f"it has version {version}, with quantised numbers; export it as version 0 or 1"
            )
        rest = (n for n in names if n not in FIRST_IN_VERSION_1 and "freq" not in n)
        names, at, sizes_at = [*FIRST_IN_VERSION_1, *rest], 256, 8
    sizes = dict(zip(KEYS, struct.unpack_from("<7i", head, sizes_at), strict=True))
    # Of old, a negative vocabulary says that the unembedding is a matrix of its own.
    shared = bool(head[36]) if sizes_at else sizes["vocab_size"] > 0
    sizes["vocab_size"] = abs(sizes["vocab_size"])
    if not all(0 < n < LARGEST for n in sizes.values()):
        raise ValueError(f"its sizes are impossible: {sizes}")
    file.metadata["config"] = {"model_type": "llama2c", **sizes, "shared_classifier": shared}
    width = sizes["dim"] // sizes["n_heads"]
    sizes |= {"kv_dim": width * sizes["n_kv_heads"], "turns": width // 2}
    for name in names[: len(names) - shared]:
        shape = tuple(sizes[key] for key in SHAPES[name].split())
        stop = at + 4 * math.prod(shape)
        if stop > data.size:
            raise ValueError(f"tensor '{name}' {list(shape)} ends at byte {stop} of {data.size}")
        file.place(TensorInfo(name, shape, "float32"), at, stop)
        at = stop
    if at != data.size:
        raise ValueError(f"its tensors end at byte {at} and the file has {data.size}")
