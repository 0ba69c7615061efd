"""Explains a loss that went wrong: the first value that is not finite, or how far the loss rose."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from viete.evaluate.execution import execute
from viete.evaluate.inputs import host
from viete.evaluate.schedule import Program, program
from viete.graph.card import CardData
from viete.notation.printer import show
from viete.rewrite.adjoint.grad import grad

Array = Any
STEPS = 20  # whose mean is compared, since single batches differ
FAR = 0.1, 1.5  # nats above the lowest mean, and times it


class Divergence:
    """The mean loss of the last steps compared with the lowest such mean of the run.

    ``lowest`` is that mean and the step it ended at, as stored in a checkpoint.
    """

    def __init__(self, lowest: Sequence[float] | None = None) -> None:
        self.last: deque[float] = deque(maxlen=STEPS)
        self.lowest = None if lowest is None else (float(lowest[0]), int(lowest[1]))

    def add(self, step: int, loss: float) -> None:
        """Record the loss of a step."""
        self.last.append(loss)
        if len(self.last) == STEPS and (self.lowest is None or self.mean < self.lowest[0]):
            self.lowest = self.mean, step

    @property
    def mean(self) -> float:
        return sum(self.last) / len(self.last)

    def sentence(self, lr: float) -> str:
        """A sentence on a diverged loss; empty if the loss is near its lowest."""
        if self.lowest is None or not self.last:
            return ""
        low, step = self.lowest
        if self.mean < low + FAR[0] or self.mean < FAR[1] * low:
            return ""
        return (
            f"the loss of the last {len(self.last)} steps is {self.mean:.4g}, far above its "
            f"lowest, {low:.4g} at step {step}: the steps became too large for these weights; "
            f"try --lr {lr / 3:.2g} in place of {lr:.2g}, --schedule cosine, or --warmup 100"
        )


def culprit(card: CardData, batch: Mapping[str, Array], weights: Mapping[str, Array]) -> str:
    """A clause that names the first value that is not finite, forward or backward.

    The equations run again, on NumPy, one sequence at a time. A mask's −∞ counts only if nothing
    worse is found.
    """
    here = {name: host(w) for name, w in weights.items()}
    bad = next((name for name, w in here.items() if not np.isfinite(w).all()), None)
    why = "" if bad is None else f"the weight {bad} is not finite, and "
    found = first(program(card), batch, here)
    if found is not None:
        number, name = found
        return f"{why}equation {number} is the first whose value is not finite: {name}"
    if bad is not None:
        return f"the weight {bad} is not finite"
    found = first(Program(grad(card)), batch, here)
    if found is not None:
        return f"the values are finite, and {found[1]} is the first derivative that is not"
    return "computed again on NumPy, every value and derivative is finite"


def first(
    ready: Program, batch: Mapping[str, Array], weights: Mapping[str, np.ndarray]
) -> tuple[int, str] | None:
    """The number of the first equation with a value that is not finite, and the equation."""
    worst: dict[bool, int] = {}  # whether it is more than a mask's −∞ → the first step
    rows = len(next(iter(batch.values())))
    for row in range(rows):
        inputs = {name: array[row : row + 1] for name, array in batch.items()}
        run = execute(ready, inputs, weights)
        for k, step in enumerate(ready.steps):
            if step.makes not in run.store:
                continue
            array = host(run.store[step.makes].array)
            bad = array[~np.isfinite(array)] if array.dtype.kind == "f" else array[:0]
            if bad.size:
                severe = bool((bad != -np.inf).any())
                worst[severe] = min(k, worst.get(severe, k))
                if severe:
                    break
    if not worst:
        return None
    step = ready.steps[worst.get(True, worst.get(False, 0))]
    number = ready.model.equations.index(step.equation) + 1
    turn = "".join(f" at {i} = {n}" for i, n in step.loops.items())
    return number, f"{show(step.equation.left)} = {show(step.equation.right)}{turn}"


__all__ = ["Divergence", "culprit"]
