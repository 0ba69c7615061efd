"""A circuit as cards with claims: the circuit, and the runs against which it is checked.

Each claim is a mean over the texts with a tolerance, so it can be checked on similar texts too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, log10
from typing import Any

from viete.circuits.edges import CircuitEdge
from viete.circuits.findings import CircuitFindings
from viete.circuits.numbers import CircuitNumbers
from viete.circuits.runs import CIRCUIT, MODEL, NONE, REST, CircuitRuns
from viete.circuits.search import Circuits
from viete.errors import Text
from viete.graph.card import CardData
from viete.graph.claim import Claim
from viete.notation.printer import show
from viete.notation.symbols import TEXTS
from viete.notation.tree import Apply, Bind, Expr, near, signed

Array = Any
ERRORS = 6  # standard errors that a claim allows for
LEAST = 0.05  # that it allows for at least, of what there is to explain


@dataclass(frozen=True)
class FoundCard:
    """A card with its weights."""

    card: CardData
    weights: dict[str, Array]


def circuit_of(circuits: Circuits, found: CircuitFindings) -> FoundCard:
    """The circuit's card with claims of its number, and its weights."""
    made, weights = circuits.circuit(found.edges)
    number = f"${show(found.of, 'latex')}$"
    about = (*found.sentences(number), f"The edges are {listed(found.edges)}.")
    claim = close(
        mean(circuits.metric), found.numbers, lambda n: float(n.circuit.mean()),
        found.numbers.span, "what the circuit gives", circuits.source,
    )  # fmt: skip
    return FoundCard(replace(made.card, about=about, claims=(claim,)), weights)


def evidence_of(circuits: Circuits, found: CircuitFindings) -> FoundCard:
    """The card of all runs compared with the circuit, with claims of all measurements."""
    runs, weights = circuits.beside(found.edges)
    edges = "; ".join(f"{k}: {listed([e])}" for k, e in enumerate(found.edges, 1))
    about = (
        f"The runs that a circuit is compared with, side by side. Run {MODEL} is the model. Run "
        f"{NONE} has no edge, run {CIRCUIT} the edges of the circuit, run {REST} all other edges. "
        f"Each later run lacks one edge of the circuit.",
        f"The edges of the circuit are {edges}.",
    )
    claims = tuple(run_claims(runs, found.numbers, circuits.source))
    return FoundCard(replace(runs.made.card, about=about, claims=claims), weights)


def run_claims(runs: CircuitRuns, numbers: CircuitNumbers, source: str) -> Iterator[Claim]:
    """Claims of the numbers of model and circuit, of its faithfulness, completeness and edges.

    The number with no edge is not a claim: the means depend on their texts.
    """

    def run(k: int) -> Expr:
        return mean(runs.value(k))

    def share(a: int, b: int) -> Expr:
        return Apply("div", (Apply("sub", (run(a), run(b))), Apply("sub", (run(MODEL), run(NONE)))))

    def claim(e: Expr, of: Callable[[CircuitNumbers], float], unit: float, why: str) -> Claim:
        return close(e, numbers, of, unit, why, source)

    span = numbers.span
    yield claim(run(MODEL), lambda n: float(n.model.mean()), span, "what the model gives")
    yield claim(run(CIRCUIT), lambda n: float(n.circuit.mean()), span, "what the circuit gives")
    yield claim(share(CIRCUIT, NONE), lambda n: n.faithfulness, 1, "faithfulness")
    yield claim(share(MODEL, REST), lambda n: n.completeness, 1, "completeness")
    for k, edge in enumerate(runs.edges, REST + 1):
        least = "minimality, the least: " * (edge == numbers.least)
        yield claim(
            share(CIRCUIT, k), lambda n, e=edge: n.lost(e) / n.span, 1,  # type: ignore[misc]
            f"{least}what the circuit loses without {edge}",
        )  # fmt: skip


def close(
    e: Expr, numbers: CircuitNumbers, of: Callable[[CircuitNumbers], float], unit: float,
    meaning: str, source: str,
) -> Claim:  # fmt: skip
    """A claim that a formula is near the number found, within the error expected on similar texts.

    The error is `ERRORS` standard errors, and at least `LEAST` of a unit.
    """
    within = max(ERRORS * numbers.error(of), LEAST * abs(unit))
    digits = -floor(log10(within))
    within = ceil(within * 10.0**digits) / 10.0**digits
    value, most = f"{of(numbers):.{max(digits + 2, 4)}f}", f"{within:.{max(digits, 0)}f}"
    found = near(e, signed(Fraction(value)), signed(Fraction(most)))
    return Claim(found, meaning, Text(f"{value} within {most}"), texts=source)


def listed(edges: Iterable[CircuitEdge]) -> str:
    """Edges in prose, each with its positions."""
    positions: dict[CircuitEdge, list[str]] = {}
    for e in edges:
        found = positions.setdefault(e.whole, [])
        found += [] if e.position is None else [str(e.position)]
    between = "; " if any(positions.values()) else ", "
    return between.join(f"${e.arrow}$" + f" at {', '.join(at)}" * bool(at)
                        for e, at in positions.items())  # fmt: skip


def mean(e: Expr) -> Expr:
    """The mean of a number over the texts."""
    return Bind("mean", TEXTS, None, None, e)


__all__ = ["FoundCard", "circuit_of", "evidence_of"]
