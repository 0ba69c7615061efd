"""Dependence: which values are made of which, by name; slices of a model's equations.

A backward slice is what some values are made of, a forward slice all that is made of them (Weiser
1981). A name stands for a value in all blocks; which equation makes the x^{i-1} that another one
reads is told by `viete.graph.def_use`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from viete.graph.card import CardData, Equation, Function
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, Table, walk

FLAT = frozenset("argmax floor rows cols lt le gt ge eq ne".split())  # no derivative passes


def names_read(equations: Iterable[Equation]) -> frozenset[str]:
    """All names that some equations refer to."""
    return frozenset[str]().union(*(e.reads for e in equations))


def backward_slice(card: CardData, names: Iterable[str]) -> list[Equation]:
    """The equations that these values need, their own among them, in the model's order."""
    needed = set(names)
    while True:
        before = len(needed)
        needed |= names_read(e for e in card.equations if e.name in needed)
        if len(needed) == before:
            return [e for e in card.equations if e.name in needed]


def forward_slice(
    card: CardData, names: Iterable[str],
    passes: Callable[[Equation, Collection[str]], bool] | None = None,
) -> set[str]:  # fmt: skip
    """The names, and those of all values that are made of them.

    ``passes`` says whether an equation that reads some of the names hands them on; all do unless
    it is given.
    """
    found = set(names)
    while True:
        before = len(found)
        for e in card.equations:
            if not e.reads.isdisjoint(found) and (passes is None or passes(e, found)):
                found.add(e.name)
        if len(found) == before:
            return found


def functions_called(functions: Mapping[str, Function], formulas: Iterable[Expr]) -> list[str]:
    """The names of the functions that formulas apply, themselves or through each other."""
    waiting, found = list(formulas), list[str]()
    while waiting:
        for x in walk(waiting.pop()):
            if isinstance(x, Apply) and x.op in functions and x.op not in found:
                found.append(x.op)
                waiting.append(functions[x.op].body)
    return found


# -- derivatives -----------------------------------------------------------------------------------


def reached(card: CardData, wanted: Collection[str]) -> frozenset[str]:
    """The values that depend on what is wanted, and that a derivative can pass through."""
    types = card.shapes.types
    return frozenset(forward_slice(
        card, wanted, lambda e, active: types[e.name].kind == "real" and depends(e.right, active)
    ))  # fmt: skip


def depends(e: Expr, active: Collection[str]) -> bool:
    """Whether a derivative passes from ``e`` to such a value; none through indices and tests."""
    match e:
        case Ref():
            return e.key in active
        case Pick():
            return depends(e.value, active)
        case Bind() | Table():
            return depends(e.body, active)
        case Apply():
            args = e.args[1:] if e.op == "where" else e.args
            return e.op not in FLAT and any(depends(a, active) for a in args)
    return False
