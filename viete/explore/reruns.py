"""Reruns for a page: the backward pass, and the same run in other number systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from viete.analysis.def_use import targets
from viete.analysis.next_token import text_of
from viete.errors import VieteError
from viete.evaluate.execution import execute
from viete.evaluate.initial_weights import literal_fractions
from viete.evaluate.inputs import NO_TARGET, host
from viete.evaluate.labelled import in_order, permute
from viete.evaluate.memory import counted
from viete.evaluate.run import Run
from viete.evaluate.schedule import Program, program
from viete.graph.card import CardData, memoised
from viete.meanings.entries import EntryRun, run_entries
from viete.meanings.exact.numbers import Number
from viete.meanings.interval import INTERVAL
from viete.meanings.run import MEANINGS
from viete.notation.tree import Ref, Symbol, num
from viete.rewrite.adjoint import grad
from viete.rewrite.adjoint.grad import forward_pass, with_loss

MOST_WORK = 50_000_000_000  # operations on floats of a run that is taken apart
MOST_EXACT = 3_000  # operations of a run that is repeated in exact numbers


def work(run: Run) -> int:
    """The number of operations of a forward pass; 0 where it is unknown."""
    found = counted(run.program.model, max(map(int, lengths(run)), default=1))
    return 0 if found is None else found.forward.total.number or 0


def lengths(run: Run) -> list[Any]:
    """The lengths of the texts of a run."""
    return [run.sizes[n] for n in run.program.model.lengths if n in run.sizes]


def array_of(run: Run, symbol: Symbol, key: str, loops: tuple[int, ...]) -> np.ndarray:
    """An input or a weight as a run takes it, with its letters that are axes."""
    v = run.lookup(key, loops)
    return permute(
        np, np.asarray(host(run.arrays.array(v))), v.axes, in_order(v, symbol.slots)
    )  # fmt: skip


def weights_of(run: Run) -> dict[str, np.ndarray]:
    """The weights of a run by their names."""
    return {
        name: array_of(run, p.symbol, p.name, loops).reshape(shape)
        for name, (p, loops, shape) in run.program.parameters.items()
        if run.is_there((p.name, loops))
    }


def inputs_of(run: Run) -> dict[str, np.ndarray]:
    """The inputs of a run by their names."""
    return {
        name: array_of(run, item.symbol, item.name, loops)
        for name, (item, loops) in run.program.inputs.items()
        if run.is_there((item.name, loops))
    }


def is_backward(card: CardData) -> bool:
    """Whether a card contains backward equations."""
    return forward_pass(card) is not card


def backward_run(run: Run, of: str | None = None) -> Run:
    """The run with its derivatives: of the loss, or of a number ``of``.

    Where the loss needs targets that were not given, they are the tokens one position later. Raises
    VieteError as `grad` does, and where the loss needs other missing inputs.
    """
    return with_backward(run, run.program.model, of, lambda card: card)


def with_backward(
    run: Run, card: CardData, of: str | None, naming: Callable[[CardData], CardData]
) -> Run:
    """As `backward_run`, of a card that has other equations than the run.

    ``naming`` renames parts of the backward equations.
    """
    given = inputs_of(run)
    card = naming(grad(with_loss_open(card, of, given), of))
    ready = program(card)
    text = given.get(text_of(card).name) if card.lengths else None
    for name in ready.targets - given.keys():
        (length,) = ready.inputs[name][0].shape
        if text is not None and isinstance(length, Ref) and run.sizes.get(length.key) == len(text):
            given[name] = np.append(text[1:], NO_TARGET)
    return execute(ready, given, weights_of(run), again=False)


def with_loss_open(card: CardData, of: str | None, given: Mapping[str, Any]) -> CardData:
    """The card with its loss, unless ``of`` is another number, and with open targets."""
    return with_open_targets(card if of is not None else with_loss(card, None)[0], frozenset(given))


@memoised
def with_open_targets(card: CardData, given: frozenset[str]) -> CardData:
    """The card in which targets that were not given may be missing at some positions."""
    opened = tuple(
        i if i.name in given or i.high is None else replace(i, low=num(NO_TARGET))
        for i in card.inputs
    )
    found = targets(replace(card, inputs=opened))
    return replace(card, inputs=tuple(
        new if new.name in found else old for old, new in zip(card.inputs, opened, strict=True)
    ))  # fmt: skip


def in_decimals(run: EntryRun) -> Run:
    """A run of other numbers in floats: each number is rounded to the nearest float."""
    integers = {i.name for i in run.program.model.inputs if i.high is not None}
    given = {k: floats(x, k in integers) for k, x in inputs_of(run).items()}
    weights = {k: floats(x) for k, x in weights_of(run).items()}
    out = execute(program(run.program.model), given, weights, again=False)
    out.scope = run.scope
    return out


def floats(array: np.ndarray, whole: bool = False) -> np.ndarray:
    """Numbers of any meaning as floats, or as whole numbers."""
    numbers = [decimal(x) for x in array.reshape(-1)]
    return np.array(numbers, np.int64 if whole else np.float64).reshape(array.shape)


def decimal(x: Any) -> float:
    """The float nearest to a number of any meaning; for an enclosure its middle."""
    if isinstance(x, np.void | np.ndarray) and x.dtype == INTERVAL:
        low, high = x.item()
        return float(low + high) / 2
    if isinstance(x, Number):
        x = x.decimal(17) if x.rational is None else x.rational
    return float(x)


def in_meaning(run: Run, word: str) -> tuple[EntryRun, VieteError | None]:
    """The run in the numbers of another meaning, and the error that ended it, if any.

    Weights with numbers in the card have those, unless the run had others; each float becomes the
    fraction that it is.
    """
    kind = MEANINGS[word]
    assert kind is not None
    ready: Program = program(run.program.model)
    weights: dict[str, Any] = dict(weights_of(run))
    for name, exact in literal_fractions(run.program.model).items():
        rounded = np.array(exact, dtype=object).astype(weights[name].dtype)
        if np.array_equal(rounded, weights[name]):
            weights[name] = exact
    found = run_entries(kind(), ready, inputs_of(run), weights, [])
    found.wanted = None
    try:
        found.compute(None)
    except VieteError as error:
        return found, error
    return found, None


__all__ = [
    "backward_run",
    "decimal",
    "floats",
    "in_decimals",
    "in_meaning",
    "inputs_of",
    "is_backward",
    "weights_of",
    "with_backward",
    "work",
]
