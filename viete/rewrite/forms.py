"""What is known of a formula that is rewritten for new positions of a text.

``sees`` says what an entry depends on: tokens up to the latest of the positions of these axes.
None says that it depends on later tokens, or on how long the text is. A mask takes later positions
out: of ``Q K^T`` an entry depends on the later of its row and its column, of ``causal(Q K^T)`` on
its row; a product with V sums along the columns, and without the mask would see everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from viete.analysis.masks import Mask
from viete.analysis.types import TypeEnv
from viete.graph.sizes import Size
from viete.notation.tree import Expr

EVERY, PAST = "@every", "@past"  # in sizes: how many positions there are, and come before

Want = tuple[str, str]  # of rows, of columns
Sees = frozenset[str] | None
Kinds = tuple[str | None, ...]  # NEW or ALL of each axis that is positional
Sizes = tuple[Size, Size]
WHOLE = Size.of(EVERY)
LATER = WHOLE - Size.of(PAST)  # how many positions are new


@dataclass(frozen=True)
class Form:
    """A rewritten expression and what is known of it; axes are called `ROW` and `COL`.

    ``size`` is, of a number made of dimensions and indices, what it stood for and what it is as
    written, which now counts the new positions; ``whole`` is what it stood for, where ``expr`` is
    not that. ``const``: of such numbers alone.
    """

    expr: Expr
    sees: Sees = frozenset()
    mask: Mask | None = None
    size: Sizes | None = None
    whole: Expr | None = None
    const: bool = False

    @property
    def true(self) -> Expr:
        """What it stood for."""
        return self.whole or self.expr

    def rename(self, labels: Mapping[str, str]) -> Form:
        """Axes by other names."""
        if self.sees is None:
            return replace(self, mask=None)
        sees = frozenset(labels.get(x, x) for x in self.sees)
        return replace(self, sees=sees, mask=self.mask and self.mask.rename(labels))


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


def together(*many: Sees) -> Sees:
    """What depends on all of these."""
    known = [sees for sees in many if sees is not None]
    return frozenset[str]().union(*known) if len(known) == len(many) else None


def summed(sees: Sees, label: str, masks: list[Mask | None], passed_over: str) -> Sees:
    """What is left of ``sees`` when positions along an axis are folded away.

    A mask must hide the later ones, with entries that the fold passes over.
    """
    fits = (m.now for m in masks if m is not None and (m.later, m.kind) == (label, passed_over))
    now = next(fits, None)
    return None if now is None or sees is None else sees - {label} | {now}
