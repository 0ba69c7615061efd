"""Two cards as one: the names of the second get primes.

``x'^3`` beside ``x^3`` is the value of another run, of the same card or of another. Dimensions and
index letters that are equal in both keep their names, so values of both can meet in one formula.
Others get primes too, so a mismatch is visible.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from viete.errors import Text
from viete.graph.card import CardData, Dimension, Equation, Loop
from viete.graph.operator import Operator
from viete.library.functions import Function
from viete.notation.lexer import primed
from viete.notation.tree import Apply, Bind, Expr, Idx, Ref, Slot, Symbol, Table, transform

T = TypeVar("T", Expr, "Expr | None")


class Renaming:
    """New names for a card's names beside another card; ``shared`` ones stay.

    ``shared`` are dimensions and index letters. A function that the other card has too stays.
    """

    def __init__(self, card: CardData, beside: CardData, shared: Collection[str]) -> None:
        self.card, self.shared = card, shared
        self.functions = {
            f.name: primed(f.name, "'") for f in card.functions if f not in beside.functions
        }

    def letter(self, name: str) -> str:
        """The new name of an index letter; bound letters are renamed too, without effect."""
        return name if name in self.shared else primed(name, "'")

    def symbol(self, s: Symbol) -> Symbol:
        if s.kind == "argument" or (s.kind == "dim" and s.key in self.shared):
            return s
        counted = {i.name for i in self.card.indices} | self.card.loop_letters
        sub, sup = (
            tuple(Slot(self.letter(x.text), True) if x.text in counted else x for x in slots)
            for slots in (s.sub, s.sup)
        )
        return Symbol(s.kind, primed(s.base, "'"), sub, sup)

    def of(self, e: T) -> T:
        """A formula with the new names."""
        return None if e is None else transform(e, self.rule)

    def own(self, e: Expr) -> Expr:
        """A formula with new names for the card's names; other names stay."""
        has = self.card.symbols.keys() | {o.symbol.key for o in self.card.operators}

        def rule(x: Expr) -> Expr | None:
            return None if isinstance(x, Ref) and x.key not in has else self.rule(x)

        return transform(e, rule)

    def rule(self, x: Expr) -> Expr | None:
        match x:
            case Ref():
                return Ref(self.symbol(x.symbol), x.index)
            case Idx(name):
                return Idx(self.letter(name))
            case Bind() | Table():
                return x.over(x.children, tuple(map(self.letter, x.bound)))
            case Apply(op, args) if op in self.functions:
                return Apply(self.functions[op], args, x.semi)
        return None

    def loop(self, loop: Loop | None, after: int) -> Loop | None:
        """A loop, numbered after ``after`` others."""
        return loop and replace(
            loop, index=self.letter(loop.index), lower=self.of(loop.lower),
            upper=self.of(loop.upper), order=loop.order + after,
        )  # fmt: skip

    def equation(self, e: Equation, after: int) -> Equation:
        left = self.of(e.left)
        assert isinstance(left, Ref)
        text = Text(e.text.text, e.text.file, e.text.line, e.text.column, e.text.whole)
        return replace(e, left=left, right=self.of(e.right), loop=self.loop(e.loop, after),
                       stated=None, text=text)  # fmt: skip

    def operator(self, o: Operator) -> Operator:
        return replace(o, symbol=self.symbol(o.symbol), definition=self.of(o.definition))

    def function(self, f: Function) -> Function:
        return replace(f, name=self.functions.get(f.name, f.name), body=self.of(f.body))


def joined(card: CardData, other: CardData, shared: Collection[str]) -> tuple[CardData, Renaming]:
    """The equations of both cards as one card, and the other card's new names."""
    new, after = Renaming(other, card, shared), len(card.loops)

    def dimension(d: Dimension) -> Dimension:
        return replace(d, symbol=new.symbol(d.symbol), value=new.of(d.value),
                       at_most=new.of(d.at_most))  # fmt: skip

    sizes, letters = {d.name for d in card.dims}, {i.name for i in card.indices}
    made = replace(
        card, claims=(),
        dims=(*card.dims, *(
            dimension(d) for d in other.dims if d.name not in shared or d.name not in sizes
        )),
        indices=(*card.indices, *(
            replace(i, name=new.letter(i.name), lower=new.of(i.lower), upper=new.of(i.upper))
            for i in other.indices if i.name not in shared or i.name not in letters
        )),
        inputs=(*card.inputs, *(
            replace(i, symbol=new.symbol(i.symbol), shape=tuple(map(new.of, i.shape)),
                    low=new.of(i.low), high=new.of(i.high), default=new.of(i.default))
            for i in other.inputs
        )),
        parameters=(*card.parameters, *(
            replace(p, symbol=new.symbol(p.symbol), shape=tuple(map(new.of, p.shape)), value="")
            for p in other.parameters
        )),
        functions=(*card.functions, *(
            new.function(f) for f in other.functions if f.name in new.functions
        )),
        equations=(*card.equations, *(new.equation(e, after) for e in other.equations)),
        derived=(*card.derived, *(new.equation(e, after) for e in other.derived)),
        operators=(*card.operators, *map(new.operator, other.operators)),
    )  # fmt: skip
    return made, new
