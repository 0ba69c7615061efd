"""Tidies a derivation: common subexpressions, copies, hoisting; fewer equations, no idle names.

It does what an author would do on reading the derivation once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from viete.errors import Text
from viete.graph.card import Equation, Loop
from viete.notation.printer import show
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Pick,
    Ref,
    Slot,
    Symbol,
    Table,
    refs,
    replaced,
    transform,
    walk,
)  # fmt: skip
from viete.rewrite.simplify import simplified


def tidied(equations: Sequence[Equation], helpers: Collection[str]) -> list[Equation]:
    """The same equations with as few as possible of the ``helpers`` (keys of their names)."""
    out = without_common_subexpressions(hoisted(list(equations), helpers), helpers)
    out = with_copies_propagated(out, helpers)
    out = renumbered(with_helpers_inlined(out, helpers), helpers)
    return [replace(e, text=Text(f"{show(e.left)} = {show(e.right)}", "<backward>")) for e in out]


def hoisted(equations: list[Equation], helpers: Collection[str]) -> list[Equation]:
    """Move repeated parts of the forward pass before the first equation that contains them."""
    out = list(equations)
    back = {e.name for e in equations if e.name.startswith("partial{")}
    for e in equations:
        read = e.reads
        if e.name in helpers and not read & back:
            first = next(k for k, x in enumerate(out) if x is e or (
                x.loop == e.loop and read <= x.reads and e.right in walk(x.right)))  # fmt: skip
            made = max((k for k, x in enumerate(out) if x.name in read), default=-1)
            if made < first:
                out.remove(e)
                out.insert(first, e)
                continue
        back |= {e.name} if read & back else set()
    return out


def renumbered(equations: list[Equation], helpers: Collection[str]) -> list[Equation]:
    """Number helpers in order of appearance: G_1, G_2, …"""
    count: dict[str, int] = {}
    new: dict[Symbol, Symbol] = {}
    for e in equations:
        symbol = e.left.symbol
        if symbol.key in helpers:
            count[symbol.base] = count.get(symbol.base, 0) + 1
            new[symbol] = replace(symbol, sub=(Slot(str(count[symbol.base])),))

    def rule(x: Expr) -> Expr | None:
        return replace(x, symbol=new[x.symbol]) if isinstance(x, Ref) and x.symbol in new else None

    return [
        replace(e, left=rule(e.left) or e.left, right=transform(e.right, rule))  # type: ignore[arg-type]
        for e in equations
    ]


def without_common_subexpressions(
    equations: list[Equation], helpers: Collection[str]
) -> list[Equation]:
    """Replace parts that a helper already names: ``GELU(F_1)`` after ``F_1 = h W``."""
    outside: dict[Expr, Expr] = {}
    known: dict[Loop | None, dict[Expr, Expr]] = {None: outside}
    out = []
    for e in equations:
        own = known.setdefault(e.loop, {})
        e = replace(e, right=replaced(e.right, {**outside, **own}))
        if e.name in helpers and isinstance(e.right, Apply):
            own[e.right] = e.left
        out.append(e)
    return out


def with_copies_propagated(equations: list[Equation], helpers: Collection[str]) -> list[Equation]:
    """Replace ``G = …`` with a later ``∂X = G`` by ``∂X = …``."""
    out = equations
    for e in equations:
        old = e.right
        if not (isinstance(old, Ref) and old.key in helpers and old == old.symbol.member):
            continue
        made = next((x for x in out if x.name == old.key), None)
        uses = [x for y in out for x in refs(y.right) if x.key == old.key]
        if made is None or made.loop != e.loop or any(x != old for x in uses):
            continue
        if e.name in helpers or set(old.symbol.slots) != set(e.left.symbol.slots):
            continue
        new = e.left
        out = [
            replace(x, left=new) if x is made else replace(x, right=replaced(x.right, {old: new}))
            for x in out
            if x.left != e.left or x.loop != e.loop
        ]
    return out


def with_helpers_inlined(equations: list[Equation], helpers: Collection[str]) -> list[Equation]:
    """Put a helper that is read once where it is read; drop one that is never read."""
    out = dict(enumerate(equations))
    makes = {e.name: k for k, e in reversed(out.items())}
    readers: dict[str, Counter[int]] = {name: Counter() for name in helpers}

    def count(k: int, by: int) -> None:
        for x in refs(out[k].right):
            if x.key in readers:
                readers[x.key][k] += by

    for k in out:
        count(k, 1)
    for name in dict.fromkeys(e.name for e in equations if e.name in helpers):
        k = makes[name]
        made, found = out[k], [*readers[name].elements()]
        if found:
            reader = out[found[0]]
            alone = len(found) == 1 and reader.loop == made.loop
            if not alone or made.left not in open_parts(reader.right):
                continue
            right = simplified(replaced(reader.right, {made.left: made.right}))
            count(found[0], -1)
            out[found[0]] = replace(reader, right=right)
            count(found[0], 1)
        count(k, -1)
        del out[k]
    return list(out.values())


def open_parts(e: Expr) -> list[Expr]:
    """The parts of a formula that are computed once: outside all sums, tables and indices."""
    if isinstance(e, Bind | Table | Pick):
        return []
    return [e] + [x for a in (e.args if isinstance(e, Apply) else ()) for x in open_parts(a)]
