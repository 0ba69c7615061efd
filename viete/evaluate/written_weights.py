"""Weights as the literals of a card's `value` column: a card that keeps its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.schedule import program
from viete.graph.card import CardData, Parameter

MOST_WRITTEN = 5_000  # numbers of a card


def with_values(card: CardData, weights: Mapping[str, Any]) -> CardData:
    """The card with these weights, by the names of `run`, in its `value` column.

    A parameter that has a value keeps its spelling. Raises VieteError for more numbers than a card
    can show, and for a parameter of more than two dimensions.
    """
    count = sum(np.size(weights[name]) for name in program(card).parameters)
    if count > MOST_WRITTEN:
        raise VieteError(
            f"{count:,} numbers are too many to write into a card, which holds {MOST_WRITTEN:,}; "
            "give smaller dimensions, such as --set d=4"
        )
    cells = {p.name: ", ".join(found) for p, found in members(card, weights)}
    return replace(
        card,
        parameters=tuple(
            p if p.value else replace(p, value=cells[p.name], init="") for p in card.parameters
        ),
    )


def members(card: CardData, weights: Mapping[str, Any]) -> Iterator[tuple[Parameter, list[str]]]:
    """Each parameter with its literals, block after block and head after head; equal ones once."""
    for p in card.parameters:
        found = []
        for name, (q, _, shape) in program(card).parameters.items():
            if q.name != p.name:
                continue
            if len(p.shape) > 2:
                raise VieteError(f"{p.name} has {len(p.shape)} dimensions; a card writes two")
            core = shape[len(shape) - len(p.shape) :]
            for array in np.asarray(weights[name], dtype=object).reshape(-1, *core):
                found.append(literal(np.asarray(array, dtype=object)))
        yield p, found[:1] if len(set(found)) == 1 else found


def literal(array: np.ndarray) -> str:
    """``[1 0; -1/2 1]``, or one number for an array of equal ones."""
    entries = [number_text(x) for x in array.flat]
    if len(set(entries)) == 1:
        return entries[0]
    rows = array.reshape(1, -1) if array.ndim < 2 else array
    return f"[{'; '.join(' '.join(map(number_text, row)) for row in rows)}]"


def number_text(x: Any) -> str:
    """A fraction, or a float with the fewest digits that are read as the same float."""
    return str(x) if isinstance(x, Fraction | int) else repr(float(x))


def places(card: CardData, p: Parameter) -> list[dict[str, int]]:
    """The block and the head of each literal of a parameter that has several."""
    plan = program(card)
    heads = card.heads_of(p.symbol)
    letters = [*card.blocks_of(p.symbol), *heads]
    return [
        dict(zip(letters, [*blocks, *at], strict=True))
        for q, blocks, _ in plan.parameters.values() if q.name == p.name
        for at in product(*map(plan.range_of, heads))
    ]  # fmt: skip


__all__ = ["places", "with_values"]
