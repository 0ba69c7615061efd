"""Arrays that are in memory already, as if they were a file of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from viete.errors import VieteError
from viete.formats.tensors import (
    SIZES,
    TensorFile,
    TensorInfo,
    from_array,
    from_bytes,
    torch_bytes,
)


def in_memory(name: str | Path, arrays: Mapping[str, Any]) -> TensorFile:
    """NumPy arrays or PyTorch tensors by name; ``name`` is what they are called in errors.

    Nothing is copied for the library that they are of: a PyTorch tensor is loaded as itself,
    without its gradient. Raises VieteError for what is no dense array of a known dtype.
    """
    file = TensorFile(Path(name), "memory")
    for key, array in arrays.items():
        dtype = str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")
        if dtype not in SIZES or getattr(array, "is_meta", False):
            raise VieteError(f"{name}: '{key}' is no array with numbers of its own ({dtype})")
        info = TensorInfo(str(key), tuple(map(int, array.shape)), dtype)
        file.add(info, partial(given, array, info))
    return file


def given(array: Any, info: TensorInfo, framework: str) -> Any:
    """The array in a framework's form."""
    if not hasattr(array, "detach"):
        return from_array(array, info, framework)
    if framework == "torch":
        return array.detach()
    import torch

    return from_bytes(torch_bytes(torch, array), info, framework)


__all__ = ["in_memory"]
