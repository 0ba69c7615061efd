"""Answers over checkpoints as curves: one picture of all, or a curve each for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from viete.document.colours import SERIES
from viete.errors import VieteError
from viete.evaluate.answer_page import in_numpy
from viete.report.answer_files import named_entries
from viete.report.answer_rows import AnswerRow
from viete.report.pictures.curve import curve
from viete.report.pictures.picture import Picture, stacked
from viete.train.plot import Curve, svg

CURVES = 24


def curves_svg(rows: Sequence[AnswerRow], title: str) -> str:
    """Every number that is asked for, over the steps of the checkpoints, as an SVG.

    Raises VieteError as `steps_of`, and for too many numbers.
    """
    steps, lines = steps_of(rows), list[Curve]()
    for k, (name, values) in enumerate(numbers(rows)):
        finite = np.isfinite(values)
        points = tuple((float(s), float(v)) for s, v in zip(steps, values, strict=True)
                       if np.isfinite(v))  # fmt: skip
        if finite.any():
            lines.append(Curve(name, points, False, SERIES[k % len(SERIES)]))
    if not lines:
        raise VieteError("there is no finite number to draw")
    return svg(lines, title, "")


def curves(rows: Sequence[AnswerRow], title: str) -> Picture:
    """The same as a curve for each number, one below the other. Raises as `curves_svg`."""
    names = [str(step) for step in steps_of(rows)]
    return stacked([curve(name, names, values, "step") for name, values in numbers(rows)], title)


def steps_of(rows: Sequence[AnswerRow]) -> list[int]:
    """The steps of checkpoints. Raises VieteError for rows that are not one of each."""
    found = [re.search(r"\d+", row.revision) for row in rows]
    steps = [int(s[0]) for s in found if s]
    if len(rows) < 2 or len(set(steps)) < len(rows):
        raise VieteError(
            "a curve needs several checkpoints with their steps: --revision step1000,step2000"
        )
    return steps


def numbers(rows: Sequence[AnswerRow]) -> Iterator[tuple[str, np.ndarray]]:
    """Each number that is asked for, by its name, in every row. Raises VieteError for too many."""
    names = [named_entries(answer) for answer in rows[0].answers]
    if not 0 < (count := sum(map(len, names))) <= CURVES:
        raise VieteError(f"a picture has from 1 to {CURVES} curves, and these are {count}")
    for k, entries in enumerate(names):
        values = np.stack([in_numpy(row.answers[k].array).reshape(-1) for row in rows])
        yield from zip(entries, values.astype(np.float64).T, strict=True)


__all__ = ["curves", "curves_svg"]
