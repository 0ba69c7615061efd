"""In which precision a model's weights are computed with, and on which device."""

from __future__ import annotations

import math
from typing import Any

from viete.errors import VieteError
from viete.formats.tensors import SIZES, TensorFile, require

FLOATS = ("float16", "bfloat16", "float32", "float64")


def precision(file: TensorFile, framework: str, dtype: str | None = None) -> str | None:
    """The dtype of all weights: the one asked for, else the widest that is stored.

    On NumPy halves become float32. Its matrix products know no other floats than float32 and
    float64, so that a bfloat16 network would take hundreds of times as long and round after every
    addition. Say ``dtype="bfloat16"`` for that. None where the file holds no such numbers.
    """
    if framework not in ("numpy", "torch"):
        raise VieteError(f"{framework!r:.40} is no framework to load for: say 'numpy' or 'torch'")
    if dtype is not None:
        if dtype not in FLOATS:
            raise VieteError(f"weights cannot be of dtype {dtype!r:.40}; say {', '.join(FLOATS)}")
        return dtype
    stored = {info.dtype for info in file.infos.values()} & set(FLOATS)
    if framework == "numpy" and stored:
        return "float64" if "float64" in stored else "float32"
    if {"float16", "bfloat16"} <= stored:
        return "float32" if "float64" not in stored else "float64"
    return max(stored, key=FLOATS.index, default=None)


def place(device: str | None, file: TensorFile, dtype: str | None) -> str | None:
    """The device that ``device`` means: 'auto' is the GPU with the most room, if it has enough.

    Otherwise it is the CPU. Raises VieteError for a device that PyTorch cannot use.
    """
    if device is None:
        return None
    torch = require("torch", f"to load for the device {device}")
    if device == "auto":
        return roomiest(torch, weight_bytes(file, dtype))
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        why = str(error).strip().split("\n")[0]
        raise VieteError(f"PyTorch cannot use the device {device!s:.40} ({why})") from None
    return str(device)


def roomiest(torch: Any, wanted: int) -> str:
    """The GPU with the most free memory, where the weights and a tenth more fit, or 'cpu'."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    free = {torch.cuda.mem_get_info(k)[0]: f"cuda:{k}" for k in range(count)}
    most = max(free, default=0)
    return free[most] if most > 1.1 * wanted else "cpu"


def weight_bytes(file: TensorFile, dtype: str | None) -> int:
    """How many bytes a file's tensors take in a dtype."""
    return sum(
        math.prod(info.shape) * SIZES.get(dtype or info.dtype, 4) for info in file.infos.values()
    )


__all__ = ["FLOATS", "place", "precision"]
