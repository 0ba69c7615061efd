"""The scores of the next token: from the whole text each time, or from new positions only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from viete.analysis.next_token import scores, text_of
from viete.evaluate.execution import execute
from viete.evaluate.inputs import in_numpy
from viete.evaluate.interventions import Put, interventions
from viete.evaluate.labelled import COL, ROW, Array, permute
from viete.evaluate.run import Run
from viete.evaluate.schedule import program
from viete.graph.card import CardData

BATCH = "batch"


class Steps(Protocol):
    """Computes the scores of the next token, for several texts of one length."""

    def prefill(self, text: np.ndarray, count: int) -> np.ndarray:
        """The scores after a text of shape (count, n), or (1, n) for equal texts: (count, V)."""

    def step(self, tokens: np.ndarray) -> np.ndarray:
        """The scores after one more token in each text: (count, 1) gives (count, V)."""


class Whole:
    """Steps without a cache: each runs the card on the whole text."""

    def __init__(
        self, card: CardData, weights: Mapping[str, Array], inputs: Mapping[str, Array],
        put: Put | None = None,
    ) -> None:  # fmt: skip
        self.tokens, self.target = text_of(card).name, scores(card)
        self.program, self.weights, self.inputs = program(card), weights, inputs
        self.put = interventions(self.program, put or {})
        self.text, self.shape = np.zeros((0, 0), np.int64), (0, 0)

    def prefill(self, text: np.ndarray, count: int) -> np.ndarray:
        """As `Steps.prefill`."""
        times = count // len(text)
        self.text = np.repeat(text, times, 0)
        return np.repeat(self.run(text), times, 0)

    def step(self, tokens: np.ndarray) -> np.ndarray:
        """As `Steps.step`."""
        self.text = np.concatenate([self.text, tokens], 1)
        return self.run(self.text)

    def run(self, text: np.ndarray) -> np.ndarray:
        given = {**self.inputs, self.tokens: text}
        again, self.shape = text.shape == self.shape, text.shape  # as where a full text is cropped
        with without_gradients(self.weights):
            found = execute(
                self.program, given, self.weights, [self.target], put=self.put, again=again
            )
            return last_row(found, self.target, len(text))


def last_row(run: Run, target: str, count: int) -> np.ndarray:
    """The scores at the last position, as a NumPy array: (count, V)."""
    v = run.store[target, ()]
    axes = tuple(a for a in (BATCH, ROW, COL) if a in v.axes)
    array = permute(run.arrays.xp, run.arrays.lift(v), v.axes, axes)[..., -1, :]
    return scores_of(array, count)


def scores_of(array: Array, count: int) -> np.ndarray:
    """Scores as NumPy floats, one row for each text even if no token changes them."""
    return np.broadcast_to(in_numpy(array), (count, array.shape[-1]))


@contextmanager
def without_gradients(weights: Mapping[str, Any]) -> Iterator[None]:
    """Disable PyTorch's recording of gradients, if the weights are tensors."""
    if not any(hasattr(w, "detach") for w in weights.values()):
        yield
        return
    import torch

    with torch.no_grad():
        yield


__all__ = ["Steps", "Whole", "last_row", "scores_of"]
