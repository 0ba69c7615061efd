"""Capture-avoiding substitution: expressions put for index letters, arguments and names at once.

A binder (``sum_h body``, ``table_{j<n}(body)``) binds its letter in its body alone. Where its
letter is a name that is put into the body, or one that stands for something else around it
already, the binder takes another letter: the result means what it should, and what is printed of
it can be read back, since the notation lets a bound letter hide whatever else has its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count

from viete.notation.expr import (
    Apply,
    Bind,
    Expr,
    Idx,
    Pick,
    Ref,
    Slice,
    Table,
    children,
    free_indices,
    rebuilt,
    walk,
)

LETTERS = "jkvclpqrsabefgmnouwxyz"  # what a binder takes when its own letter is in use
Ranges = Mapping[str, tuple[Expr, Expr]]


@dataclass(frozen=True)
class Abstraction:
    """``letters ↦ body``: what is put for a family, whose members have an index each."""

    letters: tuple[str, ...]
    body: Expr


Put = Expr | Abstraction


def substitute(
    e: Expr, *, letters: Mapping[str, Expr] | None = None,
    arguments: Mapping[str, Put] | None = None, names: Mapping[str, Put] | None = None,
    around: Collection[str] = (), taken: Collection[str] = (), ranges: Ranges | None = None,
) -> Expr:  # fmt: skip
    """``e`` with expressions for free index letters, for arguments of a function and for names.

    All are put in at the same time: what is put in is not searched again. ``arguments`` are symbols
    of that kind and ``names`` all others, both by their keys; an `Abstraction` gets the index.

    ``around`` are the names that no binder may have, those of letters bound around ``e`` among
    them; a binder that has to be renamed takes a letter that is neither there nor in ``taken``.
    ``ranges`` has the bounds of the letters that are declared with some (``sum_h``), which a sum
    over another letter has to say. Raises KeyError where such a letter must change and is not
    among them.
    """
    put = Substitution(arguments or {}, names or {}, frozenset(taken), ranges or {})
    return put.into(e, dict(letters or {}), frozenset(around))


def apart(
    e: Expr, around: Collection[str] = (), taken: Collection[str] = (), ranges: Ranges | None = None
) -> Expr:
    """``e`` with other letters for the binders whose own stands for something else around them."""
    return substitute(e, around=around, taken=taken, ranges=ranges)


@dataclass(frozen=True)
class Substitution:
    """What is put in; see `substitute`."""

    arguments: Mapping[str, Put]
    names: Mapping[str, Put]
    taken: frozenset[str]
    ranges: Ranges

    def into(self, e: Expr, letters: Mapping[str, Expr], around: frozenset[str]) -> Expr:
        """``e``, which stands under binders of the letters ``around``."""

        def go(x: Expr) -> Expr:
            return self.into(x, letters, around)

        match e:
            case Idx(name):
                return self.whole(letters[name], around) if name in letters else e
            case Ref():
                index = tuple(map(go, e.index))
                new = self.of(e)
                if new is None:
                    return rebuilt(e, index)
                if isinstance(new, Abstraction):
                    at = dict(zip(new.letters, index, strict=True))
                    plain = Substitution({}, {}, self.taken, self.ranges)
                    return plain.into(new.body, at, around)
                return self.whole(new, around)
            case Apply() | Slice() | Pick():
                return rebuilt(e, [go(part) for part in children(e)])
            case Bind():
                # A sum over all of a declared range keeps its letter, which means that range.
                over = around if e.lower is not None else frozenset[str]()
                (letter,), body = self.under((e.index,), e.body, letters, around, over)
                lower, upper = (x and go(x) for x in (e.lower, e.upper))
                if letter != e.index and lower is None:
                    lower, upper = self.ranges[e.index]
                return replace(e, index=letter, lower=lower, upper=upper, body=body)
            case Table():
                own = tuple(i for i, _ in e.ranges)
                own, body = self.under(own, e.body, letters, around, around)
                sizes = (go(s) for _, s in e.ranges)
                return replace(e, ranges=tuple(zip(own, sizes, strict=True)), body=body)
        return e

    def of(self, e: Ref) -> Put | None:
        """What is put for a name."""
        return (self.arguments if e.symbol.kind == "argument" else self.names).get(e.key)

    def whole(self, new: Expr, around: frozenset[str]) -> Expr:
        """What is put in, with letters for its own binders that nothing around it has."""
        if not bound_letters(new):
            return new
        return Substitution({}, {}, self.taken, self.ranges).into(new, {}, around)

    def under(
        self, own: tuple[str, ...], body: Expr, letters: Mapping[str, Expr],
        around: frozenset[str], avoid: frozenset[str],
    ) -> tuple[tuple[str, ...], Expr]:  # fmt: skip
        """The body of a binder of ``own`` letters, and the letters that it has then."""
        free = free_indices(body)
        inner = {k: v for k, v in letters.items() if k in free and k not in own}
        used = avoid | frozenset[str]().union(*map(free_names, self.incoming(body, inner)))
        new: list[str] = []
        for letter in own:
            if letter in used:
                every = used | around | self.taken | free | plain_names(body) | {*own, *new}
                letter = fresh(every | bound_letters(body))
            new.append(letter)
        inner |= {a: Idx(b) for a, b in zip(own, new, strict=True) if a != b}
        return tuple(new), self.into(body, inner, around.union(new))

    def incoming(self, body: Expr, letters: Mapping[str, Expr]) -> Iterator[Expr]:
        """What comes into the body of a binder, and the names that stay in it."""
        yield from letters.values()
        for x in walk(body):
            if isinstance(x, Ref):
                new = self.of(x)
                if isinstance(new, Abstraction):
                    gone = {letter: Idx(f"{letter}′") for letter in new.letters}
                    yield substitute(new.body, letters=gone)
                else:
                    yield replace(x, index=()) if new is None else new


def plain_names(e: Expr) -> frozenset[str]:
    """The names without scripts in a formula, which a bound letter of that name would hide."""
    return frozenset(
        x.symbol.base for x in walk(e) if isinstance(x, Ref) and not (x.symbol.sub or x.symbol.sup)
    )


def free_names(e: Expr) -> frozenset[str]:
    """What a binder around a formula must not be called: its free letters and plain names."""
    return free_indices(e) | plain_names(e)


def bound_letters(e: Expr) -> frozenset[str]:
    """The letters of all binders in a formula."""
    return frozenset(
        letter for x in walk(e)
        for letter in (
            (x.index,) if isinstance(x, Bind)
            else (i for i, _ in x.ranges) if isinstance(x, Table) else ()
        )
    )  # fmt: skip


def fresh(taken: Collection[str], wishes: Iterable[str] = LETTERS) -> str:
    """The first of the ``wishes`` that is not taken; if all are, the last of them with a number."""
    wishes = tuple(wishes)
    more = (f"{wishes[-1]}{k}" for k in count(2))
    return next(x for x in chain(wishes, more) if x not in taken)


def alpha_equal(a: Expr, b: Expr) -> bool:
    """Whether two formulas differ in nothing but the letters of their binders."""

    def same(x: Expr | None, y: Expr | None, one: dict[str, int], two: dict[str, int]) -> bool:
        def all_same(xs: Iterable[Expr | None], ys: Iterable[Expr | None]) -> bool:
            return all(same(p, q, one, two) for p, q in zip(xs, ys, strict=True))

        def bodies(own: Iterable[str], other: Iterable[str], p: Expr, q: Expr) -> bool:
            level = len(one) + len(two)
            return same(p, q, one | {i: level + k for k, i in enumerate(own)},
                        two | {i: level + k for k, i in enumerate(other)})  # fmt: skip

        match x, y:
            case (Idx(p), Idx(q)):
                return one.get(p) == two.get(q) and (p in one or p == q)
            case (Bind(), Bind()):
                return (
                    x.op == y.op
                    and (x.lower is not None or x.index == y.index)
                    and all_same((x.lower, x.upper), (y.lower, y.upper))
                    and bodies([x.index], [y.index], x.body, y.body)
                )
            case (Table(), Table()):
                return (
                    len(x.ranges) == len(y.ranges)
                    and all_same((s for _, s in x.ranges), (s for _, s in y.ranges))
                    and bodies((i for i, _ in x.ranges), (i for i, _ in y.ranges), x.body, y.body)
                )
            case (Expr(), Expr()):
                if type(x) is not type(y) or len(children(x)) != len(children(y)):
                    return False
                match x, y:
                    case (Ref(), Ref()) if x.symbol != y.symbol:
                        return False
                    case (Apply(), Apply()) if x.op != y.op:
                        return False
                    case (Slice(), Slice()):
                        return all_same((x.start, x.stop), (y.start, y.stop))
                return all_same(children(x), children(y)) if children(x) else x == y
        return x == y

    return same(a, b, {}, {})


__all__ = [
    "LETTERS", "Abstraction", "alpha_equal", "apart", "bound_letters", "free_names", "fresh",
    "plain_names", "substitute",
]  # fmt: skip
