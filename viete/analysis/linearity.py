"""Linearity: the parts of a formula in which it is linear, and the terms into which it splits.

A formula is read as a sum of terms. Each term is a linear `context` with one place (`HOLE`) for a
`focus`: a computed value, a constant, or a part that is not linear in any value. A context is one
formula, so the term is the context with the focus put in.

A product of two factors that both depend on values is not linear. Two kinds of factor are then held
fixed: the weights of a sum over positions (an attention pattern), and the root by which a norm
divides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from viete.analysis.dependent import HOLE, Dependent, holds
from viete.graph.card import CardData, memoised
from viete.library.functions import is_argument
from viete.notation.substitution import fresh
from viete.notation.tree import (
    MEASURES,
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Table,
    num,
    place_from_end,
    replaced,
)

ATOM, CONSTANT, UNOPENED, PAIR = "term", "constant", "unopened", "pair"
PATTERN, SCALE = "A", "scale"  # what is held
HELD = frozenset((PATTERN, SCALE))
# The arguments in which an operation is linear; in several of them it is so one at a time.
LINEAR: Mapping[str, tuple[int, ...]] = {
    "neg": (0,), "T": (0,), "sum": (0,), "mean": (0,), "div": (0,),
    "prod": (0, 1), "had": (0, 1), "times": (0, 1), "inner": (0, 1),
}  # fmt: skip
PRODUCTS = frozenset(("prod", "had", "times", "inner"))
FOLDS = frozenset(("sum", "mean", "concat"))  # over a letter


@dataclass(frozen=True)
class Summand:
    """One term of a formula: ``context`` with ``focus`` at its place."""

    focus: Expr
    context: Expr = HOLE
    kind: str = ATOM

    @property
    def whole(self) -> Expr:
        """The term."""
        return filled(self.context, self.focus)

    def within(self, around: Callable[[Expr], Expr]) -> Summand:
        """This term under one more linear operation; a constant stays one."""
        if self.kind == CONSTANT:
            return replace(self, focus=around(self.focus))
        return replace(self, context=around(self.context))


def filled(context: Expr, focus: Expr) -> Expr:
    """A context with a formula at its place."""
    return focus if context is HOLE else replaced(context, {HOLE: focus})


def through(context: Expr) -> Iterator[Expr]:
    """The operations around the place of a context, from the outermost in."""
    while context is not HOLE:
        yield context
        context = next(x for x in context.children if holds(x))


class Linearity(Dependent):
    """Splits formulas of one card into terms.

    ``held`` are the kinds of factors that are held. ``lengths`` are the lengths of texts, where the
    card has numbers for them.
    """

    def __init__(
        self, card: CardData, held: Collection[str] = HELD, lengths: Collection[str] = ()
    ) -> None:
        super().__init__(card, lengths)
        self.held = frozenset(held)
        self.degrees: dict[tuple[Expr, str], int | None] = {}
        self.found: dict[Expr, list[Summand]] = {}

    # -- the terms ---------------------------------------------------------------------------------

    def parts(self, e: Expr) -> list[Summand]:
        """The terms of a formula, in reading order; they add up to the formula."""
        if e not in self.found:
            self.found[e] = self.split(e)
        return self.found[e]

    def split(self, e: Expr) -> list[Summand]:
        if not self.depends(e) and not self.sums_given(e):
            return [Summand(e, kind=CONSTANT)]
        if self.is_value(e):
            return [Summand(e)]
        match e:
            case Apply("add", (a, b)):
                return [*self.level(a, e), *self.level(b, e)]
            case Apply("sub", (a, Apply("mean", (b,)))) if a == b:
                return self.parts(self.card.library("centred", a))
            case Apply("sub", (a, b)):
                return [*self.level(a, e), *(p.within(negative) for p in self.level(b, e))]
            case Apply("where", (test, *_)) if not self.depends(test):
                return self.jointly(e, 1)
            case Apply("concat"):
                return self.jointly(e, 0)
            case Apply(op) if op in LINEAR and op not in self.card.function:
                return self.product(e)
            case Apply(op) if op in self.card.function:
                return self.call(e)
            case Pick(value, items) if not any(map(self.depends, items)):
                return [p.within(lambda x: repicked(e, x)) for p in self.parts(value)]
            case Bind(op, letter) if op in FOLDS and letter not in self.card.loop_letters:
                return self.under(e, len(e.children) - 1)
            case Table():
                return self.under(e, len(e.children) - 1)
        return [Summand(e, kind=UNOPENED)]

    def level(self, part: Expr, e: Expr) -> list[Summand]:
        """The terms of a part of a sum, with as many axes as the sum.

        A vector is repeated along the rows of a matrix.
        """
        shape = self.shape(e)
        if (missing := len(shape) - self.rank(part)) <= 0:
            return self.parts(part)
        letters: list[str] = []
        for _ in shape:
            letters.append(fresh({*self.card.names, *e.free, *e.binders, *letters}))
        ranges = tuple(zip(letters, map(self.card.size_expr, shape), strict=True))
        items = tuple(map(Idx, letters[missing:]))

        def repeated(x: Expr) -> Expr:
            return Table(ranges, Pick(x, items) if items else x)

        return [p.within(repeated) for p in self.parts(part)]

    def under(self, e: Expr, k: int) -> list[Summand]:
        """The terms of an operation that is linear in its k-th part, the only one that depends."""
        if any(self.depends(x) for j, x in enumerate(e.children) if j != k):
            return [Summand(e, kind=UNOPENED)]
        before, after = e.children[:k], e.children[k + 1 :]
        return [p.within(lambda x: e.over([*before, x, *after])) for p in self.parts(e.children[k])]

    def jointly(self, e: Apply, first: int) -> list[Summand]:
        """The terms of an operation that is linear in all of its arguments together."""
        out = []
        for k, a in enumerate(e.args[first:], first):

            def around(x: Expr, k: int = k) -> Expr:
                return e.over([
                    x if j == k else y if j < first else self.nothing(y, e.op)
                    for j, y in enumerate(e.args)
                ])  # fmt: skip

            if not isinstance(a, Num) or a.value:
                out += [p.within(around) for p in self.parts(a)]
        return out

    def nothing(self, e: Expr, op: str) -> Expr:
        """Zeros that replace a part, with its width where that matters."""
        return num(0) if op == "where" else Apply("times", (num(0), e))

    def product(self, e: Apply) -> list[Summand]:
        """The terms of an operation of `LINEAR`."""
        dependent = self.places(e)
        if e.op == "div" and 1 in dependent and SCALE in self.held and self.is_root(e.args[1]):
            dependent = [0]
        if dependent == [0, 1] and e.op in ("prod", "times") and PATTERN in self.held:
            dependent = [1] if self.is_pattern(e.args[0]) or self.mixes(e) else dependent
        if len(dependent) == 2 and e.op in PRODUCTS and all(map(self.opens, e.args)):
            return [Summand(e, kind=PAIR)]
        if len(dependent) > 1 or dependent[0] not in LINEAR[e.op]:
            return [Summand(e, kind=UNOPENED)]
        k = dependent[0]
        before, after = e.args[:k], e.args[k + 1 :]
        return [p.within(lambda x: e.over([*before, x, *after])) for p in self.parts(e.args[k])]

    def places(self, e: Apply) -> list[int]:
        """The arguments that depend on values; else the first that is a sum of given ones."""
        found = [k for k, a in enumerate(e.args) if self.depends(a)]
        return found or [k for k, a in enumerate(e.args) if self.sums_given(a)][:1]

    def sums_given(self, e: Expr) -> bool:
        """Whether a formula is a sum with inputs, such as token and position, or linear in one.

        Its terms count separately, though no equation makes them.
        """
        if not self.is_given(e) or not isinstance(e, Apply):
            return False
        linear = LINEAR.get(e.op, (0,) if self.card.applies(e, "centred") else ())
        return is_sum(e) or any(self.sums_given(e.args[k]) for k in linear)

    def opens(self, e: Expr) -> bool:
        """Whether a formula is a sum of values in linear places and of constants."""
        return all(p.kind in (ATOM, CONSTANT) for p in self.parts(e))

    def call(self, e: Apply) -> list[Summand]:
        """The terms of a call: of its argument if it is linear, else of its definition."""
        dependent = self.places(e)
        if len(dependent) == 1 and self.degree_of(e.op, dependent[0]) == 1:
            return self.under(e, dependent[0])
        inner = self.parts(self.inlined(e))
        return inner if any(p.kind in (ATOM, PAIR) for p in inner) else [Summand(e, kind=UNOPENED)]

    # -- the degree of a function ------------------------------------------------------------------

    def degree_of(self, name: str, k: int) -> int | None:
        """The degree of a function in its k-th argument: 0, 1, or None if it is not linear."""
        symbol = self.card.function[name].arguments[k].symbol.key
        return self.degree(self.card.function[name].body, symbol)

    def degree(self, e: Expr, name: str) -> int | None:
        """The degree of a formula in one of its arguments, as `degree_of`."""
        if (e, name) not in self.degrees:
            self.degrees[e, name] = self.found_degree(e, name)
        return self.degrees[e, name]

    def found_degree(self, e: Expr, name: str) -> int | None:
        if name not in e.keys or (isinstance(e, Apply) and e.op in MEASURES):
            return 0
        if is_argument(e):
            return 1 if e.key == name else 0
        degrees = [self.degree(x, name) for x in e.children]
        if None in degrees:
            return None
        some = {d for d, x in zip(degrees, e.children, strict=True)
                if not (isinstance(x, Num) and not x.value)}  # fmt: skip
        match e:
            case Apply("add" | "sub" | "concat"):
                return some.pop() if len(some) == 1 else None
            case Apply("where"):
                some = {d for d, x in zip(degrees[1:], e.args[1:], strict=True)
                        if not (isinstance(x, Num) and not x.value)}  # fmt: skip
                return some.pop() if degrees[0] == 0 and len(some) == 1 else None
            case Apply(op) if op in self.card.function:
                of = [k for k, d in enumerate(degrees) if d]
                if len(of) == 1 and self.degree_of(op, of[0]) == 1:
                    return 1
                return self.degree(self.inlined(e), name)
            case Apply(op) if op in LINEAR:
                places = {k for k, d in enumerate(degrees) if d}
                return 1 if len(places) == 1 and places <= {*LINEAR[op]} else None
            case Pick():
                return degrees[0] if not any(degrees[1:]) else None
            case Bind(op) if op in FOLDS:
                return degrees[-1] if not any(degrees[:-1]) else None
            case Table():
                return degrees[-1] if not any(degrees[:-1]) else None
        return None


def is_sum(e: Expr) -> bool:
    """Whether a formula is a sum or a difference."""
    return isinstance(e, Apply) and e.op in ("add", "sub")


def repicked(e: Pick, value: Expr) -> Pick:
    """The same rows and entries of another value; places counted from the end stay so."""
    ends = [e.from_end(k) for k in range(len(e.items))]
    return Pick(value, tuple(
        x if k is None else place_from_end(value, axis, k)
        for axis, (x, k) in enumerate(zip(e.items, ends, strict=True))
    ))  # fmt: skip


def negative(e: Expr) -> Expr:
    """A formula with the other sign."""
    return Apply("neg", (e,))


@memoised
def linearity(
    card: CardData, held: frozenset[str] = HELD, lengths: frozenset[str] = frozenset()
) -> Linearity:  # fmt: skip
    """The card's `Linearity`."""
    return Linearity(card, held, lengths)
