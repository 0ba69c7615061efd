"""The card of a circuit: the equations that some edges of a model leave, all else at its means.

Each reader has a stream of its own, ``x_Q^{2,1} = r^{1,2} + mu_Q^{2,1}``: what its edges bring, and
one vector for each position, the mean of all that they do not. With every edge, and what no text
changes in the place of means, it is the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from viete.analysis.shapes import shapes_of
from viete.ask.circuit_edges import CircuitEdge, Made, Port, Wiring, literal
from viete.errors import Text
from viete.evaluate.schedule import Program, member_name
from viete.graph.card import CardData, Dimension, Equation, Parameter
from viete.notation.printer import show, show_equation
from viete.notation.tree import (
    Apply,
    Expr,
    Num,
    Pick,
    Ref,
    Slice,
    Slot,
    num,
    refs,
    transform,
)  # fmt: skip
from viete.rewrite.inlining import without_unused
from viete.rewrite.put import unlike_family

OUTPUT = "Output"  # what comes after the blocks, where the card has no title for it
MEAN = "mean"  # the label of a length: how many positions have a mean
Array = Any


@dataclass(frozen=True)
class CircuitCard:
    """A circuit's equations; ``weights`` are the members of the model's that it has.

    ``means`` are the parameters that are means, by the streams that they are added to.
    """

    card: CardData
    weights: Mapping[str, Ref]
    means: Mapping[Port, Parameter]
    limits: Mapping[str, Ref]


def circuit_card(
    wiring: Wiring, edges: Collection[CircuitEdge] | None = None, of: Expr | None = None
) -> CircuitCard:
    """The card of some edges, or with None of all: then nothing is a mean.

    It has what the number ``of`` reads besides values.
    """
    return Writing(wiring, edges, of).circuit()


def live_edges(wiring: Wiring, edges: Collection[CircuitEdge]) -> tuple[CircuitEdge, ...]:
    """Those of some edges that a text reaches, and that lead to what the wiring is of."""
    left = frozenset(edges)
    while True:
        needed = {m.left: m for m in Writing(wiring, left, None).needed()}
        live: dict[Ref, bool] = {}
        for m in needed.values():  # in the order of computing
            parts = {*m.left.index, *refs(m.right)}
            streams = {p.stream: any(live.get(w, False) for w in p.writers
                       if CircuitEdge(w, p.reader) in left) for p in m.ports}  # fmt: skip
            live[m.left] = any(
                x.symbol.kind == "input" or streams.get(x, False) or live.get(literal(x), False)
                for x in parts if isinstance(x, Ref)
            )  # fmt: skip
        found = frozenset(e for e in left if e.reader in needed and live.get(e.writer, False))
        if found == left:
            return tuple(e for e in wiring.edges if e in found)
        left = found


class Writing:
    """The card of one circuit, as it is written."""

    def __init__(
        self, wiring: Wiring, edges: Collection[CircuitEdge] | None, of: Expr | None = None
    ) -> None:
        self.wiring, self.card, self.edges, self.of = wiring, wiring.card, edges, of
        self.limits = {n: self.limit(n) for n in self.card.lengths}
        self.base = "mu" if "mu" not in {s.base for s in self.card.symbols.values()} else "M"

    def circuit(self) -> CircuitCard:
        """The card, with what is used in it alone."""
        equations: list[Equation] = []
        means: dict[Port, Parameter] = {}
        for made in self.needed():
            for port in made.ports:
                if self.edges is not None:
                    means[port] = self.mean(port)
                equations.append(self.equation(made, port.stream, self.sum(port, means)))
            equations.append(self.equation(made, made.left, made.right))
        weights: dict[str, Ref] = {}
        if self.of is not None:
            transform(self.of, self.own(weights))
        equations = [replace(e, right=transform(e.right, self.own(weights))) for e in equations]
        equations = [replace(e, text=Text(show_equation(e.left, e.right))) for e in equations]
        declared = {p.name: p for p in self.card.parameters}
        parameters = [
            replace(declared[ref.key], symbol=literal(ref).symbol, value="", init="", checkpoint="")
            for ref in weights.values()
        ]
        dims = self.dims() if means else self.card.dims
        read = frozenset[str]().union(*(e.reads for e in equations))
        read |= frozenset() if self.of is None else self.of.keys
        card = CardData(
            title=f"{self.card.title}, a circuit" if means else self.card.title,
            vocabulary=self.card.vocabulary,
            dims=dims,
            indices=self.card.indices,
            inputs=tuple(i for i in self.card.inputs if i.name in read or i is self.card.inputs[0]),
            parameters=(*parameters, *means.values()),
            functions=self.card.functions,
            equations=tuple(equations),
        )
        card = unlike_family(without_unused(card, self.optional(card)))
        shapes_of(card)
        return CircuitCard(card, weights, means, self.limits)

    # -- equations ---------------------------------------------------------------------------------

    def needed(self) -> list[Made]:
        """What the roots are made of, through the circuit's edges alone."""
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
        return [w for w in port.writers if CircuitEdge(w, port.reader) in self.edges]

    def sum(self, port: Port, means: Mapping[Port, Parameter]) -> Expr:
        """What a reader's own stream is."""
        terms: list[Expr] = [*self.writers(port)]
        if port in means:
            length, *_ = port.shape
            mean: Expr = Ref(means[port].symbol)
            if self.is_length(length):
                mean = Pick(mean, (Slice(num(0), length),))
            terms.append(mean)
        else:
            terms += port.constants
        return reduce(lambda a, b: Apply("add", (a, b)), terms)

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
        """Members of families by names of their own; those of parameters are noted."""

        def rule(e: Expr) -> Expr | None:
            if not isinstance(e, Ref) or e.symbol.kind not in ("value", "parameter", "input"):
                return None
            new = literal(e)
            if e.symbol.kind == "parameter" and e.symbol.base != self.base:
                weights.setdefault(new.key, e)
            return new

        return rule

    # -- means -------------------------------------------------------------------------------------

    def mean(self, port: Port) -> Parameter:
        """The parameter of a reader's means."""
        symbol = replace(port.stream.symbol, kind="parameter", base=self.base)
        shape = tuple(self.limits.get(show(x), x) for x in port.shape)
        return Parameter(symbol, shape, meaning="means of all that is not read")

    def is_length(self, e: Expr) -> bool:
        """Whether a size is the length of a text."""
        return isinstance(e, Ref) and e.key in self.limits

    def limit(self, length: str) -> Ref:
        """How many positions have means, of texts of a length."""
        symbol = self.card.symbols[length]
        return Ref(replace(symbol, kind="dim", sub=(*symbol.sub, Slot(MEAN))))

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
        """What is left out where nothing uses it."""
        names = {f.name for f in card.functions} | {d.name for d in card.dims}
        return names | {i.name for i in card.indices}


def weights_of(
    program: Program, weights: Mapping[str, Array], members: Mapping[str, Ref]
) -> dict[str, Array]:
    """The arrays of members of a model's weights, by names of their own."""
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
