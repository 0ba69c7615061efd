"""Searches for the fewest changes with which a card computes the recorded values."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, product
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW, Value
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Step
from viete.model.changes import Change, Changes, Tensor, apply
from viete.model.suggest import Family, hole
from viete.notation.printer import show, show_symbol
from viete.notation.tree import Expr, Slot, Symbol

Array = Any
MOST_CHANGES = 4
MASKED = -1e4  # below this a recorded score stands for −∞
SECONDS = 6.0  # of searching for what one difference may come from


@dataclass(frozen=True)
class Fit:
    """Changes that reproduce a recorded value, how the equations then read, and their values."""

    error: float
    says: str
    reads: str
    store: dict[Member, Value]
    right: dict[int, Expr]


class Trial:
    """Evaluates equations, also changed ones, over the values of one run.

    ``right`` has the right sides of the equations computed in a changed form. ``changed`` are the
    members computed from those: they say nothing about the card as it is.
    """

    def __init__(self, run: Run, extra: Mapping[Family, list[Array]]) -> None:
        self.run, self.ready, self.model = run, run.program, run.program.model
        # The steps of a program may hold copies of the card's equations.
        self.own = {id(s.equation) for s in self.ready.steps}
        self.right: dict[int, Expr] = {}
        self.changed = set[Member]()
        self.given_up: set[int] = set()  # equations for which no change was found
        self.labels: dict[str, str] = {}  # how a family of tensors is written → how it is shown
        tensors = [
            x for family, arrays in extra.items() for x in self.named_tensors(family, arrays)
        ]
        self.changes = Changes(self.model, run.sizes, tensors)

    def compute(self, step: Step) -> Value:
        """Compute and keep an equation's value, and note whether it is the unchanged card's."""
        value = self.run.store[step.makes] = self.value(step)
        self.note(step, self.right)
        return value

    def note(self, step: Step, right: Mapping[int, Expr]) -> None:
        """Note whether a value was computed with these changes, or from changed values."""
        self.changed.discard(step.makes)
        if id(step.equation) in right or step.needs & self.changed:
            self.changed.add(step.makes)

    def value(self, step: Step) -> Value:
        """An equation's value at one turn of its loop."""
        env = self.run.arrays.env
        if step.loops:
            env = replace(env, index={**env.index, **step.loops})
        right = self.right.get(id(step.equation), step.equation.right)
        value = self.run.arrays.of(right, env)
        if id(step.equation) not in self.own:  # a formula that was recorded
            return Value(self.run.arrays.array(value), value.axes)
        return replace(self.run.full(value, step.equation), fresh=False)

    def named_tensors(self, family: Family, arrays: list[Array]) -> Iterator[Tensor]:
        """The file's tensors as names for formulas: one name, or one for each block."""
        if len(family.shape) > 2:
            return
        label = family.name() if len(arrays) > 1 else family.names[0]
        axes = (ROW, COL)[2 - len(family.shape) :]
        for loop in self.model.loops:
            turns = self.ready.range_of(loop.index)
            if len(turns) == len(arrays) > 1:
                symbol = Symbol("parameter", label, (), (Slot(loop.index, True),))
                self.labels[show_symbol(symbol)] = with_index(family, turns, loop.index)
                for i, array in zip(turns, arrays, strict=True):
                    self.run.store[symbol.key, (i,)] = Value(np.asarray(array, np.float64), axes)
                yield symbol.member, family.shape
                return
        for name, array in zip(family.names, arrays, strict=True):
            symbol = Symbol("parameter", name)
            self.run.store[name, ()] = Value(np.asarray(array, np.float64), axes)
            yield symbol.member, family.shape

    def search(
        self, step: Step, since: Sequence[Step], recorded: Array, tolerance: float
    ) -> tuple[tuple[str, str], ...]:
        """The fewest changes that reproduce a recorded value, and how the equations then read.

        Any equation may be changed whose result reached this one without being recorded itself.
        Later equations are computed with the change, if only one fits, and with the values of the
        best fit.
        """
        if id(step.equation) in self.given_up:
            return ()
        steps = self.behind(step, since)
        equations = list(
            {id(s.equation): s.equation for s in steps if id(s.equation) in self.own}.values()
        )
        equations.sort(key=lambda e: e is not step.equation)
        rights = [self.right.get(id(e), e.right) for e in equations]
        changes = [c for k, e in enumerate(rights) for c in self.changes.of(k, e, equations[k])]
        base, kept, end = self.run.store, dict(self.right), time.monotonic() + SECONDS
        fits: list[Fit] = []
        for count in range(1, MOST_CHANGES + 1):
            for chosen in together(changes, count):
                if time.monotonic() > end:
                    break
                changed = apply(rights, chosen)
                self.right = kept | {id(equations[k]): e for k, e in changed.items()}
                self.run.store = dict(base)
                error = self.error(steps, step, recorded)
                if error <= tolerance:
                    says = " and ".join(c.says for c in chosen)
                    reads = "; ".join(
                        f"{show(equations[k].left)} = {show(e)}" for k, e in changed.items()
                    )
                    fits.append(Fit(error, says, reads, self.run.store, dict(self.right)))
            if fits:
                break
        self.run.store, self.right = base, kept
        if not fits:
            self.given_up.add(id(step.equation))
            return ()
        fits.sort(key=lambda f: f.error)
        best = [f for f in fits if f.error <= max(10 * fits[0].error, 1e-3 * tolerance)][:4]
        if len(best) == 1:  # what follows is computed with it, so that it is tested there too
            self.right = best[0].right
        self.run.store = best[0].store
        for s in steps:
            self.note(s, best[0].right)
        return tuple((self.in_file_names(f.says), self.in_file_names(f.reads)) for f in best)

    def in_file_names(self, text: str) -> str:
        """A text with the file's names for its tensors."""
        for written, label in self.labels.items():
            text = text.replace(written, label)
        return text

    def behind(self, step: Step, since: Sequence[Step]) -> list[Step]:
        """The earlier steps that ``step`` depends on, and itself last."""
        needed, out = set(step.needs), [step]
        for earlier in reversed(since):
            if earlier.makes in needed:
                needed |= earlier.needs
                out.append(earlier)
        return out[::-1]

    def error(self, steps: Sequence[Step], last: Step, recorded: Array) -> float:
        """The largest difference, relative to the largest recorded number."""
        try:
            with np.errstate(all="ignore"):  # a wrong change may well overflow
                for step in steps:
                    self.run.store[step.makes] = self.value(step)
            value = self.run.store[last.makes]
            computed = np.asarray(self.run.ordered(value, last.equation.left.symbol.slots))
        except (VieteError, ValueError, KeyError, IndexError, TypeError):
            return np.inf  # the change does not fit the shapes here
        there = fitted(computed.shape, recorded)
        if there is None or not there.size:
            return np.inf
        apart, scale = distance(computed, there)
        return float(apart.max() / (scale or 1.0))


