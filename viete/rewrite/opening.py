"""Expands derived names and functions of the card's values into the card's equations.

A question and a derived name may use both; an equation given to a rewriting may not.
"""

from __future__ import annotations

from viete.errors import VieteError
from viete.graph.card import CardData
from viete.graph.opening import body_of, opened
from viete.notation.printer import show
from viete.notation.substitution import Abstraction
from viete.notation.tree import CALL, Apply, Bind, Expr, Ref, num, rebuilt

MOST_PARTS = 100_000  # of a formula, each counted as often as it stands there


def underived(card: CardData, e: Expr) -> Expr:
    """A formula with derived names and functions of the card's values written out.

    Raises VieteError if the result is too long, as for many blocks in sequence.
    """
    names = {d.name: Abstraction(d.left.symbol.slots, d.right) for d in card.derived}
    e = without_calls(card, e)
    while e.keys & names.keys():
        e = without_calls(card, card.substitute(e, names=names))
    return e


def without_calls(card: CardData, e: Expr) -> Expr:
    """A formula with its calls of the card's functions of values written out."""
    if not card.operators:
        return e
    parts = rebuilt(e, [without_calls(card, x) for x in e.children])
    if not (isinstance(parts, Apply) and parts.op == CALL):
        return parts
    return applied(card, parts.args[0], parts.args[1:])


def applied(card: CardData, f: Expr, args: tuple[Expr, ...]) -> Expr:
    """A function's body with arguments; for a composition, the bodies one after the other."""
    if isinstance(f, Bind) and f.ranges is not None:
        sizes = [card.size(x) for x in f.ranges]
        ends = [None if size is None else size.value(card.sizes) for size in sizes]
        if ends[0] is None or ends[1] is None:
            raise VieteError(f"how many blocks {show(f.body)} goes through must be known here")
        for k in range(int(ends[0]), int(ends[1]) + 1):
            args = (applied(card, card.substitute(f.body, letters={f.index: num(k)}), args),)
        return args[0]
    assert isinstance(f, Ref)
    operator = card.operator[f.symbol]
    body = body_of(card, operator)
    own = dict(zip(f.symbol.slots, f.index, strict=True))
    given = [*(own[x] for x in operator.places), *args]
    found = card.substitute(
        body.formula,
        letters={x: own[x] for x in operator.letters},
        arguments={a.symbol.key: x for a, x in zip(body.arguments, given, strict=True)},
    )
    if parts_of(found) > MOST_PARTS:
        raise VieteError(
            f"with its definition put in, {show(operator.symbol.member)} of this is too long; give "
            f"its argument a name"
        )
    return card.apart(found)


def parts_of(e: Expr) -> int:
    """The number of parts of a formula; a repeated part counts each time."""
    counts: dict[Expr, int] = {}

    def count(x: Expr) -> int:
        if x not in counts:
            counts[x] = 1 + sum(map(count, x.children))
        return counts[x]

    return count(e)


__all__ = ["opened", "underived", "without_calls"]
