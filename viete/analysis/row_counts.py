"""Sizes by name: ``rows(x)`` and ``cols(x)``, replaced by the dimensions that they stand for.

With ``f(z: d) = table_{j<d}(2 * z_j)`` put in, ``f(x_i)`` is ``table_{j<cols(x_i)}(…)``; the shape
of x then turns this into ``table_{j<d}(…)``.
"""

from __future__ import annotations

from collections.abc import Callable

from viete.analysis.shapes import Shapes
from viete.analysis.types import TypeEnv
from viete.graph.card import CardData
from viete.graph.distinct import distinct
from viete.graph.sizes import Size
from viete.notation.tree import MEASURES, Apply, Bind, Expr, Table, rebuilt, walk


def with_named_sizes(card: CardData, old: CardData) -> CardData:
    """The model with names for the sizes in its formulas that are not ``old``'s.

    Raises VieteError where the formulas do not fit together.
    """
    before = set(old.formulas)
    if not any(measures(e) for e in card.formulas if e not in before):
        return card
    card = distinct(card)
    table = Measuring(card)
    return card.with_formulas(
        lambda e: e if e in before or not measures(e) else table.spelled(e, table.env)
    )


def measures(e: Expr) -> bool:
    """Whether a formula contains a size such as ``cols(x)``."""
    return any(isinstance(x, Apply) and x.op in MEASURES for x in walk(e))


class Measuring(Shapes):
    """A variant of `Shapes` in which ``cols(x)`` is a size."""

    def measure(self, env: TypeEnv) -> Callable[[Apply], Size | None]:
        return lambda x: self.of(x, env).size

    def spelled(self, e: Expr, env: TypeEnv) -> Expr:
        """A formula of the card with names for its sizes."""
        if isinstance(e, Apply) and e.op in MEASURES:
            size = self.of(e, env).size
            return e if size is None else self.model.size_expr(size)
        within = self.inside(e, env) if isinstance(e, Bind | Table) else env
        last = len(e.children) - 1
        parts = [self.spelled(x, within if k == last else env) for k, x in enumerate(e.children)]
        return rebuilt(e, parts)
