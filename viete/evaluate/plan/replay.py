"""Replay: a run recorded once for the shapes of its inputs, then repeated as a list of calls.

A run's recording has the form of a training plan: the equations run on nodes (`loops`), nodes
become steps (`arranging`), steps get memory (`buffers`) and become calls (`making`). The rules that
only a run needs:

- The key of a recording is everything besides values on which the equations can depend: the shapes
  of the inputs, how the weights lie in memory, which values are wanted and which are replaced. A
  choice that depends on values cannot be recorded (`Unrecordable`); such a run is evaluated.
- A wanted value has its own memory, to which nothing else is written. An intervention is a call in
  the list, between the step that makes its value and the steps that read it.
- Steps are fused within one equation only, so a value is the same to the last bit whatever else is
  asked for.
- Calls are bound to arrays. For small models the bound calls are kept, and results are copied. For
  larger models the calls are made anew for each run, results are handed out without a copy, and
  nothing of a run stays. So a recording never holds large memory, and no array is written to after
  a caller has it. Two threads that replay at once have their own arrays.
- A run is evaluated, not replayed, if derivatives are taken of it, if PyTorch transforms it, or if
  its library cannot write in place (JAX).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Lock
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.lib.stride_tricks import as_strided

from viete.evaluate.inputs import Feeding, GivenWeights
from viete.evaluate.interventions import Intervention
from viete.evaluate.labelled import Array, Value, expand
from viete.evaluate.memos import recent
from viete.evaluate.plan.arranging import VIEWS, KernelStep, grouped, steps_of
from viete.evaluate.plan.buffers import bytes_of, laid
from viete.evaluate.plan.kernels import Call, Misplaced
from viete.evaluate.plan.loops import RecordedRun
from viete.evaluate.plan.making import Compiler, Library, Plan
from viete.evaluate.plan.node import FLOAT, INT, Node, Unrecordable
from viete.evaluate.plan.recorder import Recorder, uncollected
from viete.evaluate.plan.recording import Forward
from viete.evaluate.plan.workers import Workers
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Program

RECORDINGS = 8  # of a program, those last used
STAYS = 8 * 2**20  # bytes that the calls of one recording may hold, weights among them
LITTLE = 10**7  # weights × positions: about a millisecond of products
KINDS = ("float32", "float64")


class RecordedForward(RecordedRun):
    """A forward run on nodes."""

    meaning = Forward


@dataclass(eq=False)
class Binding:
    """The calls of a recording bound to some weights, and their ``outputs``."""

    weights: GivenWeights
    plan: Plan
    outputs: dict[Member, Value]
    changes: Changes


Changes = dict[Member, Callable[[Array], Array]]  # by the member whose value they replace


class Replay:
    """One recorded run of a program: ``names`` are wanted, the values of ``changed`` replaced."""

    def __init__(
        self, program: Program, fed: Feeding, store: Mapping[Member, Value],
        names: Sequence[str] | None, changed: frozenset[Member],
    ) -> None:  # fmt: skip
        # Only shapes and kinds of the recorded run are kept, and no weights.
        self.dtype = fed.like.dtype
        length = max((fed.sizes[k] for k in program.model.lengths if k in fed.sizes), default=1)
        batch = next((v.size("batch") for v in fed.store.values() if "batch" in v.axes), 1)
        self.lent = lent(fed.like, fed.weights.arrays, int(length) * batch)
        self.library = Library(in_numpy(fed.like) if self.lent else fed.like)
        self.batch = next((v.size("batch") for v in store.values() if "batch" in v.axes), 1)
        self.space = Recorder(self.batch, self.library.torch)
        self.weights = frozenset(fed.weights.store)
        nodes = {m: self.leaf(m, v) for m, v in store.items()}
        run = RecordedForward(
            program, nodes, self.space.leaf("like", ()), fed.sizes, True, changed=changed
        )
        run.compute(names)
        self.wanted, self.missing, self.layouts = run.wanted, run.missing, run.layouts
        self.results = {m: v for m, v in run.store.items() if m not in store}
        bases = {v.array.base for v in self.results.values()}
        outputs = {b for b in bases if b.name not in VIEWS}
        steps = steps_of({}, self.library.torch, outputs)
        self.groups = grouped(steps, self.space)
        each = self.library.float_bytes
        self.memory = laid(self.groups, self.batch, each, outputs=outputs)
        self.bytes = self.memory.arena + self.memory.scratch + fed.weights.bytes
        self.bytes += sum(bytes_of(b, each) for b in outputs)
        terms = (t for s in steps if s.kernel == "sparse" for t in s.attrs[0])
        self.bytes += max((t.memory(each).arena for t in terms), default=0)
        self.idle: list[Binding] = []

    def leaf(self, member: Member, v: Value) -> Value:
        """A given value as a node."""
        kind = FLOAT if v.array.dtype == self.dtype else INT
        shape = tuple(v.array.shape)
        if member in self.weights:
            node = as_it_lies(self.space, member, v.array, kind)
        else:
            node = self.space.leaf(member, shape, kind, "batch" in v.axes)
        return Value(node, v.axes, v.const, False, v.interval)

    def bound(self, store: Mapping[Member, Value], weights: GivenWeights) -> Binding:
        """The calls on these weights; an idle binding is reused."""
        with suppress(IndexError):
            idle = self.idle.pop()  # never by two threads
            if idle.weights is weights:
                return idle
        given: dict[Any, Array] = {
            m: self.inward(in_a_row(v.array)) for m, v in weights.store.items()
        }
        changes: Changes = {}
        own = {"changed": partial(changed, changes)}
        compiler = Compiler(self.space, self.groups, self.memory, given, self.library, own=own)
        with uncollected():
            plan = compiler.plan()
        outputs = {m: Value(compiler.whole(v.array), v.axes, False, False, v.interval)
                   for m, v in self.results.items()}  # fmt: skip
        return Binding(weights, plan, outputs, changes)

    def made(
        self, store: Mapping[Member, Value], weights: GivenWeights,
        changes: Mapping[Member, Intervention], batch: int | None,
    ) -> Binding:  # fmt: skip
        """The binding of another run of these shapes; its outputs are valid until its next run."""
        made = self.bound(store, weights)
        for m, change in changes.items():
            if m in self.layouts:
                made.changes[m] = partial(self.instead, change, self.layouts[m], batch)
        made.plan.run({m: self.inward(store[m].array) for m in made.plan.inputs})
        made.changes.clear()
        return made

    def run(
        self, store: Mapping[Member, Value], weights: GivenWeights,
        changes: Mapping[Member, Intervention], batch: int | None,
    ) -> dict[Member, Value]:  # fmt: skip
        """The wanted values of another run of these shapes, which the caller may keep."""
        made = self.made(store, weights, changes, batch)
        stays, copy, out = self.bytes <= STAYS, self.library.copy, {}
        for m, v in made.outputs.items():
            own = stays or self.results[m].array.base.name in VIEWS
            array = copy(v.array) if own else v.array
            out[m] = Value(self.outward(array), v.axes, False, False, v.interval)
        if stays:
            self.idle = [made]
        return out

    def piece(
        self, store: Mapping[Member, Value], weights: GivenWeights,
        put: Callable[[Member, Value], None],
    ) -> None:  # fmt: skip
        """Compute the wanted values for some sequences of a batch, and ``put`` each in place."""
        made = self.made(store, weights, {}, None)
        for m, v in made.outputs.items():
            array = v.array if "batch" in v.axes else self.library.copy(v.array)
            put(m, Value(self.outward(array), v.axes, False, False, v.interval))
        self.idle.append(made)

    def inward(self, array: Array) -> Array:
        """An array of the run as one of the calls' library."""
        return in_numpy(array) if self.lent else array

    def outward(self, array: Array) -> Array:
        """An array of the calls' library as one of the run's."""
        if not self.lent:
            return array
        import torch

        return torch.from_numpy(array)

    def instead(
        self, change: Intervention, axes: tuple[str, ...], batch: int | None, array: Array
    ) -> Array:
        """The replacement of a value, with the value's axes. Raises Wider for more axes."""
        value = self.outward(array)
        xp, made = array_namespace(value), change(Value(value, axes), batch)
        if not {*made.axes} <= {*axes}:
            raise Wider
        new = made.array if type(made.array) is type(value) else xp.asarray(made.array)
        return self.inward(expand(xp, new, made.axes, axes))


