"""The tensors that a card expects in a file: a table of einops patterns, used both ways.

A file uses the card's own names, in any spelling (``W_Q^{1,h}``, ``γ_1``), or the names in the
``checkpoint`` column of its Parameters table::

    gpt_neox.layers.{i-1}.attention.query_key_value.weight : (h qkv k) d -> qkv h d k

Braces hold expressions over the parameter's index letters. After `` : `` comes an `einops` pattern,
and after commas the lengths that einops cannot infer: ``(h k two) d -> h d (two k), two=2``. The
axes on the right side are, in order: one for the symbols that share the tensor, if there are
several (Q, K, V); one for each index letter that the name does not spell, in the parameter's own
order; rows; columns. Without a pattern, the tensor is stored as that array.

Where a model is stored in several ways, the cell lists each: `` `A` or `B` ``. The first is
written; the one that fits a file best is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
from einops import EinopsError, parse_shape, rearrange

from viete.cards.config import HOLE
from viete.errors import Text, VieteError
from viete.evaluate.schedule import Program, member_name, program
from viete.graph.card import CardData, Parameter, memoised
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.symbols import Scope
from viete.notation.tree import Expr, Idx, walk

Array = Any
Place = tuple[int | slice, ...]
ALL = slice(None)
_LENGTH = re.compile(r"\s*([^\W\d]\w*)\s*=(.+)", re.S)


@dataclass(frozen=True)
class Part:
    """One weight in a file tensor: its place in the array after the pattern, and in the weight."""

    name: str
    source: Place
    target: Place


@dataclass(frozen=True)
class Expected:
    """A tensor that a card expects in a file.

    ``parameters`` share it. ``shape`` is the shape in the file, ``stacked`` that of the array after
    the pattern, whose ``parts`` are the weights.
    """

    parameters: tuple[Parameter, ...]
    shape: tuple[int, ...]
    stacked: tuple[int, ...]
    parts: tuple[Part, ...]
    pattern: str = ""
    lengths: Mapping[str, int] = field(default_factory=dict)

    @property
    def holds(self) -> tuple[str, ...]:
        """The names of the weights, as in `parameter_shapes`."""
        return tuple(dict.fromkeys(p.name for p in self.parts))

    def read(self, tensor: Array) -> Array:
        """A file tensor as the array of the weights."""
        return rearrange(tensor, self.pattern, **self.lengths) if self.pattern else tensor

    def write(self, array: Array) -> Array:
        """The inverse of `read`."""
        if not self.pattern:
            return array
        left, right = self.pattern.split("->")
        return rearrange(array, f"{right} -> {left}", **self.lengths)


def expected_tensors(card: CardData, own: bool = False, layout: int = 0) -> Mapping[str, Expected]:
    """The tensors that hold a model's weights, by their names in a file.

    A parameter without a checkpoint name, or with ``own`` every parameter, has the card's own name;
    of several layouts the one counted from 0 is used, or a parameter's last. Raises VieteError,
    pointing at the row, for a checkpoint name or pattern that does not fit.
    """
    return by_name(card, own, layout)


@memoised
def by_name(card: CardData, own: bool, layout: int) -> Mapping[str, Expected]:
    """See `expected_tensors`."""
    ready = program(card)
    sharing: dict[str, list[tuple[Parameter, str, dict[str, int]]]] = {}
    for p in card.parameters:
        if p.from_config and not own:
            continue
        column = "" if own else layouts(p)[: layout + 1][-1]
        name = column.partition(" : ")[0].strip()
        holes = [hole(p, card, m[1]) for m in HOLE.finditer(name)]
        letters = {x.name for e in holes for x in walk(e) if isinstance(x, Idx)}
        letters = letters if name else set(card.blocks_of(p.symbol))
        spelled = [s for s in p.symbol.slots if s in letters]
        for values in product(*(ready.range_of(s) for s in spelled)):
            at = dict(zip(spelled, values, strict=True))
            file_name = member_name(p.symbol, at)
            if name:
                numbers = iter([count_at(ready, e, at, p) for e in holes])
                file_name = HOLE.sub(lambda m, n=numbers: str(next(n)), name)  # type: ignore[misc]
            sharing.setdefault(file_name, []).append((p, column, at))
    return {name: shared(ready, name, group) for name, group in sharing.items()}


def layouts(p: Parameter) -> list[str]:
    """A parameter's name and pattern in each layout that its cell names."""
    return p.checkpoint.split(" or ")


