"""Partial sums: vectors that add up to another, and how each changes the angle with a direction.

With ``cumulative=True``, the terms of ⟨v, x⟩ are vectors that add up to x. Each partial sum is
listed with its ⟨v, ·⟩, its length and its angle to v. In the picture, v is the first axis of the
plane: a partial sum is drawn at its component along v and its distance from v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from viete.ask.term_table import floats
from viete.document.displayed import Displayed
from viete.document.tree import Block, paragraph, table
from viete.errors import VieteError
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr

if TYPE_CHECKING:
    from viete.ask.expansion import Expansion


@dataclass(frozen=True)
class PartialSum:
    """The sum of the terms up to one: its part along v, ⟨v, ·⟩, its length, its angle to v."""

    label: str
    along: float
    inner: float
    length: float
    angle: float

    @property
    def place(self) -> tuple[float, float]:
        """The coordinates in the plane that v and this sum span."""
        return self.along, float(np.sqrt(max(self.length**2 - self.along**2, 0.0)))


@dataclass(frozen=True)
class PartialSums(Displayed):
    """The partial sums of vectors in order; ``towards`` is v, and ``of`` names their total."""

    towards: Expr
    of: Expr
    sums: tuple[PartialSum, ...]

    def page(self, style: str = "unicode") -> list[Block]:
        """A table with a row for each partial sum."""
        v, x = (show(e, style) for e in (self.towards, self.of))
        rows = [
            [s.label, f"{s.inner:+.4f}", f"{s.length:.4f}", f"{np.degrees(s.angle):.2f}°"]
            for s in self.sums
        ]
        return [
            paragraph(
                f"The partial sums of ${x}$, and the angle θ between each sum and v = ${v}$."
            ),
            table(["term added", "⟨v, sum⟩", "|sum|", "θ"], rows),
        ]


def partial_sums(e: Expansion) -> PartialSums:
    """The partial sums of an expansion of a vector or of an inner product ⟨v, x⟩.

    For a vector, v is the whole. Raises VieteError for any other expression, and for a batch.
    """
    found, towards, v = e, e.formula, floats(e.total)
    match e.expander.written_out(e.formula):
        case Apply("inner", (a, b)):
            sides = [x for x in (a, b) if e.expander.lines.depends(x)]
            if len(sides) != 1:
                raise VieteError("of the two sides of ⟨v, x⟩ one must be made of weights alone")
            towards = b if sides[0] is a else a
            v = floats(e.laid_out_alone(towards))
            found = e.over(sides[0])
    if v.ndim != 1 or floats(found.total).ndim != 1:
        raise VieteError(
            f"partial sums are of a vector or of a product ⟨v, x⟩, and "
            f"{show(e.formula, 'unicode')} is neither"
        )
    shares = [(t.label, floats(t.value)) for t in found.in_order()]
    if found.hidden.count:
        shares.append((found.hidden.label, floats(found.hidden.value)))
    out, total, length = [], np.zeros_like(v), float(np.linalg.norm(v))
    for label, value in shares:
        total = total + value
        inner, size = float(v @ total), float(np.linalg.norm(total))
        along = inner / length if length else 0.0
        cosine = np.clip(along / size, -1, 1) if size else 0.0
        out.append(PartialSum(label, along, inner, size, float(np.arccos(cosine))))
    return PartialSums(towards, found.formula, tuple(out))


__all__ = ["PartialSum", "PartialSums", "partial_sums"]
