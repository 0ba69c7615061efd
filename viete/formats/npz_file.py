"""NumPy's `.npy` and `.npz`, without the pickles that they may hold."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from viete.atomic import replacing
from viete.formats.tensors import SIZES, Bytes, TensorFile, TensorInfo, byte_count, from_array


def read_npy(file: TensorFile, data: Bytes) -> None:
    """A single array, which has no name of its own: it gets NumPy's, 'arr_0'."""
    stream = io.BytesIO(data[:65536].tobytes())
    _add(file, "arr_0", stream, data.size, lambda start: data[start:])


def read_npz(file: TensorFile, data: Bytes) -> None:
    """An array a member. Members load whole, so that the zip's checksums are checked."""
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
            _add(file, name, stream, member.file_size, load)


def _add(
    file: TensorFile, name: str, stream: IO[bytes], size: int, load: Callable[[int], Bytes]
) -> None:
    """Take in the array whose header `stream` gives, and whose numbers `load(start)` does."""
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


def save_npz(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Write NumPy arrays to ``path``, whole or not at all. Raises VieteError."""
    with replacing(path) as file:
        np.savez(file, **dict(arrays))
