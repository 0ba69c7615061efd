"""The expression tree: eight kinds of node, the same for every spelling and every meaning.

Nodes are interned (hash-consed): equal nodes are one object. So comparing two formulas is a
comparison of identity, a node can be a key, and a fact about it is computed once. A node does not
know its place in a source: the `Text` that was parsed remembers that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from operator import is_
from threading import Lock
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform
from weakref import WeakValueDictionary

T = TypeVar("T")
INTERNED: WeakValueDictionary[tuple[object, ...], Interned] = WeakValueDictionary()
MEASURES = ("rows", "cols", "len")  # of a matrix; of a vector the second; of its first axis
LENGTHS = ("len", "cols")  # of a value's first axis, and of its second
# Operations that no name can be: a function of the card applied to arguments, with the function
# first; several one after the other; a formula with some of what it is made of replaced.
CALL, COMPOSE, WITH = "()", "∘", "with"
PARTIAL = "partial{"  # with which the name of a derivative begins: partial{W}_Q
LOCK = Lock()  # two threads that make one content get one object


class Interned:
    """Immutable content with one object for equal contents: ``==`` and ``is`` agree."""

    defaults: ClassVar[tuple[Any, ...]]
    __match_args__: ClassVar[tuple[str, ...]]

    def __new__(cls, *args: Any, **named: Any) -> Self:
        if named:
            names, rest = cls.__match_args__[len(args) :], cls.defaults[len(args) :]
            args += tuple(named.get(name, one) for name, one in zip(names, rest, strict=True))
        elif len(args) < len(cls.defaults):
            args += cls.defaults[len(args) :]
        key = (cls, args)
        found: Any = INTERNED.get(key)
        if found is None:
            with LOCK:
                found = INTERNED.get(key)
                if found is None:
                    found = object.__new__(cls)
                    found.__dict__.update(zip(cls.__match_args__, args, strict=True))
                    INTERNED[key] = found
        return found

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), tuple(self.__dict__[name] for name in self.__match_args__)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def interned(kind: type[T]) -> type[T]:
    """The fields of a class of `Interned`."""
    made = dataclass(frozen=True, eq=False, init=False)(kind)
    fields = made.__dataclass_fields__  # type: ignore[attr-defined]
    made.defaults = tuple(fields[name].default for name in made.__match_args__)  # type: ignore[attr-defined]
    return made


@interned
class Expr(Interned):
    """The base class of all nodes.

    Each kind says what its ``children`` are, which index letters it has ``bound`` in the last of
    them, what its ``head`` is beside these, and how it is made ``over`` others; all other facts
    follow, and are found once.
    """

    bound: ClassVar[tuple[str, ...]] = ()

    @property
    def children(self) -> tuple[Expr, ...]:
        """The direct sub-expressions, in reading order."""
        return ()

    @property
    def head(self) -> tuple[object, ...]:
        """The node without its children and its bound letters."""
        return ()

    def over(self, parts: Sequence[Expr], bound: tuple[str, ...] | None = None) -> Expr:
        """This node with the same number of other children, and other bound letters."""
        return self

    @cached_property
    def keys(self) -> frozenset[str]:
        """The names to which it refers."""
        return frozenset[str]().union(*(x.keys for x in self.children))

    @cached_property
    def free(self) -> frozenset[str]:
        """The index letters in it that nothing inside binds."""
        parts = [x.free for x in self.children]
        if self.bound:
            parts[-1] = parts[-1].difference(self.bound)
        return frozenset[str]().union(*parts)

    @cached_property
    def standing(self) -> frozenset[tuple[str, str]]:
        """The index slots at which free letters occur: ``("i", "k")`` for ``x^{k-1}``."""
        found = frozenset[tuple[str, str]]().union(*(x.standing for x in self.children))
        return frozenset(x for x in found if x[1] not in self.bound) if self.bound else found

    @cached_property
    def made_of(self) -> frozenset[str]:
        """The kinds of symbols in it; ``index`` for letters, ``entries`` for picked entries.

        ``rows(x)`` and ``cols(x)`` are dimensions, whatever x is.
        """
        own = ("entries",) if isinstance(self, Bind | Table | Slice | Pick) else ()
        return frozenset(own).union(*(x.made_of for x in self.children))

    @property
    def constant(self) -> bool:
        """Whether it contains only numbers and dimensions."""
        return self.made_of <= {"dim"}

    @cached_property
    def plain(self) -> frozenset[str]:
        """The names without scripts in it; a bound letter of that name would hide them."""
        return frozenset[str]().union(*(x.plain for x in self.children))

    @cached_property
    def binders(self) -> frozenset[str]:
        """The letters that its binders bind."""
        return frozenset(self.bound).union(*(x.binders for x in self.children))


@interned
class Num(Expr):
    """An exact rational number; decimals are read exactly (``1e-5`` is 1/100000)."""

    value: Fraction

    @property
    def head(self) -> tuple[object, ...]:
        return (self.value,)


@dataclass(frozen=True)
class Slot:
    """One script of a symbol: the label ``Q``, or the index ``i``."""

    text: str
    index: bool = False


@interned
class Symbol(Interned):
    """A declared name: a base with labels and index slots below and above.

    ``kind`` is 'dim', 'input', 'parameter', 'value', 'argument' or 'function' (a card's own
    function of values, which may share its name with a value).
    """

    kind: str
    base: str
    sub: tuple[Slot, ...] = ()
    sup: tuple[Slot, ...] = ()

    @cached_property
    def key(self) -> str:
        """The canonical plain spelling, subscripts first: ``W_Q^{i,h}``."""
        return (
            self.base
            + script("_", [s.text for s in self.sub])
            + script("^", [s.text for s in self.sup])
            + (CALL if self.kind == "function" else "")
        )

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Index letters in the order of the key."""
        return tuple(s.text for s in self.sub + self.sup if s.index)

    @property
    def member(self) -> Ref:
        """The symbol with its own letters, which means each member of its family: ``Q^{i,h}``."""
        return Ref(self, tuple(map(Idx, self.slots)))

    @property
    def is_partial(self) -> bool:
        """Whether this names a derivative, ∂X."""
        return self.base.startswith(PARTIAL)


