"""Terms: a formula into the terms that made it, by the equations of a card.

A value in a linear place is replaced by the right side of its equation, and that falls apart into
its own terms (`viete.analysis.linearity`), until what is left are the terms that were asked for.
Which values are the stream, which sub-layers look at other positions and which letters count heads
is read off the equations.

A `Terms` is a term for each value of some letters of its own: one for each head h and source k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from viete.analysis.linearity import (
    ATOM,
    CONSTANT,
    HELD,
    HOLE,
    PAIR,
    SCALE,
    UNOPENED,
    Linearity,
    Summand,
    filled,
    holds,
    linearity,
    repicked,
    through,
)
from viete.analysis.rows import Rows, Subscript
from viete.errors import VieteError
from viete.evaluate.schedule import Program
from viete.graph.card import Equation
from viete.graph.dependence import reachable
from viete.graph.sizes import Size
from viete.notation.printer import show, show_symbol
from viete.notation.substitution import fresh
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Pick,
    Ref,
    num,
    rebuilt,
    transform,
    walk,
)

WORDS = ("block", "sublayer", "head", "source", "neuron", "path", "query", "key")
FINER = frozenset(("sublayer", "head", "source", "neuron", "path", "query", "key"))
DEPTH = 2  # of paths: through how many heads, where it is not said
ENTRYWISE = frozenset(("neg", "had", "times", "div"))


@dataclass(frozen=True)
class Mark:
    """One step to a term: a block by its number; a head, source, neuron or expert by a letter."""

    word: str
    letter: str
    number: int | None = None


@dataclass(frozen=True)
class Terms:
    """Terms: ``context`` with ``focus`` in its place, one for each value of ``letters``.

    ``kind`` is 'value', 'constant' or 'unopened'. ``letters`` has for each letter how many values
    it takes, from 0, or None where it ranges over the heads that the card declares by that name.
    """

    focus: Expr
    context: Expr = HOLE
    kind: str = ATOM
    marks: tuple[Mark, ...] = ()
    letters: tuple[tuple[str, Size | str], ...] = ()

    @property
    def formula(self) -> Expr:
        """The term, with its letters."""
        return filled(self.context, self.focus)

    def patterns(self) -> list[Ref]:
        """The names in it of which entries are picked, as those of a pattern of attention."""
        found = (x.args[0] for x in walk(self.formula) if isinstance(x, Apply) and x.op == "times")
        return [value_of(x) for x in found if isinstance(x, Pick)]

    @property
    def block(self) -> tuple[str, int] | None:
        """The loop's letter and the number of the block that it comes from."""
        found = next((m for m in self.marks if m.word == "block"), None)
        return None if found is None or found.number is None else (found.letter, found.number)


@dataclass(frozen=True)
class State:
    """Where an expansion is: the way there, its letters, and through how many heads it went.

    ``inside`` says that it has come to the stream, so that what it meets there are sub-layers.
    """

    marks: tuple[Mark, ...] = ()
    letters: tuple[tuple[str, Size | str], ...] = ()
    depth: int = 0
    inside: bool = False

    def at(self, word: str, letter: str, number: int | None = None) -> State:
        """One step further."""
        kept = self.marks
        if word == "block" and kept and kept[-1].word == "block":
            kept = kept[:-1]  # further up the same stream
        return replace(self, marks=(*kept, Mark(word, letter, number)))


