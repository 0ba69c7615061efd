"""Evaluates a statement on one run: the values of its letters for which it is false.

A statement about a matrix is about all its entries. Rounding must not decide. So ``=``, ``≤`` and
``≥`` hold up to `TOLERANCE` times the largest sum of absolute values of the terms on either side;
``<``, ``>`` and ``≠`` need a difference larger than the entry's own tolerance; ``≈`` uses the
tolerance that it states. NaN (0/0) equals nothing, and −∞ equals −∞.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from viete.analysis.kinds import COMPARISONS
from viete.evaluate.array import Arrays
from viete.evaluate.labelled import COL, ROW, Array, Value, expand
from viete.graph.evaluator import Env, Letter
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, Table, sides_near

CASE = "case"  # the axis of chosen values of letters
TOLERANCE = 1e-9  # of float64: some million roundings

LINEAR = frozenset("add neg prod had times T sum mean concat".split())


@dataclass(frozen=True)
class Witness:
    """A comparison at one place: its two numbers, and the place by axis.

    Letters have the card's numbers; rows and columns count from 0. ``tolerance`` is the allowed
    difference of the numbers.
    """

    comparison: str
    left: float
    right: float
    tolerance: float
    where: Mapping[str, int]
    equates: bool = True  # whether its numbers are to be near
    fails: bool = False

    @property
    def difference(self) -> float:
        """``|left − right|``; 0 for two equal infinities."""
        return 0.0 if self.left == self.right else abs(self.left - self.right)

    @property
    def excess(self) -> float:
        """The distance by which the comparison fails; negative where it holds."""
        if np.isnan(self.difference):
            return np.inf
        return self.difference if self.equates or self.fails else -self.difference


@dataclass(frozen=True)
class Truth:
    """Entry by entry, over labelled axes: where a statement holds, and where it fails.

    It does neither where a number is missing.
    """

    axes: tuple[str, ...]
    holds: Array
    fails: Array


@dataclass(frozen=True)
class Comparison:
    """A comparison such as ``left ≤ right``: its truth, its numbers and their tolerance."""

    said: str
    truth: Truth
    left: Array
    right: Array
    tolerance: Array
    equates: bool  # whether it holds of numbers that are near

    def numbers(self, axes: tuple[str, ...]) -> list[Array]:
        """Left, right and tolerance over more axes."""
        sides = ((x, self.truth.axes) for x in (self.left, self.right, self.tolerance))
        return broadcast(axes, *sides)


@dataclass
class StatementOnRun:
    """One statement for given values of its letters."""

    arrays: Arrays
    env: Env
    write: Callable[[Expr, str], str] = show
    exact: bool = False  # comparisons are decided, and nothing is rounded
    comparisons: list[Comparison] = field(default_factory=list)

    def truth(self, e: Expr) -> Truth:
        """Where a statement holds."""
        match e:
            case Apply("and", (a, b)):
                axes, (x, x_not), (y, y_not) = on_common_axes(self.truth(a), self.truth(b))
                return Truth(axes, x & y, x_not | y_not)
            case Apply("or", (a, b)):
                axes, (x, x_not), (y, y_not) = on_common_axes(self.truth(a), self.truth(b))
                return Truth(axes, x | y, x_not & y_not)
            case Apply("not", (a,)):
                whole = self.truth(a)
                return Truth(whole.axes, whole.fails, whole.holds)
            case Apply("where", (test, a, b)):
                parts = self.truth(test), self.truth(a), self.truth(b)
                axes, (c, c_not), (x, x_not), (y, y_not) = on_common_axes(*parts)
                return Truth(axes, (c & x) | (c_not & y), (c & x_not) | (c_not & y_not))
            case Apply(op, (a, b)) if op in COMPARISONS:
                return self.comparison(e, op, a, b)
        found = self.arrays.of(e, self.env)
        holds = np.asarray(self.arrays.lift(found), bool)
        return Truth(found.axes, holds, ~holds)

    def comparison(self, e: Expr, op: str, a: Expr, b: Expr) -> Truth:
        """Compare two numbers of each entry, with the tolerance that they have there."""
        if self.exact:
            return self.decided(e, a, b)
        near, given = sides_near(e), None
        if near is not None:
            op, (a, b, _), given = "eq", near, b
        axes, left, right, *sizes = self.numbers(a, b, terms(a), terms(b))
        size = np.maximum(*sizes)
        if op in ("eq", "le", "ge"):
            seen = size[np.isfinite(size)]
            size = np.full(size.shape, seen.max() if seen.size else 0.0)
        tolerance = TOLERANCE * np.where(np.isfinite(size), size, 0.0)
        if given is not None:
            axes, left, right, tolerance = self.numbers(a, b, given)
        same = (left == right) & (tolerance >= 0) | (np.abs(left - right) <= tolerance)
        holds = {
            "eq": same, "le": same | (left < right), "ge": same | (left > right),
            "ne": ~same, "lt": ~same & (left < right), "gt": ~same & (left > right),
        }[op]  # fmt: skip
        known = ~(np.isnan(left) | np.isnan(right))
        truth = Truth(axes, holds & known, ~holds & known)
        self.comparisons.append(
            Comparison(self.write(e, "unicode"), truth, left, right, tolerance, op == "eq")
        )
        return truth

    def decided(self, e: Expr, a: Expr, b: Expr) -> Truth:
        """Compare two exact numbers of each entry."""
        found = self.arrays.of(e, self.env)
        axes, left, right = self.numbers(a, b)
        axes = labels(found.axes, axes)
        pairs = ((np.asarray(self.arrays.lift(found), bool), found.axes),
                 *((x, labels(*(self.arrays.of(y, self.env).axes for y in (a, b))))
                   for x in (left, right)))  # fmt: skip
        holds, left, right = broadcast(axes, *pairs)
        truth = Truth(axes, holds, ~holds)
        self.comparisons.append(
            Comparison(self.write(e, "unicode"), truth, left, right, np.zeros(holds.shape),
                       isinstance(e, Apply) and e.op == "eq")
        )  # fmt: skip
        return truth

    def numbers(self, *formulas: Expr) -> tuple[Any, ...]:
        """The common axes of some formulas, and their values over these, in float64."""
        found = [self.arrays.of(x, self.env) for x in formulas]
        axes = labels(*(v.axes for v in found))
        wide = ((np.asarray(self.arrays.lift(v), np.float64), v.axes) for v in found)
        return axes, *broadcast(axes, *wide)

    def failure(self, e: Expr) -> Witness | None:
        """The place where the statement is false, by the comparison that differs most there."""
        whole = self.truth(e)
        if whole.holds.all():
            return None
        found: list[tuple[float, Witness]] = []
        for c in self.comparisons:
            axes = labels(whole.axes, c.truth.axes)
            sides = (whole.holds, whole.axes), (c.truth.holds, c.truth.axes)
            holds, here = broadcast(axes, *sides)
            apart = np.where(holds, -1.0, np.where(here, 0.0, gap(*c.numbers(axes)[:2])))
            apart = np.broadcast_to(apart, holds.shape)
            found.append((float(apart.max()), self.witness(c, axes, apart, True)))
        if not found:
            at = np.unravel_index(int(whole.holds.argmin()), whole.holds.shape)
            return Witness(
                self.write(e, "unicode"), 0.0, 1.0, 0.0, self.place(whole.axes, at), fails=True
            )
        return max(found, key=lambda f: f[0])[1]

    def closest(self) -> Witness | None:
        """The place where a true statement, if it is one comparison, comes nearest to failing."""
        if len(self.comparisons) != 1:
            return None
        (c,) = self.comparisons
        left, right, _ = c.numbers(c.truth.axes)
        apart = gap(left, right)
        if not apart.size:  # of values without rows
            return None
        return self.witness(c, c.truth.axes, apart if c.equates else -apart)

    def witness(
        self, c: Comparison, axes: tuple[str, ...], blame: Array, fails: bool = False
    ) -> Witness:  # fmt: skip
        """The comparison at the place where ``blame`` is greatest."""
        at = np.unravel_index(int(blame.argmax()), blame.shape)
        a, b, allowed = (float(np.broadcast_to(x, blame.shape)[at]) for x in c.numbers(axes))
        return Witness(c.said, a, b, allowed, self.place(axes, at), c.equates, fails)

    def place(self, axes: tuple[str, ...], at: Sequence[Any]) -> dict[str, int]:
        """A place by its letters, with the card's numbers."""
        out: dict[str, int] = {}
        for label, k in zip(axes, at, strict=True):
            if label == CASE:
                out |= {x: int(v.array[k]) for x, v in self.env.index.items()
                        if isinstance(v, Value)}  # fmt: skip
            else:
                out[label] = int(k) + self.first(label)
        return out

    def first(self, label: str) -> int:
        """The first value of an axis's letter."""
        meanings = [x for x in self.env.index.values() if isinstance(x, Letter)]
        return next((x.first for x in meanings if x.label == label), 0)