def labels_below(symbol: Symbol) -> list[str]:
    """The subscript that is part of a name, such as 1 in ``W_1``."""
    return [s.text for s in symbol.sub if not s.index]


def script(sign: str, items: list[str]) -> str:
    """``_Q``, ``^{i,h}``: with braces only if there is more than one word."""
    if not items:
        return ""
    inner = ",".join(items)
    bare = inner.isalnum() and inner.isascii() and (inner[0].isalpha() or inner.isdigit())
    return sign + (inner if bare else "{" + inner + "}")


@interned
class Ref(Expr):
    """A named value: parameter, input, equation, dimension or a function's own argument.

    ``index`` gives an expression for each of the symbol's index slots, in the order of its key.
    """

    symbol: Symbol
    index: tuple[Expr, ...] = ()

    @property
    def key(self) -> str:
        return self.symbol.key

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.index

    @cached_property
    def standing(self) -> frozenset[tuple[str, str]]:
        pairs = zip(self.symbol.slots, self.index, strict=True)
        own = ((slot, name) for slot, x in pairs for name in x.free)
        return frozenset(own).union(*(x.standing for x in self.index))

    @cached_property
    def keys(self) -> frozenset[str]:
        return frozenset((self.key,)).union(*(x.keys for x in self.index))

    @cached_property
    def made_of(self) -> frozenset[str]:
        return frozenset((self.symbol.kind,)).union(*(x.made_of for x in self.index))

    @cached_property
    def plain(self) -> frozenset[str]:
        own = () if self.symbol.sub or self.symbol.sup else (self.symbol.base,)
        return frozenset(own).union(*(x.plain for x in self.index))

    @property
    def head(self) -> tuple[object, ...]:
        return (self.symbol,)

    def over(self, parts: Sequence[Expr], bound: tuple[str, ...] | None = None) -> Ref:
        return Ref(self.symbol, tuple(parts))


