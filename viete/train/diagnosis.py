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
from viete.train.settings import Settings

Array = Any
STEPS = 20  # whose mean is compared, since single batches differ
FAR = 0.1, 1.5  # nats above another mean, and times it
ABOVE_FLOOR = 0.02, 1.5  # the same for the floor, which is exact
# What learned the shipped dialogs in 1000 steps at the rate 0.03, which is too large without it,
# from each of eight seeds; without the larger ε from six. So did a third of the rate, with no
# clipping, entries at 5 or length 1. `python benchmarks/dialogs.py tour` takes 3000 steps of these.
SAFE: dict[str, Any] = {"warmup": 100, "schedule": "cosine", "clip": 0.0, "eps": 1e-3}


class Divergence:
    """The mean loss of the last steps compared with the lowest such mean of the run.

    ``lowest`` is that mean and the step it ended at; ``rise`` the highest mean that was far above
    the lowest of its time, and its step. A checkpoint stores both.
    """

    def __init__(
        self, lowest: Sequence[float] | None = None, rise: Sequence[float] | None = None
    ) -> None:
        self.last: deque[float] = deque(maxlen=STEPS)
        self.lowest = None if lowest is None else (float(lowest[0]), int(lowest[1]))
        self.rise = None if rise is None else (float(rise[0]), int(rise[1]))

    def add(self, step: int, loss: float) -> None:
        """Record the loss of a step."""
        self.last.append(loss)
        if len(self.last) < STEPS:
            return
        if self.lowest is None or self.mean < self.lowest[0]:
            self.lowest = self.mean, step
        elif is_far(self.mean, self.lowest[0], FAR) and self.mean > (self.rise or (0.0, 0))[0]:
            self.rise = self.mean, step

    @property
    def mean(self) -> float:
        return sum(self.last) / len(self.last)

    def sentence(self, settings: Settings, floor: float | None = None) -> str:
        """What the losses show of steps that were too large, and what to change; else empty.

        That is a loss that ends far above its lowest, or one that rose far above it and ends far
        above the floor of the data.
        """
        if self.lowest is None or not self.last:
            return ""
        low, step = self.lowest
        found = f"the loss of the last {len(self.last)} steps is {self.mean:.4g}, "
        if is_far(self.mean, low, FAR):
            found += f"far above its lowest, {low:.4g} at step {step}"
        elif self.rise and floor is not None and is_far(self.mean, floor, ABOVE_FLOOR):
            found += (f"far above the floor of these texts, {floor:.4g}: it rose to "
                      f"{self.rise[0]:.4g} at step {self.rise[1]}")  # fmt: skip
        else:
            return ""
        return f"{found}: the steps became too large for these weights; {advice(settings)}"


def is_far(mean: float, low: float, bounds: tuple[float, float]) -> bool:
    return mean >= low + bounds[0] and mean >= bounds[1] * low


def advice(settings: Settings) -> str:
    """A smaller rate, or what `SAFE` has and the settings have not."""
    lr = settings.lr
    lower = f"try --lr {lr / 3:.2g} in place of {lr:.2g}"
    has = {"warmup": settings.warmup >= SAFE["warmup"], "schedule": settings.schedule == "cosine",
           "clip": settings.clip == 0, "eps": settings.eps >= SAFE["eps"]}  # fmt: skip
    missing = " ".join(f"--{name} {SAFE[name]:g}" if name != "schedule" else "--schedule cosine"
                       for name, there in has.items() if not there)  # fmt: skip
    return f"{lower}, or keep it with {missing}" if missing else lower


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
