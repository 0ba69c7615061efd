"""Pattern matching and its inverse, instantiation of a pattern's letters.

A pattern is a formula whose symbols of the kind 'argument' match anything. It matches up to the
letters of binders (alpha-equivalence), and up to the names of functions with the same definition. A
pattern without such symbols matches exactly the alpha-equal formulas.

In ``sum_k f^k``, the letter f matches what is summed, a formula in which k may occur, and the sum
matches one over any range. Instantiation restores that range where ``sum_k`` occurs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from viete.library.functions import Function, is_argument, with_defaults
from viete.notation.substitution import Abstraction, Put, Ranges, substitute
from viete.notation.tree import Apply, Bind, Expr, Idx, transform, walk

Levels = Mapping[str, int]  # of the letters that are bound around a place, by their binder
Admits = Mapping[str, Callable[[Put], bool]]  # what a letter of a pattern may stand for


@dataclass(frozen=True)
class Match:
    """What the letters of a pattern match, and the letters that the pattern's binders match.

    ``bound`` has the letter in the formula, and of a sum over any range that sum.
    """

    letters: dict[str, Put] = field(default_factory=dict)
    bound: dict[str, tuple[str, Bind | None]] = field(default_factory=dict)

    @property
    def formulas(self) -> dict[str, Expr]:
        """The formulas that the letters stand for; for a family, the formula over its letters."""
        return {k: x.body if isinstance(x, Abstraction) else x for k, x in self.letters.items()}


def match(
    pattern: Expr, e: Expr, functions: Mapping[str, Function] | None = None,
    admits: Admits | None = None,
) -> Match | None:  # fmt: skip
    """The formulas that the letters of a pattern match in ``e``; None if it does not match.

    A letter that occurs twice stands for equal formulas, and none for one that has a bound letter
    of ``e`` in it, which would mean nothing outside; but ``f^k`` below a binder of k for a formula
    of that letter, an `Abstraction`. ``admits`` tests what some letters stand for.
    """
    named, tests, found = functions or {}, admits or {}, Match()

    def stands(key: str, x: Put) -> bool:
        return (key not in tests or tests[key](x)) and found.letters.setdefault(key, x) == x

    def fit(p: Expr, x: Expr, one: Levels, two: Levels) -> bool:
        if is_argument(p):
            if not p.index:
                return two.keys().isdisjoint(x.free) and stands(p.key, x)
            levels = {level: letter for letter, level in two.items()}
            own = tuple(levels[one[i.name]] for i in p.index if isinstance(i, Idx))
            return two.keys() & x.free <= {*own} and stands(p.key, Abstraction(own, x))
        if isinstance(p, Idx) and isinstance(x, Idx) and (p.name in one or x.name in two):
            return one.get(p.name) == two.get(x.name)
        if isinstance(p, Apply) and isinstance(x, Apply):
            return one_function(p.op, x.op, named) and fit_all(
                with_defaults(p, named), with_defaults(x, named), one, two
            )
        if type(p) is not type(x):
            return False
        loose = isinstance(p, Bind) and any_range(p)
        if loose:
            assert isinstance(p, Bind) and isinstance(x, Bind)
            same = found.bound.get(p.index, ("", None))[1] or x
            if p.op != x.op or x.ranges != same.ranges:
                return False
            if x.ranges is None and x.index != same.index:
                return False
        elif p.head != x.head:
            return False
        if not p.bound:
            return fit_all(p.children, x.children, one, two)
        for s, t in zip(p.bound, x.bound, strict=True):
            found.bound.setdefault(s, (t, x if loose and isinstance(x, Bind) else None))
        level = len(one) + len(two)
        ins, outs = ({s: level + k for k, s in enumerate(y.bound)} for y in (p, x))
        ranges = loose or fit_all(p.children[:-1], x.children[:-1], one, two)
        return ranges and fit(p.children[-1], x.children[-1], {**one, **ins}, {**two, **outs})

    def fit_all(ps: Sequence[Expr], xs: Sequence[Expr], one: Levels, two: Levels) -> bool:
        return len(ps) == len(xs) and all(fit(p, x, one, two) for p, x in zip(ps, xs, strict=True))

    return found if fit(pattern, e, {}, {}) else None


def put(
    formula: Expr, found: Match, around: Collection[str] = (), taken: Collection[str] = (),
    ranges: Ranges | None = None,
) -> Expr:  # fmt: skip
    """A formula over a pattern's letters, with the matched formulas put in; see `substitute`."""

    def bound(x: Expr) -> Expr | None:
        """A binder with the letter and range that it has in the matched formula."""
        if found.bound.keys().isdisjoint(x.bound):
            return None
        *sizes, body = x.children
        own = tuple(found.bound.get(s, (s, None))[0] for s in x.bound)
        body = substitute(body, letters=dict(zip(x.bound, map(Idx, own), strict=True)))
        of = found.bound.get(x.bound[0], ("", None))[1]
        if isinstance(x, Bind) and x.ranges is None and of is not None:
            return Bind(x.op, own[0], of.lower, of.upper, body)
        return x.over([*sizes, body], own)

    if found.bound:
        formula = transform(formula, bound)
    letters = {s: Idx(t) for s, (t, _) in found.bound.items()}
    return substitute(formula, letters=letters, arguments=found.letters, around=around,
                      taken=taken, ranges=ranges)  # fmt: skip


def any_range(p: Bind) -> bool:
    """Whether a binder of a pattern matches any range, as in ``sum_k f^k``."""
    own = Idx(p.index)
    return p.ranges is None and any(is_argument(x) and own in x.index for x in walk(p.body))


def one_function(a: str, b: str, functions: Mapping[str, Function]) -> bool:
    """Whether two names mean one operation: equal names, or functions with one definition."""
    if a == b or a not in functions or b not in functions:
        return a == b
    f, g = functions[a], functions[b]
    return (f.arguments, f.body) == (g.arguments, g.body)
