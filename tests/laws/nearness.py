"""Arrays of any library compared: equal but for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def host(array: Any) -> np.ndarray:
    """An array of any library as float64 of NumPy."""
    if isinstance(array, torch.Tensor):
        array = array.detach().double()  # NumPy has no bfloat16
    return np.asarray(array, np.float64)


def close(got: Any, want: Any, what: str = "", bound: float = 1e-8) -> None:
    """Equal but for rounding: ``bound`` is relative to the largest entry."""
    got, want = host(got), host(want)
    assert got.shape == want.shape, f"{what}: shapes {got.shape} and {want.shape}"
    finite = np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite], equal_nan=True), f"{what}: not finite alike"
    if finite.any():
        error = np.max(np.abs(got[finite] - want[finite]))
        size = max(1.0, float(np.max(np.abs(want[finite]))))
        assert error <= bound * size, f"{what}: {error:.2e} apart, of {size:.2e}\n{got}\n{want}"
