"""One operation of an equation as plain data: what each entry of its result is computed from.

An entry is a ``fold`` over the labels ``over`` of a ``formula`` of entries of the operands, which
are aligned by the labels of their axes. An operand that lacks a label is the same all along it, as
is an operand with a single entry there. So a matrix product is a sum of products, a softmax's
denominator a sum of powers, and a mask a choice between two entries. Three operations move entries
instead: ``pick`` takes the entries at computed places, ``concat`` puts operands side by side, and
``call`` is the last operation of a function's definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from viete.evaluate.labelled import Value
from viete.notation.tree import Expr


@dataclass(frozen=True)
class Counting:
    """The numbers ``first``, ``first + 1``, … along the one axis that an operand of them has."""

    first: int


@dataclass(frozen=True)
class Operand:
    """A value that an operation reads, and the labels of its axes, in the order of its array.

    ``of`` is a member's name, the id of an operation in ``made``, or a number.
    """

    of: Any
    axes: tuple[str, ...] = ()
    made: bool = False  # whether ``of`` is the id of an operation, and no number

    def renamed(self, labels: Mapping[str, str]) -> Operand:
        """This operand with other labels."""
        return Operand(self.of, tuple(labels.get(a, a) for a in self.axes), self.made)

    @property
    def identity(self) -> tuple[Any, ...]:
        """A key that equal operands share; numbers of different kinds are not compared."""
        known = isinstance(self.of, str | int | float | Fraction | Counting)
        return self.made, type(self.of), self.of if known else id(self.of), self.axes

    @property
    def plain(self) -> bool:
        """Whether the operand is a number, or numbers that count."""
        return not self.made and not isinstance(self.of, str)


@dataclass(frozen=True)
class EntryFormula:
    """A primitive entry by entry, of operands and of other formulas."""

    op: str
    args: tuple[EntryFormula | Operand, ...]

    def renamed(self, labels: Mapping[str, str]) -> EntryFormula:
        """This formula with other labels."""
        return EntryFormula(self.op, tuple(a.renamed(labels) for a in self.args))


def operands_of(formula: EntryFormula | Operand) -> Iterator[Operand]:
    """The operands in a formula, in reading order, with repetitions."""
    if isinstance(formula, Operand):
        yield formula
    else:
        for a in formula.args:
            yield from operands_of(a)


def distinct_operands(formula: EntryFormula | Operand) -> tuple[Operand, ...]:
    """The operands in a formula, each once."""
    return tuple({x.identity: x for x in operands_of(formula)}.values())


@dataclass
class Operation:
    """One operation; ``value`` is its result, whose axes have the labels ``axes``.

    ``within`` is the call in whose definition it stands, ``last`` the operation that gives a call's
    value. A pick takes from its first operand, along the label ``at``, the place that its second
    operand says, counted from ``first``; a concat puts the entries along ``along`` side by side as
    ``to``.
    """

    id: int
    kind: str
    expr: Expr | None
    formula: EntryFormula | Operand | None
    operands: tuple[Operand, ...]
    axes: tuple[str, ...]
    value: Value
    over: tuple[str, ...] = ()
    fold: str = ""
    sizes: dict[str, int] = field(default_factory=dict)
    at: str = ""
    first: int = 0
    along: tuple[str, ...] = ()
    to: str = ""
    within: int | None = None
    call: str = ""
    last: int | None = None
    key: str = ""  # of its value

    def data(
        self, text: str | None, node: int | None, number: Callable[[Any], Any]
    ) -> dict[str, Any]:
        """The operation as JSON: a formula is a list of a primitive and its arguments, or a place.

        The place is that of an operand.
        """
        out: dict[str, Any] = {
            "id": self.id, "node": node, "op": self.kind, "text": text, "value": self.key,
            "operands": [operand_data(x, number) for x in self.operands],
            "axes": list(self.axes), "over": list(self.over), "sizes": self.sizes,
        }  # fmt: skip
        if self.formula is not None:
            out["formula"] = self.indexed(self.formula)
        for name in ("fold", "at", "along", "to", "call"):
            if getattr(self, name):
                out[name] = getattr(self, name)
        if self.at:
            out["first"] = self.first
        if self.within is not None:
            out["within"] = self.within
        if self.last is not None:
            out["last"] = self.last
        return out

    def indexed(self, formula: EntryFormula | Operand) -> Any:
        """A formula with the places of its operands."""
        if isinstance(formula, Operand):
            return [x.identity for x in self.operands].index(formula.identity)
        return [formula.op, *map(self.indexed, formula.args)]


def operand_data(x: Operand, number: Callable[[Any], Any]) -> dict[str, Any]:
    """An operand as JSON."""
    value: Any = x.of
    if x.made:
        value = {"operation": x.of}
    elif isinstance(x.of, Counting):
        value = {"from": x.of.first}
    elif not isinstance(x.of, str):
        value = number(x.of)
    return {"value": value, "axes": list(x.axes)}
