"""The type of an expression: its shape on paper, its index letters and its kind of number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from viete.analysis.kinds import BIT, REAL, TRUTH, Interval
from viete.graph.sizes import Size
from viete.notation.tree import Bind, Expr

Shape = tuple[Size, ...]
Places = tuple[Size, Size]  # of an index letter: its first value, and how many it has


@dataclass(frozen=True)
class Type:
    """``shape`` on paper (at most two sizes), the index letters it varies over, and its kind.

    ``kind`` is 'real', 'int' (a whole number) or 'bool'; ``interval`` what a whole number lies in,
    None where it may be greater than 64 bits hold. ``size`` is the symbolic value of a scalar made
    of dimensions alone.
    """

    shape: Shape = ()
    family: frozenset[str] = frozenset()
    kind: str = REAL
    size: Size | None = None
    interval: Interval | None = None

    @property
    def whole(self) -> Interval | None:
        """The interval of what is computed in whole numbers; truth values count as 0 and 1."""
        return BIT if self.kind == TRUTH else self.interval

    @property
    def may_be_negative(self) -> bool:
        """Whether it is not known to be whole and from 0, as targets are not that may be -100."""
        return self.whole is None or self.whole[0] < 0


class Mismatch(Exception):
    """A shape error at a node of one formula; `Shapes` makes a VieteError of it."""

    def __init__(self, message: str, at: Expr | None) -> None:
        super().__init__(message)
        self.message, self.node = message, at


@dataclass
class Letters:
    """What the letters of a question or a claim count that the card declares nowhere.

    ``places`` are those of its free letters, ``bounds`` of those that binders without bounds bind.
    """

    places: dict[str, Places] = field(default_factory=dict)
    bounds: dict[Bind, Places] = field(default_factory=dict)


@dataclass(frozen=True)
class TypeEnv:
    """The names in force inside a function's body or a binder."""

    arguments: Mapping[str, Type] | None = None  # None outside of functions
    sizes: Mapping[str, Size] = field(default_factory=dict)
    ranges: Mapping[str, Size | None] = field(default_factory=dict)  # index letter → how many
    letters: Letters | None = None  # of a question or a claim: those of its own
    first: Mapping[str, Size] = field(default_factory=dict)  # index letter → its first value
    alone: bool = True  # of arguments: whether nothing of the card besides is in force
    shared: dict[Expr, Type | None] | None = None  # what stands more than once, and its type by now

    @property
    def of_library(self) -> bool:
        """Whether these are the names in a definition of the library's kind, and no others."""
        return self.arguments is not None and self.alone


def text(shape: Shape) -> str:
    """``(n, d)``."""
    return "(" + ", ".join(map(str, shape)) + ")"
