"""Simplifies conditions on blocks, positions and sizes.

In block 2, ``i = 2 and h = 1`` becomes ``h = 1``; with j from 0 to 63, ``j = 99`` is false.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from viete.notation.tree import Apply, Expr, Idx

COMPARED: dict[str, Callable[[Fraction, Fraction], bool]] = {
    op: getattr(operator, op) for op in "lt le gt ge eq ne".split()
}


def settled(test: Expr, number: Callable[[Expr], Fraction | None]) -> Expr | bool:
    """Whether a condition holds, or the part of it that is still unknown.

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


def unmet(
    tests: Sequence[Expr], ends: Mapping[str, tuple[Fraction, Fraction | None]],
    number: Callable[[Expr], Fraction | None],
) -> str | None:  # fmt: skip
    """A letter whose conditions no value satisfies; None if there may be such a value.

    ``ends`` are the first and the last value of each letter, whose last may be unknown. The truth
    of a comparison with a number changes there alone, so that its neighbours stand for all values.
    """
    parts = [part for test in tests for part in conjuncts(test)]
    for letter, (first, last) in ends.items():
        own = [part for part in parts if letter in part.free]
        bounds = [limits(part, letter, number) for part in own]
        numbers = {x for found in bounds if found for x in found}
        near = {first, *(x + k for x in numbers for k in (-1, 0, 1)), *({last} - {None})}
        there = [x for x in near if x is not None and first <= x and (last is None or x <= last)]
        known = [part for part, found in zip(own, bounds, strict=True) if found is not None]
        if known and not any(all(holds(part, letter, x, number) for part in known) for x in there):
            return letter
    return None


def holds(
    test: Expr, letter: str, value: Fraction, number: Callable[[Expr], Fraction | None]
) -> bool:
    """Whether a condition on one letter holds for a given number."""
    return settled(test, lambda e: value if e == Idx(letter) else number(e)) is True


def conjuncts(test: Expr) -> Iterator[Expr]:
    """The parts of a conjunction."""
    match test:
        case Apply("and", args):
            for part in args:
                yield from conjuncts(part)
        case _:
            yield test


def limits(
    test: Expr, letter: str, number: Callable[[Expr], Fraction | None]
) -> list[Fraction] | None:
    """The numbers with which a letter is compared; None if a condition contains anything else."""
    match test:
        case Apply("and" | "or" | "not", args):
            found = [limits(x, letter, number) for x in args]
            return None if None in found else [x for part in found for x in part or ()]
        case Apply(op, (a, b)) if op in COMPARED and Idx(letter) in (a, b):
            x = number(b if a == Idx(letter) else a)
            return None if x is None else [x]
    return None


__all__ = ["joined", "settled", "unmet"]