@dataclass
class Expander:
    """Expands formulas of one program's card into what ``words`` name."""

    program: Program
    words: frozenset[str]
    depth: int = DEPTH
    held: frozenset[str] = HELD
    lengths: frozenset[str] = frozenset()  # of texts, where the card has numbers for them
    lines: Linearity = field(init=False)
    taken: frozenset[str] = frozenset()  # letters and names that mean something already

    def __post_init__(self) -> None:
        if unknown := sorted(self.words - {*WORDS}):
            raise VieteError(
                f"nothing is expanded into {unknown[0]!r}; the words are {', '.join(WORDS)}"
            )
        self.card = self.program.model
        self.lines = linearity(self.card, self.held, self.lengths)
        self.rows = Rows(self.lines)
        self.made = {s.makes: s.equation for s in self.program.steps}
        self.derived = {d.name: d for d in self.card.derived}
        self.carried, self.stream = self.streams()
        self.mixing: dict[Expr, bool] = {}
        self.members: dict[Expr, Expr] = {}
        self.scales: dict[Expr, Expr] = {}

    # -- what the equations say --------------------------------------------------------------------

    def streams(self) -> tuple[set[str], set[str]]:
        """The values of a loop that are those of the block before and something added, or normed.

        And these with the values that are the norm of one.
        """
        reads: dict[str, set[str]] = {}
        for e in self.card.equations:
            if e.loop is not None:
                found: set[str] = {key_of(p.focus) for p in self.lines.parts(e.right)
                         if p.kind == ATOM and self.carries(p.context)}  # fmt: skip
                reads.setdefault(e.name, set()).update(found)

        def after(*names: str) -> dict[str, None]:
            return reachable(names, lambda name: reads.get(name, ()))

        cycles = {x for x in reads if x in after(*reads[x])}
        return cycles, {x for x in reads if not cycles.isdisjoint(after(x))}

    def carries(self, context: Expr) -> bool:
        """Whether a context changes each entry by itself, or norms a row."""
        return all(
            isinstance(x, Apply) and (x.op in ENTRYWISE or self.card.applies(x, "centred"))
            for x in through(context)
        )

    def mixes(self, e: Expr) -> bool:
        """Whether a formula takes other positions in, through what is linear, but no stream."""
        if e not in self.mixing:
            self.mixing[e] = False
            self.mixing[e] = any(
                self.sums_positions(p.context) or (
                    p.kind == ATOM and key_of(p.focus) not in self.stream
                    and self.mixes(self.opened(p.focus))
                ) for p in self.lines.parts(e)
            )  # fmt: skip
        return self.mixing[e]

    def sums_positions(self, context: Expr) -> bool:
        """Whether there is a sum over positions around the place of a context."""
        return any(self.lines.mixes(x) for x in through(context))

    # -- equations in the place of values ----------------------------------------------------------

    def normal(self, e: Expr) -> Expr:
        """A formula with numbers for blocks, and with rows and entries of values."""
        return self.rows.pushed(self.numbered(e, {}))

    def numbered(self, e: Expr, blocks: dict[str, int]) -> Expr:
        """A formula with numbers for its blocks; a sum over blocks is written out."""
        loops = self.card.loop_letters
        if isinstance(e, Bind) and e.op == "sum" and e.index in loops and e.ranges is not None:
            first, last = (int(self.program.index_size(x, blocks)) for x in e.ranges)
            terms = [self.numbered(e.body, {**blocks, e.index: k}) for k in range(first, last + 1)]
            total = terms[0] if terms else num(0)
            for term in terms[1:]:
                total = Apply("add", (total, term))
            return total
        if isinstance(e, Idx) and e.name in blocks:
            return num(blocks[e.name])
        e = rebuilt(e, [self.numbered(x, blocks) for x in e.children])
        if isinstance(e, Ref) and e.symbol.kind != "dim" and self.card.blocks_of(e.symbol):
            places = iter(self.program.places(e, blocks))
            index = tuple(num(next(places)) if s in loops else x
                          for s, x in zip(e.symbol.slots, e.index, strict=True))  # fmt: skip
            return Ref(e.symbol, index)
        return e

    def opened(self, atom: Expr) -> Expr:
        """The right side of the equation of a value, or of a row or an entry of one."""
        if atom not in self.members:
            ref = value_of(atom)
            derived = self.derived.get(ref.key)
            blocks = self.program.places(ref, {})
            if derived is None and (ref.key, blocks) not in self.made:
                raise VieteError(f"there is no {show(ref)}")
            equation = derived or self.made[ref.key, blocks]
            put = {x.name: at for x, at in zip(equation.left.index, ref.index, strict=True)
                   if isinstance(x, Idx)}  # fmt: skip
            right = self.card.substitute(equation.right, letters=put)
            self.members[atom] = self.normal(put_value(atom, right))
        return self.members[atom]

    def written_out(self, e: Expr) -> Expr:
        """A formula that is one value, by the equation of that value, where it is linear."""
        while self.lines.is_value(e) and self.is_linear(e):
            e = self.opened(e)
        return e

    # -- the terms ---------------------------------------------------------------------------------

    def families(self, e: Expr, marks: tuple[Mark, ...] = ()) -> list[Terms]:
        """The terms of a formula without loose block letters, in the order in which they add up.

        ``marks`` are the steps to the formula itself.
        """
        self.taken = self.card.names | e.free
        found = list(self.terms(HOLE, self.normal(e), State(marks)))
        return found if self.words & FINER else by_block(found)

    def terms(self, around: Expr, e: Expr, state: State) -> Iterator[Terms]:
        """The terms of a formula that stands in a context, up to the sub-layers of the stream."""
        for p in self.lines.parts(e):
            context = filled(around, p.context)
            if p.kind == PAIR:
                yield from self.pairs(context, p.focus, state)
            elif p.kind != ATOM:
                yield self.family(around, p.whole, state, p.kind)
            elif key_of(p.focus) in self.stream and self.goes_on(p.context, state):
                yield from self.terms(context, self.opened(p.focus), self.along(p.focus, state))
            elif state.inside or self.sums_positions(p.context):
                yield from self.sublayer(around, p.whole, state)
            elif self.is_linear(p.focus):
                yield from self.terms(context, self.opened(p.focus), state)
            else:
                yield from self.sublayer(context, p.focus, state, UNOPENED)

    def goes_on(self, context: Expr, state: State) -> bool:
        """Whether a value of the stream in a context goes on with the terms of what was asked."""
        return self.carries(context) if state.inside else not self.sums_positions(context)

    def along(self, atom: Expr, state: State) -> State:
        """Where the terms of a value of the stream are."""
        ref = value_of(atom)
        if ref.key not in self.carried:
            return state
        letters = self.card.blocks_of(ref.symbol)
        places = self.program.places(ref, {})
        return replace(state.at("block", letters[0], places[0]), inside=True)

    def is_linear(self, atom: Expr) -> bool:
        """Whether a value's equation is linear in another value, or a constant."""
        parts = self.lines.parts(self.opened(atom))
        return any(p.kind in (ATOM, PAIR) for p in parts) or all(p.kind == CONSTANT for p in parts)

    def family(self, context: Expr, focus: Expr, state: State, kind: str = ATOM) -> Terms:
        """A family of terms at a state."""
        if kind == CONSTANT and (isinstance(focus, Pick) or self.lines.is_given(focus)):
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
        elif "neuron" in self.words:
            yield from self.neurons(around, HOLE, e, state)
        else:
            yield self.family(around, e, state, UNOPENED if "path" in self.words else kind)

    def heads(self, around: Expr, inner: Expr, e: Expr, state: State) -> Iterator[Terms]:
        """The terms of what attention adds, which stands in a context of its own."""
        for p in self.lines.parts(e):
            q = replace(p, context=filled(inner, p.context))
            if p.kind == CONSTANT:
                yield self.family(around, filled(inner, p.focus), state, CONSTANT)
            elif p.kind != ATOM:
                yield self.family(around, q.whole, state, UNOPENED)
            elif self.sums_positions(p.context):
                yield from self.head(around, q, state)
            elif key_of(p.focus) not in self.stream and self.mixes(self.opened(p.focus)):
                yield from self.heads(around, q.context, self.opened(p.focus), state)
            else:
                yield self.family(around, q.whole, state)

    def head(self, around: Expr, p: Summand, state: State) -> Iterator[Terms]:
        """The terms of one sum over positions: by head, by source, by what it reads there."""
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
        """A term without the sums over declared letters around it: one for each of their values."""
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
        """A term by the positions that it takes in; None where it is one for all positions."""
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
        """The terms of what an MLP adds: the rows of its last matrix, as much as each is active."""
        for p in self.lines.parts(e):
            context = filled(inner, p.context)
            if p.kind == CONSTANT:
                yield self.family(around, filled(inner, p.whole), state, CONSTANT)
            elif p.kind == ATOM and self.is_computed(p.focus):
                yield from self.neurons(around, context, self.opened(p.focus), state)
            else:
                q, at = self.apart(Summand(p.focus, context), state, "expert", around)
                yield self.neuron(around, q, at)

    def is_computed(self, atom: Expr) -> bool:
        """Whether a value is made of others, and is not of the stream."""
        inner = [] if key_of(atom) in self.stream else self.lines.parts(self.opened(atom))
        return any(p.kind != CONSTANT for p in inner)

    def neuron(self, around: Expr, p: Summand, state: State) -> Terms:
        """A term that is one for each entry of its focus, if that meets a matrix."""
        steps = list(through(p.context))
        match steps[-1] if steps else HOLE:
            case Apply("prod", (a, matrix)) as last if a is HOLE and self.lines.rank(p.focus) == 1:
                letter = fresh_letter("f", state, self.taken)
                state = with_letter(state, "neuron", letter, self.lines.shape(p.focus)[0])
                place = Subscript(Idx(letter))
                one = Apply("times", (
                    self.rows.entry(p.focus, place), self.rows.row(matrix, place),
                ))  # fmt: skip
                outer = transform(p.context, lambda x: HOLE if x is last else None)
                return self.family(around, filled(outer, one), state)
        return self.family(around, p.whole, state, UNOPENED)

    def held_in(self, families: Sequence[Terms]) -> tuple[str, ...]:
        """What terms take as given: patterns of attention, and scales of norms."""
        found: dict[str, None] = {}
        for x in chain.from_iterable(walk(f.formula) for f in families):
            if not isinstance(x, Apply) or x.op not in ("div", "prod", "times"):
                continue
            side = x.args[x.op == "div"]
            if not self.lines.depends(side):
                continue
            if x.op == "div":
                found[SCALE] = None
            elif self.lines.is_pattern(side):
                found[pattern_name(side)] = None
        return tuple(sorted(found, key=SCALE.__eq__))

    def named(self, e: Expr) -> Expr:
        """A formula in which the scales of norms have the names that the card derives for them."""

        def rule(x: Expr) -> Expr | None:
            if isinstance(x, Apply) and x.op == "div" and self.lines.is_root(x.args[1]):
                return Apply("div", (x.args[0], self.scale(x.args[1])))
            return None

        return transform(e, rule)

    def scale(self, root: Expr) -> Expr:
        """The derived name of a root, of one row of it, or the root itself."""
        if root not in self.scales:
            tries = (self.scale_at(root, d, atom) for d in self.card.derived
                     if self.lines.is_root(d.right) for atom in values_in(root)
                     if self.lines.depends(atom))  # fmt: skip
            self.scales[root] = next((x for x in tries if x is not None), root)
        return self.scales[root]

    def scale_at(self, root: Expr, d: Equation, atom: Expr) -> Expr | None:
        """A derived name, where its definition for some block and row is this root."""
        letters = self.card.blocks_of(d.left.symbol)
        near = self.program.places(value_of(atom), {}) or (0,)
        for step in (0, 1) if letters else (0,):
            blocks = dict.fromkeys(letters, near[0] + step)
            if any(k not in self.program.range_of(x) for x, k in blocks.items()):
                continue
            name: Expr = self.numbered(d.left, blocks)
            right = self.numbered(d.right, blocks)
            if isinstance(atom, Pick):
                end = atom.from_end(0)
                place = Subscript(atom.items[0]) if end is None else Subscript(None, end)
                name, right = (Pick(x, (place.of(x, 0),)) for x in (name, right))
            if self.rows.pushed(right) == root:
                return name
        return None

    def pairs(self, around: Expr, e: Expr, state: State) -> Iterator[Terms]:
        """The terms of a product of two sums: those of one side with those of the other."""
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


