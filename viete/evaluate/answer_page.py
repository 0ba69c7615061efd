"""Answers as documents: numbers, and vectors and matrices as tables with the names of entries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from viete.document.tree import Block, TextTable, paragraph
from viete.errors import Text
from viete.evaluate.inputs import in_numpy
from viete.printable import display_width, printable

if TYPE_CHECKING:
    from viete.evaluate.answers import Answer

WIDTH = 100
ROWS, TABLES = 20, 8  # at most: of a table, and of tables for one answer
GAP = "…"
LABEL = 24  # columns of a label
Cell = str | None  # None: what is left out


def answer_blocks(answer: Answer, width: int = WIDTH, title: str | None = None) -> list[Block]:
    """An answer as blocks: one number in a line, or its shape and tables, large ones abridged."""
    values = in_numpy(answer.array)
    title = answer.question if title is None else title
    if values.ndim == 0:
        return [paragraph(f"{literal(title)} = {number(values[()])}")]
    axes = " × ".join(
        axis if axis == str(n) else f"{axis} = {n}"
        for axis, n in zip(answer.axes, values.shape, strict=True)
    )
    odd = ", not all of it numbers" if values.dtype.kind == "f" and np.isnan(values).any() else ""
    out: list[Block] = [paragraph(f"{literal(title)}  ({axes}){odd}")]
    if answer.axes[-1] == "1":  # a column: a number for each row
        answer, values = without_last(answer), values[..., 0]
    for where, part in parts(replace(answer, array=values)):
        found = table(part, width)
        found.caption = literal(where) if where else ""
        out.append(found)
    return out


def without_last(answer: Answer) -> Answer:
    """An answer without its last axis."""
    array = answer.array[..., 0]
    return replace(answer, array=array, axes=answer.axes[:-1], labels=answer.labels[:-1])


def parts(answer: Answer) -> Iterator[tuple[str, Answer]]:
    """The matrices of an answer with more axes, each with its place; of many, first and last."""
    lead = answer.array.ndim - 2
    if lead <= 0:
        yield "", answer
        return
    places = list(np.ndindex(answer.array.shape[:lead]))
    for k in middle_out(len(places), TABLES):
        if k is None:
            rest = replace(answer.part(places[0]), array=np.zeros((0, 0)))
            yield f"{GAP} ({len(places) - TABLES} more)", rest
            continue
        where = ", ".join(
            f"{axis} = {labels[j]}"
            for axis, labels, j in zip(answer.axes, answer.labels, places[k], strict=False)
        )
        yield where, answer.part(places[k])


def table(answer: Answer, width: int = WIDTH) -> TextTable:
    """A vector as one row, or a matrix as rows, with labels and as many columns as fit."""
    values: Any = answer.array
    if not values.size:
        return TextTable([], [])
    vector = values.ndim == 1
    columns = answer.labels[-1]
    rows = [""] if vector else answer.labels[0]
    corner = answer.axes[0] if vector else f"{answer.axes[0]} ╲ {answer.axes[1]}"
    shown = middle_out(len(rows), ROWS)
    spelled = spelling(values)
    names = [GAP if k is None else label(rows[k]) for k in shown]
    room = width - 4 - max(display_width(x) for x in (corner, *names))

    def column(j: int) -> list[str]:
        cells = [GAP if k is None else cell((j,) if vector else (k, j)) for k in shown]
        return [label(columns[j]), *cells]

    def cell(place: tuple[int, ...]) -> str:
        text = str(spelled(values[place]))
        names = None if vector else answer.names  # for a vector, the columns have them
        return text if names is None else f"{label(names[place])} {text}"

    head, tail = fitting(column, len(columns), room)
    middle = [[GAP] * (len(names) + 1)] if len(head) + len(tail) < len(columns) else []
    whole = [[corner, *names], *head, *middle, *tail]
    marked = [[literal(c) if c and (i == 0 or k == 0) and c != GAP else c
               for k, c in enumerate(cells)] for i, cells in enumerate(whole)]  # fmt: skip
    first, *rest = ([Text(cells[k]) for cells in marked] for k in range(len(names) + 1))
    return TextTable(first, rest)


def fitting(column: Any, count: int, room: int) -> tuple[list[list[str]], list[list[str]]]:
    """The first and last columns that fit the width; all of them if they fit."""
    head: list[list[str]] = []
    tail: list[list[str]] = []
    used, k, gap = 0, 0, len(GAP) + 2
    while k < count:
        front = k % 2 == 0
        j = len(head) if front else count - 1 - len(tail)
        cells = column(j)
        used += max(map(display_width, cells)) + 2
        last = k == count - 1
        if k > 1 and used + (0 if last else gap) > room:
            break
        (head if front else tail).append(cells)
        k += 1
    return head, tail[::-1]


def middle_out(count: int, most: int) -> list[int | None]:
    """All indices, or the first and last with a gap between."""
    if count <= most:
        return list(range(count))
    half = most // 2
    return [*range(half), None, *range(count - half, count)]


def tokens_table(tokens: Sequence[str], width: int = WIDTH, name: str = "") -> list[Block]:
    """The tokens of a text, with positions from both ends, under the input's name."""
    count, out, k = len(tokens), list[Block](), 0
    names = ("position", "from the end", "token")
    shown = middle_out(count, 200)
    while k < len(shown):
        columns, used = list[list[str]](), max(map(len, names)) + 4
        while k < len(shown):
            j = shown[k]
            cells = [GAP] * 3 if j is None else [str(j), str(j - count), label(tokens[j], 40)]
            used += max(map(display_width, cells)) + 2
            if columns and used > width:
                break
            columns.append(cells)
            k += 1
        first, *rest = ([Text(names[i]), *(Text(literal(c[i])) for c in columns)] for i in range(3))
        out.append(TextTable(first, rest, "" if out else name))
    return out


