"""Sampling with the derived cache, where a step is a list of prepared calls."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
from array_api_compat import is_jax_array

from viete.errors import VieteError
from viete.evaluate.labelled import Array, Value
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member
from viete.graph.card import CardData
from viete.rewrite.incremental import derived
from viete.sampling.cached import Cached
from viete.sampling.replay import StepReplay, Unrecordable
from viete.sampling.stepping import last_row, scores_of, without_gradients

LEAST = 64  # positions in the first rooms


class Planned(Cached):
    """`Cached` by the incremental form of fixed shapes, with a `StepReplay` for each step.

    The room doubles until it is the context. `prefill` raises Unrecordable if a step cannot be
    recorded.
    """

    replay: StepReplay
    constants: dict[Member, Value]  # what no token changes
    made: Run
    count: int

    def prefill(self, text: np.ndarray, count: int) -> np.ndarray:
        """As `Steps.prefill`."""
        with without_gradients(self.weights), np.errstate(all="ignore"):
            room = self.larger(text.shape[1])
            run = self.run_prompt(text, count, room)
            self.constants = self.invariant(run)
            self.prepare(run, count, room)
            return np.repeat(last_row(run, self.form.target, len(text)), count // len(text), 0)

    def larger(self, length: int) -> int:
        """A number of rows with room for at least one more position."""
        room = LEAST
        while room <= length:
            room *= 2
        return min(room, self.context)

    def prepare(self, run: Run, count: int, room: int) -> None:
        """Compile the calls for rooms of this size."""
        whole = {m: Value(plain(run.arrays.lift(v)), v.axes) for m, v in self.constants.items()}
        given = whole | {m: Value(r.array, r.axes) for m, r in self.rooms.items()}
        self.sizes |= {self.length: Fraction(1), self.form.start: Fraction(room)}
        for item in self.along:
            if item.name != self.form.places:
                given[item.name, ()] = self.default(item, run.arrays)
        self.replay = StepReplay(
            self.program, given, set(self.rooms), self.tokens.name, self.form.places, count,
            self.sizes, self.target, run.arrays.like, room,
        )  # fmt: skip
        self.made, self.count = run, count

    def step(self, tokens: np.ndarray) -> np.ndarray:
        """As `Steps.step`."""
        with without_gradients(self.weights), np.errstate(all="ignore"):
            if self.before == self.replay.room:
                self.grow()
            found = self.replay.step(tokens, self.before)
            self.before += 1
            return scores_of(found[..., -1, :], len(tokens))

    def grow(self) -> None:
        """Replace the rooms by larger ones, up to twice the size, and keep their rows."""
        room = self.larger(self.before)
        for member, old in self.rooms.items():
            filled = replace(old, filled=self.before)
            self.rooms[member] = filled.grown(self.made.arrays.xp, room)
        self.prepare(self.made, self.count, room)


class Incremental:
    """`Steps` with a cache: `Planned` if its form and calls can be made, else `Cached`.

    Raises VieteError for a card without an incremental form.
    """

    def __init__(
        self,
        card: CardData,
        weights: Mapping[str, Array],
        inputs: Mapping[str, Array],
        context: int,
    ) -> None:
        form = derived(card)
        self.cached = Cached(card, form, weights, inputs, context)
        self.steps = self.cached
        jax = any(map(is_jax_array, weights.values()))  # whose arrays cannot be written into
        with suppress(VieteError):
            fixed = derived(card, fixed=True)
            if not jax:
                self.steps = Planned(card, fixed, weights, inputs, context)

    def prefill(self, text: np.ndarray, count: int) -> np.ndarray:
        """As `Steps.prefill`."""
        try:
            return self.steps.prefill(text, count)
        except Unrecordable:
            self.steps = self.cached
            return self.steps.prefill(text, count)

    def step(self, tokens: np.ndarray) -> np.ndarray:
        """As `Steps.step`."""
        return self.steps.step(tokens)


def plain(array: Array) -> Array:
    """The same array, detached from its gradient."""
    return array.detach() if hasattr(array, "detach") else array


__all__ = ["Incremental", "Planned"]
