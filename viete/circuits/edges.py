"""The nodes and edges of a card: the writers and readers of its residual stream.

A *writer* is a term of a sum along the stream: an embedding, a head, an MLP. A *reader* uses such a
sum other than by adding to it: queries, keys and values, an MLP, the logits. A norm of the stream
belongs to its reader. All of this follows from the equations, so parallel blocks, shared keys and
norms after a sub-layer need no special rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain

from viete.analysis.roles import Recognition
from viete.circuits.names import NodeNames, literal
from viete.circuits.sums import StreamSums, StreamTerm
from viete.evaluate.schedule import Program
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Ref, num, refs, transform

FOLDS = {"sum": "add", "mean": "add", "max": "max"}


@dataclass(frozen=True)
class CircuitEdge:
    """An edge from a writer to the stream to a reader of it: ``a^{1,2} → K^{2,1}``.

    It is at one ``position``, counted from 0, or at all.
    """

    writer: Ref
    reader: Ref
    position: int | None = None

    @property
    def whole(self) -> CircuitEdge:
        """The edge at all positions."""
        return replace(self, position=None)

    @property
    def arrow(self) -> str:
        """The edge in TeX, without its position."""
        return f"{show(self.writer, 'latex')} \\to {show(self.reader, 'latex')}"

    def __str__(self) -> str:
        at = "" if self.position is None else f" at {self.position}"
        return f"{show(self.writer, 'unicode')} → {show(self.reader, 'unicode')}{at}"


@dataclass(frozen=True)
class Port:
    """The stream of one reader: its name, its writers, and its constant part.

    ``constants`` do not depend on the text, such as biases and vectors of positions.
    """

    reader: Ref
    stream: Ref
    writers: tuple[Ref, ...]
    constants: tuple[Expr, ...]
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class Made:
    """The computation of a value: a formula that reads ports, and its place in the order."""

    left: Ref
    right: Expr
    place: tuple[int, bool]
    ports: tuple[Port, ...] = ()


class Wiring:
    """The nodes and edges on which some values of a program's card depend.

    Blocks and heads have numbers. ``made`` has an equation for every value, in the order of
    computing, in which each reader has a stream of its own. Raises VieteError for a card without a
    residual stream.
    """

    def __init__(self, program: Program, roots: Iterable[Ref]) -> None:
        self.program, self.card = program, program.model
        self.sums = StreamSums(program)
        self.recognition = Recognition(self.card)
        self.places = {s.makes: k for k, s in enumerate(program.steps)}
        roots = tuple(roots)
        self.roots = tuple(map(literal, roots))
        self.names = NodeNames(self.sums, roots)
        self.made: dict[Ref, Made] = {}
        self.split: dict[tuple[Expr, Ref | None], tuple[tuple[Ref, ...], tuple[Expr, ...]]] = {}
        waiting = [*roots]
        while waiting:
            ref = waiting.pop()
            if literal(ref) not in self.made:
                waiting += self.make(ref)
        order = sorted(self.made.values(), key=lambda m: (m.place, m.left.key))
        self.made = {m.left: m for m in order}

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """The readers' streams, in the order of computing."""
        return tuple(chain.from_iterable(m.ports for m in self.made.values()))

    @cached_property
    def writers(self) -> tuple[Ref, ...]:
        """All writers to the readers' streams."""
        return tuple(dict.fromkeys(w for p in self.ports for w in p.writers))

    @cached_property
    def edges(self) -> tuple[CircuitEdge, ...]:
        """All edges, in the order of their readers."""
        return tuple(dict.fromkeys(CircuitEdge(w, p.reader) for p in self.ports for w in p.writers))

    @cached_property
    def order(self) -> dict[CircuitEdge, int]:
        """The place of each edge among all."""
        return {e: k for k, e in enumerate(self.edges)}

    # -- values ------------------------------------------------------------------------------------

    def make(self, ref: Ref) -> Iterator[Ref]:
        """Add a value, and yield the values it depends on."""
        name = literal(ref)
        term = self.names.written.get(name, StreamTerm(ref, ref))
        home = ref
        if term.formula is not ref:  # it has no equation, but is a part of one
            home, formula = term.owner, self.inlined(term.formula)
        else:
            formula = ref if self.sums.is_junction(ref) else self.inlined(self.sums.right(ref))
        ports: dict[Expr, Port] = {}

        def rule(e: Expr) -> Expr:
            if self.sums.is_junction(e):
                if e not in ports:
                    ports[e] = self.port(name, e, home)
                return ports[e].stream
            parts = [rule(x) for x in e.children]
            return e if parts == [*e.children] else e.over(parts, e.bound or None)

        right = rule(formula)
        line = self.places[home.key, self.program.places(home, {})]
        whole = home is ref or self.sums.right(home) is term.formula
        place = line, whole  # a part of a sum is computed before the sum
        self.made[name] = Made(name, right, place, tuple(ports.values()))
        for port in ports.values():
            yield from (self.reference(w) for w in port.writers)
            for x in chain.from_iterable(refs(c) for c in port.constants):
                yield from [x] * (x.symbol.kind == "value")
        own = {p.stream for p in ports.values()}
        yield from (x for x in refs(right) if x.symbol.kind == "value" and x not in own)

    def reference(self, name: Ref) -> Ref:
        """The card's name for a writer, or its new name if it has none there."""
        found = self.names.written[name].formula
        return found if isinstance(found, Ref) else name

    def spread(self, e: Expr) -> Expr:
        """A formula with its folds over heads written out: $(q^{1} + q^{2}) / 2$."""
        parts = [self.spread(x) for x in e.children]
        e = e if parts == [*e.children] else e.over(parts, e.bound or None)
        numbers = self.sums.counted(e) if isinstance(e, Bind) else None
        if not isinstance(e, Bind) or numbers is None:
            return e
        each = [self.sums.member(e, k) for k in numbers]
        if e.op == "concat":
            return Apply("concat", tuple(each)) if len(each) > 1 else each[0]
        op = FOLDS[e.op]
        total = reduce(lambda a, b: Apply(op, (a, b)), each)
        return Apply("div", (total, num(len(each)))) if e.op == "mean" else total

    def inlined(self, e: Expr) -> Expr:
        """A formula with norms of the stream, and other values made only from its rows, inlined."""

        def rule(x: Expr) -> Expr | None:
            if not (isinstance(x, Ref) and x.symbol.kind == "value") or self.sums.is_junction(x):
                return None
            inner = self.inlined(self.sums.right(x))
            return inner if self.reads_stream(inner) and not self.projects(x) else None

        return transform(self.spread(e), rule)

    def reads_stream(self, e: Expr) -> bool:
        """Whether a formula contains a junction."""
        return any(map(self.sums.is_junction, refs(e)))

    def projects(self, ref: Ref) -> bool:
        """Whether the equation of a value multiplies a computed value by a weight matrix."""
        member = ref.key, self.program.places(ref, {})
        line = next(k for k, e in enumerate(self.card.equations)
                    if e.name == ref.key and self.makes(k, member))  # fmt: skip
        return self.recognition.projects(line)

    def makes(self, line: int, member: tuple[str, tuple[int, ...]]) -> bool:
        """Whether an equation of the card makes a member."""
        equation = self.program.steps[self.places[member]].equation
        return self.card.equations[line].left == equation.left

    def port(self, reader: Ref, e: Expr, home: Ref) -> Port:
        """The separate stream of a reader, which replaces a junction.

        It is in the equation of ``home``.
        """
        key = e, None if isinstance(e, Ref) else home  # all that read a junction read the same
        if key not in self.split:
            terms = [(t, self.sums.is_fixed(t.formula)) for t in self.sums.terms(e, home)]
            moving = dict.fromkeys(self.names.named(t for t, fixed in terms if not fixed))
            self.split[key] = (*moving,), tuple(t.formula for t, fixed in terms if fixed)
        writers, constants = self.split[key]
        first = next(x for x in refs(e) if self.sums.is_junction(x))
        shape = tuple(map(self.card.size_expr, self.program.shapes.types[first.key].shape))
        return Port(reader, self.names.stream(reader, literal(first)), writers, constants, shape)


__all__ = ["CircuitEdge", "Made", "Port", "Wiring"]
