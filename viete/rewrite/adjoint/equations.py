"""The backward equations as they are derived: their names, shapes and loops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from viete.analysis.shapes import Shapes
from viete.analysis.types import Type
from viete.errors import Text
from viete.graph.card import CardData, Equation, Loop
from viete.notation.printer import show
from viete.notation.substitution import fresh
from viete.notation.tree import Apply, Expr, Idx, Num, Ref, Slot, Symbol, num
from viete.rewrite.adjoint.shares import Context, because
from viete.rewrite.adjoint.single_where import Side, Single
from viete.rewrite.simplify import simplified

BACK = 1000  # the order of a loop that runs back, beyond all that run forward


class BackwardEquations:
    """Writes backward equations of one model; ``out`` holds those written so far.

    ``single`` removes inner conditions of the double where from what people read.
    """

    def __init__(self, card: CardData, single: Single) -> None:
        self.model, self.single = card, single
        self.out: list[Equation] = []
        self.shapes = Shapes(card)  # its own: what is derived is added to them
        self.taken = card.names
        self.letter = {
            "back": card.fresh("G", "J", "D", "Y", "back"),
            "again": card.fresh("F", "H", "R", "Z", "again"),
        }
        self.counts = {"back": 0, "again": 0}
        self.named: dict[tuple[Expr, Loop | None], Ref] = {}
        self.helpers: set[str] = set()  # the keys of G_1, F_1, …
        self.part = ""  # the titled part of the card that we are in
        self.start: int | None = None  # where in ``out`` the loop begins that we are in

    def type(self, e: Expr, c: Context) -> Type:
        return self.shapes.of(e, c.env)

    def fresh(self, c: Context, *used: Expr) -> str:
        letters = (x for e in used for x in (*e.free, *e.binders))
        return fresh(self.taken.union(c.env.ranges, self.model.loop_letters, letters))

    def simple(self, e: Expr, c: Context, kind: str, symbol: Symbol | None = None) -> Expr:
        """``e`` if it is a name or a number, else a new name for it, with an equation."""
        for test, holds in c.sides:  # named as on paper, where the condition stands outside
            plain, other = self.single.chosen(e, test, holds), num(0 if kind == "back" else 1)
            if plain != e and (kind == "again" or Side(test, holds) in self.single.masks(e)):
                plain = self.simple(plain, c, kind, symbol)
                return Apply("where", (test, plain, other) if holds else (test, other, plain))
        core = e.args[0] if isinstance(e, Apply) and e.op in ("neg", "T") else e
        blocks = e.binders & self.model.loop_letters  # which nothing under them may bind again
        if isinstance(core, Ref | Num) or not (blocks or self.type(e, c).shape):
            return e
        loop = c.loop
        if (e, loop) in self.named:
            return self.named[e, loop]
        letters = e.free
        if letters & {b for b, lower, _ in c.binders if lower is not None}:
            return e  # under an index with bounds of its own there is no family to name it in
        slots = [i for i in self.order(letters) if i in letters]
        if symbol is None or symbol.key in self.shapes.types:
            self.counts[kind] += 1
            base = Symbol("value", self.letter[kind], (Slot(str(self.counts[kind])),))
            symbol = replace(base, sup=tuple(Slot(s, True) for s in slots))
            self.helpers.add(symbol.key)
        elif set(symbol.slots) != set(slots):
            return self.simple(e, c, kind)
        ref = symbol.member
        why = because([c.reason]) if kind == "back" else f"a part of {c.reason.equation}"
        self.write(ref, e, loop if loop is not None and loop.index in slots else None, why)
        self.named[e, loop] = ref
        return ref

    def order(self, letters: Iterable[str]) -> list[str]:
        """Block letters first, then heads, in the card's order."""
        loops = [x for x in sorted(letters) if x in self.model.loop_letters]
        return loops + [i.name for i in self.model.indices if i.name in letters]

    def write(self, left: Ref, right: Expr, loop: Loop | None, meaning: str) -> None:
        if loop is not None and not loop.down:
            loop = self.down(loop)
        text = Text(f"{show(left)} = {show(right)}", "<backward>")
        title = f"Backward: {self.part}" if self.part else "Backward"
        equation = Equation(left, right, loop, title, meaning, text=text)
        self.shapes.equation(len(self.model.equations) + len(self.out), equation)
        if loop is None and self.start is not None:  # the same for every block: before the loop
            before = self.out[self.start - 1].part if self.start else title
            self.out.insert(self.start, replace(equation, part=before))
            self.start += 1
        else:
            self.out.append(equation)

    def down(self, loop: Loop) -> Loop:
        return replace(loop, order=BACK + loop.order, down=True)

    def after(self, loop: Loop) -> Loop:
        """A later loop over the same blocks, which runs when all their derivatives are known."""
        return replace(loop, order=2 * BACK + loop.order, down=True)

    def renamed(self, e: Expr, letter: str, new: str) -> Expr:
        """A formula with another index letter."""
        return self.model.substitute(e, letters={letter: Idx(new)})

    def count(self, letter: str, lower: Expr | None, upper: Expr | None) -> Expr:
        lower, upper = self.bounds(letter, lower, upper)
        return simplified(Apply("add", (Apply("sub", (upper, lower)), num(1))))

    def bounds(self, letter: str, lower: Expr | None, upper: Expr | None) -> tuple[Expr, Expr]:
        """The bounds of a sum, or those declared for its letter."""
        if lower is None or upper is None:
            found = next(i for i in self.model.indices if i.name == letter)
            return found.lower, found.upper
        return lower, upper


__all__ = ["BACK", "BackwardEquations"]
