"""Splits a formula into the terms that made it, by a card's equations.

A value in a linear place is replaced by the right side of its equation, which splits into terms
again (`viete.analysis.linearity`). This repeats until the requested terms are reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce

from viete.analysis.dependent import HOLE, holds
from viete.analysis.features import features_of
from viete.analysis.linearity import (
    ATOM,
    CONSTANT,
    HELD,
    PAIR,
    UNOPENED,
    Summand,
    filled,
    through,
)
from viete.analysis.rows import Subscript
from viete.ask.directions import DIRECTIONS
from viete.ask.stream import Stream, key_of, value_of
from viete.ask.term_families import Mark, State, Terms, by_block, fresh_letter, with_letter
from viete.errors import VieteError
from viete.evaluate.schedule import Program
from viete.notation.tree import Apply, Bind, Expr, Idx, Pick, num, transform

FINER = frozenset(
    ("sublayer", "head", "source", "neuron", "feature", "path", "query", "key")
)  # fmt: skip
WORDS = ("block", *sorted(FINER), DIRECTIONS)
NEURON = frozenset(("neuron", "feature"))
DEPTH = 2  # of paths: through how many heads, where it is not said
WAYS = 32  # in which a value is opened: y + y W, 16 times, has its first value in 65,536 ways


class Expander(Stream):
    """Expands formulas of one program's card into what ``words`` name."""

    def __init__(
        self, program: Program, words: frozenset[str], depth: int = DEPTH,
        held: frozenset[str] = HELD, lengths: frozenset[str] = frozenset(),
        sizes: Mapping[str, Fraction] | None = None,
    ) -> None:  # fmt: skip
        if unknown := sorted(words - {*WORDS}):
            raise VieteError(f"cannot expand into {unknown[0]!r}; use {', '.join(WORDS)}")
        super().__init__(program, held, lengths, sizes)
        self.words, self.depth = words, depth
        bound = (e.right.binders for e in self.card.equations)
        self.meant = self.card.names.union(*bound)  # letters and names that mean something already
        self.taken = self.meant
        self.ways: Counter[tuple[Expr, tuple[Mark, ...]]] = Counter()
        self.closed: frozenset[tuple[Expr, tuple[Mark, ...]]] = frozenset()

    def families(self, e: Expr, marks: tuple[Mark, ...] = ()) -> list[Terms]:
        """The terms of a formula without loose block letters, in the order in which they add up.

        ``marks`` are the steps to the formula itself.
        """
        self.closed = frozenset()
        found = list(self.each(e, marks))
        self.closed = frozenset(x for x, ways in self.ways.items() if ways > WAYS)
        if self.closed:  # so that such a value is closed in each of its terms
            found = list(self.each(e, marks))
        return found if self.words & FINER else by_block(found)

    def each(self, e: Expr, marks: tuple[Mark, ...] = ()) -> Iterator[Terms]:
        """The terms of a formula as `families` gives them, but not joined by block."""
        self.taken = self.meant | e.free | e.binders
        self.ways.clear()
        return self.terms(HOLE, self.normal(e), State(marks))

    def terms(self, around: Expr, e: Expr, state: State) -> Iterator[Terms]:
        """The terms of a formula in a context, up to the sub-layers of the stream."""
        parts, error = self.apart_from_error(e)
        if error is not None:
            yield self.family(around, error, state.at("error", ""))
        for p in parts:
            context = filled(around, p.context)
            if self.words & NEURON and self.decodes(p):
                yield self.neuron(around, p, state)
            elif self.is_error(p):
                yield self.family(context, p.focus, state.at("error", ""))
            elif p.kind == PAIR:
                yield from self.pairs(context, p.focus, state)
            elif p.kind != ATOM:
                yield self.family(around, p.whole, state, p.kind)
            elif self.words == {DIRECTIONS} and key_of(p.focus) in self.carried:
                yield self.family(context, p.focus, state)
            elif key_of(p.focus) in self.stream and self.goes_on(p.context, state):
                if not self.opens(p.focus, state):
                    yield self.family(context, p.focus, state)
                    continue
                yield from self.terms(context, self.opened(p.focus), self.along(p.focus, state))
            elif state.inside or self.sums_positions(p.context):
                yield from self.sublayer(around, p.whole, state)
            elif not self.is_linear(p.focus):
                yield from self.sublayer(context, p.focus, state, UNOPENED)
            elif self.opens(p.focus, state):
                yield from self.terms(context, self.opened(p.focus), state)
            else:
                yield self.family(context, p.focus, state)

    def opens(self, atom: Expr, state: State) -> bool:
        """Whether a value is replaced by its equation once more after the same steps.

        A value that is read in two places, each of which is read in two, and so on, would give
        twice as many terms with each equation. After `WAYS` ways it is a term itself.
        """
        key = atom, state.marks
        self.ways[key] += 1
        return key not in self.closed and self.ways[key] <= WAYS

    def goes_on(self, context: Expr, state: State) -> bool:
        """Whether the expansion goes on through a value of the stream in a context."""
        return self.carries(context) if state.inside else not self.sums_positions(context)

    def along(self, atom: Expr, state: State) -> State:
        """The state of the terms of a value of the stream."""
        ref = value_of(atom)
        if ref.key not in self.carried:
            return state
        letters = self.card.blocks_of(ref.symbol)
        places = self.program.places(ref, {})
        return replace(state.at("block", letters[0], places[0]), inside=True)

    def family(self, context: Expr, focus: Expr, state: State, kind: str = ATOM) -> Terms:
        """A family of terms at a state."""
        at_length = not self.lines.lengths.isdisjoint(focus.keys)
        if kind == CONSTANT and (
            isinstance(focus, Pick) or self.lines.is_given(focus) or at_length
        ):
            kind = ATOM  # the row of a token or a position
        return Terms(focus, context, kind, state.marks, state.letters)

    def sublayer(
        self, around: Expr, e: Expr, state: State, kind: str = ATOM
    ) -> Iterator[Terms]:  # fmt: skip
        """The terms of what a sub-layer adds."""
        if self.mixes(e):
            if self.words & {"head", "source", "path"}:
                yield from self.heads(around, HOLE, e, state)
            else:
                yield self.family(around, e, state)
        elif self.words & NEURON:
            yield from self.neurons(around, HOLE, e, state)
        else:
            yield self.family(around, e, state, UNOPENED if "path" in self.words else kind)

    def heads(self, around: Expr, inner: Expr, e: Expr, state: State) -> Iterator[Terms]:
        """The terms of an attention output, which stands in a context."""
        for p in self.lines.parts(e):
            q = replace(p, context=filled(inner, p.context))
            if p.kind == CONSTANT:
                yield self.family(around, filled(inner, p.focus), state, CONSTANT)
            elif p.kind != ATOM:
                yield self.family(around, q.whole, state, UNOPENED)
            elif self.sums_positions(p.context):
                yield from self.head(around, q, state)
            elif self.mixes_within(p.focus) and self.opens(p.focus, state):
                yield from self.heads(around, q.context, self.opened(p.focus), state)
            else:
                yield self.family(around, q.whole, state)

    def mixes_within(self, atom: Expr) -> bool:
        """Whether a value that is not of the stream takes in other positions."""
        return key_of(atom) not in self.stream and self.mixes(self.opened(atom))

    def head(self, around: Expr, p: Summand, state: State) -> Iterator[Terms]:
        """The terms of one sum over positions: by head, by source, by the value read there."""
        if "head" in self.words:
            p, state = self.apart(p, state, "head", around)
        parts = [p]
        if "source" in self.words and (found := self.sources(p, state)) is not None:
            parts, state = found
        for q in parts:
            if "path" in self.words and state.depth < self.depth and q.kind == ATOM:
                inner = replace(state, depth=state.depth + 1, inside=False)
                yield from self.terms(filled(around, q.context), q.focus, inner)
            else:
                yield self.family(around, q.whole, state, q.kind)

    def apart(
        self, p: Summand, state: State, word: str, around: Expr
    ) -> tuple[Summand, State]:  # fmt: skip
        """A term without the sums over declared letters around it: one term for each value."""
        context, focus = p.context, p.focus

        def go(x: Expr) -> Expr:
            nonlocal focus, state
            if x is HOLE:
                return x
            if isinstance(x, Bind) and x.ranges is None and x.op in ("sum", "concat"):
                wish = x.index + "'" * (x.op == "concat")
                letter = fresh_letter(wish, state, bound=around.binders)
                body, state = x.body, with_letter(state, word, letter, x.index)
                if x.op == "sum":
                    put: dict[str, Expr] = {x.index: Idx(letter)}
                    focus = self.card.substitute(focus, letters=put)
                    return go(self.card.substitute(body, letters=put))
                same = Apply("eq", (Idx(x.index), Idx(letter)))
                return Bind(x.op, x.index, None, None, Apply("where", (same, go(body), num(0))))
            return x.over([go(y) if holds(y) else y for y in x.children])

        context = go(context)
        return Summand(focus, context, p.kind), state

    def sources(self, p: Summand, state: State) -> tuple[list[Summand], State] | None:
        """A term by its source positions; None where one term serves all positions."""
        at = next(x for x in through(p.context) if self.lines.mixes(x))
        assert isinstance(at, Apply)
        weights, values = at.args[0], filled(at.args[1], p.focus)
        if self.lines.rank(weights) != 1:
            return None
        letter = fresh_letter("k", state, self.taken)
        state = with_letter(state, "source", letter, self.lines.shape(weights)[0])
        place = Subscript(Idx(letter))
        product = Apply("times", (
            self.rows.entry(weights, place), self.rows.pushed(self.rows.row(values, place)),
        ))  # fmt: skip
        outer = transform(p.context, lambda x: HOLE if x is at else None)
        return self.lines.parts(filled(outer, product)), state

    def neurons(self, around: Expr, inner: Expr, e: Expr, state: State) -> Iterator[Terms]:
        """The terms of an MLP's output: rows of its last matrix, weighted by activations."""
        parts, error = self.apart_from_error(e)
        if error is not None:
            yield self.family(around, filled(inner, error), state.at("error", ""))
        for p in parts:
            context = filled(inner, p.context)
            if p.kind == CONSTANT:
                yield self.family(around, filled(inner, p.whole), state, CONSTANT)
            elif self.is_error(p):
                yield self.family(around, filled(inner, p.whole), state.at("error", ""))
            elif p.kind == ATOM and self.is_computed(p.focus):
                if not self.opens(p.focus, state):
                    yield self.family(around, filled(inner, p.whole), state)
                    continue
                yield from self.neurons(around, context, self.opened(p.focus), state)
            else:
                q, at = self.apart(Summand(p.focus, context), state, "expert", around)
                yield self.neuron(around, q, at)

    def is_error(self, p: Summand) -> bool:
        """Whether a term is the error of a card's features, where features are asked for."""
        wanted = "feature" in self.words and p.kind == ATOM
        return wanted and value_of(p.focus).symbol in {f.error for f in features_of(self.card)}

    def is_computed(self, atom: Expr) -> bool:
        """Whether a value is computed from others, and is not of the stream."""
        inner = [] if key_of(atom) in self.stream else self.lines.parts(self.opened(atom))
        return any(p.kind != CONSTANT for p in inner)

    def apart_from_error(self, e: Expr) -> tuple[list[Summand], Expr | None]:
        """The terms of f W + b + (x - f W - b) without x - f W - b, where features are asked for.

        And x - f W - b, the error of the decoded features, which stays one term.
        """
        parts = self.lines.parts(e)
        wholes = {p.whole for p in parts}

        def taken_away(p: Summand) -> bool:
            return isinstance(p.whole, Apply) and p.whole.op == "neg" and p.whole.args[0] in wholes

        decoded = [p for p in parts if "feature" in self.words and self.decodes(p)]
        if not any(map(taken_away, decoded)):
            return parts, None
        left = [p for p in parts if not taken_away(p) and (p in decoded or p.kind == CONSTANT)]
        rest = [p.whole for p in parts if p not in left]
        return left, reduce(lambda a, b: Apply("add", (a, b)), rest)

    def decodes(self, p: Summand) -> bool:
        """Whether a term is a row that is not linear in anything, times a matrix of weights."""
        if p.kind not in (ATOM, UNOPENED) or self.sums_positions(p.context):
            return False
        if p.kind == ATOM and (key_of(p.focus) in self.stream or self.is_linear(p.focus)):
            return False
        return meets_matrix(p) and self.lines.rank(p.focus) == 1

    def neuron(self, around: Expr, p: Summand, state: State) -> Terms:
        """A term for each entry of the focus, if the focus is multiplied by a matrix."""
        last = innermost(p.context)
        match last:
            case Apply("prod", (a, matrix)) if a is HOLE and self.lines.rank(p.focus) == 1:
                letter = fresh_letter("f", state, self.taken)
                word = "feature" if "feature" in self.words else "neuron"
                state = with_letter(state, word, letter, self.lines.shape(p.focus)[0])
                place = Subscript(Idx(letter))
                one = Apply("times", (
                    self.rows.entry(p.focus, place), self.rows.row(matrix, place),
                ))  # fmt: skip
                outer = transform(p.context, lambda x: HOLE if x is last else None)
                return self.family(around, filled(outer, one), state)
        return self.family(around, p.whole, state, UNOPENED)

    def pairs(self, around: Expr, e: Expr, state: State) -> Iterator[Terms]:
        """The terms of a product of two sums: each term of one times each term of the other."""
        assert isinstance(e, Apply)
        sides = [w for w in ("query", "key") if w in self.words] or ["query", "key"]
        left, right = e.args
        first = [Terms(left, marks=state.marks, letters=state.letters)]
        if "query" in sides:
            first = list(self.terms(HOLE, left, state))
        for one in first:
            if len(sides) == 2:
                one = replace(one, marks=(Mark("query", ""), *one.marks))
            context = filled(around, e.over([one.formula, HOLE]))
            there = replace(state, marks=one.marks, letters=one.letters, inside=False)
            if "key" not in sides:
                yield replace(one, context=filled(around, e.over([one.context, right])))
                continue
            there = there.at("key", "")
            for two in self.terms(context, right, there):
                kind = UNOPENED if UNOPENED in (one.kind, two.kind) else ATOM
                both = one.kind == two.kind == CONSTANT
                yield replace(two, kind=CONSTANT if both else kind)


def innermost(context: Expr) -> Expr:
    """The operation directly around the place of a context, or the place itself."""
    return next((x for x in through(context) if HOLE in x.children), HOLE)


def meets_matrix(p: Summand) -> bool:
    """Whether the focus of a term is the left factor of a product."""
    last = innermost(p.context)
    return isinstance(last, Apply) and last.op == "prod" and last.args[0] is HOLE


__all__ = ["DEPTH", "WORDS", "Expander"]
