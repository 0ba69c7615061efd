"""Values of another run in an intervention: ``x'^2_4`` becomes a parameter with that run's numbers.

A value that is as long as the other run's text is read up to the length of the present text. So the
change applies to texts that are no longer than that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from viete.errors import VieteError
from viete.evaluate.labelled import Array
from viete.evaluate.run import Run
from viete.evaluate.schedule import member_name
from viete.graph.card import CardData, Dimension, Parameter
from viete.graph.sizes import Size
from viete.notation.lexer import primed
from viete.notation.printer import show
from viete.notation.symbols import Scope
from viete.notation.tree import Expr, Idx, Pick, Ref, Slice, Slot, Symbol, num, rebuilt
from viete.rewrite.renaming import Renaming

WHOLE = Slice(None, None)


class OtherRun:
    """Another run beside a card, for one change of it; ``arrays`` are the values taken from it."""

    def __init__(self, card: CardData, run: Run) -> None:
        if not isinstance(run, Run):
            raise VieteError(f"against must be another run, not {run!r:.60}")
        self.run, self.other = run, run.program.model
        shared = (card.ranges.keys() & self.other.ranges.keys()) | {
            d.name for d in card.dims if d.name in {o.name for o in self.other.dims}
        }
        names = Renaming(self.other, card, shared)
        self.symbols: dict[str, Symbol] = {}
        self.primed: list[Symbol] = []
        for symbol in self.other.symbols.values():
            if symbol.kind != "dim":
                self.primed.append(new := names.symbol(symbol))
                self.symbols[new.key] = symbol
        self.arrays: dict[str, Array] = {}
        self.made: dict[Ref, Symbol] = {}

    def scope(self, scope: Scope) -> Scope:
        """The names of a formula and, with primes, those of the other run."""
        symbols = {base: list(group) for base, group in scope.symbols.items()}
        for symbol in self.primed:
            symbols.setdefault(symbol.base, []).append(symbol)
        return replace(scope, symbols=symbols)

    def with_parameters(self, card: CardData, e: Expr) -> tuple[CardData, Expr]:
        """A formula with parameters for the values of the other run, and the card with these."""
        match e:
            case Pick(Ref() as value, items) if value.key in self.symbols:
                card, new = self.value(card, value)
                return self.picked(card, value, new, items)
            case Ref() if e.key in self.symbols:
                card, new = self.value(card, e)
                return self.picked(card, e, new, ())
        parts = []
        for x in e.children:
            card, part = self.with_parameters(card, x)
            parts.append(part)
        return card, rebuilt(e, parts)

    def lengths(self, value: Ref) -> list[Size | None]:
        """For each axis, the size if it is a length of the text, else None."""
        shape = self.run.program.shapes.types[self.symbols[value.key].key].shape
        return [s if s.names() & self.other.lengths.keys() else None for s in shape]

    def picked(
        self, card: CardData, value: Ref, new: Ref, items: tuple[Expr, ...]
    ) -> tuple[CardData, Expr]:  # fmt: skip
        """Rows and entries of a parameter; its axes along the text are cut to the text's length."""
        sizes, counts = self.lengths(value), self.counts(value)
        rest = [*items, *[WHOLE] * (len(sizes) - len(items))]
        cuts = [WHOLE] * len(sizes)
        for axis, (size, item) in enumerate(zip(sizes, rest, strict=True)):
            if size is not None and (item == WHOLE or isinstance(item, Idx)):
                cuts[axis] = Slice(None, card.size_expr(size))
                card = with_length(card, size, counts[axis])
        while cuts and cuts[-1] == WHOLE:
            cuts.pop()
        out: Expr = Pick(new, tuple(cuts)) if cuts else new
        if not items:
            return card, out
        ends = (Pick(value, items).from_end(axis) for axis in range(len(items)))
        places = [at if k is None else num(counts[axis] - k)
                  for axis, (at, k) in enumerate(zip(items, ends, strict=True))]  # fmt: skip
        return card, Pick(out, tuple(places))

    def counts(self, value: Ref) -> list[int]:
        """The lengths of the axes of a value in the other run."""
        shape = self.run.program.shapes.types[self.symbols[value.key].key].shape
        return [int(s.evaluate(self.run.sizes)) for s in shape]

    def value(self, card: CardData, value: Ref) -> tuple[CardData, Ref]:
        """A value of some blocks, or of each of them, as a parameter of the card."""
        original = self.symbols[value.key]
        blocks = self.other.blocks_of(original)
        pairs = list(zip(original.slots, value.index, strict=True))
        single = {s for s, x in pairs if s in blocks and not isinstance(x, Idx)}
        key = Ref(value.symbol, tuple(x if s in single else Idx(s) for s, x in pairs))
        left = tuple(x for s, x in pairs if s not in single)
        if key in self.made:
            return card, Ref(self.made[key], left)
        at = dict(pairs)
        sub, sup = (
            tuple(Slot(show(at[x.text])) if x.text in single and x.index else x for x in slots)
            for slots in (value.symbol.sub, value.symbol.sup)
        )
        symbol = Symbol("parameter", value.symbol.base, sub, sup)
        while symbol.key in card.symbols:
            symbol = replace(symbol, base=primed(symbol.base, "'"))
        letter = next((s for s in blocks if s not in single), None)
        turns = [{}] if letter is None else [
            {letter: k} for k in self.run.program.range_of(letter)
        ]  # fmt: skip
        for turn in turns:
            index = (at[s] if s in single else num(turn[s]) if s in turn else Idx(s)
                     for s in original.slots)  # fmt: skip
            array = self.array(show(Ref(original, tuple(index))))
            self.arrays[member_name(symbol, turn)] = array
        shape = tuple(
            self.size(card, n, s)
            for n, s in zip(
                self.counts(value), self.run.program.shapes.types[original.key].shape, strict=True
            )
        )
        made = Parameter(symbol, shape, meaning="of another run")
        self.made[key] = symbol
        return replace(card, parameters=(*card.parameters, made)), Ref(symbol, left)

    def size(self, card: CardData, count: int, size: Size) -> Expr:
        """A size in this card: a dimension that has this number, else the number."""
        known = size.value(card.sizes)
        return card.size_expr(size) if known == count else num(count)

    def array(self, name: str) -> Any:
        """A value of the other run, which has one text. Raises VieteError if it has several."""
        array, axes = self.run[name], self.run.axes(name)
        if "batch" not in axes:
            return array
        if array.shape[0] != 1:
            raise VieteError(
                f"the other run has {array.shape[0]} texts; a change takes values from one text"
            )
        return array[0]


def with_length(card: CardData, size: Size, count: int) -> CardData:
    """The card for texts of at most ``count`` tokens."""

    def limited(d: Dimension) -> Dimension:
        if d.at_most is None or Size.of(d.name) != size:
            return d
        most = card.greatest.get(d.name)
        return d if most is not None and most <= count else replace(d, at_most=num(count))

    return replace(card, dims=tuple(map(limited, card.dims)))


__all__ = ["OtherRun"]