def gap(left: Array, right: Array) -> Array:
    """The distance of numbers; infinite where one is not a number."""
    apart = np.where(left == right, 0.0, np.abs(left - right))
    return np.where(np.isnan(apart), np.inf, apart)


def terms(e: Expr) -> Expr:
    """A formula with the absolute value of each of its terms, added up."""
    match e:
        case Apply("sub", args):
            return Apply("add", tuple(map(terms, args)))
        case Apply("neg", (a,)):
            return terms(a)
        case Apply("div", (a, b)):
            return Apply("div", (terms(a), Apply("abs", (b,))))
        case Apply("where", (test, a, b)):
            return Apply("where", (test, terms(a), terms(b)))
        case Apply(op, args) if op in LINEAR:
            return replace(e, args=tuple(map(terms, args)))
        case Bind() | Table():
            return replace(e, body=terms(e.body))
        case Pick(value) if not isinstance(value, Ref):
            return replace(e, value=terms(e.value))
    return Apply("abs", (e,))


def broadcast(axes: tuple[str, ...], *arrays: tuple[Array, tuple[str, ...]]) -> list[Array]:
    """Arrays, each with its labels, over common axes."""
    return list(np.broadcast_arrays(*(expand(np, x, have, axes) for x, have in arrays)))


def on_common_axes(*truths: Truth) -> tuple[Any, ...]:
    """The common axes of some statements, and where each holds and fails over these."""
    axes = labels(*(t.axes for t in truths))
    return axes, *(broadcast(axes, (t.holds, t.axes), (t.fails, t.axes)) for t in truths)


def labels(*axes: tuple[str, ...]) -> tuple[str, ...]:
    """All labels, rows and columns last."""
    seen = dict.fromkeys(a for group in axes for a in group)
    return (*(a for a in seen if a not in (ROW, COL)), *(a for a in (ROW, COL) if a in seen))


__all__ = ["CASE", "TOLERANCE", "StatementOnRun", "Witness"]