@interned
class Idx(Expr):
    """A bound index letter used as a number: blocks and heads count from 1, positions from 0."""

    name: str

    @cached_property
    def free(self) -> frozenset[str]:
        return frozenset((self.name,))

    @cached_property
    def made_of(self) -> frozenset[str]:
        return frozenset(("index",))

    @property
    def head(self) -> tuple[object, ...]:
        return (self.name,)


@interned
class Apply(Expr):
    """An operation or a named function applied to arguments.

    ``semi`` is the number of arguments before the semicolon: as in the function's definition if
    more arguments follow, else 0.
    """

    op: str
    args: tuple[Expr, ...]
    semi: int = field(default=0, repr=False)

    @property
    def children(self) -> tuple[Expr, ...]:
        return self.args

    @cached_property
    def made_of(self) -> frozenset[str]:
        return super().made_of if self.op not in MEASURES else frozenset(("dim",))

    @property
    def head(self) -> tuple[object, ...]:
        return (self.op,)

    def over(self, parts: Sequence[Expr], bound: tuple[str, ...] | None = None) -> Apply:
        return Apply(self.op, tuple(parts), self.semi)


@interned
class Bind(Expr):
    """``sum_h body``, ``concat_h(body)``, ``mean_j(body)``, ``max_j(body)``: folds an index away.

    ``lower`` and ``upper`` are inclusive bounds, or both None where the index's declared range is
    meant.
    """

    op: str
    index: str
    lower: Expr | None
    upper: Expr | None
    body: Expr

    @property
    def bound(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.index,)

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.body,) if self.ranges is None else (*self.ranges, self.body)

    @property
    def ranges(self) -> tuple[Expr, Expr] | None:
        """Its bounds; None if the letter's declared range is meant."""
        return None if self.lower is None or self.upper is None else (self.lower, self.upper)

    @property
    def head(self) -> tuple[object, ...]:
        return (self.op, self.index if self.ranges is None else None)  # that letter means a range

    def over(self, parts: Sequence[Expr], bound: tuple[str, ...] | None = None) -> Bind:
        *bounds, body = parts
        (index,) = bound or self.bound
        lower, upper = bounds or (None, None)
        return Bind(self.op, index, lower, upper, body)


