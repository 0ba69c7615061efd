"""The evaluator: one walk over formulas for every meaning, on values with labelled axes.

A value has a label for each of its axes: ``row`` and ``col`` for the axes it has on paper, an index
letter for every family index. With labels, families broadcast by name, a transpose swaps labels,
and one rule, `contract`, serves every product and every sum over heads. A meaning defines what an
operation does to values: to arrays (`array`), to counts of operations (`viete.analysis.flows`), to
source code (`viete.code.lowering`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Generic, Protocol, Self, TypeVar

from viete.errors import VieteError
from viete.graph.card import CardData
from viete.graph.opening import body_of
from viete.library.functions import Function
from viete.notation.printer import show
from viete.notation.tree import CALL, MEASURES, Apply, Bind, Expr, Idx, Num, Pick, Ref, Slice, Table

ROW, COL, INNER = "row", "col", "inner"
REDUCTIONS = frozenset("sum mean max min argmax".split())


class Labelled(Protocol):
    """The values with which a meaning computes; ``axes`` are their labels."""

    @property
    def axes(self) -> Collection[str]: ...

    @property
    def core(self) -> Any:
        """Whether the value has axes on paper: rows, columns or both."""

    def relabel(self, old: str, new: str, /) -> Self: ...


V = TypeVar("V", bound=Labelled)


@dataclass(frozen=True, slots=True)
class Letter:
    """An index letter as an axis: its name, its label, its first value and its number of values.

    Sizes are what a meaning has for sizes: numbers, or formulas over the dimensions.
    """

    name: str
    label: str
    first: Any
    count: Any


@dataclass(frozen=True, slots=True)
class Env(Generic[V]):
    """The names in force: a function's arguments and their sizes, the values of index letters.

    ``index`` maps a letter to a `Letter`, or to what a meaning has for the number of a block.
    ``level`` counts enclosing binders; it keeps their labels apart.
    """

    arguments: Mapping[str, V] | None = None
    sizes: Mapping[str, Any] = field(default_factory=dict)
    index: Mapping[str, Any] = field(default_factory=dict)
    level: int = 0
    alone: bool = False  # in the definition of a library's function, whose letters are its own
    shared: dict[Expr, V | None] | None = None  # what stands more than once, and its value by now
    products: Callable[[Expr, Env[V]], V | None] | None = None  # makes those of many factors


E = TypeVar("E", bound=Env[Any])


class Evaluator(ABC, Generic[V, E]):
    """Evaluates expressions of one card. A meaning implements the abstract methods."""

    card: CardData
    env: E
    zero: Any  # as this meaning has sizes

    # -- what a meaning says -----------------------------------------------------------------------

    @abstractmethod
    def number(self, value: Fraction) -> V:
        """A number, which has no axes."""

    @abstractmethod
    def idx(self, e: Idx, env: E) -> V:
        """An index letter: its values along an axis, or the number of a block."""

    @abstractmethod
    def dimension(self, e: Ref, env: E) -> V:
        """A dimension, or a size of a function's argument."""

    @abstractmethod
    def named(self, e: Ref, blocks: Sequence[Expr], env: E) -> V:
        """An input, a parameter or a value of these blocks, with all members of its families."""

    @abstractmethod
    def size(self, e: Expr, env: E) -> Any:
        """A bound or a length, as this meaning represents sizes."""

    @abstractmethod
    def lengths(self, e: Expr, v: V, labels: Sequence[str], env: E) -> list[Any]:
        """The lengths of axes of an expression's value, as this meaning represents sizes."""

    @abstractmethod
    def bound_letter(self, e: Bind, env: E, label: str) -> Letter:
        """The letter of a binder, as an axis with that label."""

    @abstractmethod
    def members(self, v: V, old: str, new: Letter, among: Letter, env: E) -> V:
        """The members of an axis over which a letter runs; the axis takes the letter's name."""

    @abstractmethod
    def gather(self, v: V, label: str, at: V, index: Expr, among: Letter, env: E) -> V:
        """The members at the computed places ``at``, whose axes replace the axis."""

    @abstractmethod
    def from_end(self, v: V, label: str, k: int, item: Expr, among: Letter, env: E) -> V:
        """The member ``-k`` of an axis; ``item`` is its place counted from 0."""

    @abstractmethod
    def cut(self, v: V, label: str, item: Slice, e: Pick, env: E) -> V:
        """A slice of an axis."""

    @abstractmethod
    def column(self, v: V) -> V:
        """A value with columns: rows of one entry have no axis for columns, and get one."""

    @abstractmethod
    def apply(self, e: Apply, env: E) -> V:
        """An operation, or a call of a named function."""

    @abstractmethod
    def spread(self, v: V, letters: Sequence[Letter], env: E) -> V:
        """A value with an axis for every letter; entries that do not depend on one repeat."""

    @abstractmethod
    def merge(self, v: V, label: str) -> V:
        """An axis joined with the columns."""

    @abstractmethod
    def reduction(self, e: Bind, env: E, label: str) -> V:
        """A sum, mean, maximum or minimum over the axis of a bound letter."""

    @abstractmethod
    def blocks(self, e: Bind, env: E) -> V:
        """A sum, mean or maximum over blocks, whose values share no axis."""

    # -- expressions -------------------------------------------------------------------------------

    def of(self, e: Expr, env: E | None = None) -> V:
        """The value of an expression."""
        env = self.env if env is None else env
        if env.shared is not None and e in env.shared:
            return self.computed_once(e, env, env.shared)
        return self.uncached(e, env)

    def computed_once(self, e: Expr, env: E, shared: dict[Expr, V | None]) -> V:
        """The value of a part that occurs several times in a function's body."""
        v = shared[e]
        if v is None:
            shared[e] = v = self.reusable(self.uncached(e, env))
        return v

    def reusable(self, v: V) -> V:
        """A value that is read several times, so it must not be overwritten."""
        return v

    def uncached(self, e: Expr, env: E) -> V:
        """The value, computed anew."""
        if env.products is not None and (v := env.products(e, env)) is not None:
            return v
        match e:
            case Apply():
                return self.apply(e, env)
            case Ref():
                return self.ref(e, env)
            case Num():
                return self.number(e.value)
            case Idx():
                return self.idx(e, env)
            case Pick():
                return self.pick(e, env)
            case Bind():
                return self.bind(e, env)
            case Table():
                return self.table(e, env)
        raise VieteError(f"{show(e)} has no value by itself")

    def ref(self, e: Ref, env: E) -> V:
        """A name: an argument, a dimension, or a value with its families' members."""
        if env.arguments is not None and e.key in env.arguments:
            return env.arguments[e.key]
        if e.symbol.kind == "dim":
            return self.dimension(e, env)
        if not e.index:
            return self.named(e, (), env)
        loops = self.card.loop_letters
        pairs = list(zip(e.symbol.slots, e.index, strict=True))
        v = self.named(e, [x for slot, x in pairs if slot in loops], env)
        return self.picked_heads(
            v, [(slot, index) for slot, index in pairs if slot not in loops], env
        )

    def picked_heads(self, v: V, indices: Sequence[tuple[str, Expr]], env: E) -> V:
        """The members of families at the given indices."""
        aside = "picked" if len(indices) > 1 else ""
        for slot, _ in indices:  # out of the way: A^{q,s} of A^{s,q} takes both at once
            v = v.relabel(slot, aside + slot)
        for slot, index in indices:
            v = self.along(v, aside + slot, index, self.env.index[slot], env)
        return v

    def along(self, v: V, label: str, index: Expr, among: Letter, env: E) -> V:
        """The members ``index`` of an axis: a letter renames the axis, a formula replaces it."""
        new = env.index.get(index.name) if isinstance(index, Idx) else None
        if isinstance(new, Letter) and (new.label == label or new.label not in v.axes):
            return self.members(v, label, new, among, env)
        return self.gather(v, label, self.of(index, env), index, among, env)

    def pick(self, e: Pick, env: E) -> V:
        v = self.of(e.value, env)
        if len(e.items) > (ROW in v.axes) + (COL in v.axes):
            v = self.column(v)
        core = [a for a in (ROW, COL) if a in v.axes]
        lengths = self.lengths(e.value, v, core, env)
        for label in core[: len(e.items)]:
            # Out of the way, so that what the index brings in may be called row or column.
            v = v.relabel(label, "picked" + label)
        for axis, (label, count, item) in enumerate(zip(core, lengths, e.items, strict=False)):
            picked = "picked" + label
            if isinstance(item, Slice):
                v = self.cut(v, picked, item, e, env).relabel(picked, label)
                continue
            among = Letter(picked, picked, self.zero, count)
            if (k := e.from_end(axis)) is not None:
                v = self.from_end(v, picked, k, item, among, env)
                continue
            at = None if isinstance(item, Idx) else self.of(item, env)
            if at is None:
                v = self.along(v, picked, item, among, env)
            elif COL not in at.axes:
                v = self.gather(v, picked, at, item, among, env)
            else:  # a vector of places (token ids): its axis takes the place of the picked one
                at = at.relabel(COL, "new")
                v = self.gather(v, picked, at, item, among, env).relabel("new", label)
        if ROW in v.axes and COL not in v.axes and COL in core:
            v = v.relabel(ROW, COL)
        # A row of a column is a vector of one entry.
        return self.column(v) if core == [ROW] and ROW not in v.axes else v

    # -- binders -----------------------------------------------------------------------------------

    def bind(self, e: Bind, env: E) -> V:
        if self.over_blocks(e, env):
            return self.blocks(e, env)
        inner, label = self.bound(e, env)
        if e.op != "concat":
            return self.reduction(e, inner, label)
        v = self.of(e.body, inner)
        return self.merge(v, label) if COL in v.axes else v.relabel(label, COL)

    def over_blocks(self, e: Bind, env: E) -> bool:
        """Whether a binder runs over blocks, whose values are separate."""
        return bool(not env.alone and e.lower and e.upper and self.card.over_blocks(e))

    def bound(self, e: Bind, env: E) -> tuple[E, str]:
        """The names in force below a binder, and the label of its index."""
        level, around = env.level + 1, env
        if e.ranges is None and e.index in self.env.index:  # the declared range, whatever is around
            around = replace(env, index={**env.index, e.index: self.env.index[e.index]})
        letter = self.bound_letter(e, around, f"{e.index}{level}")
        return self.binding(env, {e.index: letter}), letter.label

    def binding(self, env: E, letters: Mapping[str, Letter]) -> E:
        """The names in force below bound letters."""
        return replace(env, index={**env.index, **letters}, level=env.level + 1)

    def table(self, e: Table, env: E) -> V:
        """A matrix by its entries; its index letters become its rows and columns."""
        letters = {
            i: Letter(i, f"{i}{env.level + 1}", self.zero, self.size(count, env))
            for i, count in e.ranges
        }
        v = self.spread(self.of(e.body, self.binding(env, letters)), tuple(letters.values()), env)
        for letter, new in zip(letters.values(), (ROW, COL)[2 - len(letters) :], strict=True):
            v = v.relabel(letter.label, new)
        return v


