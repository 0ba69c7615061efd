"""Answers over checkpoints: a number as a curve, a table as small multiples, a matrix as maps.

For a comparison, the curves mark the step from which it holds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from viete.errors import VieteError
from viete.evaluate.inputs import in_numpy
from viete.report.answer_rows import AnswerRow
from viete.report.checkpoint_rows import first_holding, is_comparison, steps_of
from viete.report.pictures.choosing import where
from viete.report.pictures.heat import HeatPanel, heat
from viete.report.pictures.multiples import LinePanel, multiples
from viete.report.pictures.picture import Picture, stacked

CURVES = 36  # panels with a curve each; of more numbers there are maps
MAPS = 8  # side by side


def over_checkpoints(
    rows: Sequence[AnswerRow], titles: Sequence[str], letters: Collection[str], title: str
) -> Picture:  # fmt: skip
    """The answers over the steps of the checkpoints. ``letters`` are axes that count parts.

    Raises VieteError for rows that are not one for each step, for answers whose shapes differ, and
    for answers without finite numbers.
    """
    steps = steps_of(rows)
    drawn: list[Picture] = []
    marks = {}
    for k, name in enumerate(titles):
        if is_comparison(rows, k):
            found = first_holding(rows, k)
            if found is not None:
                marks[steps[found[0]]] = name
    numbered = [(k, t) for k, t in enumerate(titles) if not is_comparison(rows, k)]
    for single, group in groupby(numbered, key=lambda q: np.ndim(rows[0].answers[q[0]].array) == 0):
        if single:
            panels = [LinePanel(t, {"": values_of(rows, k)}) for k, t in group]
            alone = [LinePanel("", p.lines) for p in panels] if len(panels) == 1 else panels
            name = panels[0].title if len(panels) == 1 else ""
            drawn.append(multiples(name, steps, alone, min(3, len(panels)), False, marks))
            continue
        for k, name in group:
            drawn.append(array_picture(rows, k, name, steps, letters, marks))
    if not drawn and marks:
        raise VieteError("a comparison has no curve; ask for the numbers that it compares")
    return stacked(drawn, title) if len(drawn) > 1 else titled(drawn[0], title)


def titled(picture: Picture, title: str) -> Picture:
    """A picture with a title, if it has none."""
    return picture if picture.title else replace(picture, title=title)


def array_picture(
    rows: Sequence[AnswerRow], k: int, name: str, steps: Sequence[int], letters: Collection[str],
    marks: dict[int, str],
) -> Picture:  # fmt: skip
    """An answer with axes: curves of few numbers, else maps."""
    answer, values = rows[0].answers[k], values_of(rows, k)
    shape, core = values.shape[1:], [a for a in answer.axes if a.rstrip("'") not in letters]
    if values[0].size <= CURVES and (len(core) < 2 or values[0].size <= 4):
        panels = [LinePanel(where(answer, p) or name, {"": values[:, *p]})
                  for p in np.ndindex(shape)]  # fmt: skip
        return multiples(name, steps, panels, shape[-1] if len(shape) > 1 else 0, True, marks)
    if len(shape) == 1:  # steps down, entries across
        columns = [str(x) for x in answer.labels[0]]
        return heat(name, [HeatPanel("", values)], [str(s) for s in steps], columns,
                    ("step", answer.axes[0]))  # fmt: skip
    chosen = sorted({round(x) for x in np.linspace(0, len(rows) - 1, min(MAPS, len(rows)))})
    lines, columns = ([str(x) for x in labels] for labels in answer.labels[-2:])
    panels_of = [
        HeatPanel(", ".join(filter(None, (where(answer, place), f"step {steps[r]:,}"))),
                  values[r][place])
        for place in np.ndindex(shape[:-2]) for r in chosen
    ]  # fmt: skip
    said = f"{name}, at {len(chosen)} of {len(rows)} steps" if len(chosen) < len(rows) else name
    return heat(said, panels_of, lines, columns, (answer.axes[-2], answer.axes[-1]), len(chosen))


def values_of(rows: Sequence[AnswerRow], k: int) -> np.ndarray:
    """A question's numbers, steps first, in float64."""
    arrays = [in_numpy(row.answers[k].array) for row in rows]
    question = rows[0].answers[k].question
    if any(a.dtype.kind not in "fiu" for a in arrays):
        raise VieteError(f"{question} has numbers that are not floats, so it has no picture")
    if len({a.shape for a in arrays}) > 1:
        raise VieteError(
            f"{question} has different shapes at different steps, so it has no picture"
        )
    out = np.stack(arrays).astype(np.float64)
    if not np.isfinite(out).any():
        raise VieteError(f"{question} has no finite number to draw")
    return out


__all__ = ["over_checkpoints"]
