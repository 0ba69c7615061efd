"""Products of many factors: which two come first is chosen by cost, before anything is computed.

A formula of products is read as a network: factors whose axes have names, and a sum over every
name that the result does not have. ``⟨u, A_{j,k} V_k W_O⟩`` for all k has the factors u, A, V and
W_O; that u W_Oᵀ comes first, and no n × d matrix is ever made, follows from their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

from viete.evaluate.array import Arrays
from viete.evaluate.labelled import COL, ROW, Value
from viete.evaluate.product_order import path
from viete.graph.evaluator import Env
from viete.notation.tree import Apply, Bind, Expr, Ref, Symbol


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

    def summed(self, name: str) -> Network:
        """The sum over one more name."""
        return replace(self, bound=(*self.bound, name))

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
                    name = self.fresh()  # another sum beside this one may have the same letter
                    return inner.renamed(**{label: name}).summed(name)
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
