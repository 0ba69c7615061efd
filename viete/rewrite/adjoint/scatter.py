"""Scatter: the derivative of a slice or an index, with zeros in the places that were not read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viete.analysis.typing_rules import ENTRYWISE
from viete.graph.card import CardData
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Pick,
    Slice,
    Table,
    num,
)  # fmt: skip
from viete.rewrite.simplify import simplified


def row_of(e: Expr, letter: str, rank: Callable[[Expr], int]) -> Expr:
    """Row ``letter`` of a matrix, with the index on the values themselves: ``a_j ⊙ b_j``."""
    if isinstance(e, Apply) and (e.op in ENTRYWISE or e.op == "where"):
        args = tuple(row_of(a, letter, rank) if rank(a) == 2 else a for a in e.args)
        return Apply(e.op, args, e.semi)
    return Pick(e, (Idx(letter),))


def picked_back(
    e: Pick, back: Expr, rank: Sequence[int], sizes: Sequence[Expr], letters: Sequence[str],
    bound: set[tuple[str, int]], simple: Callable[[Expr], Expr], card: CardData,
    count: Expr | None = None,
) -> tuple[Expr, set[str]]:  # fmt: skip
    """The derivative of the picked value from ``back`` = ∂e, and the bound letters used up by it.

    ``rank`` gives the axes of each index (−1 for a slice), ``sizes`` those of the value,
    ``letters`` free index letters, ``bound`` the letters that would be summed over all of an axis,
    with the axis; ``count`` how many places a vector of them has.
    """
    items = [*e.items, *[Slice(None, None)] * (len(sizes) - len(e.items))]
    slices = [isinstance(x, Slice) for x in items]
    if rank[0] == 1 and all(
        isinstance(x, Slice) and x.start is None and x.stop is None for x in items[1:]
    ):
        if len(sizes) == 1:
            return entries_back(back, items[0], sizes[0], letters, count), set()
        return card.library("gathered", back, items[0], sizes[0]), set()
    if all(slices) and len(sizes) == 2:
        back = sliced_back(back, items[0], sizes[0], card)
        turned = sliced_back(Apply("T", (back,)), items[1], sizes[1], card)
        return simplified(Apply("T", (turned,))), set()
    back = simple(back) if any(slices) else back
    used: set[str] = set()
    tests: list[Expr] = []
    places: list[Expr] = []
    new: dict[str, Expr] = {}
    for axis, (item, letter, size) in enumerate(zip(items, letters, sizes, strict=False)):
        here = Idx(letter)
        if isinstance(item, Slice):
            start, stop = item.start or num(0), item.stop or size
            whole = start == num(0) and stop == size
            if start != num(0):
                tests.append(Apply("le", (start, here)))
            if stop != size:
                tests.append(Apply("lt", (here, stop)))
            place: Expr = simplified(Apply("sub", (here, start)))
            if not whole:
                last = simplified(Apply("sub", (Apply("sub", (stop, start)), num(1))))
                place = Apply("min", (Apply("max", (place, num(0))), last))
            places.append(place)
        elif isinstance(item, Idx) and (item.name, axis) in bound and item.name not in used:
            back = card.substitute(back, letters={item.name: here})
            used.add(item.name)
            new[item.name] = here
        else:
            k = e.from_end(axis)
            at = item if k is None else Apply("sub", (size, num(k)))
            tests.append(Apply("eq", (here, at)))
    entry = Pick(back, tuple(places)) if places else back
    for test in tests:
        test = card.substitute(test, letters=new)
        entry = Apply("where", (test, entry, num(0)))
    ranges = tuple(zip(letters[: len(sizes)], sizes, strict=True))
    return Table(ranges, entry), used


def entries_back(
    back: Expr, at: Expr, size: Expr, letters: Sequence[str], count: Expr | None
) -> Expr:
    """∂ of a vector read at places t: ``table_{v<n}(sum_j where(t_j = v, back_j, 0))``."""
    assert count is not None
    place, j = letters[:2]
    test = Apply("eq", (Pick(at, (Idx(j),)), Idx(place)))
    entry = Apply("where", (test, Pick(back, (Idx(j),)), num(0)))
    last = simplified(Apply("sub", (count, num(1))))
    return Table(((place, size),), Bind("sum", j, num(0), last, entry))


def sliced_back(back: Expr, item: Expr, size: Expr, card: CardData) -> Expr:
    """``back`` at the rows that were cut out, with zeros in the other rows."""
    assert isinstance(item, Slice)
    if item.start is None and (item.stop is None or item.stop == size):
        return back
    return card.library("placed", back, item.start or num(0), size)