def with_index(family: Family, turns: range, letter: str) -> str:
    """``h.{i-1}.bias`` for a family with one tensor for each block."""
    return family.with_numbers([
        hole(letter, r[0] - turns[0]) if len(r) > 1 else str(r[0]) for r in family.numbers
    ])  # fmt: skip


def together(changes: Sequence[Change], count: int) -> Iterator[tuple[Change, ...]]:
    """Sets of changes at different places that use different tensors."""
    if count == 1:
        yield from ((c,) for c in changes)
        return
    small = [c for c in changes if c.small]
    sets: Iterator[tuple[Change, ...]] = combinations(small, count)
    if count == 2:
        sets = chain(sets, product(small, (c for c in changes if not c.small)))
    for chosen in sets:
        used = [name for c in chosen for name in c.uses]
        places = {(c.equation, c.site) for c in chosen}
        if len(places) == count and len(set(used)) == len(used):
            yield chosen


def fitted(shape: tuple[int, ...], recorded: Array) -> Array | None:
    """The recorded array, with a batch axis of one where the card's own value has it."""
    if shape == (1, *recorded.shape):
        return recorded[None]
    while recorded.ndim > len(shape) and recorded.shape[0] == 1:
        recorded = recorded[0]
    return recorded if recorded.shape == shape else None


def distance(computed: Array, recorded: Array) -> tuple[Array, float]:
    """|computed − recorded|, and the largest recorded number; hidden scores count as equal."""
    a, b = np.asarray(computed, np.float64), np.asarray(recorded, np.float64)
    hidden = np.isneginf(a) & (b <= MASKED)
    with np.errstate(invalid="ignore"):
        apart = np.where(hidden | (a == b), 0.0, np.abs(a - b))
    seen = np.abs(b[np.isfinite(b) & ~hidden])
    return np.where(np.isnan(apart), np.inf, apart), float(seen.max()) if seen.size else 0.0