def shared(
    ready: Program, name: str, group: list[tuple[Parameter, str, dict[str, int]]]
) -> Expected:
    """The tensor that all parameters of ``group`` share, each with the indices in its name."""
    first, column, _ = group[0]
    parts: list[Part] = []
    stacks = set()
    for k, (p, other, spelled) in enumerate(group):
        if sum(q is p for q, *_ in group) > 1:
            raise at_row(p, name, f"{name} would be {p.name} at two indices; spell every index of "
                                  f"it")  # fmt: skip
        blocks = ready.model.blocks_of(p.symbol)
        free = [s for s in p.symbol.slots if s not in spelled]
        loops = [s for s in blocks if s in free]
        core: tuple[int, ...] = ()
        for values in product(*(ready.range_of(s) for s in loops)):
            turn = {**spelled, **dict(zip(loops, values, strict=True))}
            weight = member_name(p.symbol, {s: n for s, n in turn.items() if s in blocks})
            shape = ready.parameters[weight][2]
            core = shape[len(shape) - len(p.shape) :]
            source = tuple(turn[s] - ready.range_of(s)[0] if s in loops else ALL for s in free)
            target = tuple(
                spelled[s] - ready.range_of(s)[0] if s in spelled else ALL
                for s in ready.model.heads_of(p.symbol)
            )  # fmt: skip
            parts.append(Part(weight, (k, *source) if len(group) > 1 else source, target))
        stacks.add((*(len(ready.range_of(s)) for s in free), *core))
        if other != column:
            raise at_row(p, name, f"{name} has two patterns: {column} and {other}")
    if len(stacks) > 1:
        shown = " and ".join(map(show_shape, sorted(stacks)))
        raise at_row(first, name, f"{name} is shared by parameters of different shapes: {shown}")
    stacked = ((len(group),) if len(group) > 1 else ()) + stacks.pop()
    pattern, _, rest = column.partition(" : ")[2].partition(",")
    shape, lengths = fitted(ready, first, stacked, pattern.strip(), rest)
    parameters = tuple(p for p, *_ in group)
    return Expected(parameters, shape, stacked, tuple(parts), pattern.strip(), lengths)


def fitted(
    ready: Program, p: Parameter, stacked: tuple[int, ...], pattern: str, rest: str
) -> tuple[tuple[int, ...], Mapping[str, int]]:
    """The file tensor's shape and the lengths of a pattern's axes; ``rest`` gives some lengths."""
    lengths = {}
    for item in rest.split(",") if rest else ():
        m = _LENGTH.fullmatch(item)
        if m is None:
            raise at_row(p, item.strip(), f"'{item.strip()}' is not a length; write axis=size")
        lengths[m[1]] = count_at(ready, hole(p, ready.model, m[2]), {}, p)
    if not pattern:
        return stacked, {}
    if prod(stacked) >= 2**60:
        raise p.text.error(f"{p.name} would be {show_shape(stacked)}, which no file can hold")
    if pattern.count("->") != 1:
        raise at_row(p, pattern, f"a pattern is written 'f d -> d f', not '{pattern}'")
    try:
        return there_and_back(stacked, pattern, tuple(lengths.items()))
    except (EinopsError, ValueError, RuntimeError) as error:
        why = str(error).strip().splitlines()[-1].strip()
        raise at_row(
            p, pattern,
            f"the pattern '{pattern}' does not fit {p.name}, whose array is "
            f"{show_shape(stacked)}: {why}",
        ) from None  # fmt: skip


@lru_cache(maxsize=1024)  # the same in every block
def there_and_back(
    stacked: tuple[int, ...], pattern: str, given: tuple[tuple[str, int], ...]
) -> tuple[tuple[int, ...], Mapping[str, int]]:
    """A pattern's shape and lengths, found by einops on an array that takes no memory.

    Raises EinopsError, ValueError or RuntimeError where it does not fit.
    """
    array = np.broadcast_to(np.zeros(()), stacked)
    # Composite axes on the right have no length of their own; einops infers those.
    simple = parse_shape(array, re.sub(r"\([^()]*\)", "_", pattern.split("->")[1]))
    draft = Expected((), (), stacked, (), pattern, {**simple, **dict(given)})
    shape = tuple(draft.write(array).shape)
    if draft.read(np.broadcast_to(np.zeros(()), shape)).shape != stacked:
        raise ValueError("it does not lead back to the parameter")
    return shape, draft.lengths


def hole(p: Parameter, card: CardData, text: str) -> Expr:
    """The expression in a pair of braces."""
    scope = Scope(indices=set(p.symbol.slots))
    for d in card.dims:
        scope.declare(d.symbol)
    line = p.text.whole or ""
    column = line.find(text, p.text.column) + 1
    place = Text(text, p.text.file, p.text.line, column or 1, line) if column else Text(text)
    return parse(place.cut(0), scope)


def count_at(ready: Program, e: Expr, at: Mapping[str, int], p: Parameter) -> int:
    """A number in a checkpoint name, or the length of an axis."""
    value = ready.index_size(e, at)
    if value.denominator != 1 or value < 0:
        what = f"{show(e)} is {value} in the checkpoint name of {p.name}, no count"
        raise at_row(p, show(e), what)
    return int(value)


def at_row(p: Parameter, what: str, message: str) -> VieteError:
    """An error that points to the parameter's row."""
    line = p.text.whole or p.text.text
    start = line.find(what)
    place = Text(line, p.text.file, p.text.line)
    return place.error(message, start, start + len(what)) if start >= 0 else p.text.error(message)


def show_shape(shape: Sequence[int]) -> str:
    """``3 × 4``."""
    return " × ".join(map(str, shape)) or "a single number"
