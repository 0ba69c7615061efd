"""Slices as TransformerLens writes them: of positions, of texts, of neurons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.inputs import in_numpy
from viete.evaluate.labelled import Array


class LensSlice:
    """Some places of an axis: 3, (1, 5) for 1:5, (1, 5, 2) for 1:5:2, [0, 2], a mask; None for all.

    ``mode`` says which: 'int', which removes the axis, 'slice', 'array' or 'identity'. Raises
    VieteError for anything else.
    """

    def __init__(self, input_slice: Any = None) -> None:
        self.slice: Any = slice(None)
        self.mode = "identity"
        if isinstance(input_slice, tuple):
            self.slice, self.mode = slice(*input_slice), "slice"
        elif isinstance(input_slice, slice):
            self.slice, self.mode = input_slice, "slice"
        elif isinstance(input_slice, int | np.integer) and not isinstance(input_slice, bool):
            self.slice, self.mode = int(input_slice), "int"
        elif isinstance(input_slice, list) or hasattr(input_slice, "ndim"):
            self.slice, self.mode = in_numpy(input_slice), "array"
        elif input_slice is not None:
            raise VieteError(
                f"a slice is a number, a tuple such as (1, 5), a list of numbers or None, not "
                f"{input_slice!r:.40}"
            )

    def apply(self, tensor: Array, dim: int = 0) -> Array:
        """These places along an axis of an array."""
        if self.mode == "identity":
            return tensor
        at: list[Any] = [slice(None)] * tensor.ndim
        at[dim] = self.slice
        return tensor[tuple(at)]

    def indices(self, max_ctx: int | None = None) -> np.ndarray:
        """The numbers of these places on an axis of the length ``max_ctx``."""
        if self.mode == "int":
            return np.array([self.slice])
        if max_ctx is None:
            raise VieteError("the places of a slice depend on the length of the axis: give max_ctx")
        return np.arange(max_ctx)[self.slice]

    def __repr__(self) -> str:
        return f"<slice {self.slice}>"


Cut = int | tuple[int | None, ...] | slice | Sequence[int] | LensSlice | None


def cut(array: Array, where: Cut, axis: int = -2) -> Array:
    """A slice of an array along one axis."""
    return (where if isinstance(where, LensSlice) else LensSlice(where)).apply(array, axis)


def with_its_axis(where: Cut) -> Cut:
    """The same places, of which a single one keeps its axis."""
    return [where] if isinstance(where, int) else where


__all__ = ["Cut", "LensSlice", "cut", "with_its_axis"]
