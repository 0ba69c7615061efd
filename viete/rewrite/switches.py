"""Switches: equations whose entries a run can set to 0 through an input.

``A^{i,h} = softmax(…)`` becomes ``A^{i,h} = switched(softmax(…); s_A^{i,h})``. So one program
serves every `viete.rewrite.put` of a 0, forwards and backwards.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from viete.analysis.shapes import shapes_of
from viete.graph.card import CardData, Equation, Input, with_right
from viete.notation.printer import show
from viete.notation.tree import Idx, Slot, Symbol, num

OPENED = "1 where a value is, and 0 where it is put to 0"


@dataclass(frozen=True)
class Switch:
    """The input that switches entries of the value of the equation at ``place``."""

    place: int
    symbol: Symbol


def switched(card: CardData, names: Collection[str]) -> tuple[CardData, tuple[Switch, ...]]:
    """The card with switches in the equations of values ``names``: inputs that are 1 by default.

    A switch has the shape of the value, and the letters of the equation.
    """
    types = shapes_of(card).types
    equations, inputs, found = list(card.equations), list(card.inputs), list[Switch]()
    taken = set(card.names)
    for k, e in enumerate(card.equations):
        if e.name not in names:
            continue
        symbol = switch_of(e, taken)
        taken.add(symbol.key)
        shape = tuple(map(card.size_expr, types[e.name].shape))
        inputs.append(Input(symbol, shape, num(0), num(1), num(1), OPENED))
        # One function, not `where`, below which definitions would be put in for every gradient.
        equations[k] = with_right(e, card.library("switched", e.right, symbol.member))
        found.append(Switch(k, symbol))
    return replace(card, inputs=tuple(inputs), equations=tuple(equations)), tuple(found)


def switch_of(e: Equation, taken: Collection[str]) -> Symbol:
    """The name of the switch of an equation: ``s_A^{i,h}``, and ``s_{x,0}`` of that of x^0."""
    symbol, letters, labels = e.left.symbol, list[Slot](), [Slot(e.left.symbol.base)]
    labels += [s for s in (*symbol.sub, *symbol.sup) if not s.index]
    for x in e.left.index:
        if isinstance(x, Idx):
            letters.append(Slot(x.name, True))
        else:
            labels.append(Slot(show(x)))
    base = "s"
    while (new := Symbol("input", base, tuple(labels), tuple(letters))).key in taken:
        base += "'"
    return new


__all__ = ["Switch", "switched"]