def replayed(
    program: Program, fed: Feeding, names: Sequence[str] | None,
    changes: Mapping[Member, Intervention],
) -> Run | None:  # fmt: skip
    """A run by replay; None if it must be evaluated."""
    form = signature(fed, bool(changes))
    if form is None:
        return None
    changed = frozenset(changes)
    pieces = fed.pieces() if names is not None and not changes else []
    out = Run(program, fed.store, fed.like, fed.sizes, True, changes)
    found: list[Replay] = []
    try:
        for store in [store for _, store in pieces] or [fed.store]:
            kept = recording(program, fed, store, names, changed, form)
            if kept is None:
                return None
            found.append(kept)
        if pieces:
            in_pieces(out, fed, [(r, place, store) for r, (place, store) in
                                 zip(found, pieces, strict=True)])  # fmt: skip
        else:
            out.store.update(found[0].run(fed.store, fed.weights, changes, out.batch))
        out.wanted, out.missing = found[0].wanted, dict(found[0].missing)
    except (Wider, Unrecordable):
        for key, r in list(program.recordings.items()):
            if r in found:
                program.recordings[key] = None
        return None
    except (Misplaced, MemoryError):
        return None  # evaluation finds the place of the error
    return out


def in_pieces(
    out: Run, fed: Feeding, pieces: Sequence[tuple[Replay, range, Mapping[Member, Value]]]
) -> None:
    """Replay a few sequences of a batch at a time, on several threads if there is enough work.

    A thread with its own piece waits for no other, see `workers`.
    """
    batch, lock = pieces[-1][1].stop, Lock()

    def put(place: range, member: Member, v: Value) -> None:
        with lock:
            out.store_piece(member, v, place, batch)

    def share(some: Sequence[tuple[Replay, range, Mapping[Member, Value]]]) -> None:
        for replay, place, store in some:
            replay.piece(store, fed.weights, partial(put, place))

    crew = crew_of(fed.like)
    count = 1 if crew is None else min(crew.count, len(pieces))
    if crew is None or count == 1:
        share(pieces)
    else:
        crew.run([partial(share, pieces[k::count]) for k in range(count)])
    for replay, _, _ in pieces:
        if replay.bytes > STAYS:
            replay.idle.clear()


