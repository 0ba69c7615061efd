"""Several ablated runs of a model side by side, as one card: the baselines of a circuit.

Each value that an edge reaches has one more index letter, which counts the runs: the whole model,
no edges, the circuit, all other edges, and the circuit without each of its edges. In the equation
of a reader's own stream, an edge is on or off in each run; where it is off, its writer is at its
mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from viete.circuits.card import OUTPUT, CircuitCard, Writing, total
from viete.circuits.edges import CircuitEdge, Port, Wiring
from viete.graph.card import Equation, Index, Parameter
from viete.notation.tree import Apply, Expr, Idx, Ref, Slot, Symbol, num, transform

MODEL, NONE, CIRCUIT, REST = range(1, 5)  # the first runs; then those without one edge


@dataclass(frozen=True)
class CircuitRuns:
    """The card of the runs; ``number`` is the circuit's number in each of them.

    ``edges`` are the circuit's. ``switches`` say in which runs an edge is on, (runs), or in which
    and at which positions, (runs, positions, 1); ``others`` in which runs those outside the circuit
    are, (runs). ``writers`` are the means of the edges' writers.
    """

    made: CircuitCard
    number: Symbol
    edges: tuple[CircuitEdge, ...]
    switches: dict[CircuitEdge, Parameter]
    others: Parameter
    writers: dict[CircuitEdge, Parameter]

    def own(self, port: Port) -> list[Ref]:
        """The writers of the circuit's edges to a reader's stream."""
        return own_writers(self.switches, port)

    def value(self, run: int) -> Expr:
        """The number of one run."""
        return Ref(self.number, (num(run),))

    def patterns(self, rows: int) -> dict[str, np.ndarray]:
        """The switches of the runs, for texts of at most ``rows`` positions."""
        count = REST + len(self.edges)
        on = np.ones((len(self.edges), count))
        on[:, [NONE - 1, REST - 1]] = 0
        on[range(len(on)), range(REST, count)] = 0
        others = np.isin(np.arange(1, count + 1), [MODEL, REST]).astype(float)
        return self.switched(on, others, rows)

    def switched(self, on: np.ndarray, others: np.ndarray, rows: int) -> dict[str, np.ndarray]:
        """The switches; ``on`` is 1 where an edge is on in a run, (edges, runs).

        ``others`` is 1 where the edges outside the circuit are on, (runs).
        """
        out = {self.others.name: others}
        for edge, row in zip(self.edges, on, strict=True):
            name = self.switches[edge.whole].name
            if edge.position is None:
                out[name] = row
                continue
            column = np.tile(others[:, None, None], (1, rows, 1))
            out.setdefault(name, column)[:, edge.position, 0] = row
        return out


class RunsWriting(Writing):
    """Writes the card of all edges, with a switch for each of the circuit's and one for others."""

    def __init__(self, wiring: Wiring, edges: Sequence[CircuitEdge], of: Expr) -> None:
        super().__init__(wiring, None, of)
        self.title = f"{self.card.title}, a circuit and the runs it is compared with"
        self.own_edges = tuple(edges)
        letter = self.unused("s", "u", "p", "z")
        self.own_letter = Slot(letter, True)
        count = num(REST + len(edges))
        self.indices = (*self.card.indices, Index(letter, num(1), count, "run"))
        self.number = Symbol("value", self.unused("F", "Phi"), (), (self.own_letter,))
        other, self.mean_name = self.unused("omega", "psi"), self.unused("nu", "eta")
        lengths = {CircuitEdge(w, p.reader): p.shape[0] for p in wiring.ports for w in p.writers}
        for e in edges:
            if e.whole in self.switches:
                continue
            slot = Slot(str(len(self.switches) + 1))
            symbol = Symbol("parameter", self.switch_name, (slot,), (self.own_letter,))
            if e.position is None:
                meaning = "1 in the runs that have an edge of the circuit, by its number"
                self.switches[e.whole] = self.add(symbol, (), meaning)
            else:
                meaning = f"1 in the runs, and at the positions, that have ${e.arrow}$"
                self.switches[e.whole] = self.add(symbol, (lengths[e.whole], num(1)), meaning)
        self.others = self.add(Symbol("parameter", other, (), (self.own_letter,)), (),
                               "1 in the runs that have the other edges")  # fmt: skip
        self.writers_means: dict[CircuitEdge, Parameter] = {}

    def runs(self) -> CircuitRuns:
        """The card, and the meaning of its new parameters."""
        made = self.circuit()
        return CircuitRuns(
            made, self.number, self.own_edges, self.switches, self.others, self.writers_means
        )

    def sum(self, port: Port) -> Expr:
        """The formula of a reader's stream: each writer where its edge is on, else its mean."""
        terms = [self.shared(port.constants)] if port.constants else []
        own = own_writers(self.switches, port)
        for w in own:
            edge = CircuitEdge(w, port.reader)
            switch = self.switches[edge]
            on = self.rows(switch, port) if switch.shape else switch.symbol.member
            terms.append(between(w, self.writer_mean(edge, port), on))
        if count := len(port.writers) - len(own):
            if count > len(own):  # fewer to take away than to add
                rest = reduce(lambda a, b: Apply("sub", (a, b)), own, self.shared(port.writers))
            else:
                rest = total(w for w in port.writers if w not in own)
            terms.append(between(rest, self.mean(port), self.others.symbol.member))
        return total(terms)

    def writer_mean(self, edge: CircuitEdge, port: Port) -> Expr:
        """The means of the writer of a circuit's edge, as a parameter."""
        if edge not in self.writers_means:
            place = Slot(str([*self.switches].index(edge) + 1))
            symbol = Symbol("parameter", self.mean_name, (place,))
            self.writers_means[edge] = self.add(
                symbol, port.shape, "means of what writes to an edge of the circuit, by its number"
            )
        return self.rows(self.writers_means[edge], port)

    def equations(self) -> Iterator[Equation]:
        yield from super().equations()
        assert self.of is not None
        yield Equation(self.number.member, self.of, part=OUTPUT, meaning="what the circuit is of")

    def finished(self, equations: Sequence[Equation]) -> Sequence[Equation]:
        """The equations, with the letter of the runs wherever a value depends on the run."""
        own = {self.number.key: self.number}

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Ref) or e.key not in own or e.symbol == self.number:
                return None
            index = dict(zip(e.symbol.slots, e.index, strict=True))
            symbol = own[e.key]
            return Ref(symbol, tuple(index.get(s, Idx(s)) for s in symbol.slots))

        out = []
        for e in equations:
            right = transform(e.right, rule)
            if self.own_letter.text in right.free and e.left.symbol != self.number:
                symbol = e.left.symbol
                own[symbol.key] = replace(symbol, sup=(*symbol.sup, self.own_letter))
            left = transform(e.left, rule)
            assert isinstance(left, Ref)
            out.append(replace(e, left=left, right=right))
        return out


def own_writers(switches: Iterable[CircuitEdge], port: Port) -> list[Ref]:
    """The writers to a reader's stream whose edges have switches."""
    return [e.writer for e in switches if e.reader == port.reader and e.writer in port.writers]


def between(x: Expr, mean: Expr, switch: Expr) -> Expr:
    """A value where a switch is 1, and its mean where it is 0."""
    by = "times" if isinstance(switch, Ref) else "had"  # of rows, which are picked
    away = Apply(by, (switch, Apply("sub", (x, mean))))
    return Apply("add", (mean, away))


__all__ = ["CIRCUIT", "MODEL", "NONE", "REST", "CircuitRuns", "RunsWriting"]
