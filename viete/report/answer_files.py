"""Answers as data files: CSV, JSON, arrays."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import in_numpy
from viete.report.answer_rows import AnswerRow, leading

WIDEST = 10_000  # columns of a table in a file


def to_csv(rows: Sequence[AnswerRow]) -> str:
    """One line for each row; for an answer with axes a column for each entry.

    Raises VieteError where an answer has another shape on another text.
    """
    lead = leading(rows)
    header, getters = list(lead), []
    for k, first in enumerate(rows[0].answers):
        shapes = {np.shape(row.answers[k].array) for row in rows}
        if len(shapes) > 1 or int(np.prod(np.shape(first.array))) > WIDEST:
            raise VieteError(
                f"{first.question} is not a table: its answers have has different shapes on texts, "
                f"or more than {WIDEST:,} entries; -o FILE.npz or FILE.json takes them"
            )
        header += named_entries(first)
        getters.append(k)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        values = (x for k in getters for x in in_numpy(row.answers[k].array).reshape(-1))
        writer.writerow([*(getattr(row, name) for name in lead), *map(plain, values)])
    return out.getvalue()


def named_entries(answer: Answer) -> list[str]:
    """``A^{i,h}_{-1,0} [i = 1, h = 2]`` for each entry."""
    shape = np.shape(answer.array)
    if not shape:
        return [answer.question]
    return [
        f"{answer.question} [" + ", ".join(
            f"{axis} = {labels[i]}"
            for axis, labels, i in zip(answer.axes, answer.labels, place, strict=True)
        ) + "]"
        for place in np.ndindex(shape)
    ]  # fmt: skip


def plain(x: Any) -> Any:
    """An entry for JSON and CSV: a number, or text where it is not a finite number."""
    if isinstance(x, np.void):
        return [plain(y) for y in x.tolist()]
    x = x.item() if isinstance(x, np.generic) else x
    if isinstance(x, bool | int):
        return x
    if isinstance(x, float):
        return x if np.isfinite(x) else str(x)
    return str(x)


def as_data(rows: Sequence[AnswerRow]) -> list[dict[str, Any]]:
    """The rows for JSON."""

    def nested(array: Any) -> Any:
        values = in_numpy(array)
        return plain(values[()]) if values.ndim == 0 else [nested(x) for x in values]

    return [
        {
            **{name: getattr(row, name) for name in ("revision", "text") if getattr(row, name)},
            "tokens": {
                line.name: [{"position": j, "id": k, "token": word}
                            for j, (k, word) in enumerate(zip(line.ids, line.words, strict=True))]
                for line in row.tokens
            },
            "answers": [
                {"question": a.question, "value": nested(a.array), "axes": list(a.axes),
                 "labels": [list(x) for x in a.labels],
                 **({} if a.names is None else {"names": a.names.tolist()})}
                for a in row.answers
            ],
        }
        for row in rows
    ]  # fmt: skip


def as_arrays(rows: Sequence[AnswerRow]) -> dict[str, np.ndarray]:
    """An array for each question, rows first; an array for each text where their shapes differ."""
    out: dict[str, np.ndarray] = {}
    for k, first in enumerate(rows[0].answers):
        values = [in_numpy(row.answers[k].array) for row in rows]
        if any(v.dtype.kind == "O" for v in values):
            raise VieteError("exact numbers are written as -o FILE.json or FILE.csv")
        if len(rows) == 1:
            out |= {name: in_numpy(array) for name, array in first.arrays.items()}
        elif len({v.shape for v in values}) == 1:
            out[first.question] = np.stack(values)
        else:
            out |= {f"{first.question} {j}": v for j, v in enumerate(values)}
    return out


__all__ = ["as_arrays", "as_data", "named_entries", "to_csv"]
