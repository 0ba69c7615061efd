"""The vocabulary and the weights that a card gives, for documents: literals as matrices."""

from __future__ import annotations

import re

from viete.document.tree import Block, TextTable, heading, matrix_formula, paragraph
from viete.errors import Text
from viete.graph.card import CardData

_LITERAL = re.compile(r"[-−+\d\s./,;eEI\[\]]+")


def vocabulary(card: CardData) -> list[Block]:
    """The section on the tokens of a card, if it lists any."""
    words = " ".join(f"`{t}`" for t in card.vocabulary)
    return [heading(2, "Vocabulary"), paragraph(words)] if words else []


def with_matrices(table: TextTable, style: str) -> TextTable:
    """A table with the literals of its column `value` as formulas."""
    at = next((k for k, t in enumerate(table.header) if t.text == "value"), None)
    if at is None or style not in ("latex", "typst"):
        return table
    rows = [[*row[:at], Text(literal_formula(row[at].text, style)), *row[at + 1 :]]
            for row in table.rows]  # fmt: skip
    return TextTable(table.header, rows, table.caption)


def literal_formula(literal: str, style: str) -> str:
    """``[1 0; 0 1]`` as a matrix; other text than a literal of numbers is unchanged."""
    if not literal or not _LITERAL.fullmatch(literal):
        return literal

    def formula(member: str) -> str:
        if not member.startswith("["):
            return member
        rows = [re.findall(r"[^\s,]+", row) for row in member.strip("[]").split(";")]
        return matrix_formula(rows, style == "typst")

    members = [formula(x) for x in re.findall(r"\[[^]]*\]|[^\s,]+", literal)]
    if not members[1:] or "[" not in literal:
        return f"${', '.join(members)}$"
    below = r" \\ ".join(members)  # one for each block and head, too wide side by side
    stacked = rf"\begin{{matrix}} {below} \end{{matrix}}"
    return f"${f'mat(delim: #none, {chr(59).join(members)})' if style == 'typst' else stacked}$"


__all__ = ["vocabulary", "with_matrices"]
