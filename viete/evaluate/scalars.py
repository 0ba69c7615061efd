"""Operations on plain numbers: fractions and truth values exactly, all else in float64."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from viete.evaluate.backends import CONSTANTS
from viete.evaluate.labelled import digits, number


def scalar(op: str, args: list[Any]) -> Any:
    """An operation on plain numbers, exact where possible."""
    found = exact_scalar(op, args)
    if found is not None:
        return found
    result = CONSTANTS.entrywise(op, [np.float64(number(a)) for a in args])
    return bool(result) if isinstance(result, np.bool_) else float(result)


def exact_scalar(op: str, args: list[Any]) -> Fraction | bool | None:
    """An operation on fractions and truth values; None if its result is neither."""
    exact = [Fraction(a) if isinstance(a, int) else a for a in args]
    if op not in EXACTLY or not all(isinstance(a, Fraction) for a in exact):
        return None
    if op in ("div", "quotient", "mod") and not exact[1]:
        return None
    if op == "pow":
        a, b = exact
        if b.denominator != 1 or abs(b) * digits(a) >= 4000 or not (a or b > 0):
            return None
    return EXACTLY[op](*exact)


EXACTLY: dict[str, Callable[..., Any]] = {
    **{op: getattr(operator, op) for op in "add sub mod abs neg lt le gt ge eq ne".split()},
    **dict.fromkeys(("times", "had", "prod"), operator.mul), "div": operator.truediv,
    "quotient": lambda a, b: Fraction(a // b), "floor": lambda a: Fraction(math.floor(a)),
    "pow": lambda a, b: a ** int(b), "max": max, "min": min,
    "where": lambda c, a, b: a if c else b, "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b), "not": operator.not_,
}  # fmt: skip


__all__ = ["exact_scalar", "scalar"]
