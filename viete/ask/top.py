"""``top_5(logits_{-1})``: the largest entries of each row of an answer, with their names.

It is not a formula, since its answer is places as well as numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from heapq import nsmallest
from itertools import islice
from math import prod
from typing import Any, Self

import numpy as np

from viete.ask.question_heads import headed
from viete.errors import VieteError
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import in_numpy
from viete.evaluate.run import Run

TOP = "top"
ROWS = 24  # that are printed
WIDTH, DIGITS = 48, 6  # of an exact number


@dataclass(frozen=True, repr=False)
class Top(Answer):
    """The greatest entries of each row of a value, the greatest first; equal ones keep their order.

    ``values``, ``indices`` and ``names`` have the axes of the value, the last of them as long as
    the number of entries asked for, or of all if the row has fewer. ``names`` are the labels of the
    entries.
    """

    names: np.ndarray = field(kw_only=True)
    indices: np.ndarray = field(kw_only=True)

    @property
    def values(self) -> np.ndarray:
        """The entries."""
        found: np.ndarray = self.array
        return found

    @property
    def rows(self) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
        """Each row's name, empty for a single row, and its entries' names and values."""
        for place in np.ndindex(self.values.shape[:-1]):
            where = ", ".join(f"{axis} {labels[k]}" for axis, labels, k in
                              zip(self.axes, self.labels, place, strict=False)
                              if len(labels) > 1)  # fmt: skip
            yield where, list(zip(self.names[place], self.values[place], strict=True))

    def part(self, place: tuple[int, ...]) -> Self:
        """The answer at one place, as `Answer.part`."""
        return replace(super().part(place), indices=self.indices[place])

    def __repr__(self) -> str:
        lines, count = [self.question], prod(self.values.shape[:-1])
        for where, entries in islice(self.rows, ROWS):
            lines += [where] * bool(where)
            wide = max((len(name) for name, _ in entries), default=0)
            lines += [f"  {name:{wide}}  {spelled(value)}" for name, value in entries]
        lines += [f"… ({count - ROWS} rows more)"] * (count > ROWS)
        return "\n".join(lines)

    __str__ = __repr__


def spelled(value: Any) -> str:
    """An entry as text; a float, or a long exact number, in six digits."""
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    text = str(value)
    return text if len(text) <= WIDTH or not hasattr(value, "decimal") else value.decimal(DIGITS)


def top_of(run: Run, question: str) -> tuple[int, str] | None:
    """The count and the formula of a question for the greatest entries; None for any other.

    Raises VieteError where text follows its parentheses, and for a count of 0.
    """
    found = headed(run, question, (TOP,))
    if found is None or found.count is None:
        return None
    return found.count, ", ".join(found.formulas)


def top(run: Run, count: int, question: str) -> Top:
    """The ``count`` greatest entries of each row of a question's answer, or all if it has fewer.

    Raises VieteError as ``run[question]`` does, for one number, and where the order of entries is
    undecided: of exact numbers that cannot be told apart, of intervals that overlap.
    """
    answer = run.answer(question)
    array = in_numpy(answer.array)
    if not array.ndim:
        raise VieteError(f"{question} is one number; {TOP}_{count} takes a vector or a matrix")
    if answer.axes[-1] == "1" and array.ndim > 1:  # a column is a vector
        answer = Answer(question, array[..., 0], answer.axes[:-1], answer.labels[:-1])
        array = array[..., 0]
    size = array.shape[-1]
    places = np.empty((*array.shape[:-1], min(count, size)), np.int64)
    for place in np.ndindex(array.shape[:-1]):
        places[place] = greatest(run, array[place], min(count, size))
    names = np.empty(places.shape, object)
    for place in np.ndindex(places.shape):
        names[place] = answer.labels[-1][int(places[place])]
    one = places.size == places.shape[-1]
    ranks = list(names.reshape(-1)) if one else [str(k + 1) for k in range(places.shape[-1])]
    return Top(
        f"{TOP}_{count}({question})", np.take_along_axis(array, places, axis=-1),
        (*answer.axes[:-1], TOP), (*answer.labels[:-1], ranks), indices=places, names=names,
    )  # fmt: skip


def greatest(run: Run, row: np.ndarray, count: int) -> list[int]:
    """The places of the greatest entries of a vector, in falling order; NaN comes last."""
    if row.dtype.names:
        return surely_greatest(row, count)
    if row.dtype == object:

        def order(a: int, b: int) -> int:
            return int(run.arrays.xp.compared(row[b], row[a])) or a - b

        return nsmallest(count, range(len(row)), key=cmp_to_key(order))
    if row.dtype.kind != "f":
        return [int(k) for k in np.argsort(-row.astype(np.int64), kind="stable")[:count]]
    down = np.where(np.isnan(row), np.inf, -row)
    there = np.arange(len(row))
    if count < len(row):
        there = np.flatnonzero(down <= np.partition(down, count - 1)[count - 1])
    places = there[np.lexsort((down[there], np.isnan(row[there])))]
    return [int(k) for k in places[:count]]


def surely_greatest(row: np.ndarray, count: int) -> list[int]:
    """As `greatest`, for intervals, each of which lies above those that follow."""
    order = np.argsort(-row["lower"], kind="stable")
    for k in range(count):
        rest = order[k + 1 :]
        wide = [int(j) for j in rest if row["upper"][j] > row["lower"][order[k]]]
        if wide:
            raise VieteError(
                f"cannot decide which of the entries {order[k]} and {wide[0]} is greater: their "
                f"bounds overlap"
            )
    return [int(k) for k in order[:count]]


__all__ = ["TOP", "Top", "top", "top_of"]
