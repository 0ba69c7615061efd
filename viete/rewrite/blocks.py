"""Blocks by their numbers: a formula of every block, as the formula of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from viete.notation.substitution import substitute
from viete.notation.tree import Apply, Expr, Num, Ref, transform
from viete.rewrite.simplify import evaluated


def at_block(e: Expr, loops: Mapping[str, int], sizes: Mapping[str, Fraction]) -> Expr:
    """A formula with numbers for block letters: ``x^0`` for ``x^{i-1}`` at i = 1.

    ``sizes`` are inserted where one numbers a block: ``x^N``.
    """

    def rule(x: Expr) -> Expr | None:
        match x:
            case Ref() if x.index:
                index = (Num(sizes[k.key]) if isinstance(k, Ref) and k.key in sizes else k
                         for k in x.index)  # fmt: skip
                return replace(x, index=tuple(index))
            case Apply("add" | "sub", (Num(), Num())) if loops:
                return evaluated(x)
        return None

    return transform(substitute(e, letters={k: Num(Fraction(n)) for k, n in loops.items()}), rule)


__all__ = ["at_block"]
