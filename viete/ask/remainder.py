"""The remainder of an expansion as one more term: terms below the cut-off, or rounding."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from viete.ask.expansion_options import words
from viete.ask.term_table import in_short
from viete.notation.tree import Apply, Expr, num

if TYPE_CHECKING:
    from viete.ask.expansion import Expansion
    from viete.ask.term import Term

HIDDEN, ROUNDING = "hidden", "rounding"


@dataclass(eq=False)
class Remainder:
    """Several terms as one; ``size`` is the sum of their sizes.

    ``kind`` is 'hidden', or 'rounding', which belongs to no term: in real numbers it is 0.
    """

    expansion: Expansion = field(repr=False)
    kind: str
    terms: tuple[Term, ...] = field(repr=False)
    value: Any
    size: float

    @property
    def count(self) -> int:
        """The number of terms in the sum."""
        return len(self.terms)

    @property
    def share(self) -> float:
        """Its size as a share of the sizes of all terms."""
        return self.size / (self.expansion.mass or 1.0)

    @property
    def label(self) -> str:
        """``12 smaller terms``, or its kind."""
        if self.kind != HIDDEN:
            return self.kind
        some = f"{self.count} smaller term{'s' * (self.count != 1)}"
        return some if self.size else some.replace("smaller", "zero")

    @cached_property
    def formula(self) -> Expr:
        """The sum of its terms as a formula."""
        terms = [t.formula for t in self.terms]
        return reduce(lambda a, b: Apply("add", (a, b)), terms) if terms else num(0)

    @property
    def expression(self) -> str:
        """The sum of its terms as an expression of the run."""
        return self.expansion.run.in_words(self.formula)

    def expand(self, into: str | Collection[str], **changes: Any) -> Expansion:
        """Its terms, with the options of its expansion."""
        e = self.expansion
        return e.of(self.formula, replace(e.options, into=words(into), **changes))

    def __repr__(self) -> str:
        return f"<{self.label}: {in_short(self.value)}>"


__all__ = ["HIDDEN", "ROUNDING", "Remainder"]
