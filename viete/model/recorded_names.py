"""Values recorded under the names of TransformerLens, as arrays in the card's own layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW
from viete.formats.files import TensorFile
from viete.formats.tensors import TensorInfo
from viete.graph.card import CardData
from viete.model.layout import BATCH, Layout
from viete.model.named_values import Watched
from viete.model.names import Names
from viete.notation.printer import show

Array = Any


def in_card_layout(card: CardData, outputs: TensorFile) -> tuple[TensorFile, dict[str, str]]:
    """The recorded arrays with heads before positions, and each such name as a formula.

    Arrays under other names stay as they are. What the card has no value for, or has with other
    axes, is among the file's refused arrays, with the reason.
    """
    names = Names(card)
    watched = Watched(names, card, {})
    formulas: dict[str, str] = {}
    out = TensorFile(outputs.path, outputs.format)
    for name, info in outputs.infos.items():
        if not is_name(names, name):
            out.add(info, outputs.loads[name])
            continue
        try:
            formula, layout = watched.formula(name), watched.layout(name)
            shape = relaid(layout, np.broadcast_to(0, info.shape), name).shape
        except VieteError as error:
            out.refuse(name, f"no value of the card: {error.message}")
            continue

        def load(framework: str, name: str = name, layout: Layout = layout) -> Array:
            return relaid(layout, outputs.load(name, framework), name)

        formulas[name] = show(formula)
        out.add(TensorInfo(name, tuple(shape), info.dtype), load)
    for name, why in outputs.refused.items():
        out.refuse(name, why)
    return out, formulas


def is_name(names: Names, name: str) -> bool:
    """Whether a recorded array goes by one of these names, and not by one of the card's."""
    if "hook_" not in name:
        return False
    try:
        names.split(name)
    except VieteError:
        return False
    return True


def relaid(layout: Layout, array: Array, name: str) -> Array:
    """An array of TransformerLens' axes as one of the card's: batch, letters, rows, columns."""
    groups = layout.groups
    if array.ndim == len(groups) - 1 and groups[0] == (BATCH,):
        groups = groups[1:]
    if array.ndim != len(groups):
        raise VieteError(
            f"{name} was recorded with {array.ndim} axes, and it has {len(groups)}: "
            f"{', '.join(' '.join(g) or '1' for g in groups)}"
        )
    sizes: list[int] = []
    for group, n in zip(groups, array.shape, strict=True):
        counts = [layout.counts.get(label, n) for label in group]
        if int(np.prod(counts)) != n:
            raise VieteError(f"{name} was recorded with {n} heads, and the card has "
                             f"{int(np.prod(counts))}")  # fmt: skip
        sizes += counts
    labels = [label for group in groups for label in group]
    letters = [x for x in labels if x not in (BATCH, ROW, COL)]
    order = [x for x in (BATCH, *letters, ROW, COL) if x in labels]
    out = array.reshape(sizes).transpose([labels.index(x) for x in order])
    return out[..., None] if () in groups else out  # a column


__all__ = ["in_card_layout"]
