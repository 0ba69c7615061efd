"""Data flow: what every axis ranges over, which positions read which others, operations counted.

Nothing is run and no block is unrolled; sizes are symbolic. Every axis remembers what it ranges
over: positions of the text (a *place*), positions of a named value, rows or columns of a parameter.
Three facts follow:

- the KV cache: other positions read a value where its own position axis is summed over (``A V``)
  or becomes another axis of the result (``Q K^T``);
- causality: a card is causal if no such sum includes positions that lie later;
- the embeddings: parameters looked up by token, added along positions, or giving the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from viete.analysis.embeddings import Embeddings
from viete.analysis.flow import Axis, Flow, Read, reads_across, reads_along
from viete.analysis.kinds import FLAT
from viete.analysis.masks import SIGN, Mask, combined, distance, latest, mask_of_where
from viete.analysis.shapes import shapes_of
from viete.graph.card import CardData, Equation, memoised
from viete.graph.evaluator import COL, ROW, Algebra, Env, Letter
from viete.graph.sizes import ONE, ZERO, Size, calculated, size_of
from viete.notation.tree import Apply, Bind, Expr, Idx, Pick, Ref, Slice

BATCH = "batch"
PASSED_OVER = {"sum": "0", "max": "-inf", "min": "inf"}  # of what is masked, by a fold


@dataclass
class Tally:
    """The operations counted so far: of products, and of all else; forward and backward."""

    products: Size = ZERO
    operations: Size = ZERO
    products_back: Size = ZERO
    operations_back: Size = ZERO


def reads_later(card: CardData, value: Flow, reads: frozenset[Read], length: str) -> bool:
    """Whether positions of an equation's value read later ones, or depend on their number."""
    sizes = {Size.of(n) for n in value.used_lengths} | {r.place for r in reads if not r.past}
    return any(length in x.substitute(card.definitions).names() for x in sizes)


@memoised
def flows_of(card: CardData) -> Flows:
    """The flows of all of a card's equations, of one sequence."""
    loose = frozenset[str]()
    while True:  # what several equations mask alike is masked; assumed, and then seen
        flows = Flows(card, loose=loose)
        for e in card.equations:
            flows.equation(e)
        if not flows.unlike:
            return flows
        loose |= flows.unlike


