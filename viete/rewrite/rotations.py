"""Which rotary positions of a card are read as distances only: a query's beside a key's.

``RoPE(q) RoPE(k)^⊤`` depends on how far two positions are apart, so it does not matter from where
they are counted. It does for a rotated value that anything else reads.
"""

from __future__ import annotations

from typing import Any

from viete.analysis.shapes import Shapes
from viete.analysis.types import TypeEnv
from viete.graph.card import CardData
from viete.notation.tree import Apply, Bind, Expr, Ref, Table

ROTATIONS = ("RoPE", "RoPE_pairs", "spun")
Turned = tuple[Any, frozenset[Expr]]  # how a value's columns are rotated, and by which calls
STILL: Turned = (None, frozenset())


class Rotations:
    """The calls of a card that rotate, of which some are ``absolute``."""

    def __init__(self, card: CardData, shapes: Shapes) -> None:
        self.card, self.shapes = card, shapes
        self.absolute: set[Expr] = set()
        self.values: dict[str, Turned] = {}
        before = None
        while before != self.values:  # a value may be read above the equation that makes it
            before = dict(self.values)
            for e in card.equations:
                found = self.of(e.right, shapes.env)
                other = self.values.get(e.name, found)
                if found[0] != other[0]:  # of some blocks only
                    self.counts(found, other)
                self.values[e.name] = found[0], found[1] | other[1]

    def counts(self, *them: Turned) -> None:
        """The places from which these count their positions matter."""
        self.absolute = self.absolute.union(*(calls for _, calls in them))

    def of(self, e: Expr, env: TypeEnv) -> Turned:
        """How the value of a formula is rotated."""
        if isinstance(e, Ref):
            return self.values.get(e.key, STILL)
        if isinstance(e, Bind | Table):
            self.counts(self.of(e.body, self.shapes.inside(e, env)))
            return STILL
        parts = [self.of(x, env) for x in e.children]
        if isinstance(e, Apply):
            if self.card.library_name(e) in ROTATIONS:
                self.counts(*parts)
                return (e.op, e.args[1:]), frozenset({e})
            if e.op == "prod" and parts[1][0] == ("T", parts[0][0]):
                return STILL
            calls = frozenset[Expr]().union(*(calls for _, calls in parts))
            if e.op in ("concat", "T") and calls:
                return (e.op, *(kind for kind, _ in parts)), calls
            if e.op in ("times", "div") and not self.shapes.of(e.args[e.op == "div"], env).shape:
                return parts[e.op == "times"]
        self.counts(*parts)
        return STILL
