"""Roles of values beside attention and the MLP: positions, experts, row counts, pooling.

They follow from how a value is used: as an index, as a divisor, or as a weight. `roles` holds the
other roles.
"""

from __future__ import annotations

from collections.abc import Iterator

from viete.analysis.def_use import DefUse, references
from viete.analysis.traits import counts_rows
from viete.graph.card import CardData
from viete.graph.dependence import reachable
from viete.graph.sizes import Size
from viete.notation.tree import Apply, Bind, Expr, Num, Pick, Ref, walk

PLACES, COUNTED = "places", "counted"  # numbers of positions, and what they count
PAIRS = "pairs"  # what two places add to their score
ROUTE, SHARE = "route", "share"  # how much each expert counts; weights made to sum to 1
SIZE = "size"  # what rows are divided by
POOL = "pool"  # one position for the whole text


class SideRoles:
    """Finds side roles of one card's equations, given other roles and the lengths of texts."""

    def __init__(self, card: CardData, uses: DefUse, lengths: list[Size]) -> None:
        self.card, self.uses, self.lengths = card, uses, lengths

    def places(self) -> Iterator[tuple[int, set[int]]]:
        """Equations that look up rows of a parameter by computed places, and the places' makers."""
        for k, e in enumerate(self.card.equations):
            bound = {ref: letters for ref, letters in references(e.right)}
            for x in walk(e.right):
                if isinstance(x, Pick) and isinstance(x.value, Ref) and (
                    x.value.symbol.kind == "parameter" and isinstance(x.items[0], Ref)
                ):  # fmt: skip
                    makers = self.uses.definitions.of(
                        k, x.items[0], bound.get(x.items[0], frozenset())
                    )
                    if found := {j for j, _ in makers if self.counts_positions(j)}:
                        yield k, found

    def counts_positions(self, k: int) -> bool:
        """Whether a value has one entry for each position."""
        shape = self.uses.shapes.types[self.card.equations[k].name].shape
        return len(shape) == 1 and shape[0] in self.lengths

    def adds_by_places(self, k: int) -> bool:
        """Whether entries depend on the numbers of their places, and on no input."""
        shape = self.uses.shapes.types[self.card.equations[k].name].shape
        over_pairs = len(shape) == 2 and all(s in self.lengths for s in shape)
        return over_pairs and not self.uses.inputs_of(k) and counts_rows(
            self.card.equations[k].right
        )  # fmt: skip

    def weighs(self, k: int, own: list[list[str]], mlp: set[str]) -> frozenset[int]:
        """The equations between a value and the MLP that reads it; empty if none does."""

        def on(j: int) -> list[int]:
            return [r for r in self.uses.readers[j] if not own[r]]

        between = frozenset(reachable([k], on))
        return between if any(mlp & {*own[r]} for j in between for r in self.uses.readers[j]) else (
            frozenset())  # fmt: skip

    def divides(self, k: int) -> bool:
        """Whether an equation is the root of a mean, and rows are divided by its value."""
        e = self.card.equations[k]
        if not (isinstance(e.right, Apply) and e.right.op == "sqrt" and any(
            isinstance(x, Apply | Bind) and x.op == "mean" for x in walk(e.right))):  # fmt: skip
            return False
        return any(
            isinstance(x, Apply) and x.op == "div" and e.name in x.args[1].keys
            for r in self.uses.readers[k] for x in walk(self.card.equations[r].right)
        )  # fmt: skip

    def pools(self, k: int) -> bool:
        """Whether an equation reads one position by its number, and its value has no positions."""
        e = self.card.equations[k]
        if any(s in self.lengths for s in self.uses.shapes.types[e.name].shape):
            return False
        return any(isinstance(x, Pick) and isinstance(x.items[0], Num) and self.over_positions(x)
                   for x in walk(e.right))  # fmt: skip

    def over_positions(self, e: Pick) -> bool:
        found = self.uses.by_name.get(e.value.key, []) if isinstance(e.value, Ref) else []
        shapes = (self.uses.shapes.types[self.card.equations[k].name].shape for k in found)
        return any(shape and shape[0] in self.lengths for shape in shapes)


def by_own_sum(e: Expr) -> bool:
    """Whether a value is divided by its sum."""
    return isinstance(e, Apply) and e.op == "div" and (
        e.args[1] == Apply("sum", (e.args[0],))
    )  # fmt: skip


__all__ = ["COUNTED", "PAIRS", "PLACES", "POOL", "ROUTE", "SHARE", "SIZE", "SideRoles"]
