"""A card's vocabulary and the literals of its weights, in documents."""

from __future__ import annotations

from viete.cards.literals import entries_of, is_matrix, literals_of, number
from viete.document.tree import Block, TextTable, heading, matrix_formula, paragraph
from viete.errors import Text, VieteError
from viete.graph.card import CardData


def vocabulary(card: CardData) -> list[Block]:
    """The section on the tokens of a card, if it lists any."""
    words = " ".join(f"`{t}`" for t in card.vocabulary)
    return [heading(2, "Vocabulary"), paragraph(words)] if words else []


def with_matrices(table: TextTable, style: str) -> TextTable:
    """A table with the literals of its column `value` as formulas."""
    at = next((k for k, t in enumerate(table.header) if t.text == "value"), None)
    if at is None or style not in ("latex", "typst"):
        return table
    rows = [[*row[:at], cell_formula(row[at], style == "typst"), *row[at + 1 :]]
            for row in table.rows]  # fmt: skip
    return TextTable(table.header, rows, table.caption)


def cell_formula(cell: Text, typst: bool) -> Text:
    """``[1 0; 0 1]`` as a matrix; a cell without a literal is unchanged."""
    try:
        members = [literal_formula(text, typst) for text in literals_of(cell)]
    except VieteError:
        return cell
    if len(members) == 1 or "[" not in cell.text:
        return Text(f"${', '.join(members)}$")
    below = r" \\ ".join(members)  # one for each block and head, too wide side by side
    stacked = rf"\begin{{matrix}} {below} \end{{matrix}}"
    return Text(f"${f'mat(delim: #none, {chr(59).join(members)})' if typst else stacked}$")


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
