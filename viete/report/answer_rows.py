"""Answers to the same questions on many texts or checkpoints: tables, files of data, a curve."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viete.document.tree import Block, TextTable, paragraph
from viete.errors import Text, VieteError
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import host
from viete.evaluate.labels import holds_text
from viete.evaluate.run import Run
from viete.notation.tree import Ref
from viete.notation.words import quoted
from viete.report.answers import GAP, in_numpy, label, literal, number, spelling
from viete.train.plot import COLOURS, Curve, svg

WIDEST = 10_000  # columns of a table in a file
CURVES, FEW = 24, 6
AROUND = 4  # tokens on each side of one, as its context


@dataclass(frozen=True)
class TokenLine:
    """The tokens of an input: their ids, and their words where there are some."""

    name: str
    ids: tuple[int, ...]
    words: tuple[str | None, ...]

    @property
    def labels(self) -> list[str]:
        """The words in quotes, or the ids."""
        pairs = zip(self.words, self.ids, strict=True)
        return [str(k) if word is None else quoted(word) for word, k in pairs]


@dataclass(frozen=True)
class AnswerRow:
    """The answers on one text, with its tokens."""

    answers: tuple[Answer, ...]
    text: str = ""
    tokens: tuple[TokenLine, ...] = ()
    revision: str = ""


def token_lines(run: Run) -> tuple[TokenLine, ...]:
    """The inputs of a run that hold a text of its vocabulary; none of a batch of texts."""
    card, words, out = run.program.model, run.scope.words(), list[TokenLine]()
    for item in card.inputs:
        length = item.shape[0] if len(item.shape) == 1 else None
        if not (isinstance(length, Ref) and holds_text(card, item, length.key)):
            continue
        if item.default is None and run.is_there((item.name, ())):
            ids = np.atleast_2d(host(run.lookup(item.name, ()).array))
            numbers = tuple(map(int, ids[0]))
            if len(ids) == 1:
                out.append(TokenLine(item.name, numbers, tuple(map(words.name, numbers))))
    return tuple(out)


def rows_table(rows: Sequence[AnswerRow], titles: Sequence[str]) -> list[Block]:
    """A line for each text or checkpoint, a column for each question.

    Of an array stands its shape there, of the greatest entries of a vector what they are called.
    """
    lead = leading(rows)
    header = [*lead, *map(literal, titles)]
    columns = [column(rows, k) for k in range(len(titles))]
    body = [
        [*(literal(label(getattr(row, name), 48)) for name in lead), *(c[j] for c in columns)]
        for j, row in enumerate(rows)
    ]
    return [TextTable(list(map(Text, header)), [list(map(Text, cells)) for cells in body])]


def leading(rows: Sequence[AnswerRow]) -> list[str]:
    """What tells the rows apart: a checkpoint, a text."""
    return [name for name in ("revision", "text") if any(getattr(row, name) for row in rows)]


def column(rows: Sequence[AnswerRow], k: int) -> list[str]:
    """One question's answers, all numbers with the same decimals."""
    values = [in_numpy(row.answers[k].array) for row in rows]
    numbers = [v for v in values if v.ndim == 0]
    floats = bool(numbers) and all(v.dtype.kind == "f" for v in numbers)
    spelled = spelling(np.array(numbers, dtype=float)) if floats else number
    few = [v.ndim == 1 and v.size <= FEW for v in values]
    return [
        spelled(v[()]) if v.ndim == 0
        else listed_entries(row.answers[k]) if small
        else " × ".join(map(str, v.shape))
        for v, row, small in zip(values, rows, few, strict=True)
    ]  # fmt: skip


def listed_entries(answer: Answer) -> str:
    """A few entries in a line, with their names where these are more than their numbers."""
    if answer.names is not None:
        return literal(", ".join(answer.names))
    values = in_numpy(answer.array)
    spelled, names = spelling(values), [str(x) for x in answer.labels[0]]
    bare = names == [str(k) for k in range(len(names))]
    return ", ".join(
        spelled(x) if bare else f"{literal(name)} {spelled(x)}"
        for x, name in zip(values, names, strict=True)
    )


def averaged(rows: Sequence[AnswerRow]) -> AnswerRow:
    """One row of means over texts. Raises VieteError where answers differ in shape."""
    answers = []
    for several in zip(*(row.answers for row in rows), strict=True):
        values = [in_numpy(a.array) for a in several]
        if len({v.shape for v in values}) > 1:
            raise VieteError(
                f"{several[0].question} has another shape on each text, and no mean over them; "
                f"ask for one number a text, such as its mean"
            )
        mean = np.mean(np.stack(values), axis=0)
        answers.append(Answer(several[0].question, mean, several[0].axes, several[0].labels))
    return AnswerRow(tuple(answers), revision=rows[0].revision)


# -- the largest values ----------------------------------------------------------------------------


def largest(rows: Sequence[AnswerRow], most: int) -> list[Block]:
    """For each question its largest values, where they stand, and the tokens around."""
    out: list[Block] = []
    for k, answer in enumerate(rows[0].answers):
        found = sorted(entries(rows, k, most), key=lambda e: -e[0])[:most]
        spelled = spelling(np.array([x for x, *_ in found], dtype=float))
        several = len(rows) > 1
        header = ["value", *(["line"] if several else []), "where", "context"]
        body = [
            [spelled(x), *([str(j + 1)] if several else []), literal(where), literal(context)]
            for x, j, where, context in found
        ]
        out += [paragraph(f"{literal(answer.question)}, the {len(found)} largest"),
                TextTable(*used(header, body))]  # fmt: skip
    return out


