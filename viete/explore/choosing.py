"""What a reader of a page may vary: numbers such as ε, and the choices in choices.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viete.evaluate.run import Run
from viete.explore.formulas import mathml
from viete.notation.printer import show
from viete.notation.tree import Ref
from viete.rewrite.choices import OPENED, EquationChoice


def constants(run: Run) -> frozenset[str]:
    """The dimensions of a run that are not sizes, such as ε."""
    card = run.program.model
    sizes = {k for t in run.program.shapes.types.values() for s in t.shape for k in s.names()}
    bounds = {k for lower, upper in card.ranges.values() for k in lower.keys | upper.keys}
    opened = {d.name for d in card.dims if d.meaning == OPENED}
    whole = {name for name, value in card.sizes.items() if value.denominator == 1}
    return frozenset(card.sizes) - sizes - bounds - (whole - opened)


def choices_data(run: Run, found: Sequence[EquationChoice]) -> list[dict[str, Any]]:
    """The choices of a page as JSON; ``key`` is the name of their number in operations."""
    card = run.program.model
    number = {e.name: k for k, e in enumerate(card.equations, 1)}
    return [
        {"name": name, "key": name, "kind": "number", "value": float(value)}
        for name, value in card.sizes.items() if name in constants(run)
    ] + [
        {"name": c.name, "key": c.symbol.key, "kind": c.kind, "equation": number[c.equation],
         "value": 1.0 if c.is_number else True, "math": mathml(Ref(c.symbol)),
         "latex": show(Ref(c.symbol), "latex")}
        for c in found
    ]  # fmt: skip


__all__ = ["choices_data", "constants"]