class Algebra(Evaluator[V, E]):
    """An evaluator with few operations: entrywise ones, products, folds, joined columns."""

    @abstractmethod
    def length(self, v: V, label: str) -> Any:
        """The length of an axis, as this meaning represents sizes."""

    def lengths(self, e: Expr, v: V, labels: Sequence[str], env: E) -> list[Any]:
        return [self.length(v, label) for label in labels]

    @abstractmethod
    def transpose(self, v: V) -> V:
        """Swap rows and columns; a vector becomes a row."""

    @abstractmethod
    def fold(self, op: str, v: V, label: str) -> V:
        """Reduce one axis by a sum, a mean, a maximum, a minimum or an argmax."""

    @abstractmethod
    def contract(self, a: V, b: V, over: tuple[str, ...]) -> V:
        """Sum of products over labels, entrywise in the other labels that both operands have."""

    @abstractmethod
    def entrywise(self, op: str, args: list[V]) -> V:
        """An entrywise operation on values that are aligned by their labels."""

    @abstractmethod
    def concat(self, args: list[V]) -> V:
        """Columns side by side."""

    def reduction(self, e: Bind, env: E, label: str) -> V:
        if e.op == "sum":
            return self.sum(e, env, label)
        v = self.of(e.body, env)
        return self.fold(e.op, v, label) if label in v.axes else v

    def sum(self, e: Bind, env: E, label: str) -> V:
        """A sum, or nested sums; a sum over a product is part of its contraction."""
        labels, body = [label], e.body
        while isinstance(body, Bind) and body.op == "sum" and not self.over_blocks(body, env):
            env, label = self.bound(body, env)
            labels.append(label)
            body = body.body
        return self.summed(body, env, labels)

    def summed(self, e: Expr, env: E, labels: list[str]) -> V:
        """``e`` summed over labels; each term that is a product is summed separately."""
        if isinstance(e, Apply) and e.op in ("add", "sub") and any(map(is_product, e.args)):
            return self.entrywise(e.op, [self.summed(x, env, labels) for x in e.args])
        if isinstance(e, Apply) and e.op == "prod":
            a, b = (self.of(x, env) for x in e.args)
            both = tuple(x for x in labels if x in a.axes and x in b.axes)
            v = self.product(a, b, both if a.core and b.core else ())
            varies = {*a.axes, *b.axes}
        else:
            v = self.of(e, env)
            varies = {*v.axes}
        for label in labels:
            if label in v.axes:
                v = self.fold("sum", v, label)
            elif label not in varies:  # the same for each value of the index
                count = next(x.count for x in env.index.values()
                             if isinstance(x, Letter) and x.label == label)  # fmt: skip
                v = self.entrywise("times", [v, self.sized(count)])
        return v

    def sized(self, size: Any) -> V:
        """A size as a value."""
        return self.number(Fraction(size))

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: E) -> V:
        if e.op in self.card.function:
            return self.call(e.op, [self.of(a, env) for a in e.args], env.level + 1)
        if e.op == CALL:
            return self.applied(e.args[0], [self.of(a, env) for a in e.args[1:]], env)
        return self.operation(e.op, [self.of(a, env) for a in e.args])

    def operation(self, op: str, args: list[V]) -> V:
        """A primitive, applied to values."""
        if op == "prod":
            return self.product(args[0], args[1])
        if op == "T":
            return self.transpose(args[0])
        if len(args) == 1 and op in REDUCTIONS:
            return self.reduce(op, args[0])
        if op in ("cols", "len", "inner", "concat"):
            args = [self.column(v) for v in args]
        if op in MEASURES:
            first = op == "rows" or (op == "len" and ROW in args[0].axes)
            return self.sized(self.length(args[0], ROW if first else COL))
        if op == "inner":
            return self.contract(args[0].relabel(COL, INNER), args[1].relabel(COL, INNER), (INNER,))
        if op == "concat":
            return self.concat(args)
        return self.entrywise(op, args)

    def reduce(self, op: str, v: V) -> V:
        """A number for each row."""
        found = self.fold(op, self.column(v), COL)
        return found.relabel(ROW, COL) if op == "argmax" else found

    def call(self, name: str, args: list[V], level: int = 1) -> V:
        """A named function, by its definition."""
        function = self.card.function[name]
        return self.defined(function, self.with_defaults(function, args), level)

    def with_defaults(self, function: Function, args: list[V]) -> list[V]:
        """All arguments of a function, with defaults for the missing ones."""
        missing = function.arguments[len(args) :]
        return [*args, *(self.of(a.default) for a in missing if a.default is not None)]

    def defined(self, function: Function, args: list[V], level: int) -> V:
        """A function's definition with arguments put in for its letters."""
        sizes: dict[str, Any] = {}
        values: dict[str, V] = {}
        for argument, v in zip(function.arguments, args, strict=True):
            labels = (ROW, COL) if len(argument.pattern) == 2 else (COL,)
            v = self.column(v) if argument.pattern else v
            for symbol, label in zip(argument.pattern, labels, strict=False):
                sizes[symbol.key] = self.length(v, label)
            values[argument.symbol.key] = v
        env = replace(self.env, arguments=values, sizes=sizes, index={}, level=level, alone=True)
        return self.of(function.body, env)

    def applied(self, f: Expr, args: list[V], env: E) -> V:
        """A function of the card's values, or a composition of one for each block."""
        if isinstance(f, Bind) and f.ranges is not None:
            first, last = (int(self.size(x, env)) for x in f.ranges)
            for k in range(first, last + 1):
                at = replace(env, index={**env.index, f.index: k})
                args = [self.applied(f.body, args, at)]
            return args[0]
        assert isinstance(f, Ref)
        operator = self.card.operator[f.symbol]
        body = body_of(self.card, operator)
        own = dict(zip(f.symbol.slots, f.index, strict=True))
        given = [*(self.of(own[x], env) for x in operator.places), *map(self.reusable, args)]
        inner = replace(
            self.env,
            arguments={a.symbol.key: v for a, v in zip(body.arguments, given, strict=True)},
            index={**self.env.index, **{x: self.member(own[x], env) for x in operator.letters}},
            level=env.level + 1,
            shared=dict.fromkeys(body.shared),
        )  # fmt: skip
        return self.of(body.formula, inner)

    def member(self, index: Expr, env: E) -> Any:
        """The member of a family at an index: a letter's axis, or a number."""
        letter = env.index.get(index.name) if isinstance(index, Idx) else None
        return letter if isinstance(letter, Letter) else self.size(index, env)

    def product(self, a: V, b: V, also: tuple[str, ...] = ()) -> V:
        """Juxtaposition: scaling by a number, or the matrix product (summed over ``also``)."""
        if not a.core or not b.core:
            return self.entrywise("times", [a, b])
        vector = ROW not in b.axes  # A v: a matrix on a vector gives a vector
        if not vector and ROW not in a.axes:  # v B: a vector, of one entry if B is a column
            b = self.column(b)
        a = self.column(a).relabel(COL, INNER)
        b = b.relabel(COL if vector else ROW, INNER)
        out = self.contract(a, b, (*also, INNER))
        return out.relabel(ROW, COL) if vector else out


def is_product(e: Expr) -> bool:
    """Whether an expression is a product, or a sum with one in it."""
    return isinstance(e, Apply) and (
        e.op == "prod" or (e.op in ("add", "sub") and any(map(is_product, e.args)))
    )
