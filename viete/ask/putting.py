"""Values given by the caller in an intervention: each becomes a parameter of the changed card.

``x^3_j = x^3_j + 4 probe`` with a vector ``probe`` adds a parameter ``probe`` to the card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from viete.ask.asking import as_array, own_symbol
from viete.ask.other_run import OtherRun
from viete.cards.edits import read_edit
from viete.errors import Text, VieteError
from viete.evaluate.labelled import Array
from viete.evaluate.run import Run
from viete.evaluate.schedule import program
from viete.graph.card import CardData, Parameter
from viete.notation.printer import show
from viete.notation.symbols import Scope
from viete.notation.tree import num
from viete.rewrite.cut import Cut
from viete.rewrite.put import put
from viete.rewrite.replacement import SUCH_AS


class Features(Protocol):
    """An object that adds features to a card and has their weights: `viete.model.coders.Coders`."""

    def put(self, card: CardData) -> tuple[CardData, Mapping[str, Array]]:
        """The card with the features, and the weights by its names."""


@dataclass(frozen=True)
class Edited:
    """A changed card, and the numbers of its new parameters by their names."""

    card: CardData
    arrays: Mapping[str, Array]


def edited(
    card: CardData, equations: Sequence[str | Path | Features], values: Mapping[str, Any],
    scope: Callable[[CardData], Scope] = lambda card: card.scope, against: Run | None = None,
) -> Edited:  # fmt: skip
    """The card with ``equations`` put in, texts or Markdown files, and ``values`` by their names.

    The names of the run ``against`` have a prime.

    Raises VieteError for an empty text, for a name that the card has, for a value that is not a
    number, vector or matrix, and where `viete.rewrite.put.put` does.
    """
    arrays: dict[str, Array] = {}
    for name, value in values.items():
        symbol = own_symbol(card, name, "parameter")
        array = as_array(name, value)
        if len(array.shape) > 2:
            raise VieteError(
                f"{name} has the shape {tuple(array.shape)}; it is a number, a vector or a matrix"
            )
        new = Parameter(symbol, tuple(map(num, array.shape)), meaning="given")
        card = replace(card, parameters=(*card.parameters, new))
        arrays[symbol.key] = array
    other = None if against is None else OtherRun(card, against)
    for equation in equations:
        texts: Iterable[Text]
        if not isinstance(equation, str | Path) and hasattr(equation, "put"):
            card, weights = equation.put(card)
            arrays.update(weights)
            continue
        if isinstance(equation, Path):
            card, texts = read_edit(equation, card)
        elif isinstance(equation, str) and not equation.strip():
            raise VieteError(f"a change is empty; write an equation, {SUCH_AS}")
        elif isinstance(equation, str):
            lines = enumerate(equation.splitlines(), 1)
            texts = [Text(line.replace("$", " "), "<put>", k, 1, line)
                     for k, line in lines if line.strip()]  # fmt: skip
        else:
            raise VieteError(f"a change is an equation or a path to a file, not {equation!r:.40}")
        if other is None:
            card = put(card, texts, scope)
        else:
            card = put(card, texts, lambda card: other.scope(scope(card)), other.with_parameters)
            arrays |= other.arrays
    return Edited(card, arrays)


def with_literals(card: CardData, arrays: Mapping[str, Array]) -> CardData:
    """A card that contains the numbers of its new parameters."""

    def literal(array: Any) -> str:
        if not array.shape:
            return repr(float(array))
        rows = [array] if len(array.shape) == 1 else array
        return "[" + "; ".join(" ".join(repr(float(x)) for x in row) for row in rows) + "]"

    return replace(card, parameters=tuple(
        replace(p, value=literal(arrays[p.name])) if p.name in arrays else p
        for p in card.parameters
    ))  # fmt: skip


def values_of(found: Cut, values: Mapping[str, Any]) -> dict[str, Array]:
    """The values of a run, or arrays by name, for the inputs that a cut made.

    Raises VieteError for an input that they lack.
    """
    if not isinstance(values, Mapping):
        raise VieteError(f"values must be a run, or arrays by name, not {values!r:.60}")
    out: dict[str, Array] = {}
    for name, of in names_of(found).items():
        if of not in values:
            raise VieteError(f"{of} is cut, but values has no {of}")
        out[name] = values[of]
    return out


def names_of(found: Cut) -> dict[str, str]:
    """The names of the inputs that a cut made, and of the values they replace."""
    out: dict[str, str] = {}
    for name, (item, blocks) in program(found.card).inputs.items():
        if item.name in found.inputs:
            letters = found.card.blocks_of(item.symbol)
            at = {s: num(k) for s, k in zip(letters, blocks, strict=True)}
            out[name] = show(found.card.substitute(found.inputs[item.name], letters=at))
    return out


__all__ = ["Edited", "edited", "names_of", "values_of", "with_literals"]
