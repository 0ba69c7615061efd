"""``--cut``: inputs that hold values as the unchanged model computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from viete.cli.inputs import NumberOptions
    from viete.cli.source import SourceOptions
    from viete.cli.weights import WeightOptions
    from viete.graph.card import CardData
    from viete.nouns.model import Model

Given = Callable[[Any], dict[str, Any]]


def given_values(
    source: SourceOptions, weights: WeightOptions, number: NumberOptions, card: CardData,
    model: Model | None, others: Mapping[str, Any],
) -> Given:  # fmt: skip
    """The inputs by name for token ids: ``others``, and the values of ``--cut``.

    They come from a run of the model without ``--cut`` and ``--put``, but with its features, on the
    same ids.
    """
    own = dict(others) if model is None else model.with_inputs(others)
    if not source.cuts:
        return lambda ids: own
    from viete.ask.putting import names_of, values_of
    from viete.evaluate.schedule import program
    from viete.meanings.run import run
    from viete.rewrite.cut import cut

    before, whole = replace(source, cuts=None, changes=[*source.features]).opened(
        weights, number.dtype, number.device
    )
    arrays = weights.arrays(before, whole, number.meaning != "float", number.dtype, number.device)
    found, wanted = cut(before, source.cuts), program(card).inputs
    inputs = {name: x for name, x in own.items() if name not in names_of(found)}

    def inputs_for(ids: Any) -> dict[str, Any]:
        values = run(before, ids, arrays, names=[*names_of(found).values()],
                     meaning=number.meaning, inputs=inputs)  # fmt: skip
        held = values_of(found, values)
        return {**{name: x for name, x in held.items() if name in wanted}, **own}

    return inputs_for


__all__ = ["given_values"]
