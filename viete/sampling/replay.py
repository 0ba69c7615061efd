"""A step of the fixed incremental form, recorded once and replayed for every token.

The recording and its calls are those of a run (`viete.evaluate.plan.replay`), in memory that stays
from step to step. Values that only depend on weights and constants are computed once. Values that
only depend on positions (angles, masks) are computed for every position once, in float64, and
looked up. The remaining calls are a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from viete.evaluate.labelled import Array, Value
from viete.evaluate.plan.arranging import VIEWS, KernelStep, grouped, steps_of
from viete.evaluate.plan.buffers import laid
from viete.evaluate.plan.kernels import Call
from viete.evaluate.plan.making import Compiler, Library
from viete.evaluate.plan.node import FLOAT, INT, Node, Unrecordable, ancestors
from viete.evaluate.plan.recorder import Recorder
from viete.evaluate.plan.replay import RecordedForward, as_it_lies, in_a_row, in_numpy, lent
from viete.evaluate.schedule import Member, Program

PLACES, MOVES, FIXED = "places", "moves", "fixed"  # what values depend on


class StepReplay:
    """One step of a program for one token in each of several texts.

    ``given`` maps members to arrays with their axes: weights, rooms, and values computed once;
    ``rooms`` are those written to, ``tokens`` and ``places`` the inputs of a step. ``target`` is
    computed. Raises Unrecordable if a step cannot be recorded.
    """

    def __init__(
        self, program: Program, given: Mapping[Member, Value], rooms: set[Member],
        tokens: str, places: str, count: int, sizes: Mapping[str, Fraction], target: Member,
        like: Array, room: int,
    ) -> None:  # fmt: skip
        if lent(like, (v.array for m, v in given.items() if m not in rooms), count):
            like = in_numpy(like)
            given = {m: Value(in_numpy(v.array), v.axes) for m, v in given.items()}
        self.library, self.space = Library(like), Recorder(1, hasattr(like, "detach"))
        self.place, self.room = 0, room
        whole = self.library.kind(INT)
        self.tokens = self.library.empty(count, whole).reshape(count, 1)
        self.places = self.library.empty(1, whole)
        given = {
            **given,
            (tokens, ()): Value(self.tokens, ("batch", "col")),
            (places, ()): Value(self.places, ("col",)),
        }
        self.depends: dict[Node, str] = {}
        store: dict[Member, Value] = {}
        for m, v in given.items():
            kind = FLOAT if v.array.dtype == like.dtype else INT
            node = as_it_lies(self.space, m, v.array, kind)
            self.depends[node.base] = MOVES if m in rooms or m[0] == tokens else FIXED
            store[m] = Value(node, v.axes)
        self.depends[store[places, ()].array.base] = PLACES
        self.rows = {m: v.array for m, v in given.items() if m in rooms}
        run = RecordedForward(program, store, self.space.leaf("like", ()), sizes, True)
        run.compute_members({target})
        found = run.store[target]
        axes = tuple(a for a in ("batch", "row", "col") if a in found.axes)
        scores = self.space.permute_dims(found.array, [found.axes.index(a) for a in axes])
        self.calls, compiler = self.compiled(
            scores, {m: in_a_row(v.array) for m, v in given.items()}
        )
        self.out = compiler.whole(scores)

    def step(self, tokens: np.ndarray, place: int) -> Array:
        """The scores after one more token in each text, at position ``place``."""
        self.place = place
        if self.library.torch:
            import torch

            self.tokens.copy_(torch.from_numpy(tokens))
        else:
            self.tokens[...] = tokens
        self.places[...] = place
        for call in self.calls:
            call()
        return self.out

    def compiled(
        self, scores: Node, given: Mapping[Member, Array]
    ) -> tuple[list[Call], Compiler]:  # fmt: skip
        """The calls of a step; fixed values are computed here."""
        for node in ancestors([scores]):
            if node not in self.depends:
                self.depends[node] = self.dependence(node)
        steps = steps_of({}, self.library.torch, {scores.base})
        moving = [s for s in steps if self.depends[s.node] == MOVES]
        read = {b for s in moving for b in s.bases} | {scores.base}
        stay = {b for b in read if self.depends[b] != MOVES and b.name not in VIEWS}
        fixed = [s for s in steps if self.depends[s.node] == FIXED]
        looked_up = {b for b in stay if self.depends[b] == PLACES}
        # Values computed once or written to have separate memory; the others share memory.
        own = {s.node for s in (*fixed, *moving) if s.kernel == "written" or s in fixed}
        memory = laid(grouped(moving, self.space), 1, self.library.float_bytes,
                      outputs=own | {scores.base})  # fmt: skip
        compiler = Compiler(
            self.space, grouped([*fixed, *moving], self.space), memory, given, self.library,
            own={"written": self.cache_update},
        )  # fmt: skip
        calls = compiler.plan().calls
        for call in calls[: len(fixed)]:
            call()
        lookups = [self.lookup(compiler.whole(n), table)
                   for n, table in self.tables(looked_up, given).items()]  # fmt: skip
        return [*lookups, *calls[len(fixed) :]], compiler

    def dependence(self, node: Node) -> str:
        """Whether a value stays fixed, changes with the position only, or changes otherwise."""
        found = {self.depends[a] for a in node.args if isinstance(a, Node)}
        if node.of is not None:
            found.add(self.depends[node.of])
        if found <= {FIXED}:
            return FIXED
        constant = all(a.base.name == "constant" or self.depends[a] == PLACES
                       for a in node.args if isinstance(a, Node))  # fmt: skip
        return PLACES if found <= {PLACES, FIXED} and constant else MOVES

    def cache_update(self, compiler: Compiler, s: KernelStep) -> Call:
        """A call that writes the row of one position into a room."""
        room, row = self.rows[s.reads[0].base.attrs[0]], compiler.whole(s.reads[1])
        before = (slice(None),) * s.attrs[0]
        new = row[(*before, 0)]

        def call() -> None:
            room[(*before, self.place)] = new

        return call

    def lookup(self, out: Array, table: Array) -> Call:
        """A call that copies a table's row of the current position."""

        def call() -> None:
            out[...] = table[self.place]

        return call

    def tables(self, wanted: set[Node], given: Mapping[Member, Array]) -> dict[Node, Array]:
        """The values that only depend on positions, at every position."""
        if not wanted:
            return {}
        places = np.zeros(1, np.int64)
        groups = grouped(steps_of({}, False, wanted), self.space)
        memory = laid(groups, 1, 8, outputs=wanted)
        compiler = Compiler(
            self.space, groups, memory, dict.fromkeys(given, places), Library(np.zeros(0))
        )
        calls = compiler.plan().calls
        tables: dict[Node, list[np.ndarray]] = {n: [] for n in wanted}
        with np.errstate(all="ignore"):
            for k in range(self.room):
                places[...] = k
                for call in calls:
                    call()
                for n, rows in tables.items():
                    rows.append(compiler.whole(n).copy())
        return {n: self.table(n, np.stack(rows)) for n, rows in tables.items()}

    def table(self, node: Node, rows: np.ndarray) -> Array:
        """A table in the library and precision of a step."""
        dtype = self.library.kind(node.kind)
        if self.library.torch:
            import torch

            return torch.asarray(rows, device=self.library.device).to(dtype)
        return rows.astype(dtype)


__all__ = ["StepReplay", "Unrecordable"]
