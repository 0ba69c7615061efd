"""What is known of a formula that is rewritten for new positions of a text.

``sees`` says what an entry depends on: tokens up to the latest of the positions of these axes.
None says that it depends on later tokens, or on how long the text is. A mask takes later positions
out: of ``Q K^T`` an entry depends on the later of its row and its column, of ``causal(Q K^T)`` on
its row; a product with V sums along the columns, and without the mask would see everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from viete.analysis.types import TypeEnv
from viete.graph.sizes import Size
from viete.notation.tree import Expr

EVERY, PAST = "@every", "@past"  # in sizes: how many positions there are, and come before

Want = tuple[str, str]  # of rows, of columns
Kinds = tuple[str | None, ...]  # NEW or ALL of each axis that is positional
Sizes = tuple[Size, Size]
WHOLE = Size.of(EVERY)
LATER = WHOLE - Size.of(PAST)  # how many positions are new


@dataclass(frozen=True)
class Form:
    """A rewritten expression.

    ``size`` is, of a number made of dimensions and indices, what it stood for and what it is as
    written, which now counts the new positions; ``whole`` is what it stood for, where ``expr`` is
    not that.
    """

    expr: Expr
    size: Sizes | None = None
    whole: Expr | None = None

    @property
    def true(self) -> Expr:
        """What it stood for."""
        return self.whole or self.expr


@dataclass(frozen=True)
class BoundLetter:
    """A bound index letter: its axis, and NEW or ALL if that is positional."""

    label: str
    kind: str | None = None


@dataclass
class Frame:
    """A function's body while it is rewritten: which of its arguments it needs over which axes."""

    arguments: Mapping[str, Callable[[Want], Form]]
    sizes: Mapping[str, Sizes]
    used: dict[str, dict[Kinds, Form]] = field(default_factory=dict)


@dataclass(frozen=True)
class FormEnv:
    """Names in force; ``types`` is the same for `Shapes`."""

    types: TypeEnv
    frame: Frame | None = None
    letters: Mapping[str, BoundLetter] = field(default_factory=dict)
