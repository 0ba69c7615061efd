"""Pattern matching: what the letters of a formula stand for in another, binders included.

A pattern is a formula whose symbols of the kind 'argument' stand for anything. It fits up to the
letters of binders (alpha-equivalence), and up to the names of functions with one definition.
Without such symbols it fits what means the same: two formulas are then alpha-equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viete.library.functions import Function, is_argument, with_defaults
from viete.notation.tree import Apply, Expr, Idx

Levels = Mapping[str, int]  # of the letters that are bound around a place, by their binder


def match(
    pattern: Expr, e: Expr, functions: Mapping[str, Function] | None = None
) -> dict[str, Expr] | None:
    """What the letters of a pattern stand for in ``e``; None where it does not fit.

    A letter that occurs twice stands for equal formulas, and none for one that has a bound letter
    of ``e`` in it, which would mean nothing outside.
    """
    named = functions or {}
    found: dict[str, Expr] = {}

    def fit(p: Expr, x: Expr, one: Levels, two: Levels) -> bool:
        if is_argument(p):
            return two.keys().isdisjoint(x.free) and found.setdefault(p.key, x) == x
        if isinstance(p, Idx) and isinstance(x, Idx) and (p.name in one or x.name in two):
            return one.get(p.name) == two.get(x.name)
        if isinstance(p, Apply) and isinstance(x, Apply):
            return one_function(p.op, x.op, named) and fit_all(
                with_defaults(p, named), with_defaults(x, named), one, two
            )
        if type(p) is not type(x) or p.head != x.head:
            return False
        if not p.bound:
            return fit_all(p.children, x.children, one, two)
        level = len(one) + len(two)
        own, other = ({s: level + k for k, s in enumerate(y.bound)} for y in (p, x))
        return fit_all(p.children[:-1], x.children[:-1], one, two) and fit(
            p.children[-1], x.children[-1], {**one, **own}, {**two, **other}
        )

    def fit_all(ps: Sequence[Expr], xs: Sequence[Expr], one: Levels, two: Levels) -> bool:
        return len(ps) == len(xs) and all(fit(p, x, one, two) for p, x in zip(ps, xs, strict=True))

    return found if fit(pattern, e, {}, {}) else None


def one_function(a: str, b: str, functions: Mapping[str, Function]) -> bool:
    """Whether two names are of one operation: the same, or two functions of one definition."""
    if a == b or a not in functions or b not in functions:
        return a == b
    f, g = functions[a], functions[b]
    return (f.arguments, f.body) == (g.arguments, g.body)
