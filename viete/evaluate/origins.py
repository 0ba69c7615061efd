"""Values that come from other runs: a question about them copies none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from viete.evaluate.labelled import Value
from viete.graph.card import CardData

if TYPE_CHECKING:
    from viete.evaluate.run import Run


@dataclass(frozen=True)
class Origin:
    """The origin of a value: another run, its key there, and the names of its letters here."""

    run: Run
    key: str
    labels: Mapping[str, str]

    def value(self, loops: tuple[int, ...]) -> Value:
        """The value for given block numbers."""
        v = self.run.lookup(self.key, loops)
        return replace(v, axes=tuple(self.labels.get(a, a) for a in v.axes))


def whole_names(card: CardData) -> list[str]:
    """The keys of values, weights and inputs, from which derived names are computed."""
    values = dict.fromkeys(e.name for e in card.equations)
    return [*(i.name for i in card.inputs), *(p.name for p in card.parameters), *values]
