"""Places of a model: values with a row at each position, and their rows in runs of many texts.

A place is a formula of the card, ``x^3``, ``m^2`` or ``Q^{2,1}``, or a name of TransformerLens,
``blocks.2.hook_resid_post``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from viete.errors import Text, VieteError
from viete.evaluate.execution import execute
from viete.evaluate.inputs import host
from viete.evaluate.queries import query
from viete.evaluate.schedule import program
from viete.graph.card import CardData
from viete.model.names import Names
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Expr, Idx, Ref, num, transform

Array = Any
POSITIONS = 2048  # that are run together: more do not make the products faster


def place_of(card: CardData, name: str, option: str = "a place") -> Expr:
    """The formula of a value by its name, with numbers for blocks and heads.

    ``option`` is the option that names it, for errors. Raises VieteError for a value that the card
    does not have, and for one without a row at each position.
    """
    names, source = Names(card), Text(name, f"<{option}>")
    if "hook" in name:
        general, layer = names.split(names.full(name))
        e = names.get(general).formula
        if layer is not None and names.loop is not None:
            block, letter = num(names.blocks[layer]), Idx(names.loop.index)
            e = transform(e, lambda x: block if x == letter else None)
    else:
        e = parse(source, card.scope)
    ready = program(card)

    def counted(x: Expr) -> Expr | None:
        if not isinstance(x, Ref) or x.free or not x.index:
            return None
        return Ref(x.symbol, tuple(num(ready.index_size(k, {})) for k in x.index))

    e = transform(e, counted)
    found = ready.shapes.located(source, e, frozenset())
    length = card.inputs[0].shape[0] if card.inputs and card.inputs[0].shape else None
    if e.free or length is None or len(found.shape) != 2 or found.shape[0] != card.size(length):
        raise VieteError(
            f"{option} {name}: features read and write values with a row for each position, such "
            f"as {example(card)}"
        )
    return e


def example(card: CardData) -> str:
    """The name of a value that a card has, as an example."""
    names = Names(card)
    return "x^1" if names.loop is None else f"x^{names.blocks[0]}"


def name_of(card: CardData, place: Expr) -> str:
    """The TransformerLens name of a value; its formula where it has none."""
    names = Names(card)
    for general in names.entries:
        found = names.found(general)
        if found is None or found.place is not None:
            continue
        for layer, block in enumerate(names.blocks if "{l}" in general else [0]):
            letter = names.loop.index if names.loop else ""
            here = transform(found.formula, lambda x: num(block) if x == Idx(letter) else None)  # noqa: B023
            if here == place:
                return general.replace("{l}", str(layer))
    return show(place)


class PlaceValues:
    """The rows of some values in runs of a model, with their ``widths``."""

    def __init__(
        self, card: CardData, weights: Mapping[str, Array], places: Sequence[Expr]
    ) -> None:
        self.card, self.weights, self.places = card, weights, tuple(places)
        self.program, self.item = program(card), card.inputs[0].name
        shapes = self.program.shapes
        widths = [shapes.located(Text(show(e)), e, frozenset()).shape[1] for e in self.places]
        for e, width in zip(self.places, widths, strict=True):
            if width.value(self.program.sizes) is None:
                raise VieteError(
                    f"the rows of {show(e)} are as long as the text ({width}); features read and "
                    f"write rows of one fixed width, such as those of {example(card)}"
                )
        self.widths = tuple(int(w.evaluate(self.program.sizes)) for w in widths)

    def __call__(self, ids: Array) -> list[np.ndarray]:
        """The rows of each value, (texts, positions, width), for ids (texts, positions)."""
        step = max(1, POSITIONS // ids.shape[1])
        pieces = [self.piece(ids[k : k + step]) for k in range(0, len(ids), step)]
        return [np.concatenate(arrays) for arrays in zip(*pieces, strict=True)]

    def piece(self, ids: Array) -> list[np.ndarray]:
        """As the call, for texts that are run together."""
        run = execute(self.program, {self.item: ids}, self.weights, [])
        run.supply({m for e in self.places for m in run.needed_by(e)})
        found = [run.for_each(run.evaluate(query(run, e))) for e in self.places]
        return [np.asarray(host(run.ordered(v, ()))) for v in found]


__all__ = ["PlaceValues", "name_of", "place_of"]
