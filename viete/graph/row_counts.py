"""Sizes by name: ``rows(x)`` and ``cols(x)``, as definitions put in leave them, by what they are.

``f(z: d) = table_{j<d}(2 * z_j)`` put in where ``f(x_i)`` stands is ``table_{j<cols(x_i)}(…)``, and
the shape of x says that this is ``table_{j<d}(…)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from viete.analysis.shapes import Env, Shapes
from viete.graph.card import CardData, Equation, with_right
from viete.graph.distinct import distinct
from viete.graph.sizes import Size
from viete.library.functions import MEASURES
from viete.notation.tree import Apply, Bind, Expr, Pick, Ref, Slice, Table, walk


def with_named_sizes(card: CardData, old: CardData) -> CardData:
    """The model with names for the sizes in those of its formulas that are not ``old``'s.

    Raises VieteError where the formulas do not fit together.
    """
    before = {e.right for e in (*old.equations, *old.derived)}
    before |= {c.statement for c in old.claims}
    formulas = [e.right for e in (*card.equations, *card.derived)]
    formulas += [c.statement for c in card.claims]
    if not any(measures(e) for e in formulas if e not in before):
        return card
    card = distinct(card)
    table = Measuring(card)

    def named(e: Expr) -> Expr:
        return e if e in before or not measures(e) else table.spelled(e, table.env)

    def equation(e: Equation) -> Equation:
        right = named(e.right)
        return e if right == e.right else with_right(e, right)

    return replace(
        card,
        equations=tuple(map(equation, card.equations)),
        derived=tuple(map(equation, card.derived)),
        claims=tuple(replace(c, statement=named(c.statement)) for c in card.claims),
    )


def measures(e: Expr) -> bool:
    """Whether a formula asks for a size."""
    return any(isinstance(x, Apply) and x.op in MEASURES for x in walk(e))


class Measuring(Shapes):
    """`Shapes` to which ``cols(x)`` is a size like any other."""

    def measure(self, env: Env) -> Callable[[Apply], Size | None]:
        return lambda x: self.of(x, env).size

    def spelled(self, e: Expr, env: Env) -> Expr:
        """A formula of the card with sizes by their names."""

        def go(x: Expr, at: Env = env) -> Expr:
            return self.spelled(x, at)

        match e:
            case Apply("rows" | "cols"):
                size = self.of(e, env).size
                return e if size is None else self.model.size_expr(size)
            case Apply():
                return replace(e, args=tuple(map(go, e.args)))
            case Ref():
                return replace(e, index=tuple(map(go, e.index)))
            case Pick():
                return replace(e, value=go(e.value), items=tuple(map(go, e.items)))
            case Slice():
                return replace(e, start=e.start and go(e.start), stop=e.stop and go(e.stop))
            case Bind():
                lower, upper = (x and go(x) for x in (e.lower, e.upper))
                inner = replace(env, ranges={**env.ranges, e.index: self.counted(e, env)})
                return replace(e, lower=lower, upper=upper, body=go(e.body, inner))
            case Table():
                sizes = {i: self.needed_size(s, env) for i, s in e.ranges}
                inner = replace(env, ranges={**env.ranges, **sizes})
                ranges = tuple((i, go(s)) for i, s in e.ranges)
                return replace(e, ranges=ranges, body=go(e.body, inner))
        return e

    def counted(self, e: Bind, env: Env) -> Size | None:
        """How many values a binder's letter has."""
        if e.lower is None or e.upper is None:
            return env.ranges.get(e.index)
        lower, upper = (self.size(x, env) for x in (e.lower, e.upper))
        return None if lower is None or upper is None else upper - lower + Size.of(1)


__all__ = ["with_named_sizes"]
