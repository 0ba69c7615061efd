"""Lifting: parts of formulas that match a pattern get an equation.

``softmax(z)`` matches the equation of A, and z matches its scores. Lifted out, these are a value
like any other: ``S = causal(Q K^T / sqrt(d_k))``, ``A = softmax(S)``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from viete.graph.card import CardData, Equation, restated
from viete.graph.matching import match
from viete.library.functions import inlined
from viete.notation.substitution import Put, substitute
from viete.notation.tree import Apply, Expr, Ref, Symbol, replaced, walk
from viete.rewrite.simplify import simplified


@dataclass(frozen=True)
class Place:
    """The place where a pattern fits: ``whole`` in ``right``, the right side of an equation.

    ``right`` has a function written out if the pattern fits nowhere else. ``letters`` maps the
    pattern's letters to formulas.
    """

    equation: int
    right: Expr
    whole: Expr
    letters: Mapping[str, Put]

    def put(self, formula: Expr, **more: Expr) -> Expr:
        """A formula over the pattern's letters as one of the card."""
        return substitute(formula, arguments={**self.letters, **more})


def find(
    card: CardData, pattern: Expr, equations: Collection[int], through: bool = False
) -> Place | None:
    """The first part of these equations that a pattern fits.

    Symbols of the kind 'argument' are the pattern's letters and stand for anything; others are the
    card's. If it fits nowhere, it is tried with one function written out, and so on in order; and,
    to look ``through`` values, with one value replaced by its equation.
    """
    for written_out in (alone, with_one_inlined, *([with_one_value] if through else [])):
        for k in sorted(equations):
            for right in written_out(card, card.equations[k].right):
                for part in walk(right):
                    found = match(pattern, part, card.function)
                    if found is not None and nameable(card, part):
                        return Place(k, right, part, found.letters)
    return None


def nameable(card: CardData, e: Expr) -> bool:
    """Whether ``e`` is one value for each of the card's index letters, and of no other letter."""
    return e.free <= {i.name for i in card.indices} | card.loop_letters


def alone(card: CardData, e: Expr) -> Iterator[Expr]:
    """A formula unchanged."""
    yield e


def with_one_value(card: CardData, e: Expr) -> Iterator[Expr]:
    """A formula with one value that it reads written out, for each value in turn."""
    made = {equation.left: equation.right for equation in card.equations}
    for part in dict.fromkeys(walk(e)):
        if isinstance(part, Ref) and part in made:
            yield card.apart(replaced(e, {part: made[part]}))


def with_one_inlined(card: CardData, e: Expr) -> Iterator[Expr]:
    """A formula with one function written out, for each function in turn."""
    for part in walk(e):
        if not isinstance(part, Apply) or part.op not in card.function:
            continue
        function = card.function[part.op]
        if any(a.pattern for a in function.arguments):
            continue  # its definition speaks of sizes
        body = inlined(part, card.function, taken=card.names)
        yield card.apart(replaced(e, {part: body}))


def lifted(card: CardData, place: Place, value: Expr, back: Expr, symbol: Symbol) -> CardData:
    """The model with an equation for ``symbol``, ``value``; ``back`` replaces ``whole``.

    Both are formulas of the card, ``back`` with ``symbol`` in it; ``back`` with ``value`` put in
    must equal ``place.whole``. The equation comes before the one it is taken from.
    """
    old = card.equations[place.equation]
    left = symbol.member
    right = replaced(place.right, {place.whole: back})
    pair = (again(old, left, value), again(old, old.left, simplified(right)))
    k = place.equation
    return replace(card, equations=(*card.equations[:k], *pair, *card.equations[k + 1 :]))


def again(old: Equation, left: Ref, right: Expr) -> Equation:
    """An equation that replaces another."""
    return replace(restated(old, left, right), stated=None)
