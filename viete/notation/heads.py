"""One letter for the heads of grouped queries: ``A^{i,h}`` is ``A^{i,g,r}`` with h = (g - 1) R + r.

In a tree, h is the two indices ⌈h / R⌉ and (h - 1) mod R + 1, so code that reads trees needs no
special case; the printer writes the two as one again. Keys and values are shared by a group:
``K^{i,h}`` is the key that head h reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from viete.notation.lexer import unprimed
from viete.notation.tree import Apply, Expr, Num, Slot, Symbol, num


@dataclass(frozen=True)
class Heads:
    """One ``letter`` for the heads of all groups: a ``group``, and one of its ``each`` ``member``s.

    ``families`` are the symbols that have both letters.
    """

    letter: str
    group: str
    member: str
    each: Expr
    families: tuple[Symbol, ...]

    @cached_property
    def names(self) -> Mapping[Symbol, Symbol]:
        """The families with a group and a member, by their names with one letter of heads."""
        return {
            Symbol(s.kind, s.base, self.joined(s.sub), self.joined(s.sup)): s for s in self.families
        }

    @cached_property
    def symbols(self) -> dict[str, list[Symbol]]:
        """These names by their base letters."""
        out: dict[str, list[Symbol]] = {}
        for s in self.names:
            out.setdefault(s.base, []).append(s)
        return out

    def joined(self, slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        """The scripts of a name, with one letter of heads for group and member."""
        put = Slot(self.letter, True)
        kept = (put if s == Slot(self.group, True) else s for s in slots)
        both = Slot(self.member, True) in slots
        return tuple(s for s in kept if s != Slot(self.member, True)) if both else slots

    def shared(self, symbol: Symbol) -> bool:
        """Whether the heads of a group have a symbol in common: it has their group alone."""
        return self.group in symbol.slots and self.member not in symbol.slots

    def counted_by(self, e: Expr) -> bool:
        """Whether an index counts heads: it contains h or h'."""
        return any(unprimed(letter)[0] == self.letter for letter in e.free)


def group_of(head: Expr, each: Expr) -> Apply:
    """The group of a head: ``⌈h / R⌉``."""
    up = Apply("neg", (Apply("div", (head, each)),))
    return Apply("neg", (Apply("floor", (up,)),))


def place_of(head: Expr, each: Expr) -> Apply:
    """The place of a head in its group: ``(h - 1) mod R + 1``."""
    before = Apply("sub", (head, num(1)))
    return Apply("add", (Apply("mod", (before, each)), num(1)))


def head_of(group: Expr) -> tuple[Expr, Expr] | None:
    """The head h of ``⌈h / R⌉`` and R; None for any other formula."""
    match group:
        case Apply("neg", (Apply("floor", (Apply("neg", (Apply("div", (head, each)),)),)),)):
            return head, each
    return None


def joint(group: Expr, place: Expr) -> Expr | None:
    """The head with this group and this place in the group."""
    match place:
        case Apply("add", (Apply("mod", (Apply("sub", (head, Num(one))), each)), Num(other))):
            if one == other == 1 and group == group_of(head, each):
                return head
    return None


__all__ = ["Heads", "group_of", "head_of", "joint", "place_of"]
