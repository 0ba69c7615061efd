"""The program of a page: its equations in JavaScript, their choices open, and its variants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viete.code import export
from viete.evaluate.run import Run
from viete.explore.reruns import inputs_of, with_loss_open
from viete.explore.steps import NumberedEquations
from viete.explore.variants import Variants
from viete.rewrite.choices import EquationChoice, opened


def program_data(
    run: Run,
    found: Sequence[EquationChoice],
    equations: NumberedEquations,
    backward: bool,
    of: str | None,
) -> dict[str, Any]:
    """The module's source, and what the page shows where a choice is not as in the card.

    ``equations`` are those of the page, and ``backward`` says whether it goes backwards too. Raises
    VieteError for what JavaScript cannot say.
    """
    card = opened(run.program.model, tuple(found), masked=True)
    if backward:
        card = with_loss_open(card, of, inputs_of(run))
    source = export(card, "js", of if backward else None)
    variants = Variants(run, equations, backward, of).of_choices(found)
    return {"source": source, "variants": variants, "trains": of is None}


__all__ = ["program_data"]
