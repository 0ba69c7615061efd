"""Formulas with numbers in them, in a lesson's style: rows, cut where they are long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from viete.meanings.exact.deciding import Undecided
from viete.meanings.exact.decimals import enclosure
from viete.meanings.exact.derivation import DOTS, LONG, Unevaluated, spelled_out
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.spelling import short
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, num

MOST = 8  # entries of a row that are written
WIDE = 150  # letters of a row of numbers put in, before only its first entry is shown
INFINITY = Apply("inf", ())


class NumberFormulas:
    """Writes numbers and rows of them; ``digits`` are certified ones, for what is no fraction."""

    def __init__(self, style: str, digits: int) -> None:
        self.style, self.digits = style, digits

    def e(self, e: Expr) -> str:
        """An expression; a dot for the product of numbers."""
        text = show(e, self.style)
        if self.style == "latex":
            return text.replace(r"\times", r"\cdot").replace(r"\mathrm{…}", r"\cdots").replace(
                "…", r"\ldots"
            ).replace("±", r"\pm{}")  # fmt: skip
        return text.replace(" × ", "·")

    def row(self, entries: Sequence[str], scalar: bool) -> str:
        """``(1, 0)``."""
        if scalar:
            return entries[0]
        shown = list(entries)
        if len(shown) > MOST:
            shown = [*shown[: MOST - 2], self.e(DOTS), shown[-1]]
        left, right = (r"\left(", r"\right)") if self.style == "latex" else ("(", ")")
        return left + ", ".join(shown) + right

    def put_in(self, entries: Any, scalar: bool) -> tuple[str, str]:
        """A row as it came about, and a note where only its first entry is shown."""
        spelled = [spelled_out(x) for x in entries[: len(entries) if scalar else MOST]]
        if not scalar and sum(len(show(e)) for e in spelled) > WIDE:
            return self.e(spelled[0]), "its first entry; the others come about the same way"
        shown = [self.e(e) for e in spelled]
        return self.row([*shown, *(self.e(DOTS) for _ in entries[MOST:])], scalar), ""

    def value(self, entries: Any, scalar: bool) -> tuple[str, str]:
        """A row of exact numbers where they can be written, and certified digits where needed."""
        spelled = [self.exact(x) for x in entries]
        exact = "" if any(s is None for s in spelled) else self.row(
            [s for s in spelled if s is not None], scalar
        )  # fmt: skip
        if all(is_fraction(x) for x in entries) and exact:
            return exact, ""
        return exact, self.row([self.decimal(x) for x in entries], scalar)

    def exact(self, x: Any) -> str | None:
        """The number written out; None for what is too long, or known by a name only."""
        if not isinstance(x, Number):
            return self.plain(x)
        if any(a.kind == "name" for a in x.atoms()):
            return None
        e = short(x, 2 * LONG)
        return None if e is None else self.e(e)

    def decimal(self, x: Any) -> str:
        if not isinstance(x, Number):
            return self.plain(x)
        try:
            text = x.decimal(self.digits)
        except Undecided:
            text = enclosure(x, self.digits)
            return text.replace("±", r"\pm") if self.style == "latex" else text
        number, power, exponent = text.partition("e")
        if self.style == "latex" and power:
            return rf"{number} \cdot 10^{{{exponent}}}"
        return text.replace("-", "−") if self.style == "unicode" else text

    def plain(self, x: Any) -> str:
        """A whole number, or ±∞."""
        if isinstance(x, float) and np.isinf(x):
            return self.e(INFINITY if x > 0 else Apply("neg", (INFINITY,)))
        return self.e(num(int(x)))


def is_fraction(x: Any) -> bool:
    return not isinstance(x, Number) or x.rational is not None


def same(put_in: Sequence[Any]) -> bool:
    """Whether nothing was done: all entries are numbers as they were given."""
    return all(not isinstance(x, Unevaluated) or x.op == "leaf" for x in put_in)


__all__ = ["NumberFormulas", "same"]
