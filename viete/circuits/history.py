"""A circuit over training: the final circuit's edges, tested at every earlier checkpoint.

At each step the circuit is that step's model with these edges only, and all other edges at that
step's own means. The numbers show when the edges begin to do the model's work.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import isnan, nan

from viete.circuits.ablation import check_finite, no_edge
from viete.circuits.edges import CircuitEdge
from viete.circuits.search import Circuits
from viete.document.displayed import Displayed
from viete.document.rendering import render
from viete.document.tree import Block, paragraph, table
from viete.errors import VieteError
from viete.evaluate.answer_page import literal
from viete.notation.printer import show
from viete.notation.tree import Expr

LEAST = 0.05  # of the largest distance between all edges and none: below it no share is a number


@dataclass(frozen=True)
class CircuitStep:
    """The mean number at a step with all edges, with none and with those of the circuit."""

    step: int
    of_model: float
    of_none: float
    value: float


@dataclass(frozen=True)
class CircuitHistory(Displayed):
    """A circuit at several steps, in their order."""

    of: Expr
    texts: str
    edges: tuple[CircuitEdge, ...]
    steps: tuple[CircuitStep, ...]

    @property
    def faithfulness(self) -> list[float]:
        """The faithfulness at each step: 0 for no edge, 1 for all.

        NaN where all edges give nearly the same number as none.
        """
        spans = [s.of_model - s.of_none for s in self.steps]
        most = max(map(abs, spans), default=0.0)
        return [(s.value - s.of_none) / span if abs(span) > LEAST * most else nan
                for s, span in zip(self.steps, spans, strict=True)]  # fmt: skip

    def first(self, least: float) -> int | None:
        """The first step with at least this faithfulness; None if no step has it."""
        pairs = zip(self.steps, self.faithfulness, strict=True)
        return next((s.step for s, f in pairs if f >= least), None)

    def sentences(self, number: str) -> list[str]:
        """The measurements in words, with a name for the number."""
        last = self.steps[-1].step
        found = self.first(0.9)
        return [
            f"{len(self.edges)} edges, found at step {last:,} and measured at every step, of "
            f"{number} over {self.texts}.",
            "The circuit is never as faithful as 0.9." if found is None
            else f"Its faithfulness is first 0.9 or more at step {found:,}.",
        ]  # fmt: skip

    def page(self, style: str = "unicode") -> Sequence[Block]:
        """A table with a row for each step."""
        header = ["step", "all edges", "the circuit", "no edge", "faithfulness"]
        rows = [
            [f"{s.step:,}", *(f"{x:.4f}" for x in (s.of_model, s.value, s.of_none)),
             "nothing to explain" if isnan(f) else f"{f:.3f}"]
            for s, f in zip(self.steps, self.faithfulness, strict=True)
        ]  # fmt: skip
        number = literal(show(self.of, "unicode"))
        return [*map(paragraph, self.sentences(number)), table(header, rows)]

    def __str__(self) -> str:
        return render(self.page(), "text")


def circuit_step(step: int, circuits: Circuits, edges: Collection[CircuitEdge]) -> CircuitStep:
    """Measure some edges on the model of one step.

    Raises VieteError for no edge, and for a number that is not finite.
    """
    check_finite(circuits.of, circuits.of_model, f"at step {step}")
    if not edges:
        raise VieteError(no_edge(circuits.of))
    numbers = circuits.of_model, circuits.of_none, circuits.measured(edges)
    return CircuitStep(step, *(float(x.mean()) for x in numbers))


__all__ = ["CircuitHistory", "CircuitStep", "circuit_step"]
