"""Python expressions with labelled axes: the values of the lowering. This module knows no library.

An expression knows the labels of its value's axes, in order: index letters, then ``row`` and
``col`` for the axes it has on paper. So a family broadcasts by inserting the axes that it lacks, a
sum over heads is a sum over an axis, and no axis name is left when the code runs. Leading axes
(`LEAD`) are not counted: a batch, or families of the caller.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from viete.analysis.types import Type, TypeEnv
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW
from viete.graph.evaluator import Env, Letter
from viete.graph.sizes import Size
from viete.notation.tree import Apply, Expr, Num, num

LEAD = "…"
# Python's binding strengths, loose to tight.
ELSE, COMPARE, OR, AND, ADD, MUL, NEG, POWER, ATOM = range(1, 10)
INFIX = {
    "add": (ADD, "+"), "sub": (ADD, "-"), "had": (MUL, "*"), "times": (MUL, "*"), "div": (MUL, "/"),
    "mod": (MUL, "%"), "pow": (POWER, "**"), "lt": (COMPARE, "<"), "le": (COMPARE, "<="),
    "gt": (COMPARE, ">"), "ge": (COMPARE, ">="), "eq": (COMPARE, "=="), "ne": (COMPARE, "!="),
    "and": (AND, "&"), "or": (OR, "|"), "quotient": (MUL, "//"),
}  # fmt: skip
Axes = tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """An expression of Python, its binding strength, and the axes of its value.

    ``const``: made of numbers, dimensions and indices alone; ``whole``: computed in whole numbers.
    """

    text: str
    level: int = ATOM
    axes: Axes = ()
    const: bool = False
    whole: bool = False
    checked: bool = False  # of places: whether it had to be looked at that they are inside
    python: bool = False  # a number or truth value of Python's, which has no method of an array's

    def at(self, level: int) -> str:
        """The text, in parentheses if a tighter binding is needed."""
        return self.text if self.level >= level else f"({self.text})"

    def as_atom(self, text: str, **changes: Any) -> Code:
        """A new expression with this text, which needs no parentheses."""
        return replace(self, text=text, level=ATOM, **changes)

    @property
    def core(self) -> Axes:
        return tuple(a for a in self.axes if a in (ROW, COL))

    @property
    def lead(self) -> Axes:
        return tuple(a for a in self.axes if a not in (ROW, COL))

    def relabel(self, old: str, new: str) -> Code:
        return replace(self, axes=tuple(new if a == old else a for a in self.axes))

    def without(self, label: str) -> Axes:
        return tuple(a for a in self.axes if a != label)

    def axis(self, label: str) -> int:
        """The number of an axis: from the front if all axes are counted and it is the first."""
        k = self.axes.index(label)
        return 0 if k == 0 and LEAD not in self.axes else k - len(self.axes)


@dataclass(frozen=True, slots=True)
class CodeLetter(Letter):
    """An index letter as an axis; sizes are formulas, ``many`` is the normal form of ``count``."""

    many: Size
    code: Code | None = None  # its values, where they have a name


@dataclass(frozen=True, slots=True)
class CodeEnv(Env[Code]):
    """The names in force; ``index`` maps a letter to its `CodeLetter`, or to a block's code."""

    types: TypeEnv = field(default_factory=TypeEnv)
    like: str = ""  # an array whose dtype and device a table of numbers takes


def many(letter: Letter) -> Size:
    """The number of members of an axis."""
    return letter.many if isinstance(letter, CodeLetter) else letter.count


def core_of(t: Type) -> Axes:
    """The axes that a value has on paper."""
    return (ROW, COL)[2 - len(t.shape) :]


def together(axes: Iterable[Axes]) -> Axes:
    """All axes of several values: those of the longest, with the others' letters in front."""
    found = list(axes)
    out = max(found, key=len, default=())
    extra = dict.fromkeys(a for x in found for a in x if a not in out)
    lead = (LEAD,) if LEAD in out or LEAD in extra else ()
    core = tuple(a for a in (ROW, COL) if a in out or a in extra)
    middle = tuple(a for a in (*extra, *out) if a not in (LEAD, ROW, COL))
    return (*lead, *middle, *core)


def number(value: Fraction) -> Code:
    """A rational in Python; exact where a float would be exact too.

    Raises VieteError for a number that no float holds.
    """
    size = abs(value)
    if size > sys.float_info.max:
        raise VieteError(
            f"a number of {len(str(int(size))):,} digits is beyond a float, and exported programs "
            f"compute in floats; take smaller sizes"
        )
    if value.denominator == 1:
        code = Code(str(size) if size < 10**15 else repr(float(size)), const=True, whole=True)
    elif Fraction(repr(float(size))) == size:
        code = Code(repr(float(size)), const=True)
    else:
        code = Code(f"{size.numerator} / {size.denominator}", MUL, const=True)
    return code if value >= 0 else replace(code, text=f"-{code.at(NEG)}", level=NEG)


def as_float(code: Code) -> str:
    """A whole number among floats."""
    return f"{code.text}.0" if code.text.lstrip("-").isdigit() else code.text


def bare(places: Sequence[int]) -> str:
    """One place, or a tuple of them."""
    return str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"


def folded(e: Expr) -> Expr:
    """``h - 1 + 1`` as ``h``, ``2 - 1`` as 1."""
    if isinstance(e, Apply) and e.op in ("add", "sub"):
        a, b = e.args
        if isinstance(b, Num) and b.value == 0:
            return a
        if e.op == "add" and isinstance(a, Num) and a.value == 0:
            return b
        if e.op == "add" and isinstance(b, Apply) and b.op == "sub" and b.args[1] == a:
            return b.args[0]
        if isinstance(a, Num) and isinstance(b, Num):
            return Num(a.value + b.value if e.op == "add" else a.value - b.value)
        if isinstance(a, Apply) and a.op in ("add", "sub") and a.op != e.op and a.args[1] == b:
            return a.args[0]
    return e


def length(lower: Expr, upper: Expr) -> Expr:
    """The number of whole numbers from ``lower`` to ``upper``."""
    if lower == num(1):
        return upper
    return folded(Apply("add", (folded(Apply("sub", (upper, lower))), num(1))))
