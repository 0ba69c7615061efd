"""Products of many factors, in an order that is chosen by cost before anything is computed.

A formula of products is read as a tensor network: factors with named axes, and a sum over every
axis that the result lacks. ``⟨u, A_{j,k} V_k W_O⟩`` for all k has the factors u, A, V and W_O.
Their sizes tell that u W_Oᵀ comes first, so no n × d matrix is ever made. Blocks are evaluated one
after the other; the cost counts all of them, and a product that is the same for every block is made
once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

from viete.evaluate.array import Arrays
from viete.evaluate.labelled import COL, ROW, Value
from viete.evaluate.low_rank import narrow
from viete.evaluate.product_memo import ProductMemo
from viete.evaluate.product_order import path
from viete.graph.evaluator import Env
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Num,
    Pick,
    Ref,
    Slice,
    Symbol,
    place_from_end,
)

HELD = Symbol("argument", "□")
MEAN = object()  # replaces an array: subtracts the mean


@dataclass(frozen=True)
class Factor:
    """A factor: a value, or the centring map (x minus its mean) between two axes.

    ``letters`` are the block letters that it depends on.
    """

    axes: tuple[str, ...]
    value: Value | None = None
    letters: frozenset[str] = frozenset()

    @property
    def key(self) -> int:
        """The identity of the factor's array."""
        return 0 if self.value is None else id(self.value.array)


@dataclass(frozen=True)
class Network:
    """A product of factors, summed over all axes except ``core`` and index letters."""

    factors: tuple[Factor, ...]
    bound: tuple[str, ...] = ()  # names that are summed over

    @property
    def core(self) -> frozenset[str]:
        """The row and column axes."""
        return frozenset(a for f in self.factors for a in f.axes if a in (ROW, COL))

    def renamed(self, **names: str) -> Network:
        """This network with other names for its rows or columns."""

        def of(f: Factor) -> Factor:
            axes = tuple(names.get(a, a) for a in f.axes)
            if f.value is None or axes == f.axes:
                return replace(f, axes=axes)
            axes = tuple(names.get(a, a) for a in f.value.axes)
            v = f.value
            return replace(f, axes=axes, value=Value(v.array, axes, v.const, False, v.interval))

        return replace(self, factors=tuple(map(of, self.factors)))

    def summed(self, name: str) -> Network:
        """This network summed over one more name."""
        return replace(self, bound=(*self.bound, name))

    @property
    def letters(self) -> frozenset[str]:
        """The block letters that the network depends on."""
        return frozenset[str]().union(*(f.letters for f in self.factors))

    def with_axis(self, label: str) -> int | None:
        """The index of the only factor with an axis, without both rows and columns; else None."""
        found = [k for k, f in enumerate(self.factors) if label in f.axes]
        one = len(found) == 1 and self.factors[found[0]].value is not None
        return found[0] if one and not {ROW, COL} <= {*self.factors[found[0]].axes} else None

    def with_factor(self, at: int, f: Factor) -> Network:
        """This network with one factor replaced."""
        return replace(self, factors=(*self.factors[:at], f, *self.factors[at + 1 :]))

    def times(self, other: Network, *bound: str) -> Network:
        """The product with another network, summed over more names."""
        return Network(self.factors + other.factors, (*self.bound, *other.bound, *bound))


