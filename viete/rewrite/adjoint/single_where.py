"""The inverse of the double where: removes the inner of two equal conditions, for people."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from viete.analysis.kinds import COMPARISONS, LOGICAL
from viete.analysis.shapes import shapes_of
from viete.analysis.typing_rules import ENTRYWISE
from viete.graph.card import CardData
from viete.graph.evaluator import REDUCTIONS
from viete.library.functions import Function
from viete.notation.substitution import free_names
from viete.notation.tree import Apply, Bind, Expr, Num, Ref, Table, num, rebuilt, walk

BY_ENTRY = ENTRYWISE | COMPARISONS | LOGICAL | {"where"}
OF_ROWS = REDUCTIONS - {"argmax"}  # of a matrix: what is made of each row


@dataclass(frozen=True)
class Side:
    """A side of a `where`, chosen where ``test`` holds, or where it does not.

    A test that is one ``number`` chooses everything under it, a test with one number for each of
    the ``rows`` chooses row by row, another test entry by entry. ``names``: whether definitions are
    put in here; they are not beyond a product of matrices.
    """

    test: Expr
    holds: bool
    number: bool = False
    rows: bool = False
    names: bool = True

    def of(self, e: Expr, other: int | Fraction) -> Expr:
        """``e`` where the side is chosen, another number where it is not."""
        if is_where(e, self.test):
            _, yes, no = e.children
            e, there = (yes, no) if self.holds else (no, yes)
            if isinstance(there, Num) and there.value > 0:  # what a person wrote serves as well
                other = there.value
        sides = (e, num(other)) if self.holds else (num(other), e)
        return Apply("where", (self.test, *sides))


def is_where(e: Expr, test: Expr | None = None) -> bool:
    """Whether a formula is a `where`, with this condition if one is given."""
    return isinstance(e, Apply) and e.op == "where" and test in (None, e.args[0])


def by_entry(
    e: Apply, functions: Mapping[str, Function], also: Collection[str] = frozenset()
) -> bool:
    """Whether an operation makes each entry from the same entry of its operands.

    With `OF_ROWS` ``also``, whether it makes each row from the same row.
    """
    if e.op == "prod":
        return any(a.constant for a in e.args)
    if e.op in functions:
        return all(
            x.constant or by_entry(x, functions, also)
            if isinstance(x, Apply)
            else isinstance(x, Ref | Num)
            for x in walk(functions[e.op].body)
        )
    return e.op in BY_ENTRY or e.op in also or (e.op in ("max", "min") and len(e.args) == 2)


@dataclass(frozen=True)
class Single:
    """Removes the inner one of two equal conditions from formulas of a model.

    ``where(c, a, 0) ⊙ log(where(c, x, 1))`` is ``where(c, a ⊙ log(x), 0)``.
    """

    model: CardData
    conditions: Mapping[Expr, Side]

    @cached_property
    def numbers(self) -> set[Expr]:
        """The conditions that are one number, and so choose everything under them."""
        return {test for test, side in self.conditions.items() if side.number}

    def of(self, e: Expr) -> Expr:
        """A formula with single conditions."""
        if isinstance(e, Apply) and e.op == "where":
            test, yes, no = e.args
            yes, no = self.chosen(yes, test, True), self.chosen(no, test, False)
            e = Apply("where", (test, yes, no))
        else:
            for side in self.masks(e):
                inner = self.chosen(e, side.test, side.holds)
                if count(e, side.test) - count(inner, side.test) > 1:
                    return self.of(side.of(inner, 0))
        return rebuilt(e, [self.of(x) for x in e.children])

    def chosen(self, e: Expr, test: Expr, holds: bool, shaped: bool = False) -> Expr:
        """A formula where a condition is known to hold, or not to hold.

        A number that stands for a matrix is written as a matrix where it must be ``shaped`` so.
        """
        match e:
            case Apply("where", (found, yes, no)) if found == test:
                here, other = (yes, no) if holds else (no, yes)
                if shaped and self.number(here) and not self.number(other):
                    here = self.model.library("spread", here, other)
                return self.chosen(here, test, holds, shaped)
            case Bind() | Table() if e.binders & free_names(test):
                return e
            case Apply(args=(a, shape)) if self.model.library_name(e) == "spread":
                return replace(e, args=(self.chosen(a, test, holds), shape))
        side = self.conditions.get(test)
        also = OF_ROWS if side is not None and side.rows else frozenset[str]()
        whole = test in self.numbers
        if whole or (isinstance(e, Apply) and by_entry(e, self.model.function, also)):
            inner = shaped or not (isinstance(e, Apply) and by_entry(e, self.model.function))
            new = rebuilt(e, [self.chosen(x, test, holds, inner) for x in e.children])
            match new:
                case Apply("had" | "times", (a, b)) if num(1) in (a, b):
                    return b if a == num(1) else a
            return new
        return e

    def number(self, e: Expr) -> bool:
        """Whether the form of a formula shows that it is one number for each choice of letters."""
        match e:
            case Ref():
                found = shapes_of(self.model).types.get(e.key)
                return found is not None and not found.shape
            case Apply():
                return by_entry(e, self.model.function) and all(map(self.number, e.args))
        return isinstance(e, Num)

    def masks(self, e: Expr) -> list[Side]:
        """The conditions by which a product is 0, since a factor is 0."""
        match e:
            case Apply("where", (test, yes, no)) if num(0) in (yes, no):
                return [Side(test, no == num(0))]
            case Apply("had" | "times", (a, b)):
                return self.masks(a) + self.masks(b)
            case Apply("neg" | "div", (a, *_)):
                return self.masks(a)
            case Apply(args=(a, _)) if self.model.library_name(e) == "spread":
                return self.masks(a)
        return []


def count(e: Expr, test: Expr) -> int:
    """The number of times that a condition occurs in a formula."""
    return sum(is_where(x, test) for x in walk(e))


__all__ = ["OF_ROWS", "Side", "Single", "by_entry", "is_where"]
