"""Conditions on blocks and sizes: of ``i = 2 and h = 1`` in block 2 what is left is ``h = 1``."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

from viete.notation.tree import Apply, Expr

COMPARED: dict[str, Callable[[Fraction, Fraction], bool]] = {
    op: getattr(operator, op) for op in "lt le gt ge eq ne".split()
}


def settled(test: Expr, number: Callable[[Expr], Fraction | None]) -> Expr | bool:
    """Whether a condition holds, or what is left of it where that is not known yet.

    ``number`` gives the number that a formula is, and None for one about heads or entries.
    """
    match test:
        case Apply("not", (part,)):
            found = settled(part, number)
            return not found if isinstance(found, bool) else Apply("not", (found,))
        case Apply("and" | "or" as op, args):
            parts = [settled(x, number) for x in args]
            ends = op == "or"  # what one part alone decides
            if any(x is ends for x in parts):
                return ends
            open_parts = [x for x in parts if not isinstance(x, bool)]
            return joined(open_parts, op) if open_parts else not ends
        case Apply(op, (a, b)) if op in COMPARED:
            x, y = number(a), number(b)
            return test if x is None or y is None else COMPARED[op](x, y)
    return test


def joined(tests: list[Expr], op: str = "and") -> Expr:
    """Several conditions as one."""
    first, *others = tests
    for other in others:
        first = Apply(op, (first, other))
    return first


__all__ = ["joined", "settled"]