def label(text: str, most: int = LABEL) -> str:
    """A label in printable characters, shortened if too long."""
    text = printable(text, 200)
    if display_width(text) <= most:
        return text
    return f"{text[: most - 2]}{GAP}{text[-1]}"


def literal(text: str) -> str:
    """A text that a document shows unchanged, whatever characters it contains."""
    if text.count("`") == 1 and not set(text) & {"$", "*"}:
        return text  # it contains neither code nor markup
    return f"`{text.replace('`', 'ˋ')}`"


# -- numbers ---------------------------------------------------------------------------------------


def number(x: Any) -> str:
    """A single number with all its reliable digits."""
    if isinstance(x, np.void):
        return "[" + ", ".join(map(repr, x.tolist())) + "]"  # rounded bounds need not hold
    if isinstance(x, np.bool_ | bool | np.integer | int) or not isinstance(x, float | np.floating):
        return str(x)
    digits = {2: 4, 4: 7}.get(getattr(x, "itemsize", 8), 10)
    return plain_zero(f"{float(x):.{digits}g}")


def spelling(values: Any) -> Any:
    """The format of one table's entries: all with the same number of decimals."""
    if values.dtype.kind != "f":
        return number
    finite = np.abs(values[np.isfinite(values) & (values != 0)])
    top = math.floor(math.log10(finite.max())) if finite.size else 0
    if not -4 <= top < 7:
        return lambda x: special(x) or f"{float(x):.3e}"
    decimals = max(0, min(6, 3 - top))
    return lambda x: special(x) or plain_zero(f"{float(x):.{decimals}f}")


def special(x: float) -> str:
    """The spelling of zero and of a number that is not finite; else an empty string."""
    if x == 0:
        return "0"
    return "" if math.isfinite(x) else {math.inf: "∞", -math.inf: "−∞"}.get(x, "nan")


def plain_zero(text: str) -> str:
    """``-0.000`` without its sign."""
    return text[1:] if re.fullmatch(r"-0\.?0*", text) else text


__all__ = ["answer_blocks", "literal", "number", "tokens_table"]
