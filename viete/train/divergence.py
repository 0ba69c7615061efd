"""Divergence: whether a run's loss ends far above the lowest that it had."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

STEPS = 20  # whose mean is compared, since single batches differ
FAR = 0.1, 1.5  # nats above the lowest mean, and times it


class Divergence:
    """The mean loss of the last steps beside the lowest such mean of the run.

    ``lowest`` is that mean and the step it ended at, as a checkpoint keeps it.
    """

    def __init__(self, lowest: Sequence[float] | None = None) -> None:
        self.last: deque[float] = deque(maxlen=STEPS)
        self.lowest = None if lowest is None else (float(lowest[0]), int(lowest[1]))

    def add(self, step: int, loss: float) -> None:
        """Note the loss of a step."""
        self.last.append(loss)
        if len(self.last) == STEPS and (self.lowest is None or self.mean < self.lowest[0]):
            self.lowest = self.mean, step

    @property
    def mean(self) -> float:
        return sum(self.last) / len(self.last)

    def sentence(self, lr: float) -> str:
        """What to say of a run that ends so; empty where the loss is near its lowest."""
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


__all__ = ["Divergence"]
