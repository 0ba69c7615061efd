"""What was found out about a circuit: how faithful, how complete, how small; and its claims.

Faithful is a circuit as far as it gives what the model gives, complete as far as the model gives
nothing without it, and minimal as far as each of its edges is needed (Wang et al. 2022).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import floor, log10
from typing import Any

from viete.ask.circuit_edges import CircuitEdge
from viete.ask.circuits import Circuits
from viete.document.displayed import Displayed
from viete.document.rendering import render
from viete.document.tree import Block, paragraph, table
from viete.evaluate.answer_page import literal
from viete.graph.card import CardData
from viete.graph.claim import Claim
from viete.notation.printer import show
from viete.notation.symbols import TEXTS
from viete.notation.tree import Apply, Bind, Expr, near, signed

Array = Any
DIGITS = 2  # of a claimed number, of the distance between all edges and none


@dataclass(frozen=True)
class CircuitFindings(Displayed):
    """A circuit's numbers, each a mean over the texts.

    ``value`` is what its edges give, ``rest`` what all others give, and ``of_model`` and
    ``of_none`` what all and none give. ``estimates`` are the edges' first-order scores, ``exact``
    what the model loses without each, and ``lost`` what the circuit loses.
    """

    of: Expr
    texts: str
    count: int
    edges: tuple[CircuitEdge, ...]
    value: float
    rest: float
    of_model: float
    of_none: float
    estimates: Mapping[CircuitEdge, float]
    exact: Mapping[CircuitEdge, float]
    lost: Mapping[CircuitEdge, float]

    @property
    def span(self) -> float:
        """What there is to explain."""
        return self.of_model - self.of_none

    @property
    def faithfulness(self) -> float:
        """The part of it that the circuit gives: 0 for no edge, 1 for all."""
        return (self.value - self.of_none) / self.span

    @property
    def completeness(self) -> float:
        """The part of it that is gone without the circuit: 0 for no edge, 1 for all."""
        return (self.of_model - self.rest) / self.span

    @property
    def minimality(self) -> float:
        """The least part of it that the circuit loses without one of its edges."""
        return min((abs(x / self.span) for x in self.lost.values()), default=0.0)

    def sentences(self, number: str) -> list[str]:
        """What was measured, in words, with a name for the number."""
        return [
            f"{len(self.edges)} of {self.count} edges. All else is at its mean over "
            f"{self.texts}, position by position.",
            f"With all edges {number} is {self.of_model:.4f}, with none {self.of_none:.4f}, with "
            f"these {self.value:.4f}, with all others {self.rest:.4f}.",
            f"Faithfulness {self.faithfulness:.3f}, completeness {self.completeness:.3f}, "
            f"minimality {self.minimality:.3f}.",
        ]

    def page(self, style: str = "unicode") -> Sequence[Block]:
        """What was measured, and a row for each edge, the largest first."""
        header = ["edge", "first order", "exact", "in the circuit"]
        ordered = sorted(self.edges, key=lambda e: -abs(self.exact[e]))
        rows = [[str(e), f"{self.estimates[e]:+.4f}", f"{self.exact[e]:+.4f}",
                 f"{self.lost[e]:+.4f}"] for e in ordered]  # fmt: skip
        number = literal(show(self.of, "unicode"))
        return [*map(paragraph, self.sentences(number)), table(header, rows)]

    def __str__(self) -> str:
        return render(self.page(), "text")


def findings(circuits: Circuits, edges: Collection[CircuitEdge]) -> CircuitFindings:
    """What there is to say about some edges.

    Raises VieteError where all edges give what none gives, so that there is nothing to explain.
    """
    of_model, of_none = circuits.ends
    some = tuple(e for e in circuits.edges if e in set(edges))
    value = circuits.measured(some)
    return CircuitFindings(
        of=circuits.of,
        texts=circuits.source or f"{sum(map(len, circuits.batches))} texts",
        count=len(circuits.edges),
        edges=some,
        value=value,
        rest=circuits.measured({*circuits.edges} - {*some}),
        of_model=of_model,
        of_none=of_none,
        estimates=circuits.scores,
        exact=circuits.exact(some),
        lost={e: value - circuits.measured({*some} - {e}) for e in some},
    )


def circuit_claims(metric: Expr, found: CircuitFindings, source: str) -> tuple[Claim, ...]:
    """What the circuit's card claims: its number, and how faithful it is."""
    digits = DIGITS - floor(log10(abs(found.span)))
    value = Bind("mean", TEXTS, None, None, metric)
    share = Apply("div", (minus(value, decimal(found.of_none, digits)),
                          decimal(found.of_model - found.of_none, digits)))  # fmt: skip
    least = decimal(floor(found.faithfulness * 20) / 20, 2)  # so that it holds of like texts
    return (
        Claim(near(value, decimal(found.value, digits), decimal(10.0**-digits, digits)),
              "what the circuit gives", texts=source),
        Claim(Apply("ge", (share, least)), "faithfulness: the model gives 1, no edge 0",
              texts=source),
    )  # fmt: skip


def circuit_of(circuits: Circuits, found: CircuitFindings) -> tuple[CardData, dict[str, Array]]:
    """The circuit's card, with what was measured as its claims, and its weights."""
    made, weights = circuits.circuit(found.edges)
    edges = (f"${show(e.writer, 'latex')} \\to {show(e.reader, 'latex')}$" for e in found.edges)
    number = f"${show(found.of, 'latex')}$"
    about = (*found.sentences(number), f"The edges are {', '.join(edges)}.")
    claims = circuit_claims(circuits.metric, found, circuits.source)
    return replace(made.card, about=about, claims=claims), weights


def minus(a: Expr, b: Expr) -> Expr:
    """A difference, without two signs in a row."""
    match b:
        case Apply("neg", (c,)):
            return Apply("add", (a, c))
    return Apply("sub", (a, b))


def decimal(value: float, digits: int) -> Expr:
    """A number with so many digits behind the point."""
    return signed(Fraction(f"{value:.{max(digits, 0)}f}"))


__all__ = ["CircuitFindings", "circuit_of", "findings"]
