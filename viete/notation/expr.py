"""The expression tree: eight kinds of node, the same for every spelling and every meaning.

Nodes are immutable and compare by content. ``at`` is the stretch of source a node came from
(start and end offsets in the text that was parsed); it takes no part in comparison, so that two
spellings of one formula are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

At = tuple[int, int]


@dataclass(frozen=True)
class Expr:
    """Base of all nodes."""

    at: At | None = field(default=None, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Num(Expr):
    """An exact rational number; decimals are read exactly (``1e-5`` is 1/100000)."""

    value: Fraction


@dataclass(frozen=True)
class Slot:
    """One script of a symbol: the label ``Q``, or the index ``i``."""

    text: str
    index: bool = False


@dataclass(frozen=True)
class Symbol:
    """A declared name: a base with labels and index slots below and above.

    ``kind`` is 'dim', 'input', 'parameter', 'value' or 'argument'; it takes no part in comparison.
    """

    kind: str = field(compare=False)
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
        )

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Index letters in the order of the key."""
        return tuple(s.text for s in self.sub + self.sup if s.index)

    @property
    def is_partial(self) -> bool:
        """Whether this names a derivative, ∂X."""
        return self.base.startswith("partial{")


def script(sign: str, items: list[str]) -> str:
    """``_Q``, ``^{i,h}``: braces only where more than one word needs them."""
    if not items:
        return ""
    inner = ",".join(items)
    bare = inner.isalnum() and inner.isascii() and (inner[0].isalpha() or inner.isdigit())
    return sign + (inner if bare else "{" + inner + "}")


@dataclass(frozen=True)
class Ref(Expr):
    """A named value: parameter, input, equation, dimension or a function's own argument.

    ``index`` gives an expression for each of the symbol's index slots, in the order of its key.
    """

    symbol: Symbol
    index: tuple[Expr, ...] = ()

    @property
    def key(self) -> str:
        return self.symbol.key


@dataclass(frozen=True)
class Idx(Expr):
    """A bound index letter used as a number: a block or head counts from 1, a position from 0."""

    name: str


@dataclass(frozen=True)
class Apply(Expr):
    """An operation or a named function applied to arguments.

    ``semi`` is how many arguments stood before a semicolon, for printing only.
    """

    op: str
    args: tuple[Expr, ...]
    semi: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True)
class Bind(Expr):
    """``sum_h body``, ``concat_h(body)``, ``mean_j(body)``, ``max_j(body)``: folds an index away.

    ``lower`` and ``upper`` are inclusive bounds, or both None where the index's declared range
    is meant.
    """

    op: str
    index: str
    lower: Expr | None
    upper: Expr | None
    body: Expr


@dataclass(frozen=True)
class Table(Expr):
    """``table_{j<n, k<m}(body)``: the vector or matrix whose entries are ``body``.

    One or two (index, size) pairs: rows first, then columns. Indices count from 0.
    """

    ranges: tuple[tuple[str, Expr], ...]
    body: Expr


@dataclass(frozen=True)
class Slice(Expr):
    """``start:stop`` inside brackets, counted from 0, ``stop`` not included."""

    start: Expr | None
    stop: Expr | None


@dataclass(frozen=True)
class Pick(Expr):
    """``E[x]``, ``x_j``, ``p_{j,k}``, ``W[:n]``, ``x[:, :r]``: rows and entries of a value."""

    value: Expr
    items: tuple[Expr, ...]


def children(e: Expr) -> tuple[Expr, ...]:
    """The node's direct sub-expressions, in reading order."""
    match e:
        case Ref():
            return e.index
        case Apply():
            return e.args
        case Num() | Idx():
            return ()
        case Bind():
            return tuple(x for x in (e.lower, e.upper) if x is not None) + (e.body,)
        case Table():
            return tuple(size for _, size in e.ranges) + (e.body,)
        case Slice():
            return tuple(x for x in (e.start, e.stop) if x is not None)
        case Pick():
            return (e.value, *e.items)
    return ()


def rebuilt(e: Expr, parts: Sequence[Expr]) -> Expr:
    """The node with other `children`; itself where they are the same objects."""
    old = children(e)
    if all(a is b for a, b in zip(old, parts, strict=True)):
        return e
    match e:
        case Ref():
            return Ref(e.symbol, tuple(parts), at=e.at)
        case Apply():
            return Apply(e.op, tuple(parts), e.semi, at=e.at)
        case Bind():
            rest = iter(parts)
            lower, upper = (None if x is None else next(rest) for x in (e.lower, e.upper))
            return Bind(e.op, e.index, lower, upper, next(rest), at=e.at)
        case Table():
            letters = (letter for letter, _ in e.ranges)
            *sizes, body = parts
            return Table(tuple(zip(letters, sizes, strict=True)), body, at=e.at)
        case Slice():
            rest = iter(parts)
            start, stop = (None if x is None else next(rest) for x in (e.start, e.stop))
            return Slice(start, stop, at=e.at)
        case Pick():
            return Pick(parts[0], tuple(parts[1:]), at=e.at)
    return e


def placed(e: Expr, at: At | None) -> Expr:
    """The same node, from another stretch of source."""
    node = object.__new__(type(e))
    node.__dict__.update(e.__dict__, at=at)
    return node


def walk(e: Expr) -> Iterator[Expr]:
    """The node and everything below it, without recursion."""
    stack = [e]
    while stack:
        node = stack.pop()
        yield node
        if below := children(node):
            stack.extend(below[::-1])


def transform(e: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild from the leaves up; ``rule`` gives a node's replacement, or None to keep it."""

    def go(x: Expr) -> Expr:
        if below := children(x):
            x = rebuilt(x, [go(part) for part in below])
        return rule(x) or x

    return go(e)


def free_indices(e: Expr) -> frozenset[str]:
    """Index letters used in ``e`` that nothing inside ``e`` binds."""
    match e:
        case Idx():
            return frozenset((e.name,))
        case Bind():
            return (free_indices(e.body) - {e.index}).union(
                *(free_indices(x) for x in (e.lower, e.upper) if x is not None)
            )
        case Table():
            sizes = frozenset[str]().union(*(free_indices(s) for _, s in e.ranges))
            return (free_indices(e.body) - {i for i, _ in e.ranges}) | sizes
    return frozenset[str]().union(*map(free_indices, children(e)))


def num(value: int | str | Fraction) -> Num:
    """Shorthand for a number."""
    return Num(Fraction(value))
