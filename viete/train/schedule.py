"""The learning rate of each step: constant or cosine, after a warmup.

As nanoGPT's ``get_lr`` has it: over the first ``warmup`` steps a straight line up to ``lr``; then,
for the cosine, half a wave down to ``least`` of it at the last step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from viete.errors import VieteError
from viete.train.settings import SCHEDULES


@dataclass(frozen=True)
class Schedule:
    """``schedule(step)`` is the learning rate of the step with that number, from 0.

    ``least`` is the learning rate, not the fraction, that a cosine ends at.
    """

    kind: str
    lr: float
    steps: int
    warmup: int = 0
    least: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in SCHEDULES:
            raise VieteError(f"the schedule is one of {', '.join(SCHEDULES)}, not {self.kind}")

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return self.lr * (step + 1) / (self.warmup + 1)
        if self.kind == "constant":
            return self.lr
        if step > self.steps:
            return self.least
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.least + 0.5 * (1 + math.cos(math.pi * done)) * (self.lr - self.least)
