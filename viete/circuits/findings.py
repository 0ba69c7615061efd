"""The measures of a circuit: faithfulness, completeness, minimality, and each edge's effect."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from viete.circuits.ablation import no_edge
from viete.circuits.confirming import Trials
from viete.circuits.edges import CircuitEdge
from viete.circuits.numbers import CircuitNumbers
from viete.circuits.search import Circuits
from viete.document.displayed import Displayed
from viete.document.rendering import render
from viete.document.tree import Block, paragraph, table
from viete.errors import VieteError
from viete.evaluate.answer_page import literal
from viete.notation.printer import show
from viete.notation.tree import Expr
from viete.notation.words import quoted

FIRST_ORDER = "first order"


@dataclass(frozen=True)
class CircuitFindings(Displayed):
    """The measurements of some edges of ``count``, on some texts.

    ``estimates`` are the edges' scores, of the kind ``score``, and ``exact`` is the model's loss
    without each. ``tokens`` are words of positions at which all texts have the same token.
    """

    of: Expr
    texts: str
    count: int
    edges: tuple[CircuitEdge, ...]
    numbers: CircuitNumbers
    estimates: Mapping[CircuitEdge, float]
    exact: Mapping[CircuitEdge, float]
    score: str
    tokens: Mapping[int, str] = field(default_factory=dict)

    @property
    def faithfulness(self) -> float:
        """As `CircuitNumbers.faithfulness`."""
        return self.numbers.faithfulness

    @property
    def completeness(self) -> float:
        """As `CircuitNumbers.completeness`."""
        return self.numbers.completeness

    @property
    def minimality(self) -> float:
        """As `CircuitNumbers.minimality`."""
        return self.numbers.minimality

    def sentences(self, number: str) -> list[str]:
        """The measurements in words, with a name for the number."""
        each = self.numbers
        error = each.error(lambda x: x.span)
        out = [
            f"{len(self.edges)} of {self.count} edges. All other edges carry their mean over "
            f"{self.texts}, position by position.",
            f"With all edges {number} is {rounded(each.model.mean())}, with none "
            f"{rounded(each.none.mean())}, with these {rounded(each.circuit.mean())}, with all "
            f"others {rounded(each.rest.mean())}.",
            f"Faithfulness {rounded(self.faithfulness)}, completeness "
            f"{rounded(self.completeness)}, minimality {rounded(self.minimality)}.",
        ]
        if abs(each.span) < 2 * error:
            out.append(f"There is little to explain: all edges and none differ by "
                       f"{rounded(each.span)}, with a standard error of {error:.4f} over these "
                       f"texts. So these measures may differ widely on other texts.")  # fmt: skip
        return out

    def named(self, edge: CircuitEdge) -> str:
        """An edge, with the token of its position where all texts have the same token."""
        token = None if edge.position is None else self.tokens.get(edge.position)
        return str(edge) if token is None else f"{edge} {quoted(token)}"

    def page(self, style: str = "unicode") -> Sequence[Block]:
        """The measurements, and a table with a row for each edge, the largest first."""
        score = FIRST_ORDER if self.score == "gradient" else self.score
        header = ["edge", score, "exact", "in the circuit"]
        ordered = sorted(self.edges, key=lambda e: -abs(self.exact[e]))
        rows = [[self.named(e), f"{self.estimates[e]:+.4f}", f"{self.exact[e]:+.4f}",
                 f"{self.numbers.lost(e):+.4f}"] for e in ordered]  # fmt: skip
        number = literal(show(self.of, "unicode"))
        return [*map(paragraph, self.sentences(number)), table(header, rows)]

    def __str__(self) -> str:
        return render(self.page(), "text")


def rounded(x: float) -> str:
    """Four decimals, as the claims about a circuit have them."""
    return f"{x:z.4f}".replace("-", "−")


def findings(circuits: Circuits, edges: Collection[CircuitEdge]) -> CircuitFindings:
    """The measurements of some edges.

    Raises VieteError where all edges give the same number as none, and for no edge.
    """
    _ = circuits.ends
    chosen = set(edges)
    some = tuple(e for e in circuits.edges if e in chosen or e.whole in chosen)
    if not some:
        raise VieteError(no_edge(circuits.of))
    return CircuitFindings(
        of=circuits.of,
        texts=circuits.source or f"{len(circuits.of_model)} texts",
        count=len(circuits.edges),
        edges=some,
        numbers=CircuitNumbers(
            circuits.of_model,
            circuits.of_none,
            circuits.measured(some),
            circuits.measured({*circuits.edges} - {*some}),
            Trials(circuits, some).without(),
        ),
        estimates=circuits.scores,
        exact=circuits.exact(some),
        score=circuits.score,
        tokens=circuits.tokens,
    )


__all__ = ["CircuitFindings", "findings"]
