"""Naming: gives a derived value an equation, where other equations compute it.

``scale_A^i = sqrt(var(x^{i-1}) + ε)`` is the divisor of attention's layer norm: the norm is written
out where it occurs, and reads the scale. Then the scale is a value that one may change or give.
"""

from __future__ import annotations

from dataclasses import replace

from viete.errors import Text
from viete.graph.card import CardData, Equation, restated
from viete.graph.matching import match
from viete.library.functions import inlined
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Ref, rebuilt
from viete.rewrite.opening import underived

DEEPEST = 3  # functions within functions that are written out


def alias(card: CardData, ref: Ref) -> Ref:
    """The name that a derived name is only another name for, or the name itself."""
    derived = {d.name: d for d in card.derived}
    while ref.key in derived and isinstance(found := derived[ref.key].right, Ref):
        at = dict(zip(derived[ref.key].left.symbol.slots, ref.index, strict=True))
        ref = card.substitute(found, letters=at)  # type: ignore[assignment]
    return ref


def with_equation(card: CardData, ref: Ref, source: Text) -> tuple[CardData, Ref]:
    """The card with an equation for a name, read by the equations that computed the value unnamed.

    A derived name for another name stands for that. Raises VieteError, at ``source``, if no
    equation computes its value.
    """
    ref = alias(card, ref)
    derived = next((d for d in card.derived if d.name == ref.key), None)
    if derived is None:
        return card, ref
    left, value = derived.left, underived(card, derived.right)
    same = [e for e in card.equations if e.right == value and e.left.free == left.free]
    if same:  # of two norms of one stream
        at = dict(zip(left.symbol.slots, ref.index, strict=True))
        return card, Ref(same[0].left.symbol, tuple(
            card.substitute(x, letters=at) for x in same[0].left.index))  # fmt: skip
    blocks = left.free & card.loop_letters
    places = [k for k, e in enumerate(card.equations)
              if blocks == ({e.loop.index} if e.loop else set())
              and naming(card, e.right, value, left) != e.right]  # fmt: skip
    if not places:
        raise source.error(
            f"{left.symbol.key} is derived, {show(left)} = {show(derived.right)}, and no equation "
            f"of {card.title} computes it"
        )
    equations = list(card.equations)
    for k in places:
        e = equations[k]
        equations[k] = restated(e, e.left, naming(card, e.right, value, left))
    first = card.equations[places[0]]
    new = Equation(left, value, first.loop, first.part, derived.meaning, text=derived.text)
    equations.insert(places[0], restated(new, left, value))
    rest = tuple(d for d in card.derived if d is not derived)
    return replace(card, equations=tuple(equations), derived=rest), ref


def naming(card: CardData, e: Expr, value: Expr, name: Ref, deep: int = DEEPEST) -> Expr:
    """A formula with a name for each part that equals the name's definition.

    A function is written out if that uncovers such a part.
    """
    if match(value, e, card.function) is not None:
        return name
    parts = rebuilt(e, [naming(card, x, value, name, deep) for x in e.children])
    if parts != e or not deep or not isinstance(e, Apply) or e.op not in card.function:
        return parts
    if value.keys.isdisjoint(e.keys):
        return e
    body = inlined(e, card.function, taken=card.names)
    found = naming(card, body, value, name, deep - 1)
    return e if found == body else card.apart(found)


__all__ = ["alias", "with_equation"]
