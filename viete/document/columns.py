"""Layout of tables and formulas in the terminal: columns, word wrap, and stacked rows."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from shutil import get_terminal_size

from viete.printable import display_width

WIDTH, NARROWEST = 100, 40  # columns where there is no terminal; the fewest that are written for
LEAST = 12  # columns of a cell that wraps
GAP = "  "
_AMOUNT = re.compile(r"[−-]?([\d,]+(\.\d+|/\d+)?([eE][+-]?\d+| [KMGTP]?i?B)?|∞)|nan|…")
Rows = Sequence[Sequence[str]]


def terminal_width() -> int:
    """The columns of the terminal, or of the variable COLUMNS; 100 without either."""
    return max(NARROWEST, get_terminal_size((0, 24)).columns or WIDTH)


def table_width() -> int:
    """The columns for tables and formulas; unlimited for a file or a pipe."""
    columns = get_terminal_size((0, 24)).columns
    return max(NARROWEST, columns) if columns else sys.maxsize


def wrapped(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """The lines of a text or a formula, broken only at spaces."""
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def aligned(
    rows: Rows, indent: str = "", header: int = 0, cap: int = 200, numbers: bool = False
) -> list[str]:
    """Rows with their columns aligned; columns of ``numbers`` below the header to the right.

    A cell wider than ``cap`` moves the cells after it to the right.
    """
    out = []
    sizes = [[display_width(c) for c in r] for r in rows]
    widths = [
        max((n for n in column if n <= cap), default=0) for column in zip(*sizes, strict=True)
    ]
    right = [False] * len(widths)
    if numbers:
        right = amounts(rows[header:]) or right
    for row, size in zip(rows, sizes, strict=True):
        cells = zip(row, size, widths, right, strict=True)
        padded = [" " * (w - n) + s if r else s + " " * (w - n) for s, n, w, r in cells]
        out.append((indent + GAP.join(padded)).rstrip())
    return out


def fitting_table(rows: Rows, header: int, width: int, indent: str = "  ") -> list[str]:
    """A table with a rule below its header: in full, with wrapped cells, or with stacked rows."""
    whole = aligned(ruled(rows) if header else rows, indent, 2 * header, numbers=True)
    if not header or fits(whole, width):
        return whole
    room = narrowed(rows, width - len(indent))
    if room is None:
        return stacked(rows, width, indent)
    out: list[list[str]] = []
    for row in rows:
        cells = [wrapped(c, w) or [""] for c, w in zip(row, room, strict=True)]
        count = max(map(len, cells))
        out += [[c[k] if k < len(c) else "" for c in cells] for k in range(count)]
        header = len(out) if row is rows[0] else header
    return aligned(ruled(out, header), indent, header + 1, numbers=True)


def ruled(rows: Rows, header: int = 1) -> list[Sequence[str]]:
    """Rows with a rule below those of the header."""
    rule = ["─" * max(display_width(r[c]) for r in rows) for c in range(len(rows[0]))]
    return [*rows[:header], rule, *rows[header:]]


def narrowed(rows: Rows, width: int) -> list[int] | None:
    """The widths of columns when cells of words wrap; None if the table still does not fit."""
    right = amounts(rows[1:]) or [False] * len(rows[0])
    widths = [max(display_width(r[c]) for r in rows) for c in range(len(rows[0]))]
    least = [
        w if r else max([LEAST, *(display_width(x) for row in rows for x in row[c].split())])
        for c, (w, r) in enumerate(zip(widths, right, strict=True))
    ]
    while sum(widths) + len(GAP) * (len(widths) - 1) > width:
        loose = [c for c in range(len(widths)) if widths[c] > least[c]]
        if not loose:
            return None
        widths[max(loose, key=widths.__getitem__)] -= 1
    return widths


def stacked(rows: Rows, width: int, indent: str) -> list[str]:
    """Stacked rows: the first cell, and below it every other cell behind its column's header."""
    heads, out = rows[0], []
    for row in rows[1:]:
        out += wrapped(row[0] or "·", width, indent, indent + "  ")
        for head, cell in zip(heads[1:], row[1:], strict=True):
            if cell:
                said = f"{head}: {cell}" if head else cell
                out += wrapped(said, width, indent + "    ", indent + "      ")
    return out


def fitting_steps(rows: Rows, width: int, cap: int, indent: str = "") -> list[str]:
    """Formulas with their shapes and reasons in columns, or below a formula that is too wide.

    The first cell of a row may be its number.
    """
    whole = aligned(rows, indent, cap=cap)
    if fits(whole, width):
        return whole
    at = 1 if rows[0][0].strip(" .·0123456789") == "" else 0  # the place of the formula
    lead = len(indent) + sum(max(display_width(r[c]) for r in rows) + 2 for c in range(at))
    most = max(LEAST, (width - lead) * 9 // 20)
    narrow = [r for r in rows if display_width(r[at]) <= most]
    lined = aligned(narrow, indent) if narrow else []
    lines = {id(r): line for r, line in zip(narrow, lined, strict=True)}
    out = []
    for row in rows:
        line = lines.get(id(row), "")
        if line and display_width(line) <= width:
            out.append(line)
            continue
        first = indent + "".join(c.ljust(lead - len(indent)) for c in row[:at])
        out += wrapped(row[at], width, first, " " * (lead + 4)) or [first.rstrip()]
        said = GAP.join(c for c in row[at + 1 :] if c)
        out += wrapped(said, width, " " * (lead + 2), " " * (lead + 2))
    return out


def fits(lines: Sequence[str], width: int) -> bool:
    return all(display_width(line) <= width for line in lines)


def fitting_lines(lines: Sequence[str], width: int) -> list[str]:
    """The lines, with long ones wrapped and their continuation indented."""
    out = []
    for line in lines:
        if display_width(line) <= width:
            out.append(line)
            continue
        start = len(line) - len(line.lstrip())
        out += wrapped(line.strip(), width, line[:start], " " * (start + 2))
    return out


def amounts(rows: Rows) -> list[bool]:
    """For each column, whether all its cells are numbers."""
    body = ([c for c in column if c] for column in zip(*rows, strict=True))
    return [bool(b) and all(map(is_amount, b)) for b in body]


def is_amount(text: str) -> bool:
    """Whether a cell holds a number, with or without a unit."""
    return _AMOUNT.fullmatch(text) is not None


__all__ = [
    "aligned",
    "fitting_lines",
    "fitting_steps",
    "fitting_table",
    "is_amount",
    "table_width",
    "terminal_width",
    "wrapped",
]
