"""Capture-avoiding substitution for index letters, arguments and names at once.

A binder (``sum_h body``, ``table_{j<n}(body)``) binds its letter in its body only. The binder takes
another letter if its letter is a name that is put into the body, or if its letter is also used
around it. So the result keeps its meaning, and its printed form can be parsed again, since in the
notation a bound letter hides every other symbol of that name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count

from viete.notation.tree import (
    Expr,
    Idx,
    Ref,
    rebuilt,
    walk,
)

LETTERS = "jkvclpqrsabefgmnouwxyz"  # what a binder takes when its own letter is in use
Ranges = Mapping[str, tuple[Expr, Expr]]


@dataclass(frozen=True)
class Abstraction:
    """``letters ↦ body``: the replacement of a family, whose members each have an index."""

    letters: tuple[str, ...]
    body: Expr


Put = Expr | Abstraction


def substitute(
    e: Expr, *, letters: Mapping[str, Expr] | None = None,
    arguments: Mapping[str, Put] | None = None, names: Mapping[str, Put] | None = None,
    around: Collection[str] = (), taken: Collection[str] = (), ranges: Ranges | None = None,
) -> Expr:  # fmt: skip
    """``e`` with expressions put in for free index letters, arguments of a function, and names.

    All replacements happen at the same time: inserted formulas are not searched again.
    ``arguments`` are symbols of that kind and ``names`` all others, both by their keys; an
    `Abstraction` gets the index.

    ``around`` are the names that no binder may have, those of letters bound around ``e`` among
    them; a binder that has to be renamed takes a letter that is neither there nor in ``taken``.
    ``ranges`` has the bounds of the letters that are declared with some (``sum_h``), which a sum
    over another letter has to say. Raises KeyError where such a letter must change and is not among
    them.
    """
    put = Substitution(arguments or {}, names or {}, frozenset(taken), ranges or {})
    return put.into(e, dict(letters or {}), frozenset(around))


def apart(
    e: Expr, around: Collection[str] = (), taken: Collection[str] = (), ranges: Ranges | None = None
) -> Expr:
    """``e`` with new letters for binders whose letters mean something else around them."""
    return substitute(e, around=around, taken=taken, ranges=ranges)


@dataclass(frozen=True)
class Substitution:
    """A set of replacements; see `substitute`."""

    arguments: Mapping[str, Put]
    names: Mapping[str, Put]
    taken: frozenset[str]
    ranges: Ranges

    def into(self, e: Expr, letters: Mapping[str, Expr], around: frozenset[str]) -> Expr:
        """``e``, below binders of the letters ``around``, with the replacements put in."""

        def go(x: Expr) -> Expr:
            return self.into(x, letters, around)

        match e:
            case Idx(name):
                return self.freshened(letters[name], around) if name in letters else e
            case Ref():
                index = tuple(map(go, e.index))
                new = self.of(e)
                if new is None:
                    return rebuilt(e, index)
                if isinstance(new, Abstraction):
                    at = dict(zip(new.letters, index, strict=True))
                    plain = Substitution({}, {}, self.taken, self.ranges)
                    return plain.into(new.body, at, around)
                return self.freshened(new, around)
        if not e.bound:
            return rebuilt(e, [go(part) for part in e.children])
        *ranges, body = e.children
        # A sum over all of a declared range keeps its letter, which means that range.
        avoid = around if ranges else frozenset[str]()
        own, body = self.under(e.bound, body, letters, around, avoid)
        ranges = [go(x) for x in ranges]
        if own != e.bound and not ranges:
            ranges = list(self.ranges[e.bound[0]])
        return e.over([*ranges, body], own)

    def of(self, e: Ref) -> Put | None:
        """The replacement of a name."""
        return (self.arguments if e.symbol.kind == "argument" else self.names).get(e.key)

    def freshened(self, new: Expr, around: frozenset[str]) -> Expr:
        """A replacement whose own binders have letters that nothing around it uses."""
        if not new.binders:
            return new
        return Substitution({}, {}, self.taken, self.ranges).into(new, {}, around)

    def under(
        self, own: tuple[str, ...], body: Expr, letters: Mapping[str, Expr],
        around: frozenset[str], avoid: frozenset[str],
    ) -> tuple[tuple[str, ...], Expr]:  # fmt: skip
        """The body of a binder of ``own`` letters, and its letters afterwards."""
        free = body.free
        inner = {k: v for k, v in letters.items() if k in free and k not in own}
        used = avoid | frozenset[str]().union(*map(free_names, self.incoming(body, inner)))
        new: list[str] = []
        for letter in own:
            if letter in used:
                every = used | around | self.taken | free | body.plain | {*own, *new}
                letter = fresh(every | body.binders)
            new.append(letter)
        inner |= {a: Idx(b) for a, b in zip(own, new, strict=True) if a != b}
        return tuple(new), self.into(body, inner, around.union(new))

    def incoming(self, body: Expr, letters: Mapping[str, Expr]) -> Iterator[Expr]:
        """The replacements that enter the body of a binder, and the names that stay in it."""
        yield from letters.values()
        for x in walk(body):
            if isinstance(x, Ref):
                new = self.of(x)
                if isinstance(new, Abstraction):
                    gone = {letter: Idx(f"{letter}′") for letter in new.letters}
                    yield substitute(new.body, letters=gone)
                else:
                    yield replace(x, index=()) if new is None else new


def free_names(e: Expr) -> frozenset[str]:
    """The names that an inserted formula uses: its free letters and plain names."""
    return e.free | e.plain


def fresh(taken: Collection[str], wishes: Iterable[str] = LETTERS) -> str:
    """The first of the ``wishes`` that is free; if none is, the last of them with a number."""
    wishes = tuple(wishes)
    more = (f"{wishes[-1]}{k}" for k in count(2))
    return next(x for x in chain(wishes, more) if x not in taken)


__all__ = [
    "LETTERS", "Abstraction", "apart", "free_names", "fresh", "substitute",
]  # fmt: skip
