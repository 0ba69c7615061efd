"""Writes an MLP as a sum over its neurons.

``m^i = GELU(v^i W_1^i) W_2^i`` becomes a sum of ``m^{i,u}`` over u, each computed from a column of
the weights that read and a row of the weights that write. The equations show what an MLP is: a
product with a weight matrix, whose left factor has columns computed from their own columns of
weights by a nonlinear function.
"""

from __future__ import annotations

from dataclasses import replace

from viete.analysis.shapes import shapes_of
from viete.errors import VieteError
from viete.graph.card import CardData, Equation, Index, with_right
from viete.library.functions import inlined
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slot,
    Symbol,
    num,
    rebuilt,
)  # fmt: skip
from viete.rewrite.adjoint.single_where import by_entry

LINEAR = frozenset(("add", "sub", "neg", "times", "had", "div"))
LETTERS = ("u", "c", "j", "q", "z", "e")


def by_neurons(card: CardData) -> CardData:
    """The card with each MLP as a sum over its neurons. Raises VieteError if it has no MLP."""
    found = Neurons(card)
    equations: list[Equation] = []
    for e in card.equations:
        right = found.of(e.right, e)
        equations += found.made
        equations.append(with_right(e, right))
        found.made = []
    if not found.indices:
        raise VieteError(
            f"{card.title} has no neurons: no equation has a product f(x W) V with matrices of "
            f"weights W and V, and a function f of each column alone"
        )
    indices = (*card.indices, *found.indices.values())
    return replace(card, equations=tuple(equations), indices=indices)


class Neurons:
    """The neurons of a card's products: an index letter for each number of neurons."""

    def __init__(self, card: CardData) -> None:
        self.card, self.types = card, shapes_of(card).types
        self.shapes = {p.name: p.shape for p in card.parameters}
        self.defined = {(e.name, e.left.index): e.right for e in card.equations}
        self.indices: dict[Expr, Index] = {}
        self.made: list[Equation] = []
        self.curved = False

    def of(self, e: Expr, home: Equation) -> Expr:
        """A formula with its MLPs as sums; the equations of their neurons are ``made``."""
        match e:
            case Apply("prod", (h, Ref() as w)) if len(self.shapes.get(w.key, ())) == 2:
                index = self.letter(self.shapes[w.key][0])
                place = Apply("sub", (Idx(index.name), num(1)))
                self.curved = False
                column = self.column(h, place)
                if column is not None and self.curved:
                    self.indices[self.shapes[w.key][0]] = index
                    row = Apply("T", (self.card.library("part", Apply("T", (w,)), place, num(1)),))
                    return self.summed(Apply("prod", (column, row)), index, home)
        return rebuilt(e, [self.of(x, home) for x in e.children])

    def letter(self, count: Expr) -> Index:
        """The index letter for this number of neurons."""
        if count in self.indices:
            return self.indices[count]
        taken = {*self.card.names, *self.card.ranges, *(i.name for i in self.indices.values())}
        taken |= set[str]().union(*(e.right.binders for e in self.card.equations))
        return Index(next(x for x in LETTERS if x not in taken), num(1), count, "neuron")

    def summed(self, each: Expr, index: Index, home: Equation) -> Expr:
        """The sum of the neurons' outputs, each with a name."""
        symbol = home.left.symbol
        more = [i.name for i in self.card.indices if i.name in each.free - {*symbol.slots}]
        slots = tuple(Slot(x, True) for x in (*more, index.name))
        own = Symbol("value", symbol.base, symbol.sub, (*symbol.sup, *slots))
        left = Ref(own, (*home.left.index, *(Idx(s.text) for s in slots)))
        self.made.append(Equation(left, each, home.loop, home.part, "what a neuron writes"))
        return Bind("sum", index.name, None, None, left)

    def column(self, e: Expr, place: Expr) -> Expr | None:
        """A column of a formula's value; None if it depends on other columns too."""
        functions = self.card.function
        match e:
            case Num():
                return e
            case Ref() if e.symbol.kind == "parameter":
                shape = self.shapes[e.key]
                if len(shape) == 2:
                    return self.card.library("part", e, place, num(1))
                return Pick(e, (place,)) if shape else e
            case Ref() if e.symbol.kind == "value":
                inner = self.defined.get((e.key, e.index))
                return None if inner is None else self.column(inner, place)
            case Ref():
                return e if e.symbol.kind == "dim" else None
            case Apply("prod", (a, Ref() as w)) if len(self.shapes.get(w.key, ())) == 2:
                return Apply("prod", (a, self.card.library("part", w, place, num(1))))
            case Apply() if e.op in functions and not by_entry(e, functions):
                return self.column(inlined(e, functions), place)
            case Apply() if by_entry(e, functions):
                parts = [self.column(x, place) for x in e.args]
                self.curved |= e.op not in LINEAR
                return None if None in parts else Apply(e.op, tuple(x for x in parts if x))
        return None


__all__ = ["by_neurons"]