@interned
class Table(Expr):
    """``table_{j<n, k<m}(body)``: the vector or matrix whose entries are ``body``.

    One or two (index, size) pairs: rows first, then columns. Indices count from 0.
    """

    ranges: tuple[tuple[str, Expr], ...]
    body: Expr

    @property
    def bound(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(letter for letter, _ in self.ranges)

    @property
    def children(self) -> tuple[Expr, ...]:
        return tuple(size for _, size in self.ranges) + (self.body,)

    @property
    def head(self) -> tuple[object, ...]:
        return (len(self.ranges),)

    def over(self, parts: Sequence[Expr], bound: tuple[str, ...] | None = None) -> Table:
        *sizes, body = parts
        return Table(tuple(zip(bound or self.bound, sizes, strict=True)), body)


@interned
class Slice(Expr):
    """``start:stop`` inside brackets, counted from 0, ``stop`` excluded."""

    start: Expr | None
    stop: Expr | None

    @property
    def children(self) -> tuple[Expr, ...]:
        return tuple(x for x in (self.start, self.stop) if x is not None)

    @property
    def head(self) -> tuple[object, ...]:
        return self.start is None, self.stop is None

    def over(self, parts: Sequence[Expr], bound: tuple[str, ...] | None = None) -> Slice:
        rest = iter(parts)
        start, stop = (None if x is None else next(rest) for x in (self.start, self.stop))
        return Slice(start, stop)


@interned
class Pick(Expr):
    """``E[x]``, ``x_j``, ``p_{j,k}``, ``W[:n]``, ``x[:, :r]``: rows and entries of a value."""

    value: Expr
    items: tuple[Expr, ...]

    @property
    def children(self) -> tuple[Expr, ...]:
        return (self.value, *self.items)

    def over(self, parts: Sequence[Expr], bound: tuple[str, ...] | None = None) -> Pick:
        return Pick(parts[0], tuple(parts[1:]))

    def from_end(self, axis: int) -> int | None:
        """The k of an index ``-k``, which counts from the end; None for any other index."""
        match self.items[axis] if axis < len(self.items) else None:
            case Apply("sub", (Apply(op, (value,)), Num(k))) if (
                value is self.value and op == LENGTHS[axis] and k > 0 and k.denominator == 1
            ):
                return int(k)
        return None


def place_from_end(value: Expr, axis: int, k: int) -> Apply:
    """The index ``-k`` on an axis of a value, counted from 0: ``len(x) - k``, ``cols(x) - k``.

    So every meaning has it, and a rewriting may put another value there. A negative number that a
    formula comes to, as ``j - 1`` may, is not this tree, and stays an error.
    """
    return Apply("sub", (Apply(LENGTHS[axis], (value,)), num(k)))


NEAR = Fraction(1, 100)  # of the larger side: what ``a ≈ b`` allows without a tolerance of its own


def near(a: Expr, b: Expr, within: Expr | None = None) -> Apply:
    """``a ≈ b within e``: the two differ by at most e, entry by entry."""
    if within is None:
        larger = Apply("max", (Apply("abs", (a,)), Apply("abs", (b,))))
        within = Apply("times", (Num(NEAR), larger))
    return Apply("le", (Apply("abs", (Apply("sub", (a, b)),)), within))


def sides_near(e: Expr) -> tuple[Expr, Expr, Expr | None] | None:
    """a, b and the tolerance of ``a ≈ b within e`` (None: the usual one); else None."""
    match e:
        case Apply("le", (Apply("abs", (Apply("sub", (a, b)),)), within)):
            return a, b, None if e is near(a, b) else within
    return None


def rebuilt(e: Expr, parts: Sequence[Expr]) -> Expr:
    """The node with other `children`; the same object if they are the same."""
    if all(map(is_, e.children, parts)) and len(e.children) == len(parts):
        return e
    return e.over(parts)


def walk(e: Expr, leave: Callable[[Expr], bool] | None = None) -> Iterator[Expr]:
    """The node and all nodes below it, without recursion; skips what is below a ``leave`` node."""
    stack = [e]
    while stack:
        node = stack.pop()
        yield node
        if leave is not None and leave(node):
            continue
        if below := node.children:
            stack.extend(below[::-1])


def refs(e: Expr) -> Iterator[Ref]:
    """The names in a formula, with repetitions, in reading order."""
    return (x for x in walk(e) if isinstance(x, Ref))


def transform(e: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild from the leaves up; ``rule`` returns a node's replacement, or None to keep it."""

    def go(x: Expr) -> Expr:
        if below := x.children:
            parts = [go(part) for part in below]
            if not all(map(is_, below, parts)):
                x = x.over(parts)
        return rule(x) or x

    return go(e)


def replaced(e: Expr, parts: Mapping[Expr, Expr]) -> Expr:
    """A formula with some of its parts replaced, wherever they occur.

    What is bound around them binds what is put there too; see `substitution` for what may not be.
    """
    return transform(e, parts.get)


@lru_cache(maxsize=1 << 10)
def num(value: int | str | Fraction) -> Num:
    """Shorthand for a number."""
    return Num(Fraction(value))


def signed(value: Fraction) -> Expr:
    """A number as one writes it: negative numbers with a sign."""
    return Apply("neg", (num(-value),)) if value < 0 else num(value)
