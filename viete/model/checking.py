"""A card held to its claims, to a file of weights, and to values recorded from the model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from viete.ask.card_claims import MOST_WEIGHTS, Claims, check_claims
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW, Layout
from viete.formats.files import TensorFile, in_memory, open_tensors
from viete.formats.tensors import TensorInfo
from viete.graph.card import CardData
from viete.model.compare import Report, compare
from viete.model.mapping import given_weights, match, read_weights
from viete.model.named_values import NamedValues
from viete.model.names import Names
from viete.model.table import BATCH
from viete.notation.printer import show

Array = Any
Tensors = TensorFile | str | os.PathLike[str] | Mapping[str, Array]


def check(
    card: CardData, weights: Tensors | None = None, tokens: Array | Sequence[int] | None = None, *,
    against: Tensors | None = None, seed: int = 0, **inputs: Array,
) -> Report | Claims:  # fmt: skip
    """Evaluate a card's claims; compare its parameters with ``weights``, its runs with ``against``.

    ``weights`` and the values recorded in ``against`` are files of any format that `open_tensors`
    reads, or arrays by name. Without weights only the claims are evaluated, on random ones.
    ``tokens``, for the first input, and ``inputs`` are what is run; what is not given is drawn with
    ``seed``, and for recorded values taken from beside them. These go by names of values, of single
    heads, by formulas, or by names of TransformerLens, whose order of axes they then have. ``ok``
    of the result says whether nothing differs, ``lines()`` what does.

    Raises VieteError for a file that cannot be read, for inputs that do not fit, and for recorded
    values without weights.
    """
    given = dict(inputs)
    if tokens is not None:
        if not card.inputs:
            raise VieteError(f"{card.title} takes no input")
        given[card.inputs[0].name] = np.asarray(tokens)
    if weights is None:
        if against is not None:
            raise VieteError(
                f"{card.title} is a card: recorded values need its weights too (--weights)"
            )
        return check_claims(card, None, given, seed)
    file = tensor_file(weights, "the weights")
    recorded, formulas = None, dict[str, str]()
    if against is not None:
        recorded, formulas = in_card_layout(card, tensor_file(against, "the outputs"))
    report = compare(card, file, recorded, None, formulas, **given)
    if not card.claims:
        return report
    return replace(report, claims=claims_of(report, card, file, given, seed))


def claims_of(
    report: Report, card: CardData, file: TensorFile, given: Mapping[str, Array], seed: int
) -> Claims:
    """The claims with the weights of a file, where it has all of them."""
    if report.missing or report.shapes:
        return Claims(card.title, "", why_not="they need all weights, and the file lacks some")
    if report.card_count > MOST_WEIGHTS:
        return Claims(card.title, "", why_not=(
            f"it has {report.card_count:,} weights, and in float64 at most {MOST_WEIGHTS:,} are "
            f"computed with; check the card alone, with smaller dimensions"
        ))  # fmt: skip
    weights = given_weights(card) | read_weights(match(card, file))
    return check_claims(card, weights, given, seed)


def tensor_file(tensors: Tensors, what: str) -> TensorFile:
    """A file of tensors, by whatever it was given."""
    if isinstance(tensors, TensorFile):
        return tensors
    return in_memory(what, tensors) if isinstance(tensors, Mapping) else open_tensors(tensors)


# -- recorded values ------------------------------------------------------------------------------


def in_card_layout(card: CardData, outputs: TensorFile) -> tuple[TensorFile, dict[str, str]]:
    """The recorded arrays with heads before positions, and each such name as a formula.

    Arrays under other names stay as they are. What the card has no value for, or has with other
    axes, is among the file's refused arrays, with the reason.
    """
    names = Names(card)
    named = NamedValues(names, card, {})
    formulas: dict[str, str] = {}
    out = TensorFile(outputs.path, outputs.format)
    for name, info in outputs.infos.items():
        if not is_name(names, name):
            out.add(info, outputs.loads[name])
            continue
        try:
            formula, layout = named.formula(name), named.layout(name)
            shape = in_card_order(layout, np.broadcast_to(0, info.shape), name).shape
        except VieteError as error:
            out.refuse(name, f"no value of the card: {error.message}")
            continue

        def load(framework: str, name: str = name, layout: Layout = layout) -> Array:
            return in_card_order(layout, outputs.load(name, framework), name)

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


def in_card_order(layout: Layout, array: Array, name: str) -> Array:
    """An array of TransformerLens' axes as one of the card's: batch, letters, rows, columns."""
    groups = layout.groups
    if array.ndim == len(groups) - 1 and groups[0] == (BATCH,):
        groups = groups[1:]
    if array.ndim != len(groups):
        raise VieteError(
            f"{name} was recorded with {array.ndim} axes, and it has {len(groups)}: "
            f"{', '.join(' '.join(g) or '1' for g in groups)}"
        )
    for group, n in zip(groups, array.shape, strict=True):
        count = prod(layout.counts.get(label, n) for label in group)
        if count != n:
            raise VieteError(f"{name} was recorded with {n} heads, and the card has {count}")
    value = Layout(groups, layout.counts).inward(np, array, array.shape, name)
    letters = [x for x in value.axes if x not in (BATCH, ROW, COL)]
    order = [x for x in (BATCH, *letters, ROW, COL) if x in value.axes]
    out = value.array.transpose([value.axes.index(x) for x in order])
    return out[..., None] if () in groups else out  # a column


__all__ = ["check"]
