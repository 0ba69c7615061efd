"""Claims about a mean over texts: the formula below ``mean_{texts}`` is evaluated on each run.

The sum, mean or maximum over the runs then stands in the claim as a number, and the claim is
checked on one run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from viete.ask.over_texts import FOLDS, outermost
from viete.errors import VieteError
from viete.evaluate.inputs import host
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.graph.claim import Claim
from viete.notation.printer import show
from viete.notation.symbols import TEXTS
from viete.notation.tree import Bind, Expr, replaced, signed


def is_over_texts(claim: Claim) -> bool:
    """Whether a claim contains a sum, a mean or a maximum over texts."""
    return any(TEXTS in e.binders for e in claim.formulas)


@dataclass
class OverTexts:
    """The values of a claim's sums, means and maxima over texts, collected run by run."""

    claim: Claim
    found: dict[Bind, list[float]] = field(default_factory=dict)

    def add(self, run: Run) -> None:
        """Add a run's value below each binder. Raises VieteError for one that is not a number."""
        for b in (b for e in self.claim.formulas for b in outermost(e)):
            value = np.asarray(host(run.ordered(run.evaluate(query(run, b.body)), ())))
            if value.size != 1 or b.op not in FOLDS:
                raise self.claim.text.error(
                    f"over {TEXTS} a claim can take {', '.join(FOLDS)} of one number only, and "
                    f"{show(b.body)} is not one number"
                )
            self.found.setdefault(b, []).append(float(value.item()))

    def made(self) -> Claim:
        """The claim with numbers instead of its binders over texts."""
        put: dict[Expr, Expr] = {b: number(float(FOLDS[b.op](v))) for b, v in self.found.items()}
        return self.claim.over(lambda e: replaced(e, put))


def number(value: float) -> Expr:
    """A finite number as a formula. Raises VieteError for one that is not finite."""
    if not np.isfinite(value):
        raise VieteError(f"over {TEXTS} this gives {value}, which is not a number")
    return signed(Fraction(value))


__all__ = ["OverTexts", "is_over_texts", "number"]
