"""Rows of formulas: ``(x W + b)_j`` as ``x_j W + b``, so that only the needed rows are computed.

A function may need all rows, for example one that rotates each row by its position. The row is then
taken after the function.
"""

from __future__ import annotations

from dataclasses import dataclass

from viete.analysis.linearity import Linearity
from viete.analysis.typing_rules import ENTRYWISE
from viete.graph.evaluator import REDUCTIONS
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    Table,
    num,
    place_from_end,
    rebuilt,
    walk,
)

ROWS_OF = frozenset((*ENTRYWISE, *REDUCTIONS, "where")) - {"argmax"}
ALL = Slice(None, None)


@dataclass(frozen=True)
class Subscript:
    """An index on an axis: ``at``, or ``end`` places from the axis's end."""

    at: Expr | None
    end: int = 0

    def of(self, e: Expr, axis: int) -> Expr:
        """The index as written for a formula."""
        return place_from_end(e, axis, self.end) if self.at is None else self.at


def place(e: Pick, axis: int) -> Subscript:
    """The index of an axis in a pick."""
    end = e.from_end(axis)
    return Subscript(e.items[axis]) if end is None else Subscript(None, end)


class Rows:
    """Rows and entries of a card's formulas, pushed inwards as far as possible."""

    def __init__(self, lines: Linearity) -> None:
        self.lines, self.card = lines, lines.card

    def pushed(self, e: Expr) -> Expr:
        """A formula in which rows and entries are taken of the values in it."""
        e = rebuilt(e, [self.pushed(x) for x in e.children])
        if isinstance(e, Pick) and not isinstance(e.value, Ref):
            return self.picked(e.value, e)
        return e

    def picked(self, value: Expr, e: Pick) -> Expr:
        """A pick of another value with the same items."""
        rank, items = self.lines.rank(value), e.items
        if any(isinstance(x, Slice) and x is not ALL for x in items) or any(
            not isinstance(x, Slice) and self.lines.rank(x) for x in items
        ):
            return Pick(value, items)
        places = [None if x is ALL else place(e, k) for k, x in enumerate(items)]
        if rank == 1:
            return value if places[0] is None else self.entry(value, places[0])
        if places[0] is not None:
            value = self.row(value, places[0])
            return value if len(places) < 2 or places[1] is None else self.entry(value, places[1])
        return value if len(places) < 2 or places[1] is None else self.column(value, places[1])

    def row(self, e: Expr, at: Subscript) -> Expr:
        """One row of a matrix; a value that is repeated along rows is unchanged."""
        if self.lines.rank(e) < 2:
            return e
        match e:
            case Apply(op, args) if op not in self.card.function and op in ROWS_OF:
                return e.over([self.row(x, at) for x in args])
            case Apply("concat", args):
                return e.over([self.row(x, at) for x in args])
            case Apply("prod", (a, b)) if self.lines.rank(a) == 2:
                return Apply("prod", (self.row(a, at), b))
            case Apply("prod", (a, b)):
                return Apply("prod", (a, self.row(b, at)))
            case Apply("T", (a,)):
                return self.column(a, at)
            case Apply(op) if op in self.card.function:
                function = self.card.function[op]
                if not any(a.pattern for a in function.arguments):
                    if self.by_row(function.body):
                        return e.over([self.row(x, at) for x in e.args])
                    return self.row(self.lines.inlined(e), at)
            case Bind("sum" | "mean" | "max" | "concat") if e.ranges is None:
                return e.over([self.row(e.body, at)])
            case Table(((letter, count), second), body):
                index = at.at or Apply("sub", (count, num(at.end)))
                body = self.card.substitute(body, letters={letter: index})
                found = self.vector(body, second[0])
                return Table((second,), body) if found is None else found
            case Pick(value, (Slice(None, stop), *rest)) if not rest and stop is not None:
                index = at.at or Apply("sub", (stop, num(at.end)))
                return Pick(value, (index,))
            case Pick(value, (item,)) if not isinstance(item, Slice):
                return Pick(value, (self.entry(item, at),))
        return Pick(e, (at.of(e, 0),))

    def vector(self, e: Expr, letter: str) -> Expr | None:
        """The vector with these entries, by their letter: ``2 u + v_j`` for ``2 u_k + v_{j,k}``."""
        match e:
            case Pick(value, (*items, Idx(name))) if name == letter and not any(
                letter in x.free for x in (value, *items) if isinstance(x, Expr)
            ):
                return Pick(value, tuple(items)) if items else value
            case Apply(op, args) if op in ENTRYWISE or op in ("where", "prod"):
                along = [letter in x.free for x in args]
                if not any(along) or (op == "where" and along[0]):
                    return None
                parts = [self.vector(x, letter) if a else x
                         for x, a in zip(args, along, strict=True)]  # fmt: skip
                if None in parts:
                    return None
                both = op in ("times", "prod") and all(along)
                return Apply("had" if both else op, tuple(x for x in parts if x is not None))
        return None

    def column(self, e: Expr, at: Subscript) -> Expr:
        """One column of a matrix, as a vector."""
        match e:
            case Apply("T", (a,)):
                return self.row(a, at)
            case Apply("prod", (a, b)) if self.lines.rank(a) == 2 and self.lines.rank(b) == 2:
                return Apply("prod", (a, self.column(b, at)))
        return Pick(e, (ALL, at.of(e, 1)))

    def entry(self, e: Expr, at: Subscript) -> Expr:
        """One entry of a vector; a number is unchanged."""
        if not self.lines.rank(e):
            return e
        if self.lines.shape(e)[0].number() == 1:  # which goes along all the others
            at = Subscript(num(0))
        match e:
            case Apply("prod", (a, b)) if self.lines.rank(a) == 1:
                return Apply("inner", (a, self.column(b, at)))
            case Apply("prod", (a, b)) if self.lines.rank(a) == 2:
                return Apply("inner", (self.row(a, at), b))
            case Apply(op, args) if (
                op in ENTRYWISE and op not in self.card.function
            ) or op == "prod":
                return e.over([self.entry(x, at) for x in args])
            case Apply(op, args) if op in self.card.function and self.by_entry(
                self.card.function[op].body
            ):
                return e.over([self.entry(x, at) for x in args])
            case Pick(value, (item,)) if (
                not isinstance(item, Slice) and self.lines.rank(value) == 2
            ):
                return Pick(value, (item, at.of(value, 1)))
        return Pick(e, (at.of(e, 0),))

    def by_row(self, body: Expr) -> bool:
        """Whether a definition acts on each row separately."""
        return self.made_of(body, ROWS_OF)

    def by_entry(self, body: Expr) -> bool:
        """Whether a definition acts on each entry separately."""
        return self.made_of(body, ENTRYWISE)

    def made_of(self, body: Expr, ops: frozenset[str]) -> bool:
        def fits(x: Expr) -> bool:
            if isinstance(x, Apply) and x.op in self.card.function:
                return self.made_of(self.card.function[x.op].body, ops)
            return isinstance(x, Ref | Num) or (isinstance(x, Apply) and x.op in (
                *ops, "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "pi", "inf",
            ))  # fmt: skip

        return not any(isinstance(x, Table | Bind) for x in walk(body)) and all(
            map(fits, walk(body))
        )
