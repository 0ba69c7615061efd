"""The ranges of the axes of a run's values, and the names of their entries."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from viete.analysis.next_token import scored_tokens, text_of, vocabulary
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW
from viete.evaluate.labels import tokens_along
from viete.evaluate.run import Run
from viete.explore.operation import Operation
from viete.explore.values import Labels
from viete.graph.card import CardData
from viete.graph.sizes import Size
from viete.notation.tree import Ref, Symbol

Ranges = Mapping[str, tuple[str, ...]]  # of a value, what each of its axes ranges over


class AxisNames:
    """The ranges of a run's values by their names: ``h``, ``n``, ``d_k``."""

    def __init__(self, run: Run) -> None:
        self.run, self.card = run, run.program.model
        self.own: dict[str, Labels] = {}
        self.text = text_length(self.card)

    def of_value(self, symbol: Symbol, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The ranges of a value's axes, given in the order of a run."""
        shape = [str(s) for s in self.run.program.shapes.types[symbol.key].shape]
        core = [a for a in axes if a in (ROW, COL)]
        shape += [""] * (len(core) - len(shape))
        return (*(a for a in axes if a not in (ROW, COL)), *shape)

    def of_operation(self, operation: Operation, known: Ranges) -> tuple[str, ...]:
        """The ranges of an operation's axes, from those of its operands."""
        found: dict[str, str] = {}
        for x in operation.operands:
            key = operation_key(x.of) if x.made else x.of if isinstance(x.of, str) else None
            for label, name in zip(x.axes, known.get(key or "", ()), strict=False):
                found.setdefault(label, name)
        return tuple(found.get(a, "") for a in operation.axes)

    def labels(self, name: str) -> Labels:
        """The names of a range's members: 'words' for those of the text, or a list."""
        if name not in self.own:
            self.own[name] = self.named(name)
        return self.own[name]

    def named(self, name: str) -> Labels:
        if name == self.text:
            return "words"
        if name and name in (str(vocabulary(self.card)), str(scored_tokens(self.card))):
            return "vocabulary"
        if name in self.card.ranges:
            return [str(k) for k in self.run.program.range_of(name)]
        if name in self.card.lengths and (ids := tokens_along(self.run, name)) is not None:
            return [self.word(int(k)) for k in ids.reshape(-1, ids.shape[-1])[0]]
        return None

    def word(self, k: int) -> str:
        """A token's word, or its number where it has none."""
        found = self.run.scope.words().name(k)
        return str(k) if found is None else found


def operation_key(number: int) -> str:
    """The key for the ranges of an operation."""
    return f"#{number}"


def text_length(card: CardData) -> str:
    """The length of the text that is continued, as the ranges of axes name it."""
    with suppress(VieteError):
        size = text_of(card).shape[0]
        if isinstance(size, Ref):
            return str(Size.of(size.key))
    return next(iter(card.lengths), "")
