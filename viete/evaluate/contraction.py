"""Products of many factors: which two come first is chosen by cost, before anything is computed.

A formula of products is read as a network: factors whose axes have names, and a sum over every
name that the result does not have. ``⟨u, A_{j,k} V_k W_O⟩`` for all k has the factors u, A, V and
W_O; that u W_Oᵀ comes first, and no n × d matrix is ever made, follows from their sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import count

from viete.evaluate.array import Arrays
from viete.evaluate.labelled import COL, ROW, Value
from viete.graph.evaluator import Env
from viete.notation.tree import Apply, Bind, Expr, Ref, Symbol

MOST = 7  # factors of which all orders are compared; of more, the cheapest pair comes first
Sizes = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Factor:
    """One factor: a value; or, between two axes, the map of a vector to itself without its mean."""

    axes: tuple[str, ...]
    value: Value | None = None


@dataclass(frozen=True)
class Network:
    """A product of factors, summed over the axes that are not its own ``core`` nor letters."""

    factors: tuple[Factor, ...]
    bound: tuple[str, ...] = ()  # names that are summed over

    @property
    def core(self) -> frozenset[str]:
        """Its rows and columns."""
        return frozenset(a for f in self.factors for a in f.axes if a in (ROW, COL))

    def renamed(self, **names: str) -> Network:
        """With other names for its rows or columns."""

        def of(f: Factor) -> Factor:
            axes = tuple(names.get(a, a) for a in f.axes)
            if f.value is None or axes == f.axes:
                return replace(f, axes=axes)
            axes = tuple(names.get(a, a) for a in f.value.axes)
            return Factor(axes, Value(f.value.array, axes, f.value.const, False, f.value.interval))

        return replace(self, factors=tuple(map(of, self.factors)))

    def times(self, other: Network, *bound: str) -> Network:
        """The product with another, summed over more names."""
        return Network(self.factors + other.factors, (*self.bound, *other.bound, *bound))


class Contraction:
    """Values of formulas of one run, product by product."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays, self.names = arrays, count(1)
        self.leaves: dict[tuple[object, ...], Value] = {}

    def value(self, e: Expr, env: Env[Value]) -> Value:
        """The value of a formula; the letters that ``env`` has as axes are axes of it."""
        return self.contracted(self.network(e, env))

    def fresh(self) -> str:
        return f"inner{next(self.names)}"

    # -- the network of a formula ------------------------------------------------------------------

    def network(self, e: Expr, env: Env[Value]) -> Network:
        """The factors of a formula."""
        card = self.arrays.card
        match e:
            case Apply("had" | "times", (a, b)):
                return self.network(a, env).times(self.network(b, env))
            case Apply("div", (a, b)):
                one = self.arrays.number(Fraction(1))
                below = self.arrays.entrywise("div", [one, self.value(b, env)])
                return self.network(a, env).times(leaf(below))
            case Apply("neg", (a,)):
                return leaf(self.arrays.number(Fraction(-1))).times(self.network(a, env))
            case Apply("prod", (a, b)):
                return self.product(self.network(a, env), self.network(b, env))
            case Apply("inner", (a, b)):
                sides = [self.network(x, env) for x in (a, b)]
                if all(side.core == {COL} for side in sides):
                    name = self.fresh()
                    first, second = (side.renamed(col=name) for side in sides)
                    return first.times(second, name)
            case Apply("T", (a,)):
                inner = self.network(a, env)
                if inner.core == {ROW, COL}:
                    return inner.renamed(row=COL, col=ROW)
            case Bind("sum") if not self.arrays.over_blocks(e, env):
                within, label = self.arrays.bound(e, env)
                inner = self.network(e.body, within)
                if any(label in f.axes for f in inner.factors):
                    return replace(inner, bound=(*inner.bound, label))
            case Apply(_, (a,)) if card.applies(e, "centred"):
                inner = self.network(a, env)
                if inner.core == {COL}:
                    name = self.fresh()
                    inner = inner.renamed(col=name)
                    return Network((*inner.factors, Factor((name, COL))), (*inner.bound, name))
            case Apply() if self.productive(e):
                return leaf(self.around(e, env))
        return leaf(self.leaf(e, env))

    def productive(self, e: Expr) -> bool:
        """Whether there is a product in an argument of an operation, to be made by cost."""
        return any(isinstance(x, Apply) and x.op in ("prod", "inner") for x in e.children)

    def around(self, e: Expr, env: Env[Value]) -> Value:
        """An operation or a call, of arguments whose products are made by cost."""
        assert isinstance(e, Apply)
        args = {f"□{k}": self.value(x, env) for k, x in enumerate(e.args)}
        inner = replace(env, arguments={**(env.arguments or {}), **args})
        return self.arrays.of(e.over([Ref(Symbol("argument", k)) for k in args]), inner)

    def leaf(self, e: Expr, env: Env[Value]) -> Value:
        """A formula that is one factor; computed once."""
        if env.arguments is not None:
            return self.arrays.of(e, env)
        key = e, *(env.index[x] for x in sorted(e.free))
        if key not in self.leaves:
            self.leaves[key] = self.arrays.of(e, env).frozen()
        return self.leaves[key]

    def product(self, a: Network, b: Network) -> Network:
        """A matrix product, or a scaling where one is a number."""
        if not a.core or not b.core:
            return a.times(b)
        name, vector = self.fresh(), ROW not in b.core
        if COL not in a.core:  # a column, as a matrix with one
            a = leaf(self.arrays.column(self.contracted(a)))
        a = a.renamed(col=name)
        b = b.renamed(col=name) if vector else b.renamed(row=name)
        out = a.times(b, name)
        return out.renamed(row=COL) if vector else out

    # -- the product of its factors ----------------------------------------------------------------

    def contracted(self, net: Network) -> Value:
        """The value of a network."""
        factors = list(net.factors)
        if len(factors) == 1 and not net.bound and factors[0].value is not None:
            return factors[0].value
        sizes = {a: f.value.size(a) for f in factors if f.value is not None for a in f.value.axes}
        between = [f.axes for f in factors if f.value is None]
        for a, b in [*between, *between[::-1]]:
            found = sizes.get(a, sizes.get(b))
            sizes |= {} if found is None else {a: found, b: found}
        out = frozenset(a for f in factors for a in f.axes) - {*net.bound}
        numbers = [f for f in factors if not f.axes]
        factors = [f for f in factors if f.axes]
        if not factors:
            return self.scaled([f.value for f in numbers if f.value is not None])
        factors = self.alike(factors)
        names = {a: f"{k}" for k, a in enumerate(dict.fromkeys(a for f in factors for a in f.axes))}
        order = path(
            tuple((tuple(names[a] for a in f.axes), f.value is None) for f in factors),
            tuple((k, sizes[a]) for a, k in names.items()), frozenset(names[a] for a in out),
        )  # fmt: skip
        for i, j in order:
            one, two = factors[i], factors[j]
            rest = [f for k, f in enumerate(factors) if k not in (i, j)]
            outside = out.union(*(f.axes for f in rest))
            factors = [*rest, self.pair(one, two, outside)]
        (last,) = factors
        assert last.value is not None
        value = last.value
        for a in [a for a in value.axes if a not in out]:
            value = self.arrays.fold("sum", value, a)
        return self.scaled([value, *(f.value for f in numbers if f.value is not None)])

    def alike(self, factors: Sequence[Factor]) -> list[Factor]:
        """Factors with the same axes as one, which is no larger than each."""
        there: dict[object, Factor] = {}
        for k, f in enumerate(factors):
            key = k if f.value is None else frozenset(f.axes)
            other = there.get(key)
            there[key] = f if other is None else self.pair(other, f, frozenset(f.axes))
        return list(there.values())

    def scaled(self, values: Sequence[Value]) -> Value:
        """A value times numbers."""
        first, *rest = values
        for v in rest:
            first = self.arrays.entrywise("times", [first, v])
        return first

    def pair(self, a: Factor, b: Factor, outside: frozenset[str]) -> Factor:
        """The product of two factors, summed over what nothing else has."""
        if a.value is None:
            a, b = b, a
        assert a.value is not None
        if b.value is None:
            old, new = b.axes if b.axes[0] in a.axes else b.axes[::-1]
            mean = self.arrays.fold("mean", a.value, old)
            centred = self.arrays.entrywise("sub", [a.value, mean]).relabel(old, new)
            return Factor(centred.axes, centred)
        over = tuple(x for x in a.axes if x in b.axes and x not in outside)
        if over:
            value = self.arrays.contract(a.value, b.value, over)
        else:
            value = self.arrays.entrywise("times", [a.value.frozen(), b.value.frozen()])
        return Factor(value.axes, value.frozen())


