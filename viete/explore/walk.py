"""Puts a run on a page: its steps as JSON, with its values and those of its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from viete.evaluate.array import Arrays
from viete.evaluate.inputs import host
from viete.evaluate.labelled import Value, in_order, permute
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step
from viete.explore.choosing import constants
from viete.explore.formulas import mathml
from viete.explore.operations import Tracer
from viete.explore.ranges import AxisNames, operation_key
from viete.explore.steps import NumberedEquations, PageSteps
from viete.explore.values import PageValue, Shelf
from viete.notation.tree import Symbol
from viete.rewrite.blocks import at_block

# Which values go first where there is not room for all: those of lower ranks.
STEP, INPUT, PARAMETER, GRADIENT, PART = range(5)


class Walk:
    """Walks over a run in one meaning; ``traced`` says whether steps are broken into operations.

    ``before`` are equations whose numbers are used here too.
    """

    def __init__(
        self, run: Run, evaluator: Arrays, shelf: Shelf, traced: bool,
        before: NumberedEquations | None = None,
    ) -> None:  # fmt: skip
        self.run, self.shelf = run, shelf
        self.equations = NumberedEquations(run, before)
        self.steps = PageSteps(run, self.equations, Tracer(run, evaluator) if traced else None)
        self.names = AxisNames(run)
        self.left_out: list[str] = []  # members whose steps are too large to be taken apart

    def givens(self) -> None:
        """Put the inputs and the weights on the shelf."""
        inputs = {i.name for i in self.run.program.model.inputs}
        made = {s.makes for s in self.run.program.steps}
        for member, v in self.run.store.items():
            if member not in made:
                rank = INPUT if member[0] in inputs else PARAMETER
                symbol = self.steps.symbols[member[0]]
                loops = self.run.program.loops_of(symbol, member[1])
                name = mathml(at_block(symbol.member, loops, self.run.sizes)) if loops else None
                self.put(self.steps.name(member), self.on_paper(v, symbol), symbol, rank, name)
        for name in sorted(constants(self.run)):
            number = np.asarray(self.run.sizes[name])
            self.shelf.values[name] = PageValue(number, (), (), INPUT)

    def turns(self, wanted: Callable[[Step], bool], rank: int = STEP) -> list[dict[str, Any]]:
        """The wanted steps as JSON."""
        return [self.step(step, rank) for step in self.steps.turns() if wanted(step)]

    def step(self, step: Step, rank: int) -> dict[str, Any]:
        """A step as JSON; puts its value and those of its operations on the shelf."""
        data, made = self.steps.of(step)
        symbol = step.equation.left.symbol
        if not made:
            self.left_out.append(data["member"])
        self.put(data["member"], self.on_paper(self.run.lookup(*step.makes), symbol), symbol, rank)
        known = {k: v.axes for k, v in self.shelf.values.items()}
        for o in made:
            known[operation_key(o.id)] = ranges = self.names.of_operation(o, known)
            if o.key not in self.shelf.values:
                array = self.steps.array(o)
                self.shelf.values[o.key] = PageValue(array, ranges, self.labels(ranges), PART)
        return data

    def put(
        self,
        key: str,
        paper: tuple[np.ndarray, tuple[str, ...]],
        symbol: Symbol,
        rank: int,
        name: str | None = None,
    ) -> None:
        """Put a member on the shelf; ``name`` is that of a weight of one block."""
        array, axes = paper
        ranges = self.names.of_value(symbol, axes)
        of = None if name is None else symbol.key
        self.shelf.values[key] = PageValue(array, ranges, self.labels(ranges), rank, of, name)

    def labels(self, ranges: Iterable[str]) -> tuple[Any, ...]:
        """The names of the entries of axes."""
        return tuple(map(self.names.labels, ranges))

    def on_paper(self, v: Value, symbol: Symbol) -> tuple[np.ndarray, tuple[str, ...]]:
        """A member's array as ``run[...]`` gives it, and the labels of its axes."""
        axes = in_order(v, symbol.slots)
        array = np.asarray(host(self.run.arrays.array(v)))
        return permute(np, array, v.axes, axes), axes


def float_evaluator(run: Run) -> Arrays:
    """The evaluator of a run's operations in float64, whatever the run itself is in."""

    def lookup(key: str, loops: tuple[int, ...]) -> Value:
        v = run.lookup(key, loops)
        array = np.asarray(host(run.arrays.array(v)))
        whole = array.dtype.kind in "iub"
        return Value(array if whole else array.astype(np.float64), v.axes, interval=v.interval)

    return Arrays(run.program.model, run.sizes, np.zeros(()), lookup, quick=False)


__all__ = ["GRADIENT", "STEP", "Walk", "float_evaluator"]
