"""Normal forms of indices: shifts added up, and binders' letters renamed by their use."""

from __future__ import annotations

from functools import lru_cache

from viete.notation.substitution import substitute
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Ref,
    Slice,
    num,
    rebuilt,
    transform,
    walk,
)


def indexed(e: Expr) -> Expr:
    """An index in one form: ``i - 1 + 1`` as ``i``."""
    if isinstance(e, Slice):
        return e
    base, by = offset(e)
    return moved(base, by) if base is not None else num(by)


def offset(e: Expr) -> tuple[Expr | None, int]:
    """An index as a formula plus a number."""
    match e:
        case Num(value) if value.denominator == 1:
            return None, int(value)
        case Apply("add", (a, Num(k))) if k.denominator == 1:
            base, by = offset(a)
            return base, by + int(k)
        case Apply("sub", (a, Num(k))) if k.denominator == 1:
            base, by = offset(a)
            return base, by - int(k)
    return e, 0


def moved(e: Expr, by: int) -> Expr:
    """An index plus a number."""
    base, own = offset(e)
    by += own
    if base is None:
        return num(by)
    return base if not by else Apply("add" if by > 0 else "sub", (base, num(abs(by))))


def replaced_letter(e: Expr, letter: str, place: Expr) -> Expr:
    """A formula with an expression for a letter, and its indices in one form."""

    def in_one_form(x: Expr) -> Expr | None:
        return rebuilt(x, [indexed(y) for y in x.index]) if isinstance(x, Ref) else None

    return transform(substitute(e, letters={letter: place}), in_one_form)


def greatest_offset(e: Expr, letter: str) -> int | None:
    """The greatest k of the indices ``i + k`` in a formula; None where i occurs otherwise."""
    found: list[int] = []
    places = 0
    for x in walk(e):
        if isinstance(x, Ref):
            for index in x.index:
                base, by = offset(index)
                if base == Idx(letter):
                    found.append(by)
        places += x == Idx(letter)
    return max(found) if found and places == len(found) else None


@lru_cache(maxsize=1 << 14)
def canonical(e: Expr) -> Expr:
    """A formula whose bound letters depend only on the body they bind."""
    e = rebuilt(e, [canonical(x) for x in e.children])
    if not isinstance(e, Bind):
        return e
    height = 1 + max((int(x.index[1:]) for x in walk(e.body) if isinstance(x, Bind)
                      and x.index[:1] == "#"), default=0)  # fmt: skip
    letter = f"#{height}"
    body = substitute(e.body, letters={e.index: Idx(letter)})
    return replace_bound(e, letter, body)


def replace_bound(e: Bind, letter: str, body: Expr) -> Bind:
    """A binder with another letter."""
    return Bind(e.op, letter, e.lower, e.upper, body)


__all__ = ["canonical", "greatest_offset", "indexed", "moved", "replaced_letter"]
