"""A plan: the prepared calls for one piece of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viete.evaluate.plan.arranging import Group, KernelStep
from viete.evaluate.plan.buffers import Memory
from viete.evaluate.plan.kernels import Call, Prepare, sequence
from viete.evaluate.plan.node import BOOL, FLOAT, HALF, Node, Shape, Unrecordable
from viete.evaluate.plan.numpy_kernels import numpy_kernels
from viete.evaluate.plan.recorder import Recorder
from viete.evaluate.plan.sparse import RowTerm
from viete.evaluate.plan.torch_kernels import torch_kernels


class Library:
    """The operations that a plan needs of an array library besides kernels."""

    def __init__(self, like: Any, half: Any = None) -> None:
        self.torch = hasattr(like, "detach")
        self.dtype, self.device = like.dtype, getattr(like, "device", None)
        self.kernels: dict[str, Prepare] = torch_kernels() if self.torch else numpy_kernels()
        half = like if half is None else half
        self.half = half.dtype
        self.float_bytes, self.half_bytes = int(like.itemsize), int(half.itemsize)

    def kind(self, kind: str) -> Any:
        if kind == FLOAT:
            return self.dtype
        if kind == HALF:
            return self.half
        if self.torch:
            import torch

            return torch.bool if kind == BOOL else torch.int64
        return np.bool_ if kind == BOOL else np.int64

    def empty(self, count: int, dtype: Any) -> Any:
        if self.torch:
            import torch

            return torch.empty(count, dtype=dtype, device=self.device)
        return np.empty(count, dtype=dtype)

    def empty_like(self, a: Any) -> Any:
        return self.empty(a.size if not self.torch else a.numel(), a.dtype).reshape(a.shape)

    def bytes(self, count: int) -> Any:
        if self.torch:
            import torch

            return self.empty(count, torch.uint8)
        raw = np.empty(count + 64, dtype=np.uint8)
        start = -raw.__array_interface__["data"][0] % 64
        return raw[start : start + count]

    def constant(self, node: Node) -> Any:
        if self.torch:
            import torch

            return torch.asarray(
                np.array(node.data), dtype=self.kind(node.kind), device=self.device
            )
        return np.ascontiguousarray(node.data, dtype=self.kind(node.kind))

    def strided(self, flat: Any, shape: Any, strides: Any, offset: int) -> Any:
        if self.torch:
            import torch

            return torch.as_strided(flat, shape, strides, flat.storage_offset() + offset)
        each = flat.itemsize
        return np.ndarray(shape, flat.dtype, flat, offset * each, [k * each for k in strides])

    def put(self, out: Any, a: Any) -> None:
        """Write another array's entries, converted to the precision of ``out``."""
        if self.torch:
            out.copy_(a)
        else:
            np.copyto(out, a, casting="unsafe")

    def copy(self, a: Any) -> Any:
        """A copy of an array."""
        return a.clone() if self.torch else a.copy()

    def zeroed(self, out: Any) -> Call:
        return out.zero_ if self.torch else lambda: out.fill(0)

    def places(self, kept: Any) -> Any:
        """The indices at which a vector of truth values is true."""
        return kept.nonzero()[:, 0] if self.torch else np.flatnonzero(kept)

    def take(self, a: Any, places: Any, out: Any) -> None:
        """Copy some rows of an array into ``out``."""
        if self.torch:
            import torch

            torch.index_select(a, 0, places, out=out)
        else:
            np.take(a, places, axis=0, out=out, mode="clip")

    def first(self, a: Any, axis: int | None, count: int) -> Any:
        """The first entries along an axis; the whole array if ``axis`` is None."""
        if axis is None:
            return a
        if self.torch:
            return a.narrow(axis, 0, count)
        return a[(*(slice(None),) * axis, slice(0, count))]

    def add_rows(self, out: Any, places: Any, a: Any) -> None:
        """Add rows to those at given indices, which are all different."""
        if self.torch:
            out.index_add_(0, places, a)
        else:
            out[places] += a

    def add_to(self, out: Any, a: Any) -> Call:
        if self.torch:
            return lambda: out.add_(a)
        return lambda: np.add(out, a, out=out)


@dataclass
class Plan:
    """Prepared calls; ``inputs`` are the arrays to fill, by the names they were recorded under."""

    inputs: dict[Any, Any]
    calls: list[Call]

    def run(self, inputs: Mapping[Any, Any]) -> None:
        """Run all steps once on these inputs."""
        for name, array in self.inputs.items():
            array[...] = inputs[name]
        with np.errstate(all="ignore"):  # as in a run; and each thread has its own state
            for call in self.calls:
                call()


