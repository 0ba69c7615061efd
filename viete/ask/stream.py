"""The residual stream of a card, with equations put in for its values.

The equations tell which values are the stream and which sub-layers read other positions: the stream
after a block is the stream before it with something added, or normalised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import chain

from viete.analysis.linearity import (
    ATOM,
    CONSTANT,
    HELD,
    PAIR,
    SCALE,
    linearity,
    repicked,
    through,
)
from viete.analysis.rows import Rows, Subscript
from viete.errors import VieteError
from viete.evaluate.schedule import Program
from viete.graph.card import CardData, Equation, memoised
from viete.graph.conditions import settled
from viete.graph.dependence import reachable
from viete.notation.printer import show, show_symbol
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    num,
    rebuilt,
    transform,
    walk,
)

ENTRYWISE = frozenset(("neg", "had", "times", "div"))


@dataclass
class Known:
    """What is known of a card's formulas, for all its streams with the same arguments."""

    streams: tuple[frozenset[str], frozenset[str]] | None = None
    normal: dict[Expr, Expr] = field(default_factory=dict)
    members: dict[Expr, Expr] = field(default_factory=dict)
    scales: dict[Expr, Expr] = field(default_factory=dict)


@memoised
def known(
    card: CardData, held: frozenset[str], lengths: frozenset[str],
    sizes: frozenset[tuple[str, Fraction]],
) -> Known:  # fmt: skip
    """The card's `Known`."""
    return Known()


