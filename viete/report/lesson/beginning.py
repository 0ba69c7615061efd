"""The weights of a small model as matrices, at the beginning of its lesson."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np

from viete.document.tree import Matrix, listed
from viete.graph.card import Parameter
from viete.meanings.exact.run import ExactRun
from viete.notation.printer import show
from viete.notation.tree import Idx, Pick, Ref, Slice, walk
from viete.report.lesson.formulas import NumberFormulas
from viete.rewrite.blocks import at_block

SMALL, MOST_ROWS = 40, 60  # entries of a matrix that is shown at the start; rows of all of them


class Beginning:
    """Writes the numbers of one model."""

    def __init__(self, run: ExactRun, formulas: NumberFormulas) -> None:
        self.run, self.formulas = run, formulas
        self.card, self.style = run.program.model, formulas.style

    def matrices(self) -> list[Matrix]:
        """The parameters that are small enough to show; equal ones together."""
        alike: dict[Any, list[tuple[str, str]]] = {}
        for (p, array), name in self.parameters():
            rows = array.reshape(1, -1) if array.ndim < 2 else array
            read = self.rows_read(p.name, len(rows))
            if rows[:read].size > SMALL:
                return []
            cells = tuple(tuple(map(self.cell, row)) for row in rows[:read])
            cells += (("⋮",) * rows.shape[1],) * (read < len(rows))
            labels = tuple(f"`{w}`" for w in self.card.vocabulary) * self.looked_up(p.name)
            labels = labels if len(labels) == len(cells) else ()
            alike.setdefault((cells, labels), []).append((name, p.meaning))
        out = [
            Matrix(" = ".join(name for name, _ in names), list(map(list, cells)), list(labels),
                   caption(names))
            for (cells, labels), names in alike.items()
        ]  # fmt: skip
        return out if sum(len(m.rows) for m in out) <= MOST_ROWS else []

    def parameters(self) -> Iterator[tuple[tuple[Parameter, np.ndarray], str]]:
        """Every parameter's array for every block and head, with its name."""
        for p, blocks, shape in self.run.program.parameters.values():
            v = self.run.store.get((p.name, blocks))
            if v is None:
                continue
            letters, heads = self.card.blocks_of(p.symbol), self.card.heads_of(p.symbol)
            ranges = [self.run.program.range_of(s) for s in heads]
            array = np.asarray(v.array, dtype=object).reshape(shape)
            for places in product(*ranges):
                index = dict(zip([*letters, *heads], [*blocks, *places], strict=True))
                at = tuple(k - r.start for k, r in zip(places, ranges, strict=True))
                yield (p, np.asarray(array[at], dtype=object)), self.name_of(p.symbol, index)

    def cell(self, x: Any) -> str:
        return self.formulas.exact(x) or self.formulas.decimal(x)

    def looked_up(self, name: str) -> bool:
        """Whether tokens select rows of a parameter."""
        tokens = self.card.inputs[0].name
        return any(
            isinstance(x, Pick) and isinstance(x.value, Ref) and x.value.key == name
            and isinstance(x.items[0], Ref) and x.items[0].key == tokens
            for e in self.card.equations for x in walk(e.right)
        )  # fmt: skip

    def rows_read(self, name: str, count: int) -> int:
        """How many rows of a parameter the text reads: of ``P[:n]`` as many as it is long."""
        for x in (x for e in self.card.equations for x in walk(e.right)):
            match x:
                case Pick(Ref() as table, (Slice(None, Ref() as stop),)) if table.key == name:
                    return min(count, int(self.run.sizes.get(stop.key, count)))
        return count

    def name_of(self, symbol: Any, loops: Mapping[str, int]) -> str:
        own = Ref(symbol, tuple(Idx(s) for s in symbol.slots))
        return show(at_block(own, loops, self.run.sizes), self.style)


def caption(names: list[tuple[str, str]]) -> str:
    """The meaning of parameters; those that share one are named together."""
    meanings: dict[str, list[str]] = {}
    for name, meaning in names:
        meanings.setdefault(meaning, []).append(f"${name}$")
    if len(meanings) == 1:
        return next(iter(meanings))
    return "; ".join(f"{listed(found)} {meaning}" for meaning, found in meanings.items() if meaning)


__all__ = ["Beginning"]