def used(header: list[str], body: list[list[str]]) -> tuple[list[Text], list[list[Text]]]:
    """A table's cells, without columns that say nothing."""
    kept = [c for c in range(len(header)) if any(row[c] not in ("", "``") for row in body)]
    return [Text(header[c]) for c in kept], [[Text(row[c]) for c in kept] for row in body]


def entries(
    rows: Sequence[AnswerRow], k: int, most: int
) -> Iterator[tuple[float, int, str, str]]:  # fmt: skip
    """The largest entries of each row: the value, the row, the place, the context."""
    for j, row in enumerate(rows):
        answer = row.answers[k]
        values = in_numpy(answer.array)
        flat = values.reshape(-1).astype(float)
        finite = np.flatnonzero(np.isfinite(flat))
        some = finite[np.argsort(-flat[finite], kind="stable")[:most]]
        for at in some:
            place = [int(i) for i in np.unravel_index(at, values.shape)]
            where = ", ".join(
                f"{axis} = {labels[i]}"
                for axis, labels, i in zip(answer.axes, answer.labels, place, strict=True)
            )
            yield float(flat[at]), j, where, context(row, answer, place)


def context(row: AnswerRow, answer: Answer, place: Sequence[int]) -> str:
    """The tokens around the positions of an entry, each of these in brackets."""
    for line in row.tokens:
        at = [i for n, i in zip(answer.array.shape, place, strict=True) if n == len(line.ids)]
        if at:
            first, last = max(0, min(at) - AROUND), min(len(line.ids), max(at) + AROUND + 1)
            words = [
                f" {k}" if word is None else quoted(word)[1:-1]
                for word, k in zip(line.words[first:last], line.ids[first:last], strict=True)
            ]
            marked = (f"[{w}]" if i in at else w for i, w in enumerate(words, first))
            return (GAP if first else "") + "".join(marked) + (GAP if last < len(line.ids) else "")
    return ""


# -- files of data ---------------------------------------------------------------------------------


def to_csv(rows: Sequence[AnswerRow]) -> str:
    """A line for each row; of an answer with axes a column for each entry.

    Raises VieteError where an answer has another shape on another text.
    """
    lead = leading(rows)
    header, getters = list(lead), []
    for k, first in enumerate(rows[0].answers):
        shapes = {np.shape(row.answers[k].array) for row in rows}
        if len(shapes) > 1 or int(np.prod(np.shape(first.array))) > WIDEST:
            raise VieteError(
                f"{first.question} is no table: its answers have other shapes on other texts, or "
                f"more than {WIDEST:,} entries; -o FILE.npz or FILE.json takes them"
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
    """An entry as JSON and CSV have it: a number, or the text of what is none."""
    if isinstance(x, np.void):
        return [plain(y) for y in x.tolist()]
    x = x.item() if isinstance(x, np.generic) else x
    if isinstance(x, bool | int):
        return x
    if isinstance(x, float):
        return x if np.isfinite(x) else str(x)
    return str(x)


def as_data(rows: Sequence[AnswerRow]) -> list[dict[str, Any]]:
    """The rows as JSON has them."""

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
    """An array for each question, rows first; where texts differ in shape one for each of them."""
    out: dict[str, np.ndarray] = {}
    for k, first in enumerate(rows[0].answers):
        values = [in_numpy(row.answers[k].array) for row in rows]
        if any(v.dtype.kind == "O" for v in values):
            raise VieteError("exact numbers are written as -o FILE.json or FILE.csv")
        if len(rows) == 1:
            out[first.question] = values[0]
        elif len({v.shape for v in values}) == 1:
            out[first.question] = np.stack(values)
        else:
            out |= {f"{first.question} {j}": v for j, v in enumerate(values)}
    return out


# -- a curve ---------------------------------------------------------------------------------------


def curve(rows: Sequence[AnswerRow], title: str) -> str:
    """Every number that is asked for, over the steps of the checkpoints, as an SVG.

    Raises VieteError for rows of which not each is a checkpoint of its own, and for too many lines.
    """
    steps = [re.search(r"\d+", row.revision) for row in rows]
    if len(rows) < 2 or not all(steps) or len({s and int(s[0]) for s in steps}) < len(rows):
        raise VieteError(
            "a curve needs several checkpoints with their steps: --revision step1000,step2000"
        )
    lines: list[Curve] = []
    for k, first in enumerate(rows[0].answers):
        values = [in_numpy(row.answers[k].array).reshape(-1) for row in rows]
        for j, name in enumerate(named_entries(first)):
            points = tuple(
                (float(s[0]), float(v[j])) for s, v in zip(steps, values, strict=True)
                if s is not None and np.isfinite(float(v[j]))
            )  # fmt: skip
            if points:
                lines.append(Curve(name, points, False, COLOURS[len(lines) % len(COLOURS)]))
    if not 0 < len(lines) <= CURVES:
        raise VieteError(f"a picture has from 1 to {CURVES} curves, and these are {len(lines)}")
    return svg(lines, title, "")


__all__ = [
    "AnswerRow", "TokenLine", "as_arrays", "as_data", "averaged", "curve", "largest", "rows_table",
    "to_csv", "token_lines",
]  # fmt: skip
