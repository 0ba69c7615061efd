"""Sampling with the derived cache: a step only computes the rows of new positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from array_api_compat import is_jax_array

from viete.analysis.next_token import text_of
from viete.errors import VieteError
from viete.evaluate.array import Arrays
from viete.evaluate.fast import FastArrays
from viete.evaluate.inputs import Feeding, as_input
from viete.evaluate.labelled import COL, ROW, Array, Value, expand
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Step, program
from viete.graph.card import CardData, Input
from viete.rewrite.incremental import Derived
from viete.sampling.stepping import BATCH, last_row, without_gradients


@dataclass
class Room:
    """The rows of a value so far, in an array with room for the whole context.

    ``of`` is the value, ``along`` the axis of its rows.
    """

    of: Member
    array: Array
    axes: tuple[str, ...]
    along: int
    filled: int = 0

    def rows(self, start: int, stop: int) -> Array:
        return self.array[(*(slice(None),) * self.along, slice(start, stop))]

    def grown(self, xp: Any, size: int) -> Room:
        """A room for ``size`` rows, with the present rows copied."""
        there = self.rows(0, self.filled)
        shape = list(there.shape)
        shape[self.along] = size - self.filled
        rest = xp.zeros(tuple(shape), dtype=there.dtype, device=getattr(there, "device", None))
        return replace(self, array=xp.concat([there, rest], axis=self.along))

    def put(self, it: Arrays, v: Value, start: int, axes: tuple[str, ...] = ()) -> None:
        """Write rows from ``start`` on; ``axes`` are the room's axes as named in ``v``."""
        axes = axes or self.axes
        stop = start + v.size(axes[self.along])
        new = expand(it.xp, it.lift(v), v.axes, axes)
        if is_jax_array(self.array):
            place = (*(slice(None),) * self.along, slice(start, stop))
            self.array = self.array.at[place].set(new)
        else:
            self.rows(start, stop)[...] = new
        self.filled = stop