class Contraction:
    """Values of formulas of one run, product by product.

    ``turns`` gives the number of values of each block letter, and ``opened`` the product that a
    derived name stands for.
    """

    def __init__(
        self, arrays: Arrays, turns: Mapping[str, int] | None = None,
        opened: Callable[[Ref], Expr | None] = lambda e: None,
    ) -> None:  # fmt: skip
        self.arrays, self.turns, self.opened = arrays, turns or {}, opened
        self.names = count(1)
        self.leaves: dict[tuple[object, ...], Factor] = {}
        self.products = ProductMemo()
        self.counts: dict[Expr, int] = {}
        self.whole: set[Expr] = set()  # formulas that are one factor though they look like several

    def value(self, e: Expr, env: Env[Value]) -> Value:
        """The value of a formula; letters that ``env`` has as axes become axes of the value."""
        return self.contracted(self.network(e, env))

    def of_many(self, e: Expr, env: Env[Value]) -> Value | None:
        """The value of a product of many factors; None for any other formula."""
        if not isinstance(e, Apply | Bind | Pick) or e in self.whole or env.alone:
            return None
        if self.factors(e) < 3 or not self.is_product(e) or self.over_blocks(e, env):
            return None
        return self.value(e, env)

    def is_product(self, e: Expr) -> bool:
        """Whether the outermost operation is one that a network represents."""
        match e:
            case Apply("prod" | "inner"):
                return True
            case Bind("sum") | Pick():
                return True
        return any(self.arrays.card.applies(e, name) for name in ("tr", "length"))

    def over_blocks(self, e: Expr, env: Env[Value]) -> bool:
        return isinstance(e, Bind) and self.arrays.over_blocks(e, env)

    def factors(self, e: Expr) -> int:
        """The number of factors in a formula; a trace and a row count as one more."""
        if e not in self.counts:
            self.counts[e] = self.factors_of(e)
        return self.counts[e]

    def factors_of(self, e: Expr) -> int:
        match e:
            case Num():
                return 0
            case Apply("had" | "times" | "prod" | "inner", (a, b)):
                return self.factors(a) + self.factors(b)
            case Apply("div" | "neg" | "T", args):
                return self.factors(args[0])
            case Bind("sum"):
                return self.factors(e.body)
            case Ref() if (definition := self.opened(e)) is not None:
                return self.factors(definition)
            case Pick(value) if self.factors(value) > 1:
                return self.factors(value) + 1
            case Apply(_, (a,)) if self.arrays.card.applies(e, "tr"):
                return self.factors(a) + (self.factors(a) > 1)
            case Apply(_, (a,)) if self.arrays.card.applies(e, "length") and self.factors(a) > 1:
                return self.factors(a) + 1
        return 1

    def next_turn(self, past: Collection[str]) -> None:
        """Forget what no later turn reads: what depends on all block letters or on ``past``."""

        def gone(letters: frozenset[str]) -> bool:
            return not letters.isdisjoint(past) or letters >= self.turns.keys()

        self.leaves = {k: f for k, f in self.leaves.items() if not gone(f.letters)}
        self.products.forget(gone)

    def fresh(self) -> str:
        return f"inner{next(self.names)}"

    # -- the network of a formula ------------------------------------------------------------------

    def network(self, e: Expr, env: Env[Value]) -> Network:
        """A formula as a network of factors."""
        card = self.arrays.card
        match e:
            case Apply("had" | "times", (a, b)):
                return self.network(a, env).times(self.network(b, env))
            case Apply("div", (a, b)):
                one = self.arrays.number(Fraction(1))
                below = self.network(b, env)
                value = self.arrays.entrywise("div", [one, self.contracted(below)])
                return self.network(a, env).times(leaf(value, below.letters))
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
                    name = self.fresh()  # another sum may have the same letter
                    return inner.renamed(**{label: name}).summed(name)
            case Apply(_, (a,)) if card.applies(e, "centred"):
                inner = self.network(a, env)
                if inner.core == {COL}:
                    name = self.fresh()
                    inner = inner.renamed(col=name)
                    return Network((*inner.factors, Factor((name, COL))), (*inner.bound, name))
            case Apply(_, (a,)) if self.factors(e) > 2 and card.applies(e, "tr"):
                inner = self.network(a, env)
                if all(inner.with_axis(label) is not None for label in (ROW, COL)):
                    name = self.fresh()
                    return inner.renamed(row=name, col=name).summed(name)
            case Apply(_, (a,)) if self.factors(e) > 2 and card.applies(e, "length"):
                inner = narrow(self, self.network(a, env))
                return leaf(self.arrays.call(e.op, [self.contracted(inner)]), inner.letters)
            case Pick(value) if self.factors(value) > 1:
                if (found := self.picked(e, self.network(value, env), env)) is not None:
                    return found
            case Ref() if (definition := self.opened(e)) is not None:
                return self.network(definition, env)
            case Apply() if self.productive(e) and env.products is None:
                return leaf(self.around(e, env))
        return Network((self.leaf(e, env),))

    def picked(self, e: Pick, net: Network, env: Env[Value]) -> Network | None:
        """A row or an entry of a product, taken from the factor with its rows or columns."""
        core = [a for a in (ROW, COL) if a in net.core]
        places = [net.with_axis(label) for label in core[: len(e.items)]]
        slices = any(isinstance(x, Slice) for x in e.items)
        if len(e.items) > len(core) or core == [ROW] or None in places or slices:
            return None
        factors = list(net.factors)
        for axis, (label, at) in enumerate(zip(core, places, strict=False)):
            assert at is not None
            f = factors[at]
            v = f.value
            assert v is not None
            held, k, value = v.relabel(label, COL), e.from_end(axis), Ref(HELD)
            item = e.items[axis] if k is None else place_from_end(value, 0, k)
            within = replace(env, arguments={**(env.arguments or {}), HELD.key: held})
            picked = self.arrays.of(Pick(value, (item,)), within)
            if COL in picked.axes:  # several places
                return None
            letters = f.letters | self.blocks_of(e.items[axis], env)
            factors[at] = Factor(picked.axes, picked.frozen(), letters)
        return Network(tuple(factors), net.bound)

    def productive(self, e: Expr) -> bool:
        """Whether an argument of an operation is a product, to be ordered by cost."""
        return any(isinstance(x, Apply) and x.op in ("prod", "inner") for x in e.children)

    def around(self, e: Expr, env: Env[Value]) -> Value:
        """An operation or a call whose argument products are ordered by cost."""
        assert isinstance(e, Apply)
        args = {f"□{k}": self.value(x, env) for k, x in enumerate(e.args)}
        inner = replace(env, arguments={**(env.arguments or {}), **args})
        return self.arrays.of(e.over([Ref(Symbol("argument", k)) for k in args]), inner)

    def leaf(self, e: Expr, env: Env[Value]) -> Factor:
        """A formula as a single factor, computed once."""
        self.whole.add(e)
        letters = self.blocks_of(e, env)
        if env.arguments is not None:
            v = self.arrays.of(e, env)
            return Factor(v.axes, v.frozen(), letters)
        key = e, *(env.index[x] for x in sorted(e.free))
        if key not in self.leaves:
            v = self.arrays.of(e, env)
            self.leaves[key] = Factor(v.axes, v.frozen(), letters)
        return self.leaves[key]

    def blocks_of(self, e: Expr, env: Env[Value]) -> frozenset[str]:
        """The block letters in a formula."""
        return frozenset(x for x in e.free if isinstance(env.index.get(x), int))

    def product(self, a: Network, b: Network) -> Network:
        """A matrix product, or a scaling if one side is a number."""
        if not a.core or not b.core:
            return a.times(b)
        name, vector = self.fresh(), ROW not in b.core
        if COL not in a.core:  # a column, as a matrix with one column
            a = leaf(self.arrays.column(self.contracted(a)), a.letters)
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
        sizes = dict[str, int]()
        for v in (f.value for f in factors if f.value is not None):
            sizes |= {a: max(v.size(a), sizes.get(a, 0)) for a in v.axes}
        factors = [without_repeated(f, sizes) for f in factors]
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
        blocks = sorted(frozenset[str]().union(*(f.letters for f in factors)))
        arrays = {f.key: k for k, f in enumerate(factors)}
        order = path(
            tuple((
                (*(names[a] for a in f.axes), *(f"block {x}" for x in sorted(f.letters))),
                None if f.value is None else arrays[f.key],
            ) for f in factors),
            (*((k, sizes[a]) for a, k in names.items()),
             *((f"block {x}", self.turns.get(x, 1)) for x in blocks)),
            frozenset((*(names[a] for a in out), *(f"block {x}" for x in blocks))),
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
        """Factors with those on the same axes multiplied into one, which is no larger than each."""
        there: dict[object, Factor] = {}
        for k, f in enumerate(factors):
            key = k if f.value is None else frozenset(f.axes)
            other = there.get(key)
            there[key] = f if other is None else self.pair(other, f, frozenset(f.axes))
        return list(there.values())

    def scaled(self, values: Sequence[Value]) -> Value:
        """The product of a value and numbers."""
        first, *rest = values
        for v in rest:
            first = self.arrays.entrywise("times", [first, v])
        return first

    def pair(self, a: Factor, b: Factor, outside: frozenset[str]) -> Factor:
        """The product of two factors, summed over axes that occur in no other factor."""
        if a.value is None:
            a, b = b, a
        assert a.value is not None
        letters = a.letters | b.letters
        if b.value is None:
            old, new = b.axes if b.axes[0] in a.axes else b.axes[::-1]
            along = Value(MEAN, (old,))
            centred = self.products.made(a.value, along, (old,))
            if centred is None:
                mean = self.arrays.fold("mean", a.value, old)
                centred = self.arrays.entrywise("sub", [a.value, mean])
                self.products.keep(a.value, along, (old,), centred, letters)
            centred = centred.frozen().relabel(old, new)
            return Factor(centred.axes, centred, letters)
        over = tuple(x for x in a.axes if x in b.axes and x not in outside)
        value = self.products.made(a.value, b.value, over)
        if value is None:
            if over:
                value = self.arrays.contract(a.value, b.value, over)
            else:
                value = self.arrays.entrywise("times", [a.value.frozen(), b.value.frozen()])
            self.products.keep(a.value, b.value, over, value, letters)
        return Factor(value.axes, value.frozen(), letters)


def without_repeated(f: Factor, sizes: Mapping[str, int]) -> Factor:
    """A factor without its axes of one entry, which serves for all entries of another factor."""
    v = f.value
    if v is None or not any(v.size(a) < sizes[a] for a in v.axes):
        return f
    place = tuple(0 if v.size(a) < sizes[a] else slice(None) for a in v.axes)
    axes = tuple(a for a in v.axes if v.size(a) == sizes[a])
    return Factor(axes, Value(v.array[place], axes, v.const, False, v.interval).frozen(), f.letters)


def leaf(v: Value, letters: frozenset[str] = frozenset()) -> Network:
    """A network of one factor."""
    return Network((Factor(v.axes, v.frozen(), letters),))
