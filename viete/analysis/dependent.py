"""The values, inputs, attention patterns and roots on which a card's formulas depend.

A formula may have a `HOLE`, a place into which another formula is put.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from viete.analysis.shapes import shapes_of
from viete.analysis.types import Mismatch
from viete.graph.card import CardData
from viete.graph.dependence import reachable
from viete.library.functions import inlined
from viete.notation.lexer import unprimed
from viete.notation.tree import MEASURES, Apply, Expr, Pick, Ref, Symbol, refs, walk

HOLE = Ref(Symbol("argument", "□"))


def holds(e: Expr) -> bool:
    """Whether a formula contains the place for a focus."""
    return HOLE.key in e.keys


class Dependent:
    """How one card's formulas depend on values; ``lengths`` as in `Linearity`."""

    def __init__(self, card: CardData, lengths: Collection[str] = ()) -> None:
        self.card = card
        self.lengths = frozenset(card.lengths) | frozenset(lengths)
        self.shapes = shapes_of(card.unstated)
        self.env = self.shapes.env
        self.derived = {d.name: d.right for d in card.derived}
        self.inputs = {i.name for i in card.inputs}
        self.values = {e.name for e in card.equations}
        made = {d.name: frozenset(x.key for x in refs(d.right)) for d in card.derived}

        def within(name: str) -> frozenset[str]:
            return made.get(name, frozenset())

        whole = {name: reachable([name], within) for name in made}
        self.values |= {name for name in made if self.values & whole[name].keys()}
        self.known: dict[Expr, tuple[Any, ...]] = {}
        products = (x for e in card.equations for x in walk(e.right) if self.mixes(x))
        self.patterns = {
            x.args[0].key for x in products
            if isinstance(x, Apply) and isinstance(x.args[0], Ref)
        } & self.values  # fmt: skip

    def depends(self, e: Expr) -> bool:
        """Whether a formula contains a computed value; its size does not count."""
        if self.values.isdisjoint(e.keys):
            return False
        if isinstance(e, Ref):
            return e.key in self.values
        if isinstance(e, Apply) and e.op in MEASURES:
            return False
        return any(map(self.depends, e.children))

    def is_given(self, e: Expr) -> bool:
        """Whether a formula contains an input, as in the embedding of a token."""
        return not self.inputs.isdisjoint(e.keys)

    def is_value(self, e: Expr) -> bool:
        """Whether a formula is a computed value, or a row or an entry of one."""
        if isinstance(e, Pick):
            return self.is_value(e.value) and not any(map(self.depends, e.items))
        return isinstance(e, Ref) and e.key in self.values

    def rank(self, e: Expr) -> int:
        """The number of axes of a formula on paper."""
        return len(self.shape(e))

    def shape(self, e: Expr) -> tuple[Any, ...]:
        """The shape of a formula, which may have free letters of positions, and of primed heads."""
        if e not in self.known:
            self.known[e] = self.typed(e)
        return self.known[e]

    def typed(self, e: Expr) -> tuple[Any, ...]:
        loose = {x: self.env.ranges[x.rstrip("'")] for x in e.free
                 if x not in self.env.ranges and x.rstrip("'") in self.env.ranges}  # fmt: skip
        env, _ = self.shapes.asking(e)
        env = replace(env, ranges={**env.ranges, **self.env.ranges, **loose})
        try:
            return self.shapes.of(e, env).shape
        except Mismatch as error:
            raise AssertionError(f"{error.message} in a term") from error

    def mixes(self, e: Expr) -> bool:
        """Whether a product sums over positions: its inner size is a length of the text."""
        if not (isinstance(e, Apply) and e.op == "prod") or holds(e.args[0]):
            return False
        shape = self.shape(e.args[0])
        size = shape[-1].substitute(self.card.definitions) if shape else None
        return size is not None and not self.lengths.isdisjoint(
            unprimed(n)[0] for n in size.names()
        )

    def is_pattern(self, e: Expr) -> bool:
        """Whether a formula is a weight of a sum over positions, or a row of such weights."""
        while isinstance(e, Pick):
            e = e.value
        return self.card.applies(e, "softmax") or (isinstance(e, Ref) and e.key in self.patterns)

    def is_root(self, e: Expr) -> bool:
        """Whether a divisor is a root, like the scale of a norm, or a derived name for one."""
        while isinstance(e, Pick):
            e = e.value
        if isinstance(e, Ref) and e.key in self.derived:
            return self.is_root(self.derived[e.key])
        if isinstance(e, Apply) and e.op in self.card.function:
            return self.is_root(self.inlined(e))
        return isinstance(e, Apply) and e.op == "sqrt"

    def inlined(self, e: Apply) -> Expr:
        """A call with its definition put in."""
        return inlined(e, self.card.function, taken=self.card.names)


__all__ = ["HOLE", "Dependent", "holds"]