class Stream:
    """The values of one program's card by their equations.

    ``held`` are the kinds of factors that are taken as given, ``lengths`` the lengths of texts
    where the card has numbers for them, and ``sizes`` the known sizes of the text.
    """

    def __init__(
        self, program: Program, held: frozenset[str] = HELD, lengths: frozenset[str] = frozenset(),
        sizes: Mapping[str, Fraction] | None = None,
    ) -> None:  # fmt: skip
        self.program, self.card = program, program.model
        self.sizes = program.sizes if sizes is None else sizes
        self.lines = linearity(self.card, held, lengths)
        self.rows = Rows(self.lines)
        self.made = {s.makes: s.equation for s in program.steps}
        self.derived = {d.name: d for d in self.card.derived}
        self.known = known(self.card, held, lengths, frozenset(self.sizes.items()))
        if self.known.streams is None:
            self.known.streams = self.streams()
        self.carried, self.stream = self.known.streams
        self.mixing: dict[Expr, bool] = {}

    # -- what the equations say --------------------------------------------------------------------

    def streams(self) -> tuple[frozenset[str], frozenset[str]]:
        """The values of a loop that add to, or norm, those of the block before.

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
        return frozenset(cycles), frozenset(x for x in reads if not cycles.isdisjoint(after(x)))

    def carries(self, context: Expr) -> bool:
        """Whether a context only acts entry by entry, norms a row or chooses by a block."""
        return all(
            isinstance(x, Apply)
            and (x.op in ENTRYWISE or x.op == "where" or self.card.applies(x, "centred"))
            for x in through(context)
        )

    def mixes(self, e: Expr) -> bool:
        """Whether a formula takes in other positions through linear parts, but not the stream."""
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
        """Whether a sum over positions surrounds the place of a context."""
        return any(self.lines.mixes(x) for x in through(context))

    # -- equations in the place of values ----------------------------------------------------------

    def normal(self, e: Expr) -> Expr:
        """A formula with numbers for blocks, and rows and entries taken directly of values."""
        found = self.known.normal
        if e not in found:
            found[e] = transform(self.rows.pushed(self.numbered(e, {})), self.chosen)
        return found[e]

    def chosen(self, e: Expr) -> Expr | None:
        """The chosen side of a choice by a block, head or place of known number; else None."""
        if not (isinstance(e, Apply) and e.op == "where") or self.lines.depends(e.args[0]):
            return None
        found = settled(e.args[0], self.number)
        new = e.args[2 - found] if isinstance(found, bool) else None
        return new if new is not None and self.lines.rank(new) == self.lines.rank(e) else None

    def number(self, e: Expr) -> Fraction | None:
        """The value of a formula of dimensions for this text."""
        size = self.card.size(e)
        return None if size is None else size.value(self.sizes)

    def numbered(self, e: Expr, blocks: dict[str, int]) -> Expr:
        """A formula with numbers for blocks, and for members that a size names: folds opened."""
        loops = self.card.loop_letters
        if isinstance(e, Bind) and e.index in loops and e.ranges is not None:
            first, last = (int(self.program.index_size(x, blocks)) for x in e.ranges)
            parts = [self.numbered(e.body, {**blocks, e.index: k}) for k in range(first, last + 1)]
            together = "max" if e.op == "max" else "add"
            total = reduce(lambda a, b: Apply(together, (a, b)), parts) if parts else num(0)
            return Apply("div", (total, num(len(parts)))) if e.op == "mean" else total
        if isinstance(e, Idx) and e.name in blocks:
            return num(blocks[e.name])
        e = rebuilt(e, [self.numbered(x, blocks) for x in e.children])
        if isinstance(e, Ref) and e.index:
            places = iter(self.program.places(e, blocks) if self.card.blocks_of(e.symbol) else ())
            index = tuple(num(next(places)) if s in loops else self.member(x)
                          for s, x in zip(e.symbol.slots, e.index, strict=True))  # fmt: skip
            return Ref(e.symbol, index)
        return e

    def member(self, x: Expr) -> Expr:
        """The number of a member that a size names, as in $z^{H}$; else the formula."""
        at = None if x.free or isinstance(x, Num) else self.number(x)
        return x if at is None or at.denominator > 1 else num(int(at))

    def opened(self, atom: Expr) -> Expr:
        """The right side of the equation of a value, or of a row or an entry of one."""
        members = self.known.members
        if atom not in members:
            ref = value_of(atom)
            derived = self.derived.get(ref.key)
            blocks = self.program.places(ref, {})
            if derived is None and (ref.key, blocks) not in self.made:
                raise VieteError(f"there is no {show(ref)}")
            equation = derived or self.made[ref.key, blocks]
            put = {x.name: at for x, at in zip(equation.left.index, ref.index, strict=True)
                   if isinstance(x, Idx)}  # fmt: skip
            right = self.card.substitute(equation.right, letters=put)
            members[atom] = self.normal(put_value(atom, right))
        return members[atom]

    def written_out(self, e: Expr) -> Expr:
        """A formula that is one value, replaced by that value's equation while that is linear."""
        while self.lines.is_value(e) and self.is_linear(e):
            e = self.opened(e)
        return e

    def is_linear(self, atom: Expr) -> bool:
        """Whether a value's equation is linear in another value, or a constant."""
        parts = self.lines.parts(self.opened(atom))
        return any(p.kind in (ATOM, PAIR) for p in parts) or all(p.kind == CONSTANT for p in parts)

    def held_in(self, formulas: Iterable[Expr]) -> tuple[str, ...]:
        """The values that formulas hold fixed: attention patterns, and scales of norms."""
        found: dict[str, None] = {}
        for x in chain.from_iterable(map(walk, formulas)):
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

    # -- names -------------------------------------------------------------------------------------

    def named(self, e: Expr) -> Expr:
        """A formula in which scales of norms have their derived names."""

        def rule(x: Expr) -> Expr | None:
            if isinstance(x, Apply) and x.op == "div" and self.lines.is_root(x.args[1]):
                return Apply("div", (x.args[0], self.scale(x.args[1])))
            return None

        return transform(e, rule)

    def scale(self, root: Expr) -> Expr:
        """The derived name of a root or of one row of it; else the root itself."""
        scales = self.known.scales
        if root not in scales:
            tries = (self.scale_at(root, d, atom) for d in self.card.derived
                     if self.lines.is_root(d.right) for atom in values_in(root)
                     if self.lines.depends(atom))  # fmt: skip
            scales[root] = next((x for x in tries if x is not None), root)
        return scales[root]

    def scale_at(self, root: Expr, d: Equation, atom: Expr) -> Expr | None:
        """A derived name whose definition for some block and row is this root; else None."""
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


def pattern_name(e: Expr) -> str:
    """The name of a pattern with all its letters, or the formula."""
    while isinstance(e, Pick):
        e = e.value
    if isinstance(e, Ref):
        return show_symbol(e.symbol, "unicode")
    return f"{e.op}(…)" if isinstance(e, Apply) else show(e, "unicode")


def values_in(e: Expr) -> Iterator[Expr]:
    """The names in a formula; a name of which a row is picked comes as that row."""

    def is_row(x: Expr) -> bool:
        return isinstance(x, Pick) and isinstance(x.value, Ref)

    return (x for x in walk(e, is_row) if isinstance(x, Ref) or is_row(x))


def key_of(atom: Expr) -> str:
    """The name of the value that a value, a row or an entry is of."""
    return value_of(atom).key


def value_of(atom: Expr) -> Ref:
    """The value of which something is a row or an entry."""
    while isinstance(atom, Pick):
        atom = atom.value
    assert isinstance(atom, Ref)
    return atom


def put_value(atom: Expr, right: Expr) -> Expr:
    """A row or an entry of a value, with the right side of the value's equation instead."""
    return repicked(atom, put_value(atom.value, right)) if isinstance(atom, Pick) else right


__all__ = ["Stream", "key_of", "pattern_name", "value_of", "values_in"]
