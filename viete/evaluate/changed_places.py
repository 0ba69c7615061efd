"""Checks the positions of an intervention: a run refuses one that no position of its text meets.

``x^2_{63} = 0`` becomes a table over positions, with ``where(j = 63, …)`` in it. On a text of six
tokens it would change nothing, and its author would mistake the run for an ablation. Sampling does
not check, because its text grows. A card's own condition may hold nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from viete.errors import VieteError
from viete.evaluate.memos import remembered
from viete.evaluate.run import Run
from viete.evaluate.schedule import Program
from viete.graph.card import Equation
from viete.graph.conditions import unmet
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Table, walk

KEY = "tables of changed places"  # of results found once for a program

Changed = tuple[Equation, Table, Expr]  # an equation, a table in it, and its condition


def changed_tables(ready: Program) -> Sequence[Changed]:
    """The tables with two cases that interventions put into a program's equations."""

    def made() -> Sequence[Changed]:
        return [
            (e, x, x.body.args[0])
            for e in ready.model.equations for x in walk(e.right)
            if isinstance(x, Table) and isinstance(x.body, Apply) and x.body.op == "where"
            and x.body.args[0] in e.changes
        ]  # fmt: skip

    found: Sequence[Changed] = remembered(ready.questions, KEY, made)
    return found


def check_places(ready: Program, run: Run) -> None:
    """Raise VieteError if no position of a run's text meets the condition of a table."""
    card = ready.model

    def number(e: Expr) -> Fraction | None:
        size = card.size(e)
        return None if size is None else size.value(run.sizes)

    for e, table, test in changed_tables(ready):
        sizes = ((letter, number(size)) for letter, size in table.ranges)
        ends = {letter: (Fraction(0), size - 1) for letter, size in sizes if size}
        if (letter := unmet([test], ends, number)) is not None:
            raise VieteError(
                f"in {show(e.left)} a change is for {show(test)}, and here {letter} runs from 0 to "
                f"{ends[letter][1]}"
            )


__all__ = ["check_places"]