class Cached:
    """`Steps` with a cache: the card runs on the prompt, its incremental form on later tokens.

    The rows that later positions read lie in arrays as long as the context. A step writes its rows
    after the present ones, so that none is copied, and costs what one position costs.
    """

    def __init__(
        self, card: CardData, form: Derived, weights: Mapping[str, Array],
        inputs: Mapping[str, Array], context: int,
    ) -> None:  # fmt: skip
        self.form, self.weights, self.inputs, self.context = form, weights, inputs, context
        self.whole, self.program = program(card), program(form.model)
        self.tokens = text_of(card)
        self.target: Member = (form.target, ())
        (self.length,) = self.names_of(self.tokens)
        given = self.program.inputs.values()
        self.past = {
            (i.name, b): (form.past[i.name], b) for i, b in given if i.name in form.past
        }  # fmt: skip
        self.once = {(i.name, b) for i, b in given if i.name in form.once}
        # Inputs besides the tokens that have an entry for every position.
        self.along = [
            i for i, _ in given
            if i.name not in form.past and i.name != self.tokens.name
            and self.length in self.names_of(i)
        ]  # fmt: skip
        self.steps = self.needed({self.target, *self.past.values()})
        self.sizes: dict[str, Fraction] = {}
        self.rooms: dict[Member, Room] = {}
        self.views: dict[int, Room] = {}  # by the identity of the array that a step is given
        self.before = 0
        self.run: Run

    def names_of(self, item: Input) -> set[str]:
        sizes = [self.form.model.size(e) for e in item.shape]
        return {n for s in sizes if s is not None for n in s.names()}

    def needed(self, goal: set[Member]) -> list[Step]:
        """The steps that the scores and the cached rows need."""
        found: list[Step] = []
        for step in reversed(self.program.steps):
            if step.makes in goal:
                goal |= step.needs
                found.append(step)
        return found[::-1]

    def prefill(self, text: np.ndarray, count: int) -> np.ndarray:
        """As `Steps.prefill`; fills the rooms anew."""
        with without_gradients(self.weights), np.errstate(all="ignore"):
            run = self.run_prompt(text, count, self.context)
            self.run = Run(self.program, self.invariant(run), run.arrays.like, self.sizes, True)
            assert isinstance(self.run.arrays, FastArrays)
            self.run.arrays.quick["stack"] = self.stacked
            return np.repeat(last_row(run, self.form.target, len(text)), count // len(text), 0)

    def run_prompt(self, text: np.ndarray, count: int, room: int) -> Run:
        """The run of the card on a text, with its rows kept in rooms for ``room`` rows."""
        fed = Feeding(self.whole, {**self.inputs, self.tokens.name: text}, self.weights)
        run = Run(self.whole, fed.store, fed.like, fed.sizes, True)
        run.compute_members({self.target, *self.past.values(), *self.once})
        self.rooms = {m: self.room(run, of, count, room) for m, of in self.past.items()}
        self.before, self.sizes = text.shape[1], dict(fed.sizes)
        return run

    def invariant(self, run: Run) -> dict[Member, Value]:
        """The values that no token changes: weights, other inputs, and values computed once."""
        keys = {p.name for p in self.form.model.parameters} | set(self.form.once)
        keys |= {i.name for i in self.form.model.inputs} - {i.name for i in self.along}
        return {m: v for m, v in run.store.items() if m[0] in keys - {self.tokens.name}}

    def room(self, run: Run, of: Member, count: int, room: int) -> Room:
        """A room for ``room`` rows of a value, with the present rows copied."""
        v = run.store[of]
        lead = tuple(a for a in v.axes if a not in (BATCH, ROW, COL))
        core = tuple(a for a in (ROW, COL) if a in v.axes)
        axes = (BATCH,) * (BATCH in v.axes) + lead + core
        along = axes.index(self.form.axis[of[0]])
        xp, array = run.arrays.xp, expand(run.arrays.xp, run.arrays.lift(v), v.axes, axes)
        shape = tuple(count if a == BATCH else v.size(a) for a in axes)
        array = xp.broadcast_to(array, shape)
        return Room(of, array, axes, along, shape[along]).grown(xp, room)

    def stacked(self, it: Arrays, args: list[Value]) -> Value | None:
        """``stack(K_past; K)``: the new rows written after the past ones, and a view of both."""
        a, b = args
        room = self.views.get(id(a.array))
        if room is None or room.array.dtype != it.lift(b).dtype:
            return None
        stop = self.before + b.size(ROW)
        if room.filled != stop:
            room.put(it, b, self.before, a.axes)
        return Value(room.rows(0, stop), a.axes)

    def step(self, tokens: np.ndarray) -> np.ndarray:
        """As `Steps.step`."""
        run, count = self.run, tokens.shape[1]
        it, store = run.arrays, run.store
        self.sizes[self.length] = Fraction(count)
        self.sizes[self.form.start] = Fraction(self.before)
        if len(self.program.memo) > 4096:
            self.program.memo.clear()
        with without_gradients(self.weights), np.errstate(all="ignore"):
            store[self.tokens.name, ()] = Value(
                as_input(self.tokens, tokens, it.like), (BATCH, COL)
            )
            for item in self.along:
                store[item.name, ()] = self.default(item, it)
            self.views = {}
            for member, room in self.rooms.items():
                view = room.rows(0, self.before)
                store[member] = Value(view, room.axes)
                self.views[id(view)] = room
            for step in self.steps:
                store[step.makes] = run.value(step).frozen()
            self.before += count
            for room in self.rooms.values():
                if room.filled != self.before:  # not stacked by the form above
                    room.put(it, store[room.of], self.before - count)
            return last_row(run, self.form.target, len(tokens))

    def default(self, item: Input, it: Arrays) -> Value:
        """The default value of an input at new positions."""
        shape = [self.form.model.size(e) for e in item.shape]
        fill = self.form.model.size(item.default) if item.default is not None else None
        if fill is None:
            raise VieteError(f"the input {item.name} has no value for a new position")
        sizes = [int(s.evaluate(self.sizes)) for s in shape if s is not None]
        array = np.full(sizes, float(fill.evaluate(self.sizes)))
        array = array.astype(np.int64) if item.high is not None else array
        return Value(as_input(item, array, it.like), (ROW, COL)[2 - len(sizes) :])


__all__ = ["Cached"]
