"""Answers to the same questions on many texts or checkpoints, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from viete.document.tree import Block, TextTable
from viete.errors import Text, VieteError
from viete.evaluate.answer_page import label, literal, number, spelling
from viete.evaluate.answers import Answer
from viete.evaluate.inputs import host, in_numpy
from viete.evaluate.labels import holds_text
from viete.evaluate.run import Run
from viete.notation.tree import Ref
from viete.notation.words import quoted

FEW = 6  # entries of a vector that stand in a table


@dataclass(frozen=True)
class TokenLine:
    """The tokens of an input: their ids, and their words where it has some."""

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
    """The answers for one text, with its tokens."""

    answers: tuple[Answer, ...]
    text: str = ""
    tokens: tuple[TokenLine, ...] = ()
    revision: str = ""


def token_lines(run: Run) -> tuple[TokenLine, ...]:
    """The inputs of a run that hold a text of its vocabulary; empty for a batch of texts."""
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
    """One line for each text or checkpoint, a column for each question.

    For an array the cell has its shape, for the greatest entries of a vector their names.
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
    """The columns that tell the rows apart: a checkpoint, a text."""
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
    """A few entries in a line, with their names unless these are only their numbers."""
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
    """One row of means over texts; a comparison holds if it holds for all of them.

    Raises VieteError where answers differ in shape.
    """
    answers = []
    for several in zip(*(row.answers for row in rows), strict=True):
        values = [in_numpy(a.array) for a in several]
        if len({v.shape for v in values}) > 1:
            raise VieteError(
                f"{several[0].question} has a different shape on each text, so it has no mean; "
                f"ask for one number a text, such as its mean"
            )
        fold = np.all if values[0].dtype.kind == "b" else np.mean  # a comparison holds of all
        mean = fold(np.stack(values), axis=0)
        answers.append(Answer(several[0].question, mean, several[0].axes, several[0].labels))
    return AnswerRow(tuple(answers), revision=rows[0].revision)


__all__ = ["AnswerRow", "TokenLine", "averaged", "leading", "rows_table", "token_lines"]
