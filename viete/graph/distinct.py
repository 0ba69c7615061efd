"""Renames symbols so that every name of a card means one thing, before anything is rewritten.

On paper, ``V`` may be the vocabulary size and also ``x W_V``, and ``table_{d<4}(…)`` may bind the
letter of a dimension. Where both are possible, a card means the value and the bound letter. A
rewriting that adds a formula there could then not name the dimension. So the dimension becomes
``V_size``, and the binder gets another letter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import chain, count
from typing import Any

from viete.graph.card import (
    CardData,
    Claim,
    Dimension,
    Equation,
    Index,
    Input,
    Loop,
    Parameter,
    memoised,
)
from viete.graph.operator import Operator
from viete.notation.substitution import apart
from viete.notation.tree import Expr, Ref, Slot, Symbol, replaced

# Where the names of dimensions stand; those in a function are its own.
PARTS = (Claim, Dimension, Equation, Index, Input, Loop, Operator, Parameter)


@memoised
def distinct(card: CardData) -> CardData:
    """The same card, with dimensions and bound letters renamed where they share a name."""
    others = {i.name for i in card.inputs} | {p.name for p in card.parameters}
    others |= {e.name for e in (*card.equations, *card.derived)}
    new: dict[str, Symbol] = {}
    for dim in card.dims:
        if dim.name in others:
            taken = others.union(d.name for d in card.dims)
            new[dim.name] = symbol = labelled(dim.symbol, taken)
            others.add(symbol.key)
    if new:
        card = with_dimensions(card, new)
    return card.with_formulas(lambda e: apart(e, card.plain_names, card.names, card.ranges))


def labelled(symbol: Symbol, taken: set[str]) -> Symbol:
    """A dimension's symbol with another label: ``V_size``."""
    labels = chain(("size", "count"), (f"size{k}" for k in count(2)))
    symbols = (replace(symbol, sub=(*symbol.sub, Slot(x))) for x in labels)
    return next(s for s in symbols if s.key not in taken)


def with_dimensions(card: CardData, new: Mapping[str, Symbol]) -> CardData:
    """The model with other symbols for some of its dimensions."""
    dims: dict[Expr, Expr] = {Ref(d.symbol): Ref(new[d.name]) for d in card.dims if d.name in new}

    def of(x: Any) -> Any:
        """A part of the card with the new dimensions in all its formulas."""
        if isinstance(x, Expr):
            return replaced(x, dims)
        if isinstance(x, tuple):
            return tuple(map(of, x))
        if isinstance(x, PARTS):
            return replace(x, **{f.name: of(getattr(x, f.name)) for f in fields(x)})
        return x

    def parameter(p: Parameter) -> Parameter:
        return replace(p, init=in_words(p.init, new),
                       checkpoint=re.sub(r"\{[^{}]*\}", lambda m: in_words(m[0], new),
                                         p.checkpoint))  # fmt: skip

    parts = {f.name: of(getattr(card, f.name)) for f in fields(CardData)}
    card = replace(card, **parts)
    named = tuple(replace(d, symbol=new.get(d.name, d.symbol)) for d in card.dims)
    return replace(card, dims=named, parameters=tuple(map(parameter, card.parameters)))


def in_words(text: str, new: Mapping[str, Symbol]) -> str:
    """A cell of a card that mentions dimensions, with their new names."""
    for old, symbol in new.items():
        text = re.sub(rf"(?<![\w\\]){re.escape(old)}(?![\w])", symbol.key, text)
    return text