class Compiler:
    """Turns steps into calls on arrays; ``own`` are kernels that get the compiler and the step.

    ``given`` are arrays of weights by the names they were recorded under, in row-major order; any
    other given array is an input, which is filled for each run. So is an array without a place in
    ``memory``. ``totals`` are the arrays that results are added to. Steps that do the same on the
    same memory, as those of every block do, are one call.
    """

    def __init__(
        self, space: Recorder, groups: list[Group], memory: Memory, given: Mapping[Any, Any],
        library: Library, totals: Mapping[str, Any] | None = None,
        own: Mapping[str, Own] | None = None, arena: Any = None,
    ) -> None:  # fmt: skip
        self.space, self.groups, self.memory, self.library = space, groups, memory, library
        self.given, self.totals, self.own = given, totals or {}, own or {}
        self.arena = library.bytes(memory.arena) if arena is None else arena
        self.scratch = library.bytes(memory.scratch)
        self.room: Any = None  # for the terms of sparse sums, one after the other
        self.inputs: dict[Any, Any] = {}
        self.flats: dict[Any, Any] = {}
        self.views: dict[Any, Any] = {}
        self.placed: dict[Any, Any] = {}  # those in the arena and the scratch
        self.calls: dict[Any, Call] = {}

    def plan(self) -> Plan:
        calls: list[Call] = []
        for g in self.groups:
            if g.looped(self.space.batch):
                for k in range(0, self.space.batch, g.chunk):
                    calls += [self.call(s, g, k) for s in g.steps]
            else:
                calls += [self.call(s, g, None) for s in g.steps]
        return Plan(self.inputs, calls)

    def flat(self, base: Node) -> Any:
        """The entries, as a vector, of a base without a place in the plan's memory."""
        found = self.flats.get(base)
        if found is None:
            if base.name == "constant":
                found = self.library.constant(base).reshape(-1)
            elif base.name == "written":
                found = self.flat(base.args[0].base)
            elif base.name == "given" and base.attrs[0] in self.given:
                found = self.given[base.attrs[0]].reshape(-1)
            else:
                found = self.library.empty(base.size, self.library.kind(base.kind))
                if base.name == "given":
                    self.inputs[base.attrs[0]] = found.reshape(base.shape)
            self.flats[base] = found
        return found

    def view(self, base: Node, shape: Shape, strides: Shape, offset: int) -> Any:
        """Entries of a base as an array; equal entries give the same array object."""
        buffer = self.memory.home.get(base)
        if buffer is None:
            views: dict[Any, Any] = self.views
            key: Any = base, shape, strides, offset
        else:
            views = self.placed
            key = buffer.offset, buffer.scratch is None, base.kind, shape, strides, offset
        found = views.get(key)
        if found is None:
            if buffer is None:
                flat = self.flat(base)
            else:
                if key[1:3] not in views:
                    room = self.scratch if buffer.scratch else self.arena
                    views[key[1:3]] = room.view(self.library.kind(base.kind))
                flat = views[key[1:3]]
                offset += buffer.offset // flat.itemsize
            found = views[key] = self.library.strided(flat, shape, strides, offset)
        return found

    def whole(self, node: Node) -> Any:
        """The array of all entries of a node."""
        return self.view(node.base, node.shape, node.strides, node.offset)

    def some(
        self, node: Node, probe: np.ndarray, lead: tuple[int, int] | None, group: Group,
        first: int, offset: int,
    ) -> Any:  # fmt: skip
        """A node's entries for the sequences of a group from ``first`` on."""
        shape, strides = probe.shape, probe.strides
        if lead is not None:
            axis, each = lead
            shape = (*shape[:axis], group.chunk * each, *shape[axis + 1 :])
            home = self.memory.home.get(node.base)
            if home is None or home.scratch is None:
                offset += first * each * strides[axis]
        return self.view(node.base, shape, strides, offset)

    def call(self, s: KernelStep, group: Group, first: int | None) -> Call:
        """A step as a call; if ``first`` is a number, on the sequences of a group from there on."""
        if first is None:
            args = tuple([self.whole(a) if isinstance(a, Node) else a for a in s.args])
        else:
            args = tuple(
                self.some(a, a.probe, a.lead, group, first, a.offset) if isinstance(a, Node) else a
                for a in s.args
            )
        if s.target:
            return self.added(s, args)
        if first is not None:
            out = self.some(s.node, s.form, s.lead, group, first, 0)
        else:
            out = self.view(s.node.base, s.form.shape, s.form.strides, 0)
        if s.kernel in self.own:
            return self.own[s.kernel](self, s)
        if s.kernel == "sparse":
            return self.by_rows(s.attrs[0], args, out)
        own = [id(x) if isinstance(a, Node) else a for a, x in zip(s.args, args, strict=True)]
        key = (s.kernel, s.attrs, id(out), *own)
        if key not in self.calls:
            self.calls[key] = self.prepared(s, out, args)
        return self.calls[key]

    def prepared(self, s: KernelStep, out: Any, args: tuple[Any, ...]) -> Call:
        """The call of a step's kernel on given arrays."""
        return self.kernel(s, out, self.in_place(s, out, args))

    def in_place(self, s: KernelStep, out: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments, with the result's array replacing the argument whose memory it takes."""
        home = self.memory.home
        here = home.get(s.node)
        if here is not None:
            for k, a in enumerate(s.args):
                if isinstance(a, Node) and home.get(a.base) is here and alike(a, s.form):
                    args = (*args[:k], out, *args[k + 1 :])
        return args

    def kernel(self, s: KernelStep, out: Any, args: tuple[Any, ...]) -> Call:
        if s.kernel == "matmul" and len(args) == 3:
            args = (*args[:2], args[2].reshape(out.shape))
        if s.kernel not in self.library.kernels:
            raise Unrecordable(f"there is no kernel for {s.kernel}")
        call = self.library.kernels[s.kernel](out, args, s.attrs)
        return sequence(self.library.zeroed(out), call) if s.kernel == "gathered" else call

    def by_rows(self, terms: Sequence[RowTerm], args: tuple[Any, ...], out: Any) -> Call:
        """A sum of terms over the rows where each is not 0, which are known at the call."""
        library, (kept, *operands) = self.library, args
        memories = [t.memory(library.float_bytes) for t in terms]
        most = max(m.arena for m in memories)
        if self.room is None or len(self.room[0]) < most:
            self.room = library.bytes(most), {}
        taken = []  # rows of the terms' operands
        for k, some in enumerate(terms[0].operands.values()):
            if some:
                taken.append((operands[k], library.empty_like(operands[k])))
                operands[k] = taken[-1][1]
        members = [self.term(*each, operands) for each in zip(terms, memories, strict=True)]

        def call() -> None:
            library.zeroed(out)()
            for k, member in enumerate(members):
                rows = library.places(kept[k])
                if count := len(rows):
                    for a, room in taken:
                        library.take(a, rows, library.first(room, 0, count))
                    library.add_rows(out, rows, member(count))

        return call

    def term(
        self, term: RowTerm, memory: Memory, operands: Sequence[Any]
    ) -> Callable[[int], Any]:  # fmt: skip
        """A function that computes a term on the first ``count`` rows of its operands."""
        library, (arena, placed) = self.library, self.room
        given = dict(zip(term.operands, operands, strict=True))
        own = Compiler(term.space, [], memory, given, library, arena=arena)
        own.placed = placed
        made: list[tuple[KernelStep, int, list[int]]] = []
        arrays: dict[int, tuple[Any, int | None]] = {}  # by identity: each with its axis of rows

        def known(array: Any, lead: tuple[int, int] | None = None) -> int:
            arrays[id(array)] = array, lead and lead[0]
            return id(array)

        def run(count: int) -> Any:
            for s in () if made else term.steps:
                out = own.view(s.node.base, s.form.shape, s.form.strides, 0)
                whole = tuple([own.whole(a) if isinstance(a, Node) else a for a in s.args])
                leads = [a.lead if isinstance(a, Node) else None for a in s.args]
                args = own.in_place(s, out, whole)
                ids = [known(a, s.lead if a is out else lead)
                       for a, lead in zip(args, leads, strict=True)]  # fmt: skip
                made.append((s, known(out, s.lead), ids))
            some = {k: library.first(a, axis, count) for k, (a, axis) in arrays.items()}
            for s, place, ids in made:
                own.kernel(s, some[place], tuple([some[k] for k in ids]))()
            return library.first(own.whole(term.result), 0, count)

        return run

    def added(self, s: KernelStep, args: tuple[Any, ...]) -> Call:
        """A call whose result is added to a total."""
        kernel, total = self.library.kernels[s.kernel], self.totals[s.target].reshape(s.form.shape)
        own = self.library.kind(s.node.kind)
        same_kind = total.dtype == own
        if s.kernel == "copy":
            return self.library.add_to(total, args[0])
        if s.kernel == "gathered":
            return kernel(total, args, s.attrs)
        if s.kernel == "matmul" and same_kind and len(args) == 2:
            return kernel(total, (*args, total), s.attrs)
        if s.kernel == "matmul" and len(args) == 3:
            args = (*args[:2], args[2].reshape(s.form.shape))
        dtype = total.dtype if s.kernel == "sum" else own
        out = self.library.empty(int(np.prod(s.form.shape)), dtype).reshape(s.form.shape)
        return sequence(kernel(out, args, s.attrs), self.library.add_to(total, out))


Own = Callable[[Compiler, KernelStep], Call]


def alike(a: Node, form: np.ndarray) -> bool:
    """Whether an array has the strides of a result, except along axes of one entry.

    PyTorch does not write over an argument with one such axis more or less than ``out``.
    """
    if a.offset or a.size == 0:
        return False
    if a.shape == form.shape and a.strides == form.strides:
        return True
    return axes(a.shape, a.strides) == axes(form.shape, form.strides)


def axes(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """The axes with more than one entry, with their strides."""
    return [(n, stride) for n, stride in zip(shape, strides, strict=True) if n != 1]
