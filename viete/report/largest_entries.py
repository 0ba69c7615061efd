"""The largest entries of answers, with their places and the tokens around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from viete.document.tree import Block, TextTable, paragraph
from viete.errors import Text
from viete.evaluate.answer_page import GAP, literal, spelling
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import in_numpy
from viete.notation.words import quoted
from viete.report.answer_rows import AnswerRow

AROUND = 4  # tokens on each side of one, as its context


def largest(rows: Sequence[AnswerRow], most: int) -> list[Block]:
    """The largest values for each question, their places, and the tokens around."""
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
    """A table's cells, without empty columns."""
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
    """The tokens around the positions of an entry, each of the positions in brackets."""
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


__all__ = ["largest"]
