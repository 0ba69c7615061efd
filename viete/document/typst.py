"""Documents as Typst, which compiles unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable

from viete.document.tree import (
    Block,
    CodeBlock,
    Equations,
    Heading,
    ItemList,
    Kinds,
    Paragraph,
    TextTable,
    WriterBlock,
    marked_items,
    set_in,
    simple,
    with_lists,
)

HEAD = """#set page(margin: 2cm)
#set math.equation(numbering: "(1)")
#show math.equation.where(block: false): set math.equation(numbering: none)
#show math.equation: set block(breakable: true)

"""
_ROW = re.compile(r'\\[()]|"[^"]*"|, |.', re.S)
_SPECIAL = re.compile(r"([\\#$_@<>\[\]~`=/+*-])")


def prose(text: str) -> str:
    """Prose as Typst; formulas are already Typst."""
    return set_in(text, KINDS)


def raw(text: str, block: str = "") -> str:
    """Characters escaped so that Typst shows them unchanged."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'#raw({block}"{escaped}")'


def math(formula: str) -> str:
    """A formula, in pieces where a line may end: after a comma of a row in ``\\(`` and ``\\)``."""
    out, depth, inside = [], 0, False
    for token in _ROW.findall(formula):
        if token in (r"\(", r"\)"):
            inside, depth = token == r"\(", 0
        depth += (token == "(") - (token == ")")
        out.append(",$ $" if token == ", " and inside and depth == 0 else token)
    return f"${''.join(out)}$"


KINDS: Kinds = {
    "text": lambda piece: _SPECIAL.sub(r"\\\1", piece), "math": math,
    "code": raw, "strong": lambda piece: f"#strong[{prose(piece)}]",
    "stress": lambda piece: f"#emph[{prose(piece)}]",
}  # fmt: skip


def write_typst(blocks: Iterable[Block]) -> str:
    """A complete Typst document from a tree with formulas in Typst."""
    body = "\n\n".join(map(write_block, with_lists(simple(blocks, typst=True))))
    room = "#set list(spacing: 1.2em)\n\n" * ("#box(width: " in body)  # to write by hand
    return f"{HEAD}{room}{body}\n"


def write_block(block: WriterBlock) -> str:
    """One block, without the blank lines around it."""
    match block:
        case Heading(level=1):
            return f"#align(center, text(size: 17pt)[{prose(block.text.text)}])"
        case Heading():
            return f"{'=' * (block.level - 1)} {prose(block.text.text)}"
        case Paragraph():
            return prose(block.text.text)
        case ItemList():
            return marked_items(block, prose)
        case TextTable():
            columns = len(block.header) or max(map(len, block.rows), default=1)
            width = ", ".join(["auto"] * (columns - 1) + ["1fr"])
            head = ", ".join(f"[{prose(t.text)}]" for t in block.header)
            return "\n".join([
                *([f"{prose(block.caption)}\n"] if block.caption else []),
                f"#table(\n  columns: ({width}), stroke: none,",
                *([f"  table.header({head}),"] if head else []),
                *("  " + ", ".join(f"[{prose(t.text)}]" for t in row) + "," for row in block.rows),
                ")",
            ])  # fmt: skip
        case Equations():
            lines = []
            for left, right, said in block.rows:
                note = f" quad #text(size: 0.8em)[{prose(said)}]" if said else ""
                lines.append(f"$ {left} = {right}{note} $")
            return "\n".join(lines)
        case CodeBlock():
            return raw(block.text, "block: true, ")
    raise TypeError(block)
