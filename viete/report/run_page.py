"""A run as a document: its text, and its values with their shapes, one row for each equation."""

from __future__ import annotations

from viete.cards.writer import CardWriter
from viete.document.tree import Block, paragraph, table
from viete.evaluate.answer_page import tokens_table
from viete.evaluate.run import Run
from viete.report.answer_rows import token_lines

WIDTH = 100


def run_blocks(run: Run, style: str = "unicode") -> list[Block]:
    """The tokens, then the computed values: name, shape of the array, how often, meaning."""
    card = run.program.model
    write, shown = CardWriter(card, style), set(run)
    names: dict[str, list[str]] = {}
    for name, (key, _) in run.program.names.items():
        if name in shown:
            names.setdefault(key, []).append(name)
    rows = []
    for e in card.equations:
        found = names.get(e.name, [])
        value = run.store.get(run.program.names[found[0]]) if found else None
        if value is None:
            continue
        shape = " × ".join(map(str, run.ordered(value, e.left.symbol.slots).shape)) or "number"
        each = "" if e.loop is None else f"${write.loop(e.loop)}$"
        rows.append([f"${write.e(e.left)}$", shape, each, e.meaning])
    out: list[Block] = [paragraph(f"A run of {card.title}.")]
    lines = token_lines(run)
    for line in lines:
        out += tokens_table(line.labels, WIDTH, line.name if len(lines) > 1 else "")
    if not rows:
        return [*out, paragraph("Nothing has been computed yet: values are when they are asked.")]
    return [*out, table(["value", "array", "for", "meaning"], rows)]


__all__ = ["run_blocks"]
