"""Reads names.md: the meaning of each name of TransformerLens, as patterns of formulas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from viete.document.markdown import read_markdown
from viete.document.tree import Heading, TextTable
from viete.errors import Text
from viete.evaluate.labelled import COL, ROW, Layout
from viete.library.functions import library
from viete.notation.cursor import parse_name
from viete.notation.lexer import GREEK
from viete.notation.parser import parse
from viete.notation.symbols import Scope
from viete.notation.tree import Expr, Symbol

LETTERS = "s t w x y z γ β ε".split()  # stand for anything
BLOCK, LAST, VALUE = "i", "N", "y"  # the letter of a block, the last block, a row's own value
BATCH, LAYER = "batch", "layer"  # axes that every value and every weight has
_MATH = re.compile(r"\$(.+?)\$")


@dataclass(frozen=True)
class NameRow:
    """One form in which a card may have a value: see names.md for the columns.

    Formulas are over the symbols of names.md, in its own scope; a pair is a formula and the value
    whose equation must contain it, if any.
    """

    axes: tuple[str, ...]
    found: tuple[Expr, Expr | None]
    value: Expr | None = None
    back: Expr | None = None
    where: tuple[tuple[Expr, Expr | None], ...] = ()

    @property
    def split(self) -> bool:
        """Whether every head has a copy of a stream-sized row, with its own norm."""
        return self.value is not None and "d_model" in self.axes and self.axes[-2] != "pos"


@dataclass(frozen=True)
class Entry:
    """A name and its rows; ``otherwise`` is text with values between dollar signs."""

    name: str
    rows: tuple[NameRow, ...]
    otherwise: str = ""


@dataclass(frozen=True)
class Conventions:
    """The content of names.md."""

    values: Mapping[str, Entry]
    weights: Mapping[str, Entry]
    short: Mapping[str, str]  # other words for the last one of a name
    scope: Scope


@cache
def conventions() -> Conventions:
    """names.md, read once."""
    source = resources.files("viete.model").joinpath("names.md").read_text("utf-8")
    tables: dict[str, TextTable] = {}
    title = ""
    for block in read_markdown(source, "names.md"):
        if isinstance(block, Heading):
            title = block.text.text
        elif isinstance(block, TextTable):
            tables[title] = block
    scope = Scope(indices={BLOCK})
    scope.functions |= {f.name: f.signature for f in library().values()}
    for letter in LETTERS:
        scope.declare(Symbol("argument", GREEK.get(letter, letter)))
    scope.declare(Symbol("dim", LAST))
    for row in tables["Symbols"].rows:
        for m in _MATH.finditer(row[0].text):
            scope.declare(parse_name(row[0].cut(*m.span(1)), "value", {BLOCK}))
    values, weights = (entries(tables[name], scope) for name in ("Values", "Weights"))
    short = {a.text.replace("`", ""): code(b) for a, b in tables["Short names"].rows}
    return Conventions(values, weights, short, scope)


def entries(table: TextTable, scope: Scope) -> dict[str, Entry]:
    """The rows of a table, grouped by name."""
    out: dict[str, Entry] = {}
    for cells in table.rows:
        name, axes, found, value, back, where, otherwise = (
            *cells, *[Text("")] * (7 - len(cells)),
        )  # fmt: skip
        places = [pair(t, where, scope) for t in where.text.split(";") if t]
        row = NameRow(
            tuple(axes.text.split()), pair(found.text, found, scope), only(value, scope),
            only(back, scope), tuple(places),
        )  # fmt: skip
        before = out.get(code(name), Entry("", ()))
        said = before.otherwise or otherwise.text
        out[code(name)] = Entry(code(name), (*before.rows, row), said)
    return out


def code(cell: Text) -> str:
    """The text between backticks."""
    return cell.text.strip("`")


def only(cell: Text, scope: Scope) -> Expr | None:
    """The formula of a cell; None for an empty cell."""
    found = _MATH.search(cell.text)
    return parse(cell.cut(*found.span(1)), scope) if found else None


def pair(said: str, cell: Text, scope: Scope) -> tuple[Expr, Expr | None]:
    """``$formula$ in $value$``."""
    found = [parse(Text(m[1], cell.file, cell.line), scope) for m in _MATH.finditer(said)]
    return found[0], found[1] if len(found) > 1 else None


def layout(
    axes: Sequence[str], heads: Sequence[str], own: Sequence[str], counts: Mapping[str, int]
) -> Layout:
    """The layout that a row of names.md gives; ``own`` are the letters of the value."""
    special = {BATCH: (BATCH,), LAYER: (), "head": tuple(heads), "kv_head": tuple(own), "1": ()}
    core = [a for a in axes if a not in special]
    labels = [ROW] if len(core) == 1 and "1" in axes else [ROW, COL][2 - len(core) :]
    names = iter(labels)
    groups = [special[a] if a in special else (next(names),) for a in axes if a != LAYER]
    return Layout(tuple(groups), dict(counts))
