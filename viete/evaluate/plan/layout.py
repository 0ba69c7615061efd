"""Memory layout of weights: heads side by side, so that one product serves them all.

``u W^h`` for all h is one product of u with the columns of all heads next to each other. So that
nothing has to be moved, such a family is stored row by row, each row with the entries of all heads.
The array under the family's name is a view with the card's order of axes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from viete.evaluate.schedule import Program
from viete.notation.tree import Apply, Expr, Idx, Ref, walk

Array = Any
Orders = Mapping[str, tuple[int, ...]]


def orders(program: Program) -> dict[str, tuple[int, ...]]:
    """For weights stored in another order of axes: their axes in the order of memory."""
    joined: set[str] = set()
    for e in program.model.equations:
        for x in walk(e.right):
            match x:
                case Apply("prod", (a, Ref() as w)) if w.symbol.kind == "parameter":
                    own = letters(w) - set(program.model.loop_letters)
                    if own and not own & letters(a):
                        joined.add(w.key)
    out = {}
    for name, (p, _, shape) in program.parameters.items():
        if p.name in joined and len(p.shape) == 2:
            heads = len(shape) - 2
            out[name] = (heads, *range(heads), heads + 1)
    return out


def letters(e: Expr) -> set[str]:
    """The index letters in an expression."""
    parts = [y for x in walk(e) if isinstance(x, Ref) for i in x.index for y in walk(i)]
    return {x.name for x in (*walk(e), *parts) if isinstance(x, Idx)}


def back(order: tuple[int, ...]) -> list[int]:
    """The permutation from memory order to the card's order of axes."""
    return [order.index(k) for k in range(len(order))]


def split(
    flat: Array, shapes: Mapping[str, tuple[int, ...]], order: Orders | None = None
) -> dict[str, Array]:
    """Views of a flat array by name, of these shapes; ``order`` gives their axes in memory."""
    out, start = {}, 0
    for name, shape in shapes.items():
        laid = in_memory(name, shape, order or {})
        size = math.prod(laid)
        view = flat[start : start + size].reshape(laid)
        if order and name in order:
            turned = back(order[name])
            view = view.permute(turned) if hasattr(view, "permute") else view.transpose(turned)
        out[name] = view
        start += size
    return out


def in_memory(name: str, shape: tuple[int, ...], order: Orders) -> tuple[int, ...]:
    """The shape of a weight in memory."""
    return tuple(shape[k] for k in order[name]) if name in order else shape
