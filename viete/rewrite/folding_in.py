"""Folds an intervention into the equations that make the changed value.

If a condition depends on a block's number, each block only computes one branch of the ``where``.
Rows and entries are changed by a table over positions, which are the text's positions in the
incremental form too. If the new value reads the old one, the old one gets a separate equation,
``x_{old}^i``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count, zip_longest

from viete.analysis.shapes import shapes_of
from viete.analysis.types import Type
from viete.graph.card import CardData, Equation, restated
from viete.graph.conditions import joined, settled, unmet
from viete.graph.sizes import Size
from viete.notation.heads import head_of
from viete.notation.printer import show
from viete.notation.substitution import Abstraction, fresh
from viete.notation.tree import (
    Apply,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    Slot,
    Symbol,
    Table,
    num,
    refs,
    transform,
    walk,
)  # fmt: skip
from viete.rewrite.carried import inside, same
from viete.rewrite.replacement import Replacement

WHOLE = Slice(None, None)


def labelled(card: CardData, symbol: Symbol, label: str) -> Symbol:
    """A value of the same family under a new name: ``x_{old}^i``."""
    words = (label + str(k) * (k > 1) for k in count(1))
    named = (replace(symbol, kind="value", sub=(*symbol.sub, Slot(w))) for w in words)
    return next(s for s in named if s.key not in card.symbols)


def place_of(change: Replacement) -> Expr:
    """The left side of a change."""
    return Pick(change.left, change.items) if change.items else change.left


@dataclass(frozen=True)
class Met:
    """Where a change meets an equation: the letters with a value there, and conditions."""

    letters: dict[str, Expr]
    tests: list[Expr]


class FoldingIn:
    """Applies one change to one card; for a copy of a value, ``base`` is the original.

    ``sizes`` are those of a text, if one is at hand.
    """

    def __init__(
        self, card: CardData, change: Replacement, base: Symbol | None = None,
        sizes: Mapping[str, Fraction] | None = None,
    ) -> None:  # fmt: skip
        self.model, self.change, self.shapes = card, change, shapes_of(card)
        # Of one text that is at hand, or of any: what is known, and how long one may be.
        self.sure, self.most = (sizes, sizes) if sizes else (card.sizes, card.greatest)
        self.symbol = change.left.symbol
        self.type: Type = self.shapes.types[self.symbol.key]
        self.base = base
        self.old = labelled(card, self.symbol, "old") if base is None else base
        self.blocks = card.blocks_of(self.symbol)
        self.index = dict(zip(self.symbol.slots, change.left.index, strict=True))
        self.renamed = {
            x.name: Idx(slot) for slot, x in self.index.items()
            if isinstance(x, Idx) and x.name not in (*card.ranges, slot)
        }  # fmt: skip
        self.check_members()
        shape = list(self.type.shape)
        if len(change.items) > len(shape):
            raise change.left_text.error(
                f"{self.symbol.key} has {len(shape)} axes, and not {len(change.items)}"
            )
        self.sizes: dict[str, Size] = {}  # of rows and columns, by their letters
        self.rest: list[str] = []  # those of the axes that the right side has too
        self.tests: list[Expr] = []
        for size, item in zip_longest(shape, change.items, fillvalue=WHOLE):
            assert isinstance(size, Size)
            self.axis(size, item)
        self.ranges = tuple((x, card.size_expr(s)) for x, s in self.sizes.items())

    @property
    def place(self) -> str:
        """The left side of the change, as written."""
        return self.change.left_text.text.strip() or show(place_of(self.change))

    def axis(self, size: Size, item: object) -> None:
        """Record an axis of the value: its letter, and the part that is changed."""
        if isinstance(item, Idx) and item.name not in (*self.model.ranges, *self.sizes):
            self.sizes[item.name] = size
            return
        taken = {*self.model.names, *self.change.right.free, *self.index, *self.sizes}
        letter = fresh(taken | self.change.right.binders, "jklmpqrs")
        self.sizes[letter] = size
        if item == WHOLE:
            self.rest.append(letter)
        elif isinstance(item, Slice):
            raise self.change.left_text.error(
                f"some rows are written with a letter: {self.symbol.key}_j = … for "
                f"{show(item.start or num(0))} ≤ j"
            )
        elif isinstance(item, Expr):
            at = self.from_end(item, size)
            self.check_place(at, size)
            self.tests.append(Apply("eq", (Idx(letter), at)))

    def check_place(self, at: Expr, size: Size) -> None:
        """Check that a row or an entry may exist."""
        most, found = size.value(self.most), self.model.size(at)
        k = None if found is None else found.value(self.most)
        if most is None or k is None or 0 <= k < most:
            return
        raise self.change.left_text.error(
            f"there is no {self.place}: its places run from "
            f"0 to {most - 1}" + ("" if size.value(self.sure) else " at most")
        )

    def card(self) -> CardData:
        """The card with the change in each equation of a changed member."""
        out: list[Equation] = []
        found = False
        for e in self.model.equations:
            where = self.met(e) if e.name == self.symbol.key else None
            found |= where is not None
            out += [e] if where is None else self.folded(e, where)
        if not found:
            raise self.change.left_text.error(
                f"there is no {self.place} that these conditions admit"
            )
        lefts = [e.left for e in out if e.name == self.old.key]
        if (
            self.base is None
            and lefts
            and self.blocks
            and all(x.constant for left in lefts for x in left.index)
        ):
            out = [self.single(e, lefts[0]) for e in out]
        return replace(self.model, equations=tuple(out))

    def single(self, e: Equation, left: Ref) -> Equation:
        """An equation with the old x^0 under a separate name, since it has no family."""
        at = iter(left.index)
        sub, sup = (tuple(self.named_slot(s, at) for s in slots)
                    for slots in (left.symbol.sub, left.symbol.sup))  # fmt: skip
        symbol = replace(left.symbol, sub=sub, sup=sup)
        heads = [s in self.blocks for s in left.symbol.slots]

        def rule(x: Expr) -> Expr | None:
            if not isinstance(x, Ref) or x.symbol != left.symbol:
                return None
            return Ref(symbol, tuple(i for i, b in zip(x.index, heads, strict=True) if not b))

        sides = transform(e.left, rule), transform(e.right, rule)
        assert isinstance(sides[0], Ref)
        return e if sides == (e.left, e.right) else restated(e, sides[0], sides[1])

    def named_slot(self, s: Slot, at: Iterator[Expr]) -> Slot:
        """A slot of a block as the label of that block."""
        block = next(at) if s.index else None
        return s if block is None or s.text not in self.blocks else Slot(show(block))

    # -- where it is changed -----------------------------------------------------------------------

    def check_members(self) -> None:
        """Check that the members on the left side exist."""
        for slot, x in self.index.items():
            lower, upper = (self.number(b) for b in self.model.ranges[slot])
            if isinstance(x, Idx):
                if x.name != slot and x.name not in self.renamed:
                    raise self.change.left_text.error(f"{x.name} and {slot} count different things")
                continue
            value = self.number(x)
            if value is None and (head := head_of(x)) is not None and head[0].free:
                raise self.change.left_text.error(
                    f"{self.place} is what all heads of a group have in common; write {slot} for "
                    f"{show(head[0])}"
                )
            if value is None and not x.constant:
                raise self.change.left_text.error(
                    f"the index {show(x)} is neither a number nor the letter {slot}; write "
                    f"{slot} and behind the equation for which {slot} it holds"
                )
            if slot in self.blocks or value is None:
                continue  # x^0 is there before the first block
            if value.denominator != 1 or (lower is not None and value < lower) or (
                upper is not None and value > upper
            ):  # fmt: skip
                raise self.change.left_text.error(
                    f"there is no {show(self.change.left)}: {slot} runs from {lower} to {upper}"
                )

    def number(self, e: Expr) -> Fraction | None:
        """The value of a formula of dimensions."""
        size = self.model.size(e)
        return None if size is None else size.value(self.sure)

    def met(self, e: Equation) -> Met | None:
        """Where the change meets an equation; None if it does not."""
        letters: dict[str, Expr] = dict(self.renamed)
        tests: list[Expr] = []
        for slot, own in zip(self.symbol.slots, e.left.index, strict=True):
            x = self.index[slot]
            if isinstance(x, Idx):
                if own != Idx(slot):
                    letters[slot] = own
            elif isinstance(own, Idx):
                if slot in self.blocks and e.loop and not inside(self.model, x, e.loop):
                    return None
                tests.append(Apply("eq", (own, x)))
            elif not same(self.model, own, x):
                return None
        tests += [self.ends(self.model.substitute(t, letters=letters))
                  for t in self.change.conditions]  # fmt: skip
        left = [settled(t, self.number) for t in (*tests, *self.tests)]
        tests = [t for t in left if not isinstance(t, bool)]
        if False in left or unmet(tests, self.ends_of(e), self.number) is not None:
            return None
        return Met(letters, tests)

    def ends_of(self, e: Equation) -> dict[str, tuple[Fraction, Fraction | None]]:
        """The first and the last value of each letter of an equation, its rows and columns."""
        ranges = {x: self.model.ranges[x] for x in e.left.free}
        if e.loop is not None:
            ranges[e.loop.index] = e.loop.lower, e.loop.upper
        ends = {x: (self.number(a), self.number(b)) for x, (a, b) in ranges.items()}
        found = {x: (first, last) for x, (first, last) in ends.items() if first is not None}
        for x, size in self.sizes.items():
            most = size.value(self.most)
            found[x] = Fraction(0), None if most is None else most - 1
        return found

    def ends(self, test: Expr) -> Expr:
        """A condition in which the position -1 of ``j = -1`` is the last one."""

        def rule(x: Expr) -> Expr | None:
            match x:
                case Apply("eq" | "ne", (Idx(letter), Num(k))) if k < 0 and letter in self.sizes:
                    return replace(
                        x, args=(x.args[0], self.from_end(x.args[1], self.sizes[letter]))
                    )
            return None

        return transform(test, rule)

    def from_end(self, item: Expr, size: Size) -> Expr:
        """A place counted from 0: -1, which is read as len(x) - 1, becomes the size minus 1."""
        if isinstance(item, Num) and item.value < 0:
            return Apply("sub", (self.model.size_expr(size), num(-item.value)))
        if (k := Pick(self.change.left, (item,)).from_end(0)) is not None or (
            k := Pick(self.change.left, (item, item)).from_end(1)
        ) is not None:
            return Apply("sub", (self.model.size_expr(size), num(k)))
        return item

    # -- what it is changed to ---------------------------------------------------------------------

    def folded(self, e: Equation, where: Met) -> list[Equation]:
        """The equation with the change, after one for the old value if that is read."""
        old = Ref(self.old, e.left.index)
        return self.equations(e, self.value(e, where, old if self.base is None else e.right), old)

    def value(self, e: Equation, where: Met, rest: Expr) -> Expr:
        """The equation's value with the change; ``rest`` where no condition holds."""
        right = self.model.substitute(self.change.right, letters=where.letters)
        shape = self.shape_of(right)
        right = transform(right, lambda x: self.old_one(x, e))
        entries = self.sizes.keys()
        inner = [t for t in where.tests if t.free & entries]
        outer = [t for t in where.tests if not t.free & entries]
        new = self.new_value(right, shape, Ref(self.old, e.left.index), inner, bool(outer))
        return new if not outer else Apply("where", (joined(outer), new, rest))

    def shape_of(self, right: Expr) -> tuple[Size, ...]:
        """The shape of the right side: that of a number, or of the part that it replaces."""
        env = self.shapes.env
        env = replace(env, ranges={**env.ranges, **self.sizes},
                      first={**env.first, **dict.fromkeys(self.sizes, Size.of(0))})  # fmt: skip
        source = self.change.right_text
        found = self.shapes.located(source, right, right.free & env.ranges.keys(), True, env)
        wanted = tuple(self.sizes[x] for x in self.rest)
        if found.shape and not (
            len(found.shape) == len(wanted) and all(map(self.shapes.same, found.shape, wanted))
        ):
            raise source.error(
                f"{self.place} has the shape ({', '.join(map(str, wanted))}), and this has "
                f"({', '.join(map(str, found.shape))})"
            )
        self.check_kind(found)
        return found.shape

    def check_kind(self, found: Type) -> None:
        """Check that an integer, such as a token, is replaced by an integer within its bounds."""
        wanted, own = self.type.whole, found.whole
        if wanted is None or (own and wanted[0] <= own[0] and own[1] <= wanted[1]):
            return
        if own is not None and own[0] <= wanted[1] and wanted[0] <= own[1] and own[0] < own[1]:
            return  # it may lie there: the run says
        what = "no whole number" if own is None else f"{own[0]}" if own[0] == own[1] else (
            f"from {own[0]} to {own[1]}")  # fmt: skip
        raise self.change.right_text.error(
            f"{self.place} is a whole number from {wanted[0]} to {wanted[1]}, and this is {what}"
        )

    def old_one(self, x: Expr, e: Equation) -> Expr | None:
        """The old value, if a name on the right is the replaced one; else None."""
        if not isinstance(x, Ref) or x.key != self.symbol.key:
            return None
        at = zip(self.symbol.slots, x.index, e.left.index, strict=True)
        if all(a == b for slot, a, b in at if slot in self.blocks):
            return Ref(self.old, x.index)
        return None

    def new_value(
        self, right: Expr, shape: tuple[Size, ...], old: Ref, tests: Sequence[Expr], partly: bool
    ) -> Expr:  # fmt: skip
        """The new value for the entries that ``tests`` choose."""
        if not (self.change.items or tests):
            bare = not shape and bool(self.ranges) and not partly
            return Table(self.ranges, right) if bare else right
        entry = Pick(right, tuple(map(Idx, self.rest))) if shape else right
        if tests:
            kept = Pick(old, tuple(map(Idx, self.sizes)))
            entry = Apply("where", (joined(list(tests)), entry, kept))
        return Table(self.ranges, entry)

    def equations(self, e: Equation, whole: Expr, old: Ref) -> list[Equation]:
        """The changed equation, after one for the old value unless that occurs only once."""
        bodies = [x.body for x in walk(whole) if isinstance(x, Table)]
        tests = [x.args[0] for x in bodies if isinstance(x, Apply) and x.op == "where"]
        e = replace(e, changes=(*e.changes, *tests))
        again = restated(e, e.left, whole)
        if self.base is not None:
            return [again]
        uses = [x for x in refs(whole) if x.key == self.old.key]
        if isinstance(e.right, Ref):  # which is a name for it already
            named = {self.old.key: Abstraction(self.symbol.slots, e.right)}
            return [restated(e, e.left, self.model.substitute(whole, names=named))]
        match whole:
            case Apply("where", (test, new, other)) if len(uses) == 1 and other == old:
                return [restated(e, e.left, Apply("where", (test, new, e.right)))]
        if not uses:
            return [again]
        before = restated(e, old, e.right)
        return [replace(before, meaning=f"${show(e.left, 'latex')}$ before it is changed"), again]


__all__ = ["FoldingIn", "Met", "labelled", "place_of"]
