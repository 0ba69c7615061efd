"""The card of a circuit: the equations with only some edges, and mean values for all others.

Each reader has its own stream, ``x_Q^{2,1} = r^{1,2} + mu_Q^{2,1}``: the sum of its edges, and one
vector for each position, the mean of all other writers. With every edge kept, and the parts that no
text changes in place of means, it is the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from viete.analysis.shapes import shapes_of
from viete.circuits.edges import CircuitEdge, Made, Port, Wiring
from viete.circuits.names import literal, own_name
from viete.errors import Text
from viete.evaluate.schedule import Program, member_name
from viete.graph.card import CardData, Dimension, Equation, Parameter
from viete.notation.printer import show, show_equation
from viete.notation.substitution import fresh
from viete.notation.tree import (
    Apply,
    Expr,
    Num,
    Pick,
    Ref,
    Slice,
    Slot,
    Symbol,
    num,
    refs,
    transform,
)  # fmt: skip
from viete.rewrite.inlining import without_unused
from viete.rewrite.put import unlike_family

OUTPUT = "Output"  # what comes after the blocks, where the card has no title for it
MEAN = "mean"  # the label of a length: how many positions have a mean
MOST = 50  # terms of a sum in a row
Array = Any


@dataclass(frozen=True)
class CircuitCard:
    """A circuit's equations; ``weights`` are the members of the model's weights that it uses.

    ``means`` are the parameters that are means, by the streams that they are added to, and
    ``switches`` those that are 1 at the positions of an edge, and 0 elsewhere.
    """

    card: CardData
    weights: Mapping[str, Ref]
    means: Mapping[Port, Parameter]
    limits: Mapping[str, Ref]
    switches: Mapping[CircuitEdge, Parameter]


def circuit_card(
    wiring: Wiring, edges: Collection[CircuitEdge] | None = None, of: Expr | None = None,
    some: Collection[CircuitEdge] = (),
) -> CircuitCard:  # fmt: skip
    """The card of some edges; with None, of all edges, without means.

    It has the values that the number ``of`` reads. Edges in ``some`` are on at some positions only.
    """
    return Writing(wiring, edges, of, some).circuit()


def live_edges(wiring: Wiring, edges: Collection[CircuitEdge]) -> tuple[CircuitEdge, ...]:
    """The edges that a text reaches and that lead to the wiring's values.

    An edge at a position counts if it would count at all positions.
    """
    left = frozenset(e.whole for e in edges)
    while True:
        writing = Writing(wiring, left, None)
        needed = {m.left: m for m in writing.needed()}
        live: dict[Ref, bool] = {}
        for m in needed.values():  # in the order of computing
            parts = {*m.left.index, *refs(m.right)}
            streams = {p.stream: any(live.get(w, False) for w in writing.writers(p))
                       for p in m.ports}  # fmt: skip
            live[m.left] = any(
                x.symbol.kind == "input" or streams.get(x, False) or live.get(literal(x), False)
                for x in parts if isinstance(x, Ref)
            )  # fmt: skip
        found = frozenset(e for e in left if e.reader in needed and live.get(e.writer, False))
        if found == left:
            live_ones = {e for e in edges if e.whole in found}
            return tuple(sorted(live_ones, key=lambda e: (wiring.order[e.whole], e.position or 0)))
        left = found


class Writing:
    """Writes the card of one circuit."""

    def __init__(
        self, wiring: Wiring, edges: Collection[CircuitEdge] | None, of: Expr | None = None,
        some: Collection[CircuitEdge] = (),
    ) -> None:  # fmt: skip
        self.wiring, self.card, self.edges, self.of = wiring, wiring.card, edges, of
        self.some = frozenset(some)
        self.seen: dict[Ref, set[Ref]] = {}  # the writers that each reader sees, of some edges
        for e in edges or ():
            self.seen.setdefault(e.reader, set()).add(e.writer)
        self.sums: dict[frozenset[Expr], Ref] = {}
        self.waiting: list[tuple[Ref, Expr]] = []  # the sums that have no equation yet
        self.sum_name = self.unused("S", "Sigma", "sigma")
        self.switches: dict[CircuitEdge, Parameter] = {}
        self.limits = {n: self.limit(n) for n in self.card.lengths}
        self.base = self.unused("mu", "M")
        self.switch_name = self.unused("kappa", "lambda")
        self.means: dict[Port, Parameter] = {}
        self.added: dict[str, Parameter] = {}  # that the model does not have
        self.title = f"{self.card.title}, a circuit" * (edges is not None) or self.card.title
        self.indices = self.card.indices

    def unused(self, *names: str) -> str:
        """The first of some names that begins no symbol of the card, or the last with a number."""
        taken = {*self.card.names, *(s.base for s in self.card.symbols.values())}
        return fresh(taken, names)

    def circuit(self) -> CircuitCard:
        """The card, with only what it uses."""
        weights: dict[str, Ref] = {}
        if self.of is not None:
            transform(self.of, self.own(weights))
        equations = [replace(e, right=transform(e.right, self.own(weights)))
                     for e in self.equations()]  # fmt: skip
        equations = [replace(e, text=Text(show_equation(e.left, e.right)))
                     for e in self.finished(equations)]  # fmt: skip
        declared = {p.name: p for p in self.card.parameters}
        parameters = [
            replace(declared[ref.key], symbol=literal(ref).symbol, value="", init="", checkpoint="")
            for ref in weights.values()
        ]
        dims = self.dims() if self.added else self.card.dims
        read = frozenset[str]().union(*(e.reads for e in equations))
        read |= frozenset() if self.of is None else self.of.keys
        card = CardData(
            title=self.title,
            vocabulary=self.card.vocabulary,
            dims=dims,
            indices=self.indices,
            inputs=tuple(i for i in self.card.inputs if i.name in read or i is self.card.inputs[0]),
            parameters=(*parameters, *self.added.values()),
            functions=self.card.functions,
            equations=tuple(equations),
        )
        card = unlike_family(without_unused(card, self.optional(card)))
        shapes_of(card)
        return CircuitCard(card, weights, self.means, self.limits, self.switches)

    # -- equations ---------------------------------------------------------------------------------

    def equations(self) -> Iterator[Equation]:
        """The equations of the needed values, each after those of the streams it reads."""
        for made in self.needed():
            for port in made.ports:
                right = self.sum(port)
                for name, terms in self.waiting:
                    yield self.equation(made, name, terms)
                self.waiting.clear()
                yield self.equation(made, port.stream, right)
            yield self.equation(made, made.left, made.right)

    def finished(self, equations: Sequence[Equation]) -> Sequence[Equation]:
        """The final equations, whose values have separate names."""
        return equations

    def needed(self) -> list[Made]:
        """The values that the roots depend on, through the circuit's edges only."""
        made, found = self.wiring.made, dict[Ref, Made]()
        waiting = [*self.wiring.roots]
        while waiting:
            ref = waiting.pop()
            if ref in found or ref not in made:
                continue
            found[ref] = m = made[ref]
            for port in m.ports:
                waiting += self.writers(port)
                if self.edges is None:
                    waiting += (literal(x) for c in port.constants for x in refs(c))
            waiting += (literal(x) for x in refs(m.right))
        return [m for ref, m in made.items() if ref in found]

    def writers(self, port: Port) -> list[Ref]:
        """The writers that a reader sees."""
        if self.edges is None:
            return [*port.writers]
        seen = self.seen.get(port.reader)
        return [w for w in port.writers if w in seen] if seen else []

    def sum(self, port: Port) -> Expr:
        """The formula of a reader's stream."""
        if self.edges is None:
            return total(self.shared(x) for x in (port.writers, port.constants) if x)
        return total((*(self.read(w, port) for w in self.writers(port)), self.mean(port)))

    def shared(self, terms: Sequence[Expr]) -> Expr:
        """The name of a sum that several readers see: a smaller one, and what comes to it.

        So a card of all edges is as long as its values are many, and not as its edges.
        """
        key = frozenset(terms)
        if len(terms) == 1 or len(key) < len(terms):
            return total(terms)
        if key not in self.sums:
            before = next((k for k in reversed(self.sums) if k < key), None)
            rest = terms if before is None else [x for x in terms if x not in before]
            first = [] if before is None else [self.sums[before]]
            symbol = Symbol("value", self.sum_name, (Slot(str(len(self.sums) + 1)),))
            self.sums[key] = Ref(symbol)
            self.waiting.append((self.sums[key], total([*first, *rest])))
        return self.sums[key]

    def read(self, writer: Ref, port: Port) -> Expr:
        """What a reader sees of a writer; for edges at positions, a column chooses these."""
        edge = CircuitEdge(writer, port.reader)
        if edge not in self.some:
            return writer
        if edge not in self.switches:
            slot = Slot(str(len(self.switches) + 1))
            self.switches[edge] = self.add(
                Symbol("parameter", self.switch_name, (slot,)), (port.shape[0], num(1)),
                f"1 at the positions of ${edge.arrow}$",
            )  # fmt: skip
        return Apply("had", (self.rows(self.switches[edge], port), writer))

    def equation(self, made: Made, left: Ref, right: Expr) -> Equation:
        """An equation, in the part of its block."""
        steps = self.wiring.program.steps
        home = steps[made.place[0]]
        blocks = ", ".join(str(k) for k in home.makes[1])
        part = home.equation.part or OUTPUT * any(s.loops for s in steps[: made.place[0]])
        part = f"Block {blocks}" if home.loops else part
        same = left is made.left and left.symbol.base == home.equation.left.symbol.base
        meaning = home.equation.meaning if same else ""
        return Equation(left, right, part=part, meaning=meaning)

    def own(self, weights: dict[str, Ref]) -> Callable[[Expr], Expr | None]:
        """A rule that gives members of families separate names, and records those of parameters."""

        def rule(e: Expr) -> Expr | None:
            new = own_name(e)
            if isinstance(e, Ref) and e.symbol.kind == "parameter" and e.key not in self.added:
                weights.setdefault(literal(e).key, e)
            return new

        return rule

    # -- means -------------------------------------------------------------------------------------

    def mean(self, port: Port) -> Expr:
        """The means of what a reader does not see, as a parameter."""
        symbol = replace(port.stream.symbol, kind="parameter", base=self.base)
        self.means[port] = self.add(symbol, port.shape, "mean of the edges that are left out")
        return self.rows(self.means[port], port)

    def add(self, symbol: Symbol, shape: Iterable[Expr], meaning: str) -> Parameter:
        """Add a parameter that the model lacks, with a row for each position that has means."""
        limited = tuple(self.limits.get(show(x), x) for x in shape)
        self.added[symbol.key] = found = Parameter(symbol, limited, meaning=meaning)
        return found

    def rows(self, mean: Parameter, port: Port) -> Expr:
        """The means of the positions of a text."""
        length, *_ = port.shape
        if isinstance(length, Ref) and length.key in self.limits:
            return Pick(mean.symbol.member, (Slice(num(0), length),))
        return mean.symbol.member

    def limit(self, length: str) -> Ref:
        """The number of positions with means, for texts of a length."""
        symbol = replace(self.card.symbols[length], kind="dim")
        while symbol.key in self.card.symbols:  # a circuit of a circuit has such a number already
            symbol = replace(symbol, sub=(*symbol.sub, Slot(MEAN)))
        return Ref(symbol)

    def dims(self) -> tuple[Dimension, ...]:
        """The dimensions, with the numbers of positions that have means."""

        def each() -> Iterator[Dimension]:
            for d in self.card.dims:
                if d.name in self.limits:
                    limit = self.limits[d.name]
                    yield Dimension(limit.symbol, d.at_most, meaning="positions that have means")
                    yield replace(d, at_most=limit)
                else:
                    yield replace(d, config="")

        return tuple(each())

    def optional(self, card: CardData) -> set[str]:
        """The names to leave out if they are unused."""
        names = {f.name for f in card.functions} | {d.name for d in card.dims}
        return names | {i.name for i in card.indices}


def total(terms: Iterable[Expr]) -> Expr:
    """A sum; very many terms become a sum of sums, to limit the nesting."""
    several = [*terms]
    groups = [several[k : k + MOST] for k in range(0, len(several), MOST)]
    sums = [reduce(lambda a, b: Apply("add", (a, b)), group) for group in groups]
    return sums[0] if len(sums) == 1 else total(sums)


def weights_of(
    program: Program, weights: Mapping[str, Array], members: Mapping[str, Ref]
) -> dict[str, Array]:
    """The arrays of members of a model's weights, by their new names."""
    out: dict[str, Array] = {}
    for name, ref in members.items():
        slots = dict(zip(ref.symbol.slots, ref.index, strict=True))
        blocks = dict(
            zip(program.model.blocks_of(ref.symbol), program.places(ref, {}), strict=True)
        )
        array = weights[member_name(ref.symbol, blocks)]
        index: list[Any] = []
        for s in program.model.heads_of(ref.symbol):
            x = slots[s]
            first = program.range_of(s).start
            index.append(int(x.value) - first if isinstance(x, Num) else slice(None))
        out[name] = array[tuple(index)]
    return out


__all__ = ["CircuitCard", "circuit_card", "weights_of"]
