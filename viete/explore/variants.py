"""Variants of a page: what it shows when a reader has varied the choices of an equation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Any

from viete.evaluate.execution import execute
from viete.evaluate.run import Run
from viete.evaluate.schedule import program
from viete.explore.alignment import aligned
from viete.explore.reruns import inputs_of, weights_of, with_backward
from viete.explore.steps import NumberedEquations
from viete.explore.values import Shelf, in_floats
from viete.explore.walk import Walk, float_evaluator
from viete.rewrite.choices import EquationChoice, opened

PARTS = ("equations", "backward_equations", "steps", "backward")


class Variants:
    """The variants of a page, whose equations are ``base``; a variant has the differing equations.

    Where the equations are not those of the page, ``order`` has the numbers of all.
    """

    def __init__(self, run: Run, base: NumberedEquations, backward: bool, of: str | None) -> None:
        self.run, self.base, self.backward, self.differentiated = run, base, backward, of
        self.data = base.data()
        self.taken: set[str] = set()  # names of parts of other variants

    def of_choices(self, found: Sequence[EquationChoice]) -> list[dict[str, Any]]:
        """A variant of each choice, and of each set of choices that change the same equations."""
        groups = [[c for c in found if c.equation == name]
                  for name in dict.fromkeys(c.equation for c in found)]  # fmt: skip
        made = {names: self.of(names) for group in groups for names in subsets(group)}
        touched = [
            {
                e["number"]
                for names in subsets(group)
                for part in PARTS[:2]
                for e in made[names][part]
            }
            for group in groups
        ]
        for a, b in combinations(range(len(groups)), 2):
            if touched[a] & touched[b]:
                groups[b], touched[b] = [*groups[a], *groups[b]], touched[a] | touched[b]
        for group in groups:
            made |= {names: self.of(names) for names in subsets(group) if names not in made}
        return list(made.values())

    def of(self, names: tuple[EquationChoice, ...]) -> dict[str, Any]:
        """The variant with some choices left open."""
        card, before, taken = (
            opened(self.run.program.model, names), self.base.card, frozenset(self.taken)
        )  # fmt: skip
        forward = len(card.equations)
        if self.backward:
            run = with_backward(
                self.run, card, self.differentiated, lambda card: aligned(card, before, taken)
            )
        else:
            run = execute(program(card), inputs_of(self.run), weights_of(self.run), again=False)
            run.scope = self.run.scope
        walk = Walk(run, float_evaluator(run), Shelf(in_floats), True, self.base)
        walk.givens()
        self.taken |= run.program.model.symbols.keys() - self.base.card.symbols.keys()
        numbers = walk.equations.numbers
        ahead = set(numbers[:forward])
        equations = [e for e in walk.equations.data() if e not in self.data]
        other = {e["number"] for e in equations}
        steps = walk.turns(lambda step: numbers[walk.equations.place_of(step.equation)] in other)
        out: dict[str, Any] = {
            "choices": [c.name for c in names],
            "equations": [e for e in equations if e["number"] in ahead],
            "backward_equations": [e for e in equations if e["number"] not in ahead],
            "steps": [s for s in steps if s["equation"] in ahead],
            "backward": [s for s in steps if s["equation"] not in ahead],
        }
        return out if numbers == self.base.numbers else {**out, "order": numbers}


def subsets(found: Sequence[EquationChoice]) -> Iterator[tuple[EquationChoice, ...]]:
    """All non-empty subsets of the choices."""
    return chain.from_iterable(combinations(found, k) for k in range(1, len(found) + 1))


__all__ = ["Variants"]
