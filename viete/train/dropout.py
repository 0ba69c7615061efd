"""Dropout where a card has it: ``dropout(x; p)``, which is x except during training.

Training rewrites it to ``x ⊙ D``, with an input D of x's shape (one for each block and head if x
varies over those). These are ordinary equations, so the adjoint and the plan need no extra rules. D
is 0 with probability p and 1/(1 − p) otherwise (Srivastava et al. 2014, scaled during training); it
is a function of the seed and the number of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from viete.analysis.shapes import Shapes, shapes_of
from viete.evaluate.schedule import program
from viete.graph.card import CardData, Equation, Input, with_right
from viete.notation.tree import Apply, Expr, Idx, Ref, Slot, Symbol, transform, walk


@dataclass(frozen=True)
class Masks:
    """The card to train, ``model``, and the probability p of each input that is a mask."""

    model: CardData
    chances: Mapping[str, float]

    def draw(self, seed: int, k: int, length: int, batch: int, dtype: Any) -> dict[str, np.ndarray]:
        """The masks of batch k, of shape (batch, heads …, rows, columns), by input name."""
        if not self.chances:
            return {}
        model, out = self.model, {}
        ready = program(model)
        n = model.inputs[0].shape[0]
        sizes = {**model.sizes, **({n.key: Fraction(length)} if isinstance(n, Ref) else {})}
        for name, (item, _) in ready.inputs.items():
            if item.name not in self.chances:
                continue
            p = self.chances[item.name]
            shape = [batch, *(len(ready.range_of(s)) for s in model.heads_of(item.symbol))]
            for e in item.shape:
                size = model.size(e)
                assert size is not None
                shape.append(int(size.evaluate(sizes)))
            rng = np.random.default_rng([seed, k, *name.encode()])
            kept = rng.random(shape, np.float32) >= p
            out[name] = kept.astype(dtype) / np.asarray(1 - p, dtype)
        return out


def with_masks(card: CardData) -> Masks:
    """The card as it is trained, with dropout as masks.

    Raises VieteError, at the equation, for an invalid probability and for dropout of a single
    number.
    """
    drops = [x for e in card.equations for x in walk(e.right) if is_dropout(card, x)]
    if not drops:
        return Masks(card, {})
    base = card.fresh("D", "drop", "mask", "kept")
    shapes, chances = shapes_of(card), dict[str, float]()
    inputs, equations = list[Input](), list[Equation]()
    for equation in card.equations:

        def rule(x: Expr, at: Equation = equation) -> Expr | None:
            if not is_dropout(card, x):
                return None
            assert isinstance(x, Apply)
            item = mask(card, shapes, x, at, f"{len(inputs) + 1}", base)
            inputs.append(item)
            chances[item.name] = chance(card, x.args[1], at)
            return Apply("had", (x.args[0], Ref(item.symbol, tuple(
                Idx(letter) for letter in item.symbol.slots))))  # fmt: skip

        right = transform(equation.right, rule)
        equations.append(with_right(equation, right))
    model = replace(card, inputs=(*card.inputs, *inputs), equations=tuple(equations))
    return Masks(model, chances)


def is_dropout(card: CardData, x: Expr) -> bool:
    """Whether a call is the library's dropout, not a card's function of the same name."""
    return card.library_name(x) == "dropout"


def mask(card: CardData, shapes: Shapes, x: Apply, at: Equation, number: str, base: str) -> Input:
    """The mask input for one call of dropout."""
    letters = x.args[0].free
    found = shapes.located(at.text, x.args[0], frozenset(letters), loops=True)
    if not found.shape:
        raise at.text.error("dropout takes a vector or a matrix, and this is one number")
    blocks = sorted(letters & card.loop_letters)
    slots = tuple(Slot(s, True) for s in (*blocks, *sorted(found.family)))
    symbol = Symbol("input", base, (Slot(number),), slots)
    shape = tuple(map(card.size_expr, found.shape))
    return Input(symbol, shape, meaning="0 where training drops an entry")


def chance(card: CardData, p: Expr, at: Equation) -> float:
    """The probability that an entry is dropped, a number or a formula of dimensions."""
    size = card.size(p)
    try:
        value = None if size is None else float(size.evaluate(card.sizes))
    except KeyError:
        value = None
    if value is None or not 0 <= value < 1:
        raise at.text.error("dropout's p must be a number from 0 and below 1")
    return value


__all__ = ["Masks", "with_masks"]
