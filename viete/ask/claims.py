"""Claims of a card, evaluated on one run: statements in, what is false and where out.

A claim says something of every block, head and position: of all values of its free index letters,
and of all entries of a matrix. Rounding must not decide. So ``=``, ``≤`` and ``≥`` hold to
`TOLERANCE` times the largest sum of terms, each without its sign, that either side adds up; ``<``,
``>`` and ``≠`` need a difference larger than that of the entry itself. What is no number (0/0)
is never equal to anything, and −∞ is equal to −∞.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from viete.analysis.kinds import COMPARISONS
from viete.errors import VieteError
from viete.evaluate.array import Arrays
from viete.evaluate.labelled import COL, ROW, Array, expand
from viete.evaluate.run import Run
from viete.graph.card import Claim
from viete.graph.evaluator import Env, Letter
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, Table

TOLERANCE = 1e-9  # of float64: some million roundings

LINEAR = frozenset("add neg prod had times T sum mean concat".split())


@dataclass(frozen=True)
class Failure:
    """Where a claim is false: the comparison, its two numbers, and the place by axis.

    Letters count as the card has them, rows and columns from 0. ``tolerance`` is what the numbers
    were allowed to differ by.
    """

    comparison: str
    left: float
    right: float
    tolerance: float
    where: Mapping[str, int]

    @property
    def difference(self) -> float:
        """``|left − right|``."""
        return abs(self.left - self.right)


@dataclass(frozen=True)
class Truth:
    """Entry by entry, over labelled axes: where a statement holds, and where it fails.

    Neither is the case where a number is missing.
    """

    axes: tuple[str, ...]
    holds: Array
    fails: Array


@dataclass(frozen=True)
class Comparison:
    """``left ≤ right`` and the like: its truth, its numbers and what they may differ by."""

    said: str
    truth: Truth
    left: Array
    right: Array
    tolerance: Array


@dataclass
class ClaimInstance:
    """One claim for one value of its block letters."""

    arrays: Arrays
    env: Env
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
        """Two numbers of each entry, compared to the tolerance that they have there."""
        found = [self.arrays.of(x, self.env) for x in (a, b, terms(a), terms(b))]
        axes = labels(*(v.axes for v in found))
        wide = ((np.asarray(self.arrays.lift(v), np.float64), v.axes) for v in found)
        left, right, *sizes = broadcast(axes, *wide)
        size = np.maximum(*sizes)
        if op in ("eq", "le", "ge"):
            seen = size[np.isfinite(size)]
            size = np.full(size.shape, seen.max() if seen.size else 0.0)
        tolerance = TOLERANCE * np.where(np.isfinite(size), size, 0.0)
        same = (left == right) | (np.abs(left - right) <= tolerance)
        holds = {
            "eq": same, "le": same | (left < right), "ge": same | (left > right),
            "ne": ~same, "lt": ~same & (left < right), "gt": ~same & (left > right),
        }[op]  # fmt: skip
        numbers = ~(np.isnan(left) | np.isnan(right))
        truth = Truth(axes, holds & numbers, ~holds & numbers)
        self.comparisons.append(Comparison(show(e), truth, left, right, tolerance))
        return truth

    def failure(self, e: Expr) -> Failure | None:
        """Where the statement is false, by the comparison that differs most there."""
        whole = self.truth(e)
        if whole.holds.all():
            return None
        found: list[tuple[float, Failure]] = []
        for c in self.comparisons:
            axes = labels(whole.axes, c.truth.axes)
            holds, here, left, right, tolerance = broadcast(
                axes, (whole.holds, whole.axes),
                *((x, c.truth.axes) for x in (c.truth.holds, c.left, c.right, c.tolerance)),
            )  # fmt: skip
            apart = np.abs(left - right)
            apart = np.where(np.isnan(apart), np.inf, apart)
            blame = np.where(holds, -1.0, np.where(here, 0.0, apart))
            at = np.unravel_index(int(blame.argmax()), blame.shape)
            place = {s: int(k) + self.first(s) for s, k in zip(axes, at, strict=True)}
            a, b, allowed = (float(x[at]) for x in (left, right, tolerance))
            found.append((float(blame[at]), Failure(c.said, a, b, allowed, place)))
        return max(found, key=lambda f: f[0])[1]

    def first(self, label: str) -> int:
        """The first value of an axis's letter."""
        meanings = [x for x in self.env.index.values() if isinstance(x, tuple) and x[0] == label]
        return meanings[0][1] if meanings else 0


def failure(run: Run, claim: Claim) -> Failure | None:
    """Where a claim is false of a run, or None where it holds.

    Raises VieteError, with the claim's place in the card, for a value that the run does not have.
    """
    worst: Failure | None = None
    for loops, env in instances(run, claim):
        try:
            with np.errstate(all="ignore"):
                found = ClaimInstance(run.arrays, env).failure(claim.statement)
        except VieteError as error:
            raise claim.text.error(error.message) from None
        if found is not None and (worst is None or excess(found) > excess(worst)):
            worst = replace(found, where={**loops, **found.where})
    return worst


def instances(run: Run, claim: Claim) -> Iterator[tuple[dict[str, int], Env]]:
    """Every value of a claim's block letters, with the meanings of all its letters."""
    model, env = run.program.model, run.arrays.env
    _, places = run.program.shapes.claimed(claim)
    own = {
        letter: Letter(letter, letter, *(int(x.evaluate(run.sizes)) for x in (first, count)))
        for letter, (first, count) in places.items()
    }
    letters = sorted(claim.statement.free & model.loop_letters)
    for values in product(*(run.program.range_of(s) for s in letters)):
        loops = dict(zip(letters, values, strict=True))
        yield loops, replace(env, index={**env.index, **own, **loops})


def excess(f: Failure) -> float:
    return np.inf if np.isnan(f.difference) else f.difference


def terms(e: Expr) -> Expr:
    """What the terms of a formula would add up to if none had a sign."""
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
    """The axes that statements have together, and where each holds and fails over those."""
    axes = labels(*(t.axes for t in truths))
    return axes, *(broadcast(axes, (t.holds, t.axes), (t.fails, t.axes)) for t in truths)


def labels(*axes: tuple[str, ...]) -> tuple[str, ...]:
    """All labels, rows and columns last."""
    seen = dict.fromkeys(a for group in axes for a in group)
    return (*(a for a in seen if a not in (ROW, COL)), *(a for a in (ROW, COL) if a in seen))


__all__ = ["TOLERANCE", "Failure", "failure"]
