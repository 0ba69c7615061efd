"""How many operations a formula has once every function in it is written out.

Functions that call each other twice double at every step: twenty short lines would be a million
operations, which no card means and no run survives.
"""

from __future__ import annotations

from viete.graph.card import CardData
from viete.notation.tree import Apply, Expr, walk

MOST_OPERATIONS = 100_000


def check_written_out(card: CardData) -> None:
    """Raises VieteError at the definition or equation with more than `MOST_OPERATIONS`."""
    counts: dict[str, int] = {}

    def of(e: Expr) -> int:
        total = 0
        for node in walk(e):
            total += 1
            if isinstance(node, Apply) and node.op in card.function:
                if node.op not in counts:
                    counts[node.op] = 0  # against a circle, which is refused elsewhere
                    counts[node.op] = of(card.function[node.op].body)
                total += counts[node.op]
        return total

    for function in card.functions:  # in order, so that a long chain of calls is no deep one
        counts[function.name] = count = of(function.body)
        if count > MOST_OPERATIONS:
            raise function.text.error(too_many(function.name, count))
    for equation in (*card.equations, *card.derived):
        if (count := of(equation.right)) > MOST_OPERATIONS:
            raise equation.text.error(too_many(equation.name, count))
    for claim in card.claims:
        if (count := of(claim.statement)) > MOST_OPERATIONS:
            raise claim.text.error(too_many("this claim", count))


def too_many(name: str, count: int) -> str:
    """What is wrong, for the error."""
    return (
        f"with its functions written out, {name} has {count:,} operations; at most "
        f"{MOST_OPERATIONS:,}"
    )
