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

    ``kind`` is 'real', 'int' (an integer) or 'bool'; ``interval`` contains the integer, and is None
    where it may exceed 64 bits. ``size`` is the symbolic value of a scalar that consists only of
    dimensions.
    """

    shape: Shape = ()
    family: frozenset[str] = frozenset()
    kind: str = REAL
    size: Size | None = None
    interval: Interval | None = None

    @property
    def whole(self) -> Interval | None:
        """The interval of an integer computation; truth values count as 0 and 1."""
        return BIT if self.kind == TRUTH else self.interval

    @property
    def may_be_negative(self) -> bool:
        """Whether the value may be a negative number, as targets are that may be -100."""
        return self.whole is None or self.whole[0] < 0


class Mismatch(Exception):
    """A shape error at a node of one formula; `Shapes` turns it into a VieteError."""

    def __init__(self, message: str, at: Expr | None) -> None:
        super().__init__(message)
        self.message, self.node = message, at


@dataclass
class Letters:
    """The ranges of a question's or claim's letters that the card does not declare.

    ``places`` are those of its free letters, ``bounds`` those of letters of binders without bounds.
    """

    places: dict[str, Places] = field(default_factory=dict)
    bounds: dict[Bind, Places] = field(default_factory=dict)


@dataclass(frozen=True)
class TypeEnv:
    """The environment of a function's body or a binder."""

    arguments: Mapping[str, Type] | None = None  # None outside of functions
    sizes: Mapping[str, Size] = field(default_factory=dict)
    ranges: Mapping[str, Size | None] = field(default_factory=dict)  # index letter → how many
    letters: Letters | None = None  # of a question or a claim: those of its own
    first: Mapping[str, Size] = field(default_factory=dict)  # index letter → its first value
    alone: bool = True  # of arguments: whether nothing of the card besides is in force
    shared: dict[Expr, Type | None] | None = None  # what stands more than once, and its type by now

    @property
    def of_library(self) -> bool:
        """Whether the environment is that of a library definition."""
        return self.arguments is not None and self.alone


def text(shape: Shape) -> str:
    """A shape as text: ``(n, d)``."""
    return "(" + ", ".join(map(str, shape)) + ")"
