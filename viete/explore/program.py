"""The program of a page: its equations in JavaScript, with choices, switches and variants."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from viete.code import export
from viete.evaluate.run import Run
from viete.explore.reruns import inputs_of, with_loss_open
from viete.explore.steps import NumberedEquations
from viete.explore.variants import Variants
from viete.rewrite.choices import EquationChoice, opened
from viete.rewrite.switches import switched


def program_data(
    run: Run,
    found: Sequence[EquationChoice],
    off: Collection[str],
    equations: NumberedEquations,
    backward: bool,
    of: str | None,
) -> dict[str, Any]:
    """The module's source, and what the page shows where a choice differs from the card.

    ``off`` are values that may be set to 0, ``equations`` those of the page, and ``backward`` says
    whether it includes the backward pass. Raises VieteError for formulas that JavaScript cannot
    express.
    """
    card, switches = switched(opened(run.program.model, tuple(found), masked=True), off)
    switch_data = [{"equation": equations.numbers[s.place], "input": s.symbol.key,
                    "letters": card.blocks_of(s.symbol)} for s in switches]  # fmt: skip
    if backward:
        card = with_loss_open(card, of, inputs_of(run))
    source = export(card, "js", of if backward else None)
    variants = Variants(run, equations, backward, of).of_choices(found)
    return {"source": source, "variants": variants, "switches": switch_data,
            "trains": of is None}  # fmt: skip


__all__ = ["program_data"]