def pattern_name(e: Expr) -> str:
    """What a pattern is called: its name with all its letters, or the formula."""
    while isinstance(e, Pick):
        e = e.value
    if isinstance(e, Ref):
        return show_symbol(e.symbol, "unicode")
    return f"{e.op}(…)" if isinstance(e, Apply) else show(e, "unicode")


def values_in(e: Expr) -> Iterator[Expr]:
    """The names in a formula, those of which rows are picked with these."""

    def is_row(x: Expr) -> bool:
        return isinstance(x, Pick) and isinstance(x.value, Ref)

    return (x for x in walk(e, is_row) if isinstance(x, Ref) or is_row(x))


def key_of(atom: Expr) -> str:
    """The name of a value, a row or an entry."""
    return value_of(atom).key


def value_of(atom: Expr) -> Ref:
    """The value of which something is a row or an entry."""
    while isinstance(atom, Pick):
        atom = atom.value
    assert isinstance(atom, Ref)
    return atom


def put_value(atom: Expr, right: Expr) -> Expr:
    """A row or an entry of a value, with its equation's right side in its place."""
    return repicked(atom, put_value(atom.value, right)) if isinstance(atom, Pick) else right


def fresh_letter(
    wish: str, state: State, taken: frozenset[str] = frozenset(),
    bound: frozenset[str] = frozenset(),
) -> str:  # fmt: skip
    """A letter, with as many primes as it needs to be a new one."""
    there = {name for name, _ in state.letters}
    if wish in taken:
        wish = fresh(taken | there, "kjlpqsuvwcm")
    while wish in there | bound:
        wish += "'"
    return wish


def with_letter(state: State, word: str, letter: str, values: Size | str) -> State:
    """A state with one more letter, and the step that it stands for."""
    state = replace(state, letters=(*state.letters, (letter, values)))
    return state.at(word, letter)


def by_block(families: Sequence[Terms]) -> list[Terms]:
    """The terms of a block as one, in the order in which the blocks come first."""
    out: dict[object, Terms] = {}
    for k, f in enumerate(families):
        key = (f.block, f.context) if f.kind == ATOM and f.block is not None else k
        there = out.get(key)
        focus = f.focus if there is None else Apply("add", (there.focus, f.focus))
        out[key] = replace(f, focus=focus)
    return list(out.values())


__all__ = ["WORDS", "Expander", "Mark", "Terms"]
