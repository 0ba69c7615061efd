"""Values of a page: arrays with named axes as JSON, as many as a page may carry."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Labels = (
    Sequence[str] | str | None
)  # names, 'words' and 'vocabulary' for those of the page, or none
BYTES = 8  # of a number


@dataclass(frozen=True)
class PageValue:
    """A value before it is written: what its axes range over and what their entries are called.

    Of values that a page has no room for the last to be left out have the least ``rank``.
    """

    array: np.ndarray
    axes: tuple[str, ...]
    labels: tuple[Labels, ...]
    rank: int


class Shelf:
    """Values by their keys in one meaning; ``write`` makes JSON of an array's entries."""

    def __init__(self, write: Callable[[np.ndarray], Any]) -> None:
        self.write = write
        self.values: dict[str, PageValue] = {}

    def data(self, room: int) -> tuple[dict[str, Any], list[str], int]:
        """The values that there is room for, the keys of the others, and the bytes used.

        Those of a lower rank go first, and of one rank the smaller ones.
        """
        order = sorted(self.values, key=lambda k: (self.values[k].rank, self.values[k].array.size))
        chosen, used = set[str](), 0
        for key in order:
            size = BYTES * self.values[key].array.size
            if used + size <= room:
                chosen.add(key)
                used += size
        out = {key: self.entry(v, key in chosen) for key, v in self.values.items()}
        return out, [key for key in self.values if key not in chosen], used

    def entry(self, v: PageValue, there: bool) -> dict[str, Any]:
        """One value as JSON."""
        labels = [x if x is None or isinstance(x, str) else list(x) for x in v.labels]
        out = {"shape": list(v.array.shape), "axes": list(v.axes), "labels": labels}
        return out | ({"data": self.write(v.array)} if there else {"more": True})


def base64_floats(array: np.ndarray) -> str:
    """The entries as float64, the first byte the least, in base64."""
    return b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode("ascii")
