"""The nodes and edges of a card: who writes to its residual stream, and who reads it there.

A value is a *junction* where it is a sum of what several others wrote: the stream, and the heads
that a norm reads together. A part of such a sum is a *writer*: an embedding, a head, an MLP. A
value that reads a junction otherwise than to add to it is a *reader*: queries, keys and values, an
MLP, the logits; norms of the stream belong to whoever reads them. All of this follows from the
equations, so that parallel blocks, shared keys and norms behind a sub-layer need no rule of theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain, count

from viete.analysis.roles import Recognition
from viete.analysis.streams import streams
from viete.ask.stream import Stream
from viete.errors import VieteError
from viete.evaluate.schedule import Program
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Num, Ref, Slot, Symbol, num, refs, transform

ADDED = "add"  # the label of one of several parts of a sum
FOLDS = {"sum": "add", "mean": "add", "max": "max"}


@dataclass(frozen=True)
class CircuitEdge:
    """From what is written to the stream to what is read of it: ``a^{1,2} → K^{2,1}``."""

    writer: Ref
    reader: Ref

    def __str__(self) -> str:
        return f"{show(self.writer, 'unicode')} → {show(self.reader, 'unicode')}"


@dataclass(frozen=True)
class Port:
    """A stream of a reader's own: what it is called, who writes to it, and what is always in it.

    ``constants`` do not depend on the text, such as biases and vectors of positions.
    """

    reader: Ref
    stream: Ref
    writers: tuple[Ref, ...]
    constants: tuple[Expr, ...]
    shape: tuple[Expr, ...]


@dataclass(frozen=True)
class Made:
    """What makes a value: a formula that reads ports, and when it is computed."""

    left: Ref
    right: Expr
    place: tuple[int, bool]
    ports: tuple[Port, ...] = ()


@dataclass(frozen=True)
class StreamTerm:
    """A part of a sum: a value, or a formula of the equation of ``owner``, of one head perhaps."""

    formula: Expr
    owner: Ref
    heads: tuple[Expr, ...] = ()


class Wiring:
    """The nodes and edges that some values of a program's card are made of.

    Blocks and heads have numbers. ``made`` has an equation for every value, in the order of
    computing, in which each reader has a stream of its own. Raises VieteError for a card without a
    residual stream.
    """

    def __init__(self, program: Program, roots: Iterable[Ref]) -> None:
        self.program, self.card = program, program.model
        found = streams(self.card)
        if not found:
            raise VieteError(
                f"{self.card.title} has no residual stream, no value that its equations add to, so "
                f"it has no edges"
            )
        self.added = {u.ref.key for u in found}
        self.values = Stream(program)
        self.recognition = Recognition(self.card)
        self.places = {s.makes: k for k, s in enumerate(program.steps)}
        self.junctions: dict[Expr, bool] = {}
        self.fixed: dict[Ref, bool] = {}
        self.written: dict[Ref, StreamTerm] = {}  # by the names of writers
        self.opened: dict[Ref, Expr] = {}
        self.streams: set[str] = set()
        self.roots = tuple(literal(x) for x in roots)
        self.made: dict[Ref, Made] = {}
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
        """All that is written to the readers' streams."""
        return tuple(dict.fromkeys(w for p in self.ports for w in p.writers))

    @cached_property
    def edges(self) -> tuple[CircuitEdge, ...]:
        """All edges, in the order of their readers."""
        return tuple(dict.fromkeys(CircuitEdge(w, p.reader) for p in self.ports for w in p.writers))

    # -- values ------------------------------------------------------------------------------------

    def make(self, ref: Ref) -> Iterator[Ref]:
        """Takes a value in; yields those that it is made of."""
        name = literal(ref)
        term = self.written.get(name, StreamTerm(ref, ref))
        home = ref
        if term.formula is not ref:  # it has no equation, but is a part of one
            home, formula = term.owner, self.inlined(term.formula)
        else:
            formula = ref if self.is_junction(ref) else self.inlined(self.right(ref))
        ports: dict[Expr, Port] = {}

        def rule(e: Expr) -> Expr:
            if self.is_junction(e):
                if e not in ports:
                    ports[e] = self.port(name, e, home)
                return ports[e].stream
            parts = [rule(x) for x in e.children]
            return e if parts == [*e.children] else e.over(parts, e.bound or None)

        right = rule(formula)
        line = self.places[home.key, self.program.places(home, {})]
        whole = home is ref or self.right(home) is term.formula
        place = line, whole  # a part of a sum is computed before the sum
        self.made[name] = Made(name, right, place, tuple(ports.values()))
        for port in ports.values():
            yield from (self.reference(w) for w in port.writers)
            for x in chain.from_iterable(refs(c) for c in port.constants):
                yield from [x] * (x.symbol.kind == "value")
        own = {p.stream for p in ports.values()}
        yield from (x for x in refs(right) if x.symbol.kind == "value" and x not in own)

    def reference(self, name: Ref) -> Ref:
        """What a writer is called in the card, or its own name if it has none there."""
        found = self.written[name].formula
        return found if isinstance(found, Ref) else name

    def right(self, ref: Ref) -> Expr:
        """The right side of the equation of a value, with numbers for blocks and heads."""
        if ref not in self.opened:
            self.opened[ref] = self.values.opened(ref)
        return self.opened[ref]

    def spread(self, e: Expr) -> Expr:
        """A formula with what it folds over heads written out: $(q^{1} + q^{2}) / 2$."""
        parts = [self.spread(x) for x in e.children]
        e = e if parts == [*e.children] else e.over(parts, e.bound or None)
        numbers = self.counted(e) if isinstance(e, Bind) else None
        if not isinstance(e, Bind) or numbers is None:
            return e
        each = [self.values.normal(self.card.substitute(e.body, letters={e.index: num(k)}))
                for k in numbers]  # fmt: skip
        if e.op == "concat":
            return Apply("concat", tuple(each)) if len(each) > 1 else each[0]
        op = FOLDS[e.op]
        total = reduce(lambda a, b: Apply(op, (a, b)), each)
        return Apply("div", (total, num(len(each)))) if e.op == "mean" else total

    def inlined(self, e: Expr) -> Expr:
        """A formula with the norms of the stream, and whatever else is made of its rows alone."""

        def rule(x: Expr) -> Expr | None:
            if not (isinstance(x, Ref) and x.symbol.kind == "value") or self.is_junction(x):
                return None
            inner = self.inlined(self.right(x))
            return inner if self.reads_stream(inner) and not self.projects(x) else None

        return transform(self.spread(e), rule)

    def reads_stream(self, e: Expr) -> bool:
        """Whether a junction stands in a formula."""
        return any(map(self.is_junction, refs(e)))

    def projects(self, ref: Ref) -> bool:
        """Whether the equation of a value multiplies what is computed with a matrix of weights."""
        member = ref.key, self.program.places(ref, {})
        line = next(k for k, e in enumerate(self.card.equations)
                    if e.name == ref.key and self.makes(k, member))  # fmt: skip
        return self.recognition.projects(line)

    def makes(self, line: int, member: tuple[str, tuple[int, ...]]) -> bool:
        """Whether an equation of the card is that of a member."""
        equation = self.program.steps[self.places[member]].equation
        return self.card.equations[line].left == equation.left

    # -- sums --------------------------------------------------------------------------------------

    def is_junction(self, e: Expr) -> bool:
        """Whether a formula is the stream, or a sum that goes on with it or adds heads up."""
        if e not in self.junctions:
            self.junctions[e] = False
            self.junctions[e] = self.joins(e)
        return self.junctions[e]

    def joins(self, e: Expr) -> bool:
        match e:
            case Ref():
                if e.symbol.kind != "value" or e.free:
                    return False
                return e.key in self.added or self.joins_in(self.right(e))
            case Apply("add" | "sub"):
                return self.joins_in(e)
        return False

    def joins_in(self, e: Expr) -> bool:
        """Whether there is a junction among the terms of a sum, or a sum over heads."""
        match e:
            case Apply("add", (a, b)):
                return self.joins_in(a) or self.joins_in(b)
            case Apply("sub", (a, _)):
                return self.joins_in(a)
            case Ref():
                return self.is_junction(e)
            case Bind():
                return e.op == "sum" and bool(self.counted(e))
        return False

    def counted(self, e: Bind) -> range | None:
        """The numbers of a letter of heads that something is folded over."""
        own = any(letter == e.index for _, letter in e.body.standing)
        declared = any(i.name == e.index for i in self.card.indices)
        if not (own and declared) or e.index in self.card.loop_letters:
            return None
        return self.program.range_of(e.index)

    def terms(self, e: Expr, owner: Ref, heads: tuple[Expr, ...] = ()) -> Iterator[StreamTerm]:
        """The terms of a sum; of a junction in it those of its equation."""
        match e:
            case Apply("add", (a, b)):
                yield from self.terms(a, owner, heads)
                yield from self.terms(b, owner, heads)
            case Apply("sub", (a, b)):
                yield from self.terms(a, owner, heads)
                yield StreamTerm(Apply("neg", (b,)), owner, heads)
            case Ref() if self.is_junction(e):
                yield from self.terms(self.right(e), e, heads)
            case Bind("sum") if numbers := self.counted(e):
                for k in numbers:
                    body = self.values.normal(
                        self.card.substitute(e.body, letters={e.index: num(k)})
                    )
                    yield from self.terms(body, owner, (*heads, num(k)))
            case _:
                yield StreamTerm(e, owner, heads)

    def port(self, reader: Ref, e: Expr, home: Ref) -> Port:
        """The stream that a reader has of its own in the place of a junction.

        It stands in the equation of ``home``.
        """
        terms = list(self.terms(e, home))
        moving = [t for t in terms if not self.is_fixed(t.formula)]
        writers = tuple(dict.fromkeys(self.named(t, moving) for t in moving))
        constants = tuple(t.formula for t in terms if self.is_fixed(t.formula))
        first = next(x for x in refs(e) if self.is_junction(x))
        shape = tuple(map(self.card.size_expr, self.program.shapes.types[first.key].shape))
        return Port(reader, self.stream(reader, literal(first)), writers, constants, shape)

    def is_fixed(self, e: Expr) -> bool:
        """Whether a formula has the same value for all texts of a length."""
        found = list(refs(e))
        if any(x.symbol.kind == "input" for x in found):
            return False
        for x in found:
            if x.symbol.kind == "value" and x not in self.fixed:
                self.fixed[x] = not x.free and self.is_fixed(self.right(x))
        return all(self.fixed.get(x, True) for x in found)

    # -- names -------------------------------------------------------------------------------------

    def named(self, term: StreamTerm, others: Iterable[StreamTerm]) -> Ref:
        """The name of a writer: that of its value, or of the sum that it stands in."""
        if isinstance(term.formula, Ref) and term.formula.symbol.kind == "value":
            name = literal(term.formula)
        else:
            same = [t for t in others if t.owner == term.owner and t.heads == term.heads]
            name = self.part(term, same)
        self.written[name] = term
        return name

    def part(self, term: StreamTerm, same: list[StreamTerm]) -> Ref:
        """The name of a term without one: ``a^{2,1}`` of head 1 in the sum $a^2$."""
        symbol = literal(term.owner).symbol
        slots = tuple(Slot(show(k)) for k in term.heads)
        symbol = replace(symbol, sup=(*symbol.sup, *slots)) if symbol.sup else replace(
            symbol, sub=symbol.sub, sup=slots)  # fmt: skip
        whole = self.right(term.owner) is term.formula
        alone = len(same) == 1 and (term.heads or whole or not self.continues(term.owner))
        if not alone:
            label = ADDED + str(same.index(term) + 1) * (len(same) > 1)
            symbol = replace(symbol, sub=(*symbol.sub, Slot(label)))
        return Ref(symbol)

    def continues(self, owner: Ref) -> bool:
        """Whether an equation is no sum of one part alone, beside what is fixed."""
        right = self.right(owner)
        terms = list(self.terms(right, owner))
        moving = [t for t in terms if not self.is_fixed(t.formula)]
        return len(moving) > 1 or terms[0].formula is right

    def stream(self, reader: Ref, junction: Ref) -> Ref:
        """The name of a reader's own stream: ``x_Q^{2,1}`` for $Q^{2,1}$."""
        own = reader.symbol
        word = re.sub(r"\W", "", own.base.rpartition("{")[2])
        label = (Slot(word), *own.sub) if own.base != junction.symbol.base else ()
        sup = own.sup or junction.symbol.sup
        words = (f"in{k}" if k > 1 else "in" for k in count(1))
        more = chain([()] if label else [], ((Slot(word),) for word in words))
        labels = ((*junction.symbol.sub, *label, *x) for x in more)
        names = (Symbol("value", junction.symbol.base, sub, sup) for sub in labels)
        symbol = next(s for s in names if s.key not in self.streams)
        self.streams.add(symbol.key)
        return Ref(symbol, reader.index)


def literal(ref: Ref) -> Ref:
    """A member under a name of its own: $Q^{2,1}$ no longer as one of a family."""
    index = dict(zip(ref.symbol.slots, ref.index, strict=True))
    free = {s for s, x in index.items() if not isinstance(x, Num)}

    def slot(s: Slot) -> Slot:
        return s if not s.index or s.text in free else Slot(show(index[s.text]))

    sub, sup = (tuple(map(slot, slots)) for slots in (ref.symbol.sub, ref.symbol.sup))
    rest = tuple(x for s, x in index.items() if s in free)
    return Ref(Symbol(ref.symbol.kind, ref.symbol.base, sub, sup), rest)


__all__ = ["CircuitEdge", "Made", "Port", "Wiring", "literal"]
