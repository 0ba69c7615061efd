"""A card's vocabulary and the literals of its weights, in documents."""

from __future__ import annotations

from collections.abc import Sequence

from viete.cards.literals import entries_of, is_matrix, literals_of, number
from viete.cards.writer import CardWriter, parameter_rows
from viete.document.tree import Block, TextTable, heading, matrix_formula, paragraph
from viete.errors import Text, VieteError
from viete.evaluate.written_weights import places
from viete.graph.card import CardData, Parameter
from viete.rewrite.blocks import at_block


def vocabulary(card: CardData) -> list[Block]:
    """The section on the tokens of a card, if it lists any."""
    words = " ".join(f"`{t}`" for t in card.vocabulary)
    return [heading(2, "Vocabulary"), paragraph(words)] if words else []


def with_matrices(w: CardWriter) -> TextTable:
    """A card's table of parameters with the literals of its column `value` as formulas."""
    table = w.parameters()
    at = next((k for k, t in enumerate(table.header) if t.text == "value"), None)
    if at is None or w.style not in ("latex", "typst"):
        return table
    rows = [[*row[:at], cell_formula(row[at], w, found), *row[at + 1 :]]
            for row, found in zip(table.rows, parameter_rows(w.model.parameters), strict=True)
            ]  # fmt: skip
    return TextTable(table.header, rows, table.caption)


def cell_formula(cell: Text, w: CardWriter, row: Sequence[Parameter]) -> Text:
    """``[1 0; 0 1]`` as a matrix; a cell without a literal is unchanged.

    Literals for several blocks and heads stand below each other, each with its name.
    """
    typst = w.style == "typst"
    try:
        members = [literal_formula(text, typst) for text in literals_of(cell)]
        if len(members) == 1:
            wide = typst and members[0].startswith("mat")
            return Text(f"$display({members[0]})$" if wide else f"${members[0]}$")
        found = places(w.model, row[0])
    except VieteError:  # no literal; or a card whose blocks have no number yet
        return cell
    lines = [
        (f"{', '.join(w.e(at_block(p.symbol.member, place, {})) for p in row)} =", x)
        for place, x in zip(found, members, strict=True)
    ]
    if typst:
        below = "; ".join(", ".join(f"display({x})" for x in line) for line in lines)
        return Text(f"$mat(delim: #none, align: #left, {below})$")
    below = r" \\ ".join(f"{name} & {x}" for name, x in lines)
    return Text(rf"$\begin{{matrix}} {below} \end{{matrix}}$")


def literal_formula(literal: Text, typst: bool) -> str:
    """A literal as LaTeX or Typst; raises VieteError for another text."""
    if is_matrix(literal):
        return matrix_formula([list(map(spelling, row)) for row in entries_of(literal)], typst)
    return "I" if literal.text == "I" else spelling(literal)


def spelling(text: Text) -> str:
    """A number as the card spells it; raises VieteError for another text."""
    number(text)
    return text.text


__all__ = ["vocabulary", "with_matrices"]
