"""The measures of a circuit: faithfulness, completeness and minimality.

A circuit is faithful if it gives the model's number, complete if the model without it gives none of
that number, and minimal if each of its edges is needed (Wang et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from viete.circuits.edges import CircuitEdge


@dataclass(frozen=True)
class CircuitNumbers:
    """The number of a circuit on every text: (texts).

    With all edges, with none, with the circuit's, with all others, and with all but one of the
    circuit's.
    """

    model: np.ndarray
    none: np.ndarray
    circuit: np.ndarray
    rest: np.ndarray
    without: Mapping[CircuitEdge, np.ndarray]

    @property
    def span(self) -> float:
        """The difference to explain."""
        return float(self.model.mean() - self.none.mean())

    @property
    def faithfulness(self) -> float:
        """The part of it that the circuit gives: 0 for no edge, 1 for all."""
        return float(self.circuit.mean() - self.none.mean()) / self.span

    @property
    def completeness(self) -> float:
        """The part of it that disappears without the circuit: 0 for no edge, 1 for all."""
        return float(self.model.mean() - self.rest.mean()) / self.span

    def lost(self, edge: CircuitEdge) -> float:
        """The loss of the circuit without one of its edges."""
        return float(self.circuit.mean() - self.without[edge].mean())

    @cached_property
    def least(self) -> CircuitEdge | None:
        """The edge whose removal loses least."""
        return min(self.without, key=lambda e: abs(self.lost(e)), default=None)

    @property
    def minimality(self) -> float:
        """The part of the difference to explain that this edge makes; below 0 if it disturbs."""
        return 0.0 if self.least is None else self.lost(self.least) / self.span

    def but(self, text: int) -> CircuitNumbers:
        """The numbers of all texts but one."""
        rest, none, circuit, model = (
            np.delete(x, text) for x in (self.rest, self.none, self.circuit, self.model)
        )
        without = {e: np.delete(x, text) for e, x in self.without.items()}
        return CircuitNumbers(model, none, circuit, rest, without)

    def error(self, of: Callable[[CircuitNumbers], float]) -> float:
        """The standard error of a function of the numbers, by leaving out each text in turn."""
        count = len(self.model)
        each = [of(self.but(k)) for k in range(count)] if count > 1 else [of(self)]
        return float(np.std(each)) * (count - 1) ** 0.5


__all__ = ["CircuitNumbers"]
