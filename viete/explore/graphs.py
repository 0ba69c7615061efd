"""Graphs of a page: the arrows of an expansion, by heads and the positions that they take from."""

from __future__ import annotations

from typing import Any

import numpy as np

from viete.ask.arrows import arrows
from viete.ask.expansion import Expansion
from viete.ask.expansion_options import Options
from viete.errors import VieteError
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step
from viete.notation.tree import Expr, Pick, Ref, num
from viete.report.drawing.arrows import arrows_svg
from viete.rewrite.opening import without_calls

INTO = ("head", "source")
MOST = 150  # terms of a graph


def graph_of(run: Run, e: Expr) -> str | None:
    """The graph of a number as SVG; None of one whose terms are of no block."""
    card = run.program.model
    found = Expansion(run, without_calls(card, e), Options(INTO, MOST), frozenset(card.lengths))
    try:
        return arrows_svg(arrows(found), listed=0)
    except VieteError:
        return None


def greatest_graphs(run: Run, step: Step, room: int) -> list[dict[str, Any]]:
    """The graph of the greatest entry of each row of a matrix, the last row first."""
    symbol, value = step.equation.left.symbol, np.asarray(run[step.equation.name])
    if value.ndim != 2 or symbol.slots:
        return []
    out = list[dict[str, Any]]()
    for j in reversed(range(len(value))):
        at = [j, int(value[j].argmax())]
        svg = graph_of(run, Pick(Ref(symbol), tuple(map(num, at))))
        if svg is None or (room := room - len(svg)) < 0:
            break
        out.append({"at": at, "svg": svg})
    return out


__all__ = ["graph_of", "greatest_graphs"]
