"""Unevaluated values: every entry of an exact run as the expression that computes it.

An `Unevaluated` entry is an operation on entries, down to the numbers that an equation received.
Carried out in exact numbers, it gives the entry's value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from viete.graph.evaluator import REDUCTIONS
from viete.meanings.exact.namespace import COMPARE, Entry, Numbers, each, entry
from viete.meanings.exact.numbers import Number
from viete.notation.lexer import ELEMENTARY

UNARY = (*ELEMENTARY, "abs", "floor")


class Unevaluated:
    """An operation that is not carried out; a leaf holds a number.

    ``part`` marks an entry of a part that is shown separately.
    """

    __slots__ = ("_number", "args", "op", "part", "space")

    def __init__(
        self, space: Numbers, op: str, args: Sequence[Unevaluated] = (), number: Entry = None
    ) -> None:
        self.space, self.op, self.args, self._number = space, op, tuple(args), number
        self.part = False

    @property
    def number(self) -> Entry:
        """The result of the operation. Raises VieteError if it has no value or is undecided."""
        if self._number is None:
            numbers = [a.number for a in self.args]
            if self.op == "dot":
                half = len(numbers) // 2
                self._number = self.space.dot(numbers[:half], numbers[half:])
            elif self.op in REDUCTIONS:
                self._number = entry(self.space.folded(self.op, numbers))
            else:
                self._number = self.space.apply(self.op, *numbers)
        return self._number

    @property
    def rational(self) -> Fraction | None:
        x = self.number
        return x.rational if isinstance(x, Number) else None

    @property
    def gone(self) -> bool:
        """Whether a mask makes this a zero, which the formula leaves out."""
        if self.op == "exp":
            return self.args[0].hidden
        if self.op in ("had", "times", "prod"):
            return any(a.gone for a in self.args)
        return self.op == "div" and self.args[0].gone

    @property
    def hidden(self) -> bool:
        """Whether this is −∞, which only a mask introduces."""
        if self.op == "neg":
            inner = self.args[0]._number
            return isinstance(inner, float) and inner == math.inf
        if self.op == "leaf":
            return isinstance(self._number, float) and self._number == -math.inf
        return self.op in ("add", "sub", "div", "times", "had") and self.args[0].hidden


class Formulas(Numbers):
    """Arrays of unevaluated entries; ``space`` computes their numbers when needed."""

    def __init__(self, space: Numbers) -> None:
        super().__init__(space.letter)
        self.space = space

    def operand(self, x: Any) -> Unevaluated:
        return x if isinstance(x, Unevaluated) else Unevaluated(self.space, "leaf", (), entry(x))

    def lifted(self, x: Any) -> Any:
        if getattr(x, "dtype", type(x)) in (bool,):
            return x
        return each(self.operand, x) if isinstance(x, np.ndarray) else self.operand(x)

    def alone(self, x: Any) -> Any:
        return x.item() if isinstance(x, np.ndarray) else x

    def places(self, x: np.ndarray) -> np.ndarray:
        return super().places(each(lambda one: self.operand(one).number, x))

    def dot(self, row: Sequence[Entry], column: Sequence[Entry]) -> Unevaluated:
        return Unevaluated(self.space, "dot", [self.operand(x) for x in (*row, *column)])

    def fold(self, op: str, array: np.ndarray, axis: int) -> Any:
        rows = np.moveaxis(array, axis, -1)
        out = np.empty(rows.shape[:-1], dtype=object)
        for at in np.ndindex(out.shape):
            out[at] = Unevaluated(self.space, op, [self.operand(x) for x in rows[at]])
        return out if out.shape else out.item()

    def operation(self, op: str, items: Sequence[Any], at: tuple[int, ...]) -> Any:
        args = [self.operand(x) for x in items]
        if op in COMPARE:
            return self.space.apply(op, *(a.number for a in args))
        return Unevaluated(self.space, op, args)


__all__ = ["UNARY", "Formulas", "Unevaluated"]
