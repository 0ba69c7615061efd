"""Where a feature graph has its nodes: the blocks with features, and the starts of the streams.

Blocks and positions are numbered consecutively: those of an encoder come before those of its
decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from viete.analysis.features import FeatureEquations
from viete.analysis.shapes import shapes_of
from viete.evaluate.labels import tokens_along
from viete.evaluate.run import Run
from viete.graph.card import CardData
from viete.notation.printer import show
from viete.notation.tree import Ref, num

Reader = Callable[[str], np.ndarray]


def member(symbol_of: Ref, *places: int) -> str:
    """A member of a family, by its block numbers."""
    symbol = symbol_of.symbol
    return show(Ref(symbol, tuple(map(num, places[: len(symbol.slots)]))))


@dataclass
class Site:
    """One kind of features in one run, after ``before`` blocks and ``offset`` positions."""

    found: FeatureEquations
    numbers: range
    before: int
    offset: int
    value: Reader

    def pre(self, i: int) -> str:
        """The value before the gate in a block."""
        return member(self.found.pre.left, i)

    def feature(self, i: int) -> str:
        """The features of a block."""
        return member(self.found.feature.member, i)

    def error(self, i: int) -> str:
        """The error of a block."""
        return member(self.found.error.member, i)

    def encoder(self, i: int) -> np.ndarray:
        """The encoder matrix of a block, (d, F)."""
        return self.value(member(self.found.encoder.member, i))

    def layer(self, i: int) -> int:
        """The number of a block among all blocks."""
        return self.before + i - self.numbers[0]

    @cached_property
    def shape(self) -> tuple[int, int]:
        """The number of positions, and the width of what features read."""
        i = self.numbers[0]
        return len(self.value(self.feature(i))), self.encoder(i).shape[0]

    @cached_property
    def active(self) -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """For each block, the positions, features and values of the active ones."""
        out = {}
        for i in self.numbers:
            f = self.value(self.feature(i))
            where, which = np.nonzero(f)
            out[i] = where, which, f[where, which]
        return out

    @cached_property
    def decoders(self) -> dict[int, dict[int, np.ndarray]]:
        """For each block, what each active feature writes to each block it writes to."""
        symbol = self.found.decoder
        out: dict[int, dict[int, np.ndarray]] = {}
        for i in self.numbers:
            _, feature, value = self.active[i]
            later = [k for k in self.numbers if k >= i] if len(symbol.slots) > 1 else [i]
            rows = {k: self.value(member(symbol.member, i, k))[feature] for k in later}
            out[i] = {k: value[:, None] * row for k, row in rows.items()}
        return out

    def is_given(self, i: int, row: int, feature: int) -> bool:
        """Whether a feature was set to a value other than its gate's."""
        gate = self.value(member(self.found.gate.left, i))
        return bool(gate[row, feature] != self.value(self.feature(i))[row, feature])


@dataclass(frozen=True)
class TextPositions:
    """One of a run's texts: its length, its first position, its tokens and their labels."""

    length: str
    offset: int
    ids: tuple[int, ...]
    words: tuple[str, ...]


def texts_of(run: Run) -> list[TextPositions]:
    """The texts of a run, one for each length that has tokens."""
    out, offset, names = list[TextPositions](), 0, run.scope.words()
    for length in run.program.model.lengths:
        found = tokens_along(run, length)
        if found is None:
            continue
        ids = tuple(int(x) for x in found[0])
        out.append(TextPositions(length, offset, ids, tuple(names.name(x) or str(x) for x in ids)))
        offset += len(ids)
    return out


def offset_of(card: CardData, name: str, texts: list[TextPositions]) -> int:
    """The first position of a value."""
    size = shapes_of(card).types[name].shape[0]
    length = card.size_expr(size)
    return next((t.offset for t in texts if isinstance(length, Ref) and length.key == t.length), 0)


@dataclass(frozen=True)
class Start:
    """A stream before its first block, and its first position."""

    name: str
    offset: int


def starts_of(run: Run, texts: list[TextPositions]) -> list[Start]:
    """The streams that enter the blocks of a card."""
    card, out = run.program.model, list[Start]()
    for loop in dict.fromkeys(e.loop for e in card.equations if e.loop is not None):
        made = {e.left.symbol for e in card.equations if e.loop == loop}
        first = num(run.program.range_of(loop.index)[0] - 1)
        out += [Start(show(e.left), offset_of(card, e.name, texts)) for e in card.equations
                if e.loop is None and e.left.symbol in made
                and e.left.index == (first,)]  # fmt: skip
    return out


__all__ = ["Site", "Start", "TextPositions", "member", "offset_of", "starts_of", "texts_of"]