class Flows(Algebra[Flow, Env[Flow]]):
    """Evaluates a card's equations in order; ``tally`` counts, ``known`` holds the named values.

    ``found`` has for each equation its value, and the reads of other positions by its positions.
    ``batch`` sequences are run at once. ``loose`` are values of several equations, whose masks are
    not used, by default all of them; ``unlike`` has the others whose masks differ.
    """

    zero = ZERO

    def __init__(
        self, card: CardData, batch: int = 1, loose: frozenset[str] | None = None
    ) -> None:  # fmt: skip
        self.card, self.shapes = card, shapes_of(card)
        self.tally, self.scale = Tally(), ONE
        self.env: Env[Flow] = Env()
        # Within a definition equal expressions are computed once (softmax needs exp(z) once).
        self.shared: dict[tuple[int, Expr], tuple[Env[Flow], Flow]] = {}
        self.embeddings = Embeddings(card, self.shapes)
        made = [e.name for e in card.equations]
        several = {name for name in made if made.count(name) > 1}
        self.several = several if loose is None else loose
        self.unlike: set[str] = set()
        self.known: dict[str, Flow] = {}
        self.found: list[tuple[Flow, frozenset[Read]]] = []
        self.by_length: list[str] = []  # equations that pick a position by how many there are
        self.equation_name = ""
        self.ranges = {i.name: self.count(i.lower, i.upper, self.env) for i in card.indices}
        letters = {k: Letter(k, k, ZERO, n) for k, n in self.ranges.items()}
        self.env = Env(index=letters)
        for item in card.inputs:
            axes = {BATCH: Axis(Size.of(batch))} if batch > 1 else {}
            axes |= {s: Axis(self.ranges[s]) for s in item.symbol.slots if s in self.ranges}
            labels = (ROW, COL)[2 - len(item.shape) :] if item.shape else ()
            for k, (label, e) in enumerate(zip(labels, item.shape, strict=True)):
                size = self.size(e, self.env)
                axes[label] = Axis(size, *((size, frozenset((item.name,))) if k == 0 else ()))
            ids = frozenset((item.name,) if item.high is not None else ())
            self.known[item.name] = Flow(axes, const=False, given=True, ids=ids)
        for p in card.parameters:
            axes = {s: Axis(self.ranges[s]) for s in p.symbol.slots if s in self.ranges}
            labels = (ROW, COL)[2 - len(p.shape) :]
            for k, (label, e) in enumerate(zip(labels, p.shape, strict=True)):
                axes[label] = Axis(self.size(e, self.env), weights=frozenset(((p.name, k),)))
            self.known[p.name] = Flow(axes, const=False, live=True)

    # -- equations ---------------------------------------------------------------------------------

    def equation(self, e: Equation) -> tuple[Flow, frozenset[Read]]:
        """The named value, and the reads of other positions by its positions, for one block."""
        self.shared.clear()
        self.equation_name = e.name
        v = self.of(e.right)
        for s in e.left.symbol.slots:
            if s in self.ranges and s not in v.axes:
                v = replace(v, axes={s: Axis(self.ranges[s]), **v.axes})
        self.embeddings.named(v)
        own, reads = v.own, v.lost
        axes = dict(v.axes)
        if own is not None:
            reads = v.lost.union(*(reads_across(a) for k, a in axes.items() if k != own))
            axes[own] = replace(axes[own], names=frozenset((e.name,)))
            v = replace(v, lost=frozenset())
        mask = None if e.name in self.several else v.mask  # what x^0 hides x^i may not
        if (earlier := self.known.get(e.name)) is not None and earlier.mask != mask:
            self.unlike.add(e.name)
        self.known[e.name] = replace(v, axes=axes, const=False, count=None, mask=mask,
                                     lengths=v.used_lengths)  # fmt: skip
        self.found.append((v, reads))
        return v, reads

    def of(self, e: Expr, env: Env[Flow] | None = None) -> Flow:
        """The flow of an expression; its operations go to the tally."""
        env = self.env if env is None else env
        if env.arguments is None:
            return super().of(e, env)
        key = id(env), e
        if key not in self.shared:
            self.shared[key] = env, super().of(e, env)  # which keeps the id its own
        return self.shared[key][1]

    def spend(self, product: bool, entries: Size, args: Iterable[Flow]) -> None:
        """Count forward work, and as much backward work for every argument with a gradient."""
        work = self.scale * entries
        back = work * Size.of(sum(f.live for f in args))
        if product:
            self.tally.products += work
            self.tally.products_back += back
        else:
            self.tally.operations += work
            self.tally.operations_back += back

    # -- sizes -------------------------------------------------------------------------------------

    def size(self, e: Expr, env: Env[Flow]) -> Size:
        """The size of an expression over dimensions, which exists since shapes were checked."""
        size = size_of(e, sizes(env))
        assert size is not None
        return size

    def count(self, lower: Expr, upper: Expr, env: Env[Flow] | None = None) -> Size:
        env = self.env if env is None else env
        return self.size(upper, env) - self.size(lower, env) + ONE

    def length(self, v: Flow, label: str) -> Size:
        return v.axes[label].size if label in v.axes else ONE

    def sized(self, size: Size) -> Flow:
        return Flow(count=size)

    # -- names -------------------------------------------------------------------------------------

    def number(self, value: Fraction) -> Flow:
        return Flow(count=Size.of(value))

    def idx(self, e: Idx, env: Env[Flow]) -> Flow:
        letter = env.index.get(e.name)  # none of a block's number
        if letter is None:
            return Flow(count=Size.of(SIGN + e.name))
        return Flow({letter.label: Axis(letter.count)}, count=Size.of(SIGN + letter.label))

    def dimension(self, e: Ref, env: Env[Flow]) -> Flow:
        return Flow(count=env.sizes.get(e.key, Size.of(e.key)))

    def named(self, e: Ref, blocks: Sequence[Expr], env: Env[Flow]) -> Flow:
        return self.known[e.key]

    # -- members of an axis ------------------------------------------------------------------------

    def members(
        self, v: Flow, old: str, new: Letter, among: Letter, env: Env[Flow]
    ) -> Flow:  # fmt: skip
        return v.relabel(old, new.label)

    def gather(
        self, v: Flow, label: str, at: Flow, index: Expr, among: Letter, env: Env[Flow]
    ) -> Flow:  # fmt: skip
        if self.embeddings.looked_up(v, label, at):
            at = replace(at, ids=frozenset())
        place = v.axes[label].place
        if place is not None and at.count is not None and place.names() & at.count.names():
            self.by_length.append(self.equation_name)
        # x_{j-1} inside table_{j<n} reads a position of the past, and x_0 one of everybody's.
        labels = {letter: x.label for letter, x in env.index.items()}
        places = [k for k, a in at.axes.items() if a.size == v.axes[label].size]
        now = latest(index, lambda x: distance(x, labels, sizes(env)), places)
        rest = v.without(label, None if now is None else Mask("0", now, label))
        out = self.joined([rest, at], {**with_place(v.axes[label], at.axes), **rest.axes})
        return out if at.axes else replace(out, mask=rest.mask)  # one head of a pattern is one

    def from_end(
        self, v: Flow, label: str, k: int, item: Expr, among: Letter, env: Env[Flow]
    ) -> Flow:  # fmt: skip
        return self.gather(v, label, self.sized(among.count - Size.of(k)), item, among, env)

    def cut(self, v: Flow, label: str, item: Slice, e: Pick, env: Env[Flow]) -> Flow:
        start = self.size(item.start, env) if item.start else ZERO
        stop = self.size(item.stop, env) if item.stop else v.axes[label].size
        axis = replace(v.axes[label], size=stop - start)
        cut = replace(v, axes={**v.axes, label: axis}, mask=None)
        if axis.place is None:
            ends = (start,) if str(axis.size) in self.card.lengths else (start, stop)
            return replace(cut, lengths=v.lengths.union(*(x.names() for x in ends)))
        if (start, stop) == (ZERO, v.axes[label].size):
            return cut
        first = Mask("0", "", label) if (start, stop) == (ZERO, ONE) else None
        return replace(cut, lost=cut.lost | reads_along(axis, label, first))

    def column(self, v: Flow) -> Flow:
        return v if COL in v.axes else replace(v, axes={**v.axes, COL: Axis(ONE)})

    def transpose(self, v: Flow) -> Flow:
        if ROW not in v.axes:
            v = replace(v, axes={ROW: Axis(ONE), **v.axes})
        return v.rename({ROW: COL, COL: ROW})

    # -- binders -----------------------------------------------------------------------------------

    def bound_letter(self, e: Bind, env: Env[Flow], label: str) -> Letter:
        return Letter(e.index, label, ZERO, self.counted(e, env))

    def counted(self, e: Bind, env: Env[Flow]) -> Size:
        """The number of values of a binder's index."""
        if e.lower is not None and e.upper is not None:
            return self.count(e.lower, e.upper, env)
        return env.index[e.index].count

    def blocks(self, e: Bind, env: Env[Flow]) -> Flow:
        count = self.counted(e, env)
        before, self.scale = self.scale, self.scale * count
        v = self.of(e.body, env)
        self.scale = before
        self.spend(False, v.entries * (count - ONE), (v, v))
        return v

    def spread(self, v: Flow, letters: Sequence[Letter], env: Env[Flow]) -> Flow:
        axes = {**{x.label: Axis(x.count) for x in letters}, **v.axes}
        zeros = v.count == ZERO and len(letters) == 2
        mask = Mask("0", letters[0].label, letters[1].label) if zeros else v.mask
        return replace(v, axes=axes, count=None, mask=mask, lengths=v.used_lengths)

    def merge(self, v: Flow, label: str) -> Flow:
        wide = replace(v.axes[COL], size=v.axes[label].size * v.axes[COL].size)
        axes = {k: wide if k == COL else a for k, a in v.axes.items() if k != label}
        return replace(v, axes=axes, mask=None)

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: Env[Flow]) -> Flow:
        if e.op in self.card.function or e.op == "T":
            return super().apply(e, env)
        args = [self.of(a, env) for a in e.args]
        v = self.operation(e.op, args)
        if e.op == "where":
            labels = {letter: x.label for letter, x in env.index.items()}
            sides = args[1].mask, args[2].mask
            v = replace(v, mask=mask_of_where(e, sides, labels, sizes(env)))
        if (count := calculated(e.op, [x.count for x in args])) is not None:
            lengths = frozenset[str]().union(*(x.lengths for x in args))
            v = replace(v, count=count, lengths=lengths)
        return v

    def joined(self, args: list[Flow], axes: Mapping[str, Axis]) -> Flow:
        """The parts of a result over all arguments; ``axes`` or, if none are given, all axes."""
        if not axes:
            axes = {}
            for label in dict.fromkeys(k for v in args for k in v.axes):
                axes[label] = self.merged(label, [v.axes[label] for v in args if label in v.axes])
        return Flow(
            axes,
            const=all(v.const for v in args),
            live=any(v.live for v in args),
            given=any(v.given for v in args),
            ids=frozenset[str]().union(*(v.ids for v in args)),
            lost=frozenset[Read]().union(*(v.lost for v in args)),
            lengths=frozenset[str]().union(*(v.used_lengths for v in args)),
        )

    def merged(self, label: str, axes: list[Axis]) -> Axis:
        """One axis for several that are aligned."""
        out = axes[0]
        for a in axes[1:]:
            size = a.size if out.size == ONE else out.size if a.size == ONE else None
            size = self.shapes.better(out.size, a.size) if size is None else size
            names, weights = out.names | a.names, out.weights | a.weights
            out = Axis(size, out.place or a.place, names, weights)
        if out.place is not None:
            self.embeddings.placed(out, label)
            out = replace(out, weights=frozenset())
        return out

    def entrywise(self, op: str, args: list[Flow]) -> Flow:
        out = self.joined(args, {})
        if op in FLAT:
            out = replace(out, live=False)
        neutral = ONE if op in ("had", "times", "prod") else ZERO if op == "add" else None
        if not out.const and not any(v.size == neutral and neutral is not None for v in args):
            self.spend(False, out.entries, args if out.live else ())
        fixed = all(v.const or v.mask for v in args)
        return replace(out, mask=combined(op, [v.mask for v in args], fixed))

    def concat(self, args: list[Flow]) -> Flow:
        wide = [v.axes[COL] for v in args]
        size = sum((a.size for a in wide), ZERO)
        names = frozenset[str]().union(*(a.names for a in wide))
        out = self.joined(args, {})
        return replace(out, axes={**out.axes, COL: Axis(size, wide[0].place, names)}, mask=None)

    def fold(self, op: str, v: Flow, label: str) -> Flow:
        if not v.const:
            self.spend(False, v.entries, (v,))
        passed_over = v.mask is not None and v.mask.kind == PASSED_OVER.get(op)
        out = v.folded(label, v.mask if passed_over else None)
        return replace(out, live=False) if op in FLAT else out

    def contract(self, a: Flow, b: Flow, over: tuple[str, ...]) -> Flow:
        """The flow of a product, at 2 operations for each entry of either factor's axes."""
        every = self.joined([a, b], {})
        if not every.const:
            self.spend(True, every.entries * Size.of(2), (a, b))
        masks = (v.mask for v in (a, b) if v.mask and v.mask.kind == "0")
        mask = next((m for m in masks if m.later in over), None)
        for label in over:
            for v in (a, b):
                self.embeddings.summed(v.axes[label])
            every = every.folded(label, mask)
        return every


def sizes(env: Env[Any]) -> Callable[[Ref], Size | None]:
    """The sizes that names mean inside ``env``."""

    def lookup(r: Ref) -> Size | None:
        if env.arguments is None:
            return Size.of(r.key) if r.symbol.kind == "dim" else None
        found = env.arguments.get(r.key)
        return env.sizes.get(r.key) or (found.size if found else None)

    return lookup


def with_place(old: Axis, axes: Mapping[str, Axis]) -> dict[str, Axis]:
    """Axes that replace an axis of positions, marked as counting positions."""
    return {k: a if a.place or k == BATCH else replace(a, place=old.place)
            for k, a in axes.items()}  # fmt: skip
