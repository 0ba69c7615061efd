"""Values of a page: arrays with named axes as JSON, limited to the size that a page may carry."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viete.meanings.exact.deciding import Undecided
from viete.meanings.exact.decimals import enclosure
from viete.meanings.exact.factoring import simplest
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.spelling import short
from viete.notation.mathml import mathml
from viete.notation.printer import show
from viete.notation.tree import Num

Labels = (
    Sequence[str] | str | None
)  # names, 'words' and 'vocabulary' for those of the page, or none
BYTES = 8  # of a number
LETTERS, DIGITS = 48, 6  # of an exact number: the most that are written out, and else its digits
LONGEST = 20  # of a fraction, which says less than a root or a power: float64 weights have 33
WORDS = {"inf": "∞", "-inf": "−∞"}


@dataclass(frozen=True)
class PageValue:
    """A value before it is written, with the ranges of its axes and the names of their entries.

    Values with the least ``rank`` are the last to be left out for lack of room. A weight of one
    block has the ``symbol`` whose member it is, and its ``name`` as MathML.
    """

    array: np.ndarray
    axes: tuple[str, ...]
    labels: tuple[Labels, ...]
    rank: int
    symbol: str | None = None
    name: str | None = None


class Shelf:
    """Values by their keys in one meaning; ``write`` makes JSON of an array's entries."""

    def __init__(self, write: Callable[[np.ndarray], dict[str, Any]]) -> None:
        self.write = write
        self.values: dict[str, PageValue] = {}

    def data(self, room: int) -> tuple[dict[str, Any], list[str], int]:
        """The values that fit, the keys of the others, and the bytes used.

        Values of a lower rank go first, and within a rank the smaller ones.
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
        out: dict[str, Any] = {
            "shape": list(v.array.shape), "axes": list(v.axes), "labels": labels,
        }  # fmt: skip
        if v.symbol is not None:
            out |= {"symbol": v.symbol, "name": v.name}
        return out | (self.write(v.array) if there else {"more": True})


def base64_floats(array: np.ndarray) -> str:
    """The entries as float64 in base64, little-endian."""
    return b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode("ascii")


def in_floats(array: np.ndarray) -> dict[str, Any]:
    """The entries as decimals."""
    whole = {"whole": True} if array.dtype.kind in "iub" else {}  # such as token ids
    return {"data": base64_floats(array), **whole}


def in_words(array: np.ndarray) -> dict[str, Any]:
    """The entries as texts, and as MathML where that shows more, as for exact numbers."""
    found = [spelled_entry(x) for x in array.reshape(-1)]
    return {"data": [text for text, _ in found], "math": [formula for _, formula in found]}


def spelled_entry(x: Any) -> tuple[str, str | None]:
    """An entry as text and as MathML; one that is too long by its certified digits."""
    if isinstance(x, np.void):  # bounds, of which all digits count; a number where they meet
        ends = list(
            dict.fromkeys(WORDS.get(str(end), f"{end!r}".removesuffix(".0")) for end in x.tolist())
        )
        return (ends[0] if len(ends) == 1 else f"[{', '.join(ends)}]").replace("-", "−"), None
    if not isinstance(x, Number):
        return WORDS.get(str(x), str(x)), None
    e = short(x, LETTERS, simplest)
    named = any(a.named for a in x.atoms())
    if e is None or named or (not x.atoms() and len(str(x)) > LONGEST):
        return f"≈\u00a0{digits(x)}".replace("-", "−"), None
    return show(e, "unicode"), None if isinstance(e, Num) and e.value.denominator == 1 else mathml(
        e
    )


def digits(x: Number) -> str:
    """Certified digits, as many as are decided."""
    try:
        return x.decimal(DIGITS)
    except Undecided:
        return enclosure(x, DIGITS)