def leaf(v: Value) -> Network:
    """A network of one factor."""
    return Network((Factor(v.axes, v.frozen()),))


@lru_cache(maxsize=4096)
def path(
    factors: tuple[tuple[tuple[str, ...], bool], ...], sizes: Sizes, out: frozenset[str]
) -> tuple[tuple[int, int], ...]:
    """Which two of the factors to multiply, time after time; the product goes to the end.

    Of each factor are given its axes, and whether it only takes the mean away between two of them.
    """
    order = Order([frozenset(axes) for axes, _ in factors], [one for _, one in factors],
                  dict(sizes), out)  # fmt: skip
    return tuple(order.best() if len(factors) <= MOST else order.greedy())


@dataclass
class Order:
    """The search for a cheap order; a set of factors is a whole number, with a bit for each."""

    factors: list[frozenset[str]]
    between: list[bool]
    sizes: dict[str, int]
    out: frozenset[str]
    found: dict[int, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def beside(self) -> frozenset[str]:
        """The names of the result along which no mean is taken away."""
        ends = (f for f, between in zip(self.factors, self.between, strict=True) if between)
        return self.out.difference(*ends)

    @cached_property
    def sides(self) -> dict[str, int]:
        """For each other name a number, the same for names that factors connect."""
        found = {a: k for k, a in enumerate(self.sizes)}
        for _ in self.factors:
            for f, between in zip(self.factors, self.between, strict=True):
                inner = f - self.beside
                if inner and not between:
                    found |= dict.fromkeys(inner, min(found[a] for a in inner))
        return found

    def axes(self, group: int) -> frozenset[str]:
        """The axes of the product of a set of factors: those that something else has."""
        if group not in self.found:
            self.found[group] = self.axes_of(group)
        return self.found[group]

    def axes_of(self, group: int) -> frozenset[str]:
        inside = [f for k, f in enumerate(self.factors) if group >> k & 1]
        if len(inside) == 1:
            return inside[0]
        others = (f for k, f in enumerate(self.factors) if not group >> k & 1)
        return frozenset[str]().union(*inside) & self.out.union(*others)

    def pair(self, a: int, b: int) -> float:
        """How many operations the product of two products takes; infinitely many if there is none.

        A mean is taken away along an axis that nothing else has, before what stands on its two
        sides is multiplied.
        """
        one, two = self.axes(a), self.axes(b)
        centring = [self.between[g.bit_length() - 1] and not g & (g - 1) for g in (a, b)]
        if any(centring):
            shared = one & two
            if all(centring) or len(shared) != 1 or not shared.isdisjoint(self.axes(a | b)):
                return math.inf
            return self.size(two if centring[0] else one)
        sides = [{self.sides[x] for x in axes - self.beside} for axes in (one, two)]
        if all(sides) and sides[0].isdisjoint(sides[1]):
            return math.inf
        return self.size(one | two) + self.size(self.axes(a | b))

    def size(self, axes: frozenset[str]) -> int:
        return math.prod(self.sizes[x] for x in axes)

    def best(self) -> list[tuple[int, int]]:
        """The cheapest order, by comparing all."""
        cheapest: dict[int, tuple[float, int, int]] = {
            1 << k: (0, 0, 0) for k in range(len(self.factors))
        }
        every = (1 << len(self.factors)) - 1
        for group in range(1, every + 1):  # the parts of a set are smaller numbers
            low, part, found = group & -group, (group - 1) & group, list[tuple[float, int, int]]()
            while part:
                if part & low:
                    cost = cheapest[part][0] + cheapest[group ^ part][0]
                    if not found or cost < found[0][0]:
                        cost += self.pair(part, group ^ part)
                        found = [min([*found, (cost, part, group ^ part)])]
                part = (part - 1) & group
            if found:
                cheapest[group] = found[0]
        return self.steps(every, {g: (a, b) for g, (_, a, b) in cheapest.items()})

    def steps(self, every: int, halves: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
        """The products of an order, from the innermost out, by their places in the list."""
        places, out = [1 << k for k in range(len(self.factors))], list[tuple[int, int]]()

        def make(group: int) -> None:
            if group & (group - 1):
                a, b = halves[group]
                make(a)
                make(b)
                i, j = places.index(a), places.index(b)
                out.append((i, j))
                places[:] = [p for k, p in enumerate(places) if k not in (i, j)] + [group]

        make(every)
        return out

    def greedy(self) -> list[tuple[int, int]]:
        """An order in which the cheapest product of two comes next."""
        groups, halves = [1 << k for k in range(len(self.factors))], dict[int, tuple[int, int]]()
        while len(groups) > 1:
            pairs = [(a, b) for k, b in enumerate(groups) for a in groups[:k]]
            a, b = min(pairs, key=lambda p: self.pair(*p))
            halves[a | b] = a, b
            groups = [g for g in groups if g not in (a, b)] + [a | b]
        return self.steps(groups[0], halves)
