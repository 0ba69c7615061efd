"""Axes in the order of TransformerLens: positions before heads, all heads on one axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW, Array, Value, expand

BATCH, LAYER = "batch", "layer"


@dataclass(frozen=True)
class Layout:
    """The labels that make up each axis, in order; an axis without any has the size 1.

    ``counts`` says how many values an index letter has.
    """

    groups: tuple[tuple[str, ...], ...]
    counts: Mapping[str, int]

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels in order."""
        return tuple(label for group in self.groups for label in group)

    def outward(self, xp: Any, array: Array, axes: tuple[str, ...], batch: int) -> Array:
        """A labelled array in this layout; what it does not vary over is repeated."""
        labels = self.labels
        array = expand(xp, array, axes, labels)
        counts = {**self.counts, BATCH: batch}
        shape = tuple(
            counts.get(label, n) if n == 1 and label not in axes else n
            for label, n in zip(labels, array.shape, strict=True)
        )
        if shape != tuple(array.shape):
            array = xp.broadcast_to(array, shape)
        sizes, at = [], 0
        for group in self.groups:
            sizes.append(math.prod(shape[at : at + len(group)]))
            at += len(group)
        return array if len(sizes) == len(shape) else xp.reshape(array, tuple(sizes))

    def inward(self, xp: Any, array: Array, shape: Sequence[int], name: str) -> Value:
        """An array in this layout as a labelled one. It must have the shape that was handed out."""
        if not hasattr(array, "shape") or tuple(array.shape) != tuple(shape):
            found = tuple(getattr(array, "shape", ())) or f"{array!r:.40}"
            raise VieteError(f"a hook on {name} returns {tuple(shape)}, not {found}")
        sizes: list[int] = []
        for group, n in zip(self.groups, shape, strict=True):
            sizes += [self.counts[x] for x in group] if len(group) > 1 else [n] * len(group)
        return Value(xp.reshape(array, tuple(sizes)), self.labels)


def layout(
    axes: Sequence[str], heads: Sequence[str], own: Sequence[str], counts: Mapping[str, int]
) -> Layout:
    """The layout that a row of names.md gives; ``own`` are the letters that the value has."""
    special = {BATCH: (BATCH,), LAYER: (), "head": tuple(heads), "kv_head": tuple(own), "1": ()}
    core = [a for a in axes if a not in special]
    labels = [ROW] if len(core) == 1 and "1" in axes else [ROW, COL][2 - len(core) :]
    names = iter(labels)
    groups = [special[a] if a in special else (next(names),) for a in axes if a != LAYER]
    return Layout(tuple(groups), dict(counts))


__all__ = ["BATCH", "LAYER", "Layout", "layout"]
