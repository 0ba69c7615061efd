"""Vectors and matrices written out, ``[1 2]`` and ``[1 0; 0 x_0]``: tables of their entries."""

from __future__ import annotations

from itertools import accumulate, pairwise
from string import ascii_lowercase
from typing import TYPE_CHECKING

from viete.notation.cursor import CLOSED, CLOSERS, top_level
from viete.notation.lexer import Token
from viete.notation.tree import Apply, Expr, Idx, Table, num

if TYPE_CHECKING:
    from viete.notation.parser import Parser

MOST = 256  # entries; numbers that are many belong into a file


def follows_as_factor(parser: Parser) -> bool:
    """Whether the [ that comes next begins a matrix, and no index: ``M [1 0; 0 1]``, ``2 [1 2]``.

    A space stands before it, and semicolons or two numbers side by side in it.
    """
    before, opened = parser.tokens[parser.pos - 1], parser.peek
    if opened.text != "[" or before.end == opened.start:
        return False
    tokens = inside(parser, parser.pos + 1)
    numbers = any(a.kind == b.kind == "num" for a, b in pairwise(tokens))
    return numbers or next(top_level(tokens, ";"), None) is not None


def inside(parser: Parser, start: int) -> list[Token]:
    """The tokens from ``start`` to the ] that closes the bracket before it."""
    stop = next(top_level(parser.tokens, "]", start=start), None)
    return parser.tokens[start : len(parser.tokens) - 1 if stop is None else stop]


def matrix(parser: Parser, opened: Token) -> Expr:
    """The table of the entries in brackets, whose [ has just been read.

    Spaces or commas separate entries, semicolons rows; one row without a semicolon is a vector.
    An entry with spaces in it stands in parentheses. Raises VieteError for rows of different
    lengths and for no entry.
    """
    tokens = inside(parser, parser.pos)
    cuts = [-1, *top_level(tokens, ";"), len(tokens)]
    rows = [entries(parser, tokens[a + 1 : b]) for a, b in pairwise(cuts)]
    parser.pos += len(tokens)
    parser.expect("]", opened)
    if len({len(row) for row in rows}) > 1 or not rows[0]:
        raise parser.error("the rows of a matrix have entries, each row as many: [1 0; 0 1]",
                           (opened.start, parser.tokens[parser.pos - 1].end))  # fmt: skip
    if len(rows) * len(rows[0]) > MOST:
        raise parser.error(f"a matrix in a formula has at most {MOST} entries", opened)
    taken = frozenset[str]().union(*(x.free | x.plain | x.binders for row in rows for x in row))
    row, column = [x for x in ascii_lowercase if x not in taken and x not in "ei"][:2]
    if len(rows) == 1:
        return Table(((column, num(len(rows[0]))),), chosen(column, rows[0]))
    body = chosen(row, [chosen(column, line) for line in rows])
    return Table(((row, num(len(rows))), (column, num(len(rows[0])))), body)


def chosen(letter: str, values: list[Expr]) -> Expr:
    """The value whose place the letter counts to: where(j = 0, a, where(j = 1, b, c))."""
    *first, out = values
    for place, value in reversed([*enumerate(first)]):
        out = Apply("where", (Apply("eq", (Idx(letter), num(place))), value, out))
    return out


def entries(parser: Parser, tokens: list[Token]) -> list[Expr]:
    """The entries of a row: what spaces or commas outside brackets separate."""
    commas = {*top_level(tokens, ",")}
    depths = accumulate((x.text in CLOSERS) - (x.text in CLOSED) if x.kind == "op" else 0
                        for x in tokens)  # fmt: skip
    gaps = (depth == 0 and x.end < y.start
            for depth, (x, y) in zip(depths, pairwise(tokens), strict=False))  # fmt: skip
    begins = commas | {k for k, gap in enumerate(gaps, 1) if gap}
    found: list[list[Token]] = [[]]
    for k, token in enumerate(tokens):
        if k in begins:
            found.append([])
        if k not in commas:
            found[-1].append(token)
    return [entry(parser, x) for x in found if x]


def entry(parser: Parser, tokens: list[Token]) -> Expr:
    last = tokens[-1]
    part = parser.part([*tokens, Token("end", "", last.end, last.end)])
    value = part.expression()
    part.finish()
    return value


__all__ = ["follows_as_factor", "matrix"]