def crew_of(like: Any) -> Workers | None:
    """The threads for a library's arrays; None in PyTorch's inference mode, which blocks writes."""
    if not hasattr(like, "detach"):
        return crew(False, 0)
    import torch

    return None if torch.is_inference_mode_enabled() else crew(True, torch.get_num_threads())


@lru_cache(maxsize=4)
def crew(torch: bool, threads: int) -> Workers:
    """The cached workers, as many threads as the library has."""
    return Workers(torch, threads or None)


class Wider(Exception):
    """Raised for an intervention that adds an axis to a value, such as one for each sequence."""


def recording(
    program: Program, fed: Feeding, store: Mapping[Member, Value], names: Sequence[str] | None,
    changed: frozenset[Member], form: Any,
) -> Replay | None:  # fmt: skip
    """The recording for these shapes, made at their first use; None if they are evaluated."""
    shapes = tuple((m, tuple(store[m].array.shape), store[m].axes) for m in fed.inputs)
    key = (shapes, form, None if names is None else tuple(names), changed)

    def made() -> Replay | None:
        try:
            with uncollected():
                return Replay(program, fed, store, names, changed)
        except (Unrecordable, MemoryError):
            return None

    return recent(program.recordings, key, made, RECORDINGS)


def lent(like: Any, weights: Iterable[Array], positions: int) -> bool:
    """Whether NumPy computes on PyTorch's memory.

    PyTorch's calls cost more than NumPy's, which matters if there is little to compute.
    """
    if not hasattr(like, "detach") or like.device.type != "cpu" or dtype_of(like) not in KINDS:
        return False
    return sum(math.prod(w.shape) for w in weights) * positions < LITTLE


