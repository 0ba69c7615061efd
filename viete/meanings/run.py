"""`run`: a card's equations on inputs and weights, in one of the number systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from viete.errors import VieteError
from viete.evaluate.changed_places import check_places
from viete.evaluate.execution import execute
from viete.evaluate.inputs import check_weights
from viete.evaluate.interventions import Put, interventions
from viete.evaluate.labelled import Array
from viete.evaluate.run import Run
from viete.evaluate.schedule import parameter_shapes, program
from viete.evaluate.spelling import by_own_names
from viete.graph.card import CardData
from viete.meanings.entries import EntryRun, run_entries


# Number systems take a while to import.
def exact() -> type[EntryRun]:
    from viete.meanings.exact.run import ExactRun

    return ExactRun


def interval() -> type[EntryRun]:
    from viete.meanings.interval import IntervalRun

    return IntervalRun


# By the word that `run` takes; floats are arrays of a library, all others are entries.
MEANINGS: Mapping[str, Callable[[], type[EntryRun]] | None] = {
    "float": None,
    "exact": exact,
    "interval": interval,
}


def meaning_of(run: Run) -> str:
    """The word for the number system of a run."""
    own = isinstance(run, EntryRun)
    return next((word for word, kind in MEANINGS.items()
                 if own and kind is not None and isinstance(run, kind())), "float")  # fmt: skip


def run(
    card: CardData, tokens: Array | Sequence[int] | None = None,
    weights: Mapping[str, Array] | None = None, /, *,
    names: Sequence[str] | None = None, meaning: str = "float", exact_definitions: bool = False,
    put: Put | None = None, inputs: Mapping[str, Array] | None = None, **more: Array,
) -> Run:  # fmt: skip
    """Run a model's equations on arrays: NumPy, PyTorch or JAX, whichever the weights are.

    ``tokens``, of shape (n) or (batch, n), goes to the card's first input; others are given by
    name: ``y=[1, 4, 1]``, or ``inputs={"names": [1, 4, 1]}`` where an option has the same name.
    ``weights`` maps the names in `parameter_shapes` to arrays. With ``names`` only those values are
    computed and kept; otherwise all are. ``put`` maps names of values to arrays that replace them,
    or to functions, which get the array ``run[name]`` and return its replacement.
    ``exact_definitions`` follows the definitions of named functions to the letter instead of their
    fast versions. ``meaning`` is the number system: 'float'; 'exact', which rounds nothing, and
    whose values are arrays of `viete.meanings.exact.numbers.Number`; or 'interval', two floats
    between which the exact number lies, see `viete.meanings.interval`. In the latter two, weights
    may be fractions too.

    Inputs are copied, weights are not. Under ``jax.jit``, ``jax.grad`` or ``torch.func`` arrays
    have no values that could be checked. The values of a model's weights are checked once, and
    again if an array is replaced, but not if a number is written into one.

    Raises VieteError for a missing, mis-shaped or non-finite weight, a token out of range, a text
    longer than the card's context, and a text without any position that a change is for; in an
    exact run also for a division by exactly zero, and for a comparison that cannot be decided.
    """
    ready = program(card)
    tokens, weights = by_keyword(card, tokens, weights, more)
    check_options(card, {"names": names}, list | tuple)
    check_options(card, {"put": put, "inputs": inputs}, Mapping)
    check_options(card, {"meaning": meaning}, str)
    check_options(card, {"exact_definitions": exact_definitions}, bool)
    if meaning not in MEANINGS:
        known = ", ".join(map(repr, MEANINGS))
        raise VieteError(f"the meaning of a run must be {known}, not {meaning!r:.40}")
    given = inputs_of(card, tokens, inputs, more)
    replaced = interventions(ready, put or {})
    if (kind := MEANINGS[meaning]) is not None:
        found: Run = run_entries(kind(), ready, given, weights, names, replaced)
    else:
        check_weights(ready, weights)
        found = execute(ready, given, weights, names, not exact_definitions, replaced)
    check_places(ready, found)
    return found


def check_options(card: CardData, options: Mapping[str, Any], kind: Any) -> None:
    """Raise VieteError for an invalid option if the card has an input of the same name."""
    own = {i.name for i in card.inputs}
    for name, value in options.items():
        if name in own and value is not None and not isinstance(value, kind):
            raise VieteError(
                f"{name} is both an option of run and an input of {card.title}; give the input as "
                f"inputs={{'{name}': …}}"
            )


def by_keyword(
    card: CardData, tokens: Any, weights: Any, more: dict[str, Any]
) -> tuple[Any, Mapping[str, Array]]:  # fmt: skip
    """Tokens and weights, also if given by keyword in ``more``, from which they are removed.

    If the card has an input of that name, the keyword is the input's.
    """
    own = {i.name for i in card.inputs}
    found = {"tokens": tokens, "weights": weights}
    for word in found.keys() & more.keys() - own:
        if found[word] is not None:
            raise VieteError(f"{word} are given twice")
        found[word] = more.pop(word)
    weights = {} if found["weights"] is None else found["weights"]
    return found["tokens"], by_own_names(card, weights, parameter_shapes(card))


def inputs_of(
    card: CardData, tokens: Any, inputs: Mapping[str, Array] | None, more: Mapping[str, Array]
) -> dict[str, Array]:  # fmt: skip
    """All inputs by name; ``tokens`` is the first. Raises VieteError for an input given twice."""
    known = program(card).inputs
    given = dict(by_own_names(card, inputs or {}, known))
    more = by_own_names(card, more, known)
    first = {} if tokens is None else {card.inputs[0].name: tokens} if card.inputs else None
    if first is None:
        raise VieteError(f"{card.title} takes no input")
    for some in (more, first):
        if twice := given.keys() & some.keys():
            raise VieteError(f"the input {min(twice)} is given twice")
        given = {**some, **given}
    if card.inputs and not given:
        raise VieteError(f"{card.title} needs its input {card.inputs[0].name}")
    return given


__all__ = ["MEANINGS", "meaning_of", "run"]
