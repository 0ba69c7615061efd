"""A circuit over training as data and as a page."""

from __future__ import annotations

import csv
import io
import json
from math import isnan

from viete.circuits.history import CircuitHistory
from viete.document.rendering import STYLES, render
from viete.document.tree import Block, CodeBlock, heading, paragraph
from viete.notation.printer import show
from viete.report.pictures.circuit_history import circuit_curves

COLUMNS = ("step", "of_model", "value", "of_none", "faithfulness")


def history_rows(history: CircuitHistory) -> list[dict[str, float | None]]:
    """One object for each step; a share without a value is null."""
    return [
        {"step": s.step, "of_model": s.of_model, "value": s.value, "of_none": s.of_none,
         "faithfulness": None if isnan(f) else f}
        for s, f in zip(history.steps, history.faithfulness, strict=True)
    ]  # fmt: skip


def history_csv(history: CircuitHistory) -> str:
    """One line for each step."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history_rows(history))
    return out.getvalue()


def history_json(history: CircuitHistory) -> str:
    """The number, the edges, and one object for each step."""
    found = {
        "of": show(history.of), "texts": history.texts,
        "edges": [str(e) for e in history.edges], "steps": history_rows(history),
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def history_page(history: CircuitHistory, title: str, form: str) -> str:
    """The curves where pictures are shown, the table, and the edges."""
    blocks: list[Block] = [heading(1, title)] if form != "text" else []
    if form == "html" and len(history.steps) > 1:
        drawn = circuit_curves(history, "")
        blocks.append(CodeBlock("\n".join(drawn.lines), picture=drawn.svg))
    names = ", ".join(f"{e}" for e in history.edges)
    blocks += [*history.page(STYLES[form]), paragraph(f"The edges are {names}.")]
    return render(blocks, form)


__all__ = ["history_csv", "history_json", "history_page"]
