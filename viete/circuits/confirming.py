"""Confirms edges by exact runs: which edges a smaller circuit needs.

As in ACDC (Conmy et al. 2023), from the last reader to the first, an edge is removed if that
changes the number by less than a threshold. Here many thresholds are tried side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from viete.circuits.ablation import Ablations
from viete.circuits.card import live_edges
from viete.circuits.edges import CircuitEdge
from viete.evaluate.inputs import host
from viete.evaluate.interventions import as_like
from viete.notation.tree import num

Edges = tuple[CircuitEdge, ...]
THRESHOLDS = np.geomspace(3e-4, 0.5, 16)  # of what there is to explain


class Trials:
    """Circuits of some edges, in the order of their readers, run together."""

    def __init__(self, model: Ablations, some: Sequence[CircuitEdge]) -> None:
        self.model, self.some = model, some
        self.runs, self.weights = model.beside(some)
        card, (letter,) = self.runs.made.card, self.runs.number.slots
        indices = (replace(i, upper=num(len(THRESHOLDS))) if i.name == letter else i
                   for i in card.indices)  # fmt: skip
        self.card = replace(card, indices=tuple(indices))

    def numbers(self, on: np.ndarray) -> np.ndarray:
        """The mean number of each circuit over the texts, as `each`."""
        return self.each(on).mean(0)

    def without(self) -> dict[CircuitEdge, np.ndarray]:
        """The number of every text with all edges but one, for each edge."""
        out: dict[CircuitEdge, np.ndarray] = {}
        for first in range(0, len(self.some), len(THRESHOLDS)):
            left_out = self.some[first : first + len(THRESHOLDS)]
            on = np.ones((len(self.some), len(THRESHOLDS)))
            on[range(first, first + len(left_out)), range(len(left_out))] = 0
            out |= dict(zip(left_out, self.each(on).T, strict=False))
        return out

    def each(self, on: np.ndarray) -> np.ndarray:
        """The number of every text (texts, runs); ``on`` is (edges, runs), 1 if on."""
        like = next(iter(self.model.weights.values()))
        arrays = self.runs.switched(on, np.zeros(on.shape[1]), self.model.rows)
        self.weights |= {name: as_like(a, like, name) for name, a in arrays.items()}
        found = []
        for run in self.model.runs(self.card, self.weights):
            run.supply({(self.runs.number.key, ())})
            v = run.for_each(run.lookup(self.runs.number.key, ()))
            found.append(np.asarray(host(run.ordered(v, ()))).astype(np.float64))
        return np.concatenate(found)

    def pruned(self) -> Iterator[Edges]:
        """The edges left for each threshold, without those that then lead nowhere."""
        whole, none = self.model.ends
        thresholds = THRESHOLDS * abs(whole - none)
        on = np.ones((len(self.some), len(thresholds)))
        now = self.numbers(on)
        for k in reversed(range(len(self.some))):
            less = on.copy()
            less[k] = 0
            found = self.numbers(less)
            out = np.abs(found - now) < thresholds
            on[k, out], now = 0, np.where(out, found, now)
        for column in on.T:
            left = [e for e, there in zip(self.some, column, strict=True) if there]
            yield live_edges(self.model.wiring, left)


def confirmed(model: Ablations, some: Edges, first: Edges, count: int) -> Edges:
    """The circuit nearest to the model among those of at most ``count`` of some edges.

    The candidates are ``first`` and the circuits left for the thresholds.
    """
    wanted = float(model.of_model.mean())
    found = dict.fromkeys((first, *(x for x in Trials(model, some).pruned() if len(x) <= count)))
    return min(found, key=lambda x: abs(float(model.measured(x).mean()) - wanted))


__all__ = ["confirmed"]