def in_numpy(array: Any) -> np.ndarray:
    """A tensor's memory as a NumPy array."""
    found: np.ndarray = array.detach().numpy()
    return found


def dtype_of(like: Any) -> str:
    """The name of the dtype, such as ``float32``, in any library."""
    return str(like.dtype).removeprefix("torch.")


def signature(fed: Feeding, changes: bool) -> Any:
    """The library, dtype and weight strides of a run; None if it cannot be replayed."""
    like: Any = fed.like
    library = ""
    if fed.weights.layout is None:
        return None
    if hasattr(like, "detach"):
        import torch

        library = f"torch {torch.is_inference_mode_enabled()}"
        if like.device.type != "cpu" or dtype_of(like) not in KINDS:
            return None
        if torch.is_grad_enabled() and (
            changes or any(v.array.requires_grad for v in fed.store.values())
        ):
            return None
    elif not is_numpy_array(like) or str(like.dtype) not in KINDS or not like.dtype.isnative:
        return None
    weights = fed.weights
    if weights.strides is None:
        if any(w.dtype != like.dtype for w in weights.arrays):
            return None
        try:
            weights.strides = tuple(strides_of(w) for w in weights.arrays)
        except Unrecordable:
            return None
    return library, str(like.dtype), weights.strides


def changed(changes: Changes, compiler: Compiler, s: KernelStep) -> Call:
    """A call that writes an intervention's result; the intervention is looked up at each call."""
    member, at = s.attrs
    put = compiler.library.put
    value, out = (compiler.view(n, *at) for n in (s.reads[0].base, s.node))
    return lambda: put(out, changes[member](value))


def as_it_lies(space: Recorder, name: Any, array: Array, kind: str) -> Node:
    """A node for an array as a view of its memory, whatever its strides.

    So a weight that is a transposed part of a file's tensor is used without a copy.
    """
    shape = tuple(array.shape)
    if in_rows(array):
        return space.leaf(name, shape, kind)
    strides = strides_of(array)
    base = space.leaf(name, (span(shape, strides),), kind)
    return space.view(base, as_strided(base.probe, shape, strides), None, 0)


def in_rows(array: Array) -> bool:
    """Whether an array is contiguous in row-major order."""
    return bool(array.is_contiguous() if hasattr(array, "detach") else array.flags.c_contiguous)


def strides_of(array: Array) -> tuple[int, ...]:
    """The strides in entries, by axis."""
    if hasattr(array, "detach"):
        return tuple(array.stride())
    each = array.itemsize
    if any(s < 0 or s % each for s in array.strides):
        raise Unrecordable("an array that lies backwards, or between entries")
    return tuple(s // each for s in array.strides)


def span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The number of entries in memory from the first to the last."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def in_a_row(array: Array) -> Array:
    """The stretch of memory that an array occupies, as a vector."""
    if in_rows(array):
        return array.detach().reshape(-1) if hasattr(array, "detach") else array.reshape(-1)
    count = span(array.shape, strides_of(array))
    if hasattr(array, "detach"):
        return array.detach().as_strided((count,), (1,))
    return as_strided(array, (count,), (array.itemsize,), writeable=False)
