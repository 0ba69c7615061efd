"""The sampling loop: scores, a token, and again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from numbers import Integral

import numpy as np

from viete.analysis.next_token import context_of, scores, text_of, vocabulary_size
from viete.errors import VieteError, VieteWarning
from viete.evaluate.inputs import check_weights, host
from viete.evaluate.interventions import Put
from viete.evaluate.labelled import Array
from viete.evaluate.memory import check_room, counted
from viete.evaluate.schedule import program
from viete.evaluate.spelling import by_own_names
from viete.graph.card import CardData
from viete.notation.printer import show
from viete.sampling.decoding import Decoding
from viete.sampling.planned import Incremental
from viete.sampling.stepping import Steps, Whole

LARGE = 10_000_000  # scores at once, up to which memory is not checked
GENERATOR = 3_000  # bytes of a sample's generator and its place in the lists (measured)
Stop = int | Collection[int] | Callable[[Sequence[int]], bool]
Drawn = tuple[int | None, ...]


def sample(
    card: CardData, weights: Mapping[str, Array], prompt: Sequence[int] | Array, *,
    most: int = 100, temperature: float = 1.0, top_k: int | None = None,
    top_p: float | None = None, greedy: bool = False, stop: Stop | None = None, count: int = 1,
    seed: int = 0, cache: bool = True, keep: int | None = None, put: Put | None = None,
    **inputs: Array,
) -> Iterator[Drawn]:  # fmt: skip
    """Continue a text, token by token: yields a token for each of ``count`` samples as it is drawn.

    >>> for token, in sample(model, weights, [3, 1, 4], most=20): ...    # doctest: +SKIP

    `viete.sampling.decoding.Decoding` describes how a token is chosen. A sample ends after ``most``
    tokens or a token of ``stop`` (an id, several, or a function of the sample's new tokens); the
    others go on, with None in its place. Sample k draws from a separate generator, made from
    ``seed`` and k, so that the first sample is the same for every ``count``.

    With ``cache`` the card's incremental form computes new positions only; if it has none, a
    warning says why and the whole text is run for every token, as without. The tokens are the same
    but for rounding. A text longer than the context is cropped to its last ``keep`` tokens (by
    default as many as the context has). Every kept token then has another position, so that no
    cache of it is of use: with the default every token runs the whole context from there on; with
    half the context a cache is made anew every half context, which is faster. ``put`` is that of
    `viete.meanings.run.run`; with it every token runs the whole text. ``inputs`` are the card's
    others, such as the source of a translation.

    Raises VieteError for bad settings, tokens and weights, and a card without scores.
    """
    choice = Decoding(temperature, top_k, top_p, greedy)
    for name, value, least in (("most", most, 0), ("count", count, 1), ("seed", seed, 0)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise VieteError(f"{name} must be a whole number from {least} up, not {value!r:.40}")
    scores(card)  # raises if there are none
    tokens, size = text_of(card), vocabulary_size(card)
    context = context_of(card, tokens)
    if context is None:
        raise VieteError(
            f"the greatest length {show(tokens.shape[0])} of {card.title} has no value"
        )
    if keep is None:
        keep = context
    elif not isinstance(keep, Integral) or not 1 <= keep <= context:
        raise VieteError(
            f"keep must be a number of tokens up to the context of {context}, not {keep!r}"
        )
    text = prompt_of(prompt, card, size)
    for item in card.inputs:
        if item.name in inputs and item.shape and item.shape[0] == tokens.shape[0]:
            raise VieteError(
                f"the input {item.name} has an entry for every token, and there will be more of "
                f"them; it cannot be given here"
            )
    weights = by_own_names(card, weights, program(card).parameters)
    check_weights(program(card), weights)
    check_count(card, min(len(text) + int(most), context), size, int(count))
    if put:
        steps: Steps = Whole(card, weights, inputs, put)
    else:
        steps = stepper(card, weights, inputs, context, cache)
    full = Whole(card, weights, inputs, put) if keep == context else steps
    ended = stopping(stop, size)
    return draw_tokens(
        steps, full, choice, text, int(most), ended, int(count), int(seed), context, int(keep)
    )


def check_count(card: CardData, positions: int, size: int, count: int) -> None:
    """Raise VieteError for more samples at once than fit into memory, with scores and caches."""
    if count * size < LARGE:
        return
    found = counted(card, positions)
    kept = 0 if found is None else found.cache.full.number or 0
    needed = count * (8 * (size + kept) + GENERATOR)
    check_room(needed, f"drawing {count:,} samples at once", "draw fewer with --count")


def draw_tokens(
    steps: Steps, full: Steps, choice: Decoding, text: list[int], most: int,
    ended: Callable[[list[int]], bool], count: int, seed: int, context: int, keep: int,
) -> Iterator[Drawn]:  # fmt: skip
    """The tokens for checked settings; ``full`` gives the scores once the context is full."""
    chances = [np.random.default_rng([seed, k]) for k in range(count)]
    new: list[list[int]] = [[] for _ in range(count)]
    going = [True] * count
    length = min(len(text), context if len(text) <= context else keep)
    for k in range(most):
        if k == 0:
            found = steps.prefill(np.array([text[-length:]]), count)
        elif length < context:
            length += 1
            found = steps.step(np.array([[t[-1]] for t in new]))
        else:
            length = keep
            rows = [(text + t)[-length:] for t in new]
            steps = full
            found = steps.prefill(np.array(rows), count)
        out: list[int | None] = [None] * count
        for j in range(count):
            if going[j]:
                out[j] = choice.token(found[j], chances[j])
            new[j].append(out[j] if out[j] is not None else new[j][-1])  # type: ignore[arg-type]
        yield tuple(out)
        for j in range(count):
            going[j] = going[j] and not ended(new[j])
        if not any(going):
            return


def stepper(
    card: CardData, weights: Mapping[str, Array], inputs: Mapping[str, Array], context: int,
    cache: bool,
) -> Steps:  # fmt: skip
    """Steps with a cache; without one, and a warning, if the card has no incremental form."""
    if cache:
        try:
            return Incremental(card, weights, inputs, context)
        except VieteError as error:
            why = f"every token runs the whole text: {error}"
            warnings.warn(VieteWarning(why), stacklevel=4)
    return Whole(card, weights, inputs)


def prompt_of(prompt: Sequence[int] | Array, card: CardData, size: int) -> list[int]:
    """The checked ids of a prompt."""
    ids = np.asarray(host(prompt) if hasattr(prompt, "dtype") else list(prompt))
    if ids.ndim != 1 or not len(ids):
        raise VieteError(f"{card.title} continues a text: the prompt needs at least one token")
    if ids.dtype.kind not in "iu":
        raise VieteError("a prompt must be a list of token ids, which are whole numbers")
    bad = ids[(ids < 0) | (ids >= size)]
    if len(bad):
        raise VieteError(f"the prompt holds {bad[0]}, which is not among the ids 0 … {size - 1}")
    return [int(k) for k in ids]


def stopping(stop: Stop | None, size: int) -> Callable[[list[int]], bool]:
    """A function that tells from a sample's new tokens whether it has ended."""
    if stop is None:
        return lambda new: False
    if callable(stop):
        return stop
    ids: set[object] = {stop} if isinstance(stop, Integral) else set(stop)  # type: ignore[arg-type]
    for k in ids:
        if not isinstance(k, Integral) or not 0 <= int(k) < size:
            raise VieteError(f"the stop token {k!r:.40} is not among the ids 0 … {size - 1}")
    return lambda new: new[-1] in ids


__all__ = ["sample"]
