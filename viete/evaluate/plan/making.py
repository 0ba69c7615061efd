"""A plan: the calls of one piece of a batch, ready to be made again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viete.evaluate.plan.arranging import Group, KernelStep, grouped, steps_of
from viete.evaluate.plan.buffers import Memory, laid
from viete.evaluate.plan.kernels import Call, Prepare, numpy_kernels, sequence, torch_kernels
from viete.evaluate.plan.node import BOOL, FLOAT, HALF, Node, Unrecordable
from viete.evaluate.plan.recorder import Recorder


class Library:
    """The few things a plan needs of an array library besides kernels."""

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
        """Another array's entries, in this one's precision."""
        if self.torch:
            out.copy_(a)
        else:
            np.copyto(out, a, casting="unsafe")

    def copy(self, a: Any) -> Any:
        """The same entries in memory of their own."""
        return a.clone() if self.torch else a.copy()

    def add_to(self, out: Any, a: Any) -> Call:
        if self.torch:
            return lambda: out.add_(a)
        return lambda: np.add(out, a, out=out)


@dataclass
class Plan:
    """One piece, planned: ``given`` are the arrays to fill, ``totals`` what is added to."""

    space: Recorder
    groups: list[Group]
    memory: Memory
    given: dict[Any, Any]
    totals: dict[str, Any]
    calls: list[Call]

    def run(self) -> None:
        """All steps, once; results are added to their totals."""
        with np.errstate(all="ignore"):  # as in `interpret.run`; and each thread has its own state
            for call in self.calls:
                call()


def make(
    space: Recorder, results: Mapping[str, Node], given: Mapping[Any, Any],
    totals: Mapping[str, Any], like: Any, half: Any = None,
) -> Plan:  # fmt: skip
    """The plan that adds ``results`` to ``totals``.

    ``given`` are the arrays of weights and inputs by the names they were recorded under, in
    row-major order; ``like`` has the kind of array and the precision to compute in, ``half`` that
    of matrix products.
    """
    library = Library(like, half)
    steps = steps_of(results, onto=library.torch)
    groups = grouped(steps, space)
    memory = laid(groups, space.batch, library.float_bytes, library.half_bytes)
    return Compiler(space, groups, memory, given, totals, library).plan()


class Compiler:
    """Turns steps into calls on arrays; ``own`` are kernels that know what they are compiled for.

    What has no place in ``memory`` gets an array of its own.
    """

    def __init__(
        self, space: Recorder, groups: list[Group], memory: Memory, given: Mapping[Any, Any],
        totals: Mapping[str, Any], library: Library, own: Mapping[str, Own] | None = None,
    ) -> None:  # fmt: skip
        self.space, self.groups, self.memory, self.library = space, groups, memory, library
        self.given, self.totals, self.own = dict(given), dict(totals), own or {}
        self.arena = library.bytes(memory.arena)
        self.scratch = library.bytes(memory.scratch)
        self.flats: dict[Node, Any] = {}
        self.arrays: dict[Node, Any] = {}

    def plan(self) -> Plan:
        calls: list[Call] = []
        for g in self.groups:
            if g.looped(self.space.batch):
                for k in range(0, self.space.batch, g.chunk):
                    calls += [self.call(s, g, k) for s in g.steps]
            else:
                calls += [self.call(s, g, None) for s in g.steps]
        return Plan(self.space, self.groups, self.memory, self.given, self.totals, calls)

    def flat(self, base: Node) -> Any:
        """The entries of a base, in a row."""
        if base not in self.flats:
            if base.name == "given":
                found = self.given[base.attrs[0]].reshape(-1)
            elif base.name == "constant":
                found = self.library.constant(base).reshape(-1)
            elif base.name == "written":
                found = self.flat(base.args[0].base)
            elif base not in self.memory.home:  # an output
                found = self.library.empty(base.size, self.library.kind(base.kind))
            else:
                buffer = self.memory.home[base]
                arena = self.arena if buffer.scratch is None else self.scratch
                count = base.size
                if buffer.scratch is not None:
                    count = count * buffer.scratch.chunk // self.space.batch
                dtype = self.library.kind(base.kind)
                each = dtype.itemsize if self.library.torch else np.dtype(dtype).itemsize
                found = arena[buffer.offset : buffer.offset + count * each].view(dtype)
            self.flats[base] = found
        return self.flats[base]

    def whole(self, node: Node) -> Any:
        """All of a node."""
        found = self.arrays.get(node)
        if found is None:
            flat = self.flat(node.base)
            found = self.library.strided(flat, node.shape, node.strides, node.offset)
            self.arrays[node] = found
        return found

    def array(
        self, node: Node, probe: np.ndarray, lead: tuple[int, int] | None, group: Group,
        first: int | None, offset: int,
    ) -> Any:  # fmt: skip
        """A node as an array, or its entries for the sequences from ``first`` on."""
        shape, strides = list(probe.shape), probe.strides
        if first is not None and lead is not None:
            axis, each = lead
            shape[axis] = group.chunk * each
            base = node.base
            if base not in self.memory.home or self.memory.home[base].scratch is None:
                offset += first * each * strides[axis]
        return self.library.strided(self.flat(node.base), shape, strides, offset)

    def call(self, s: KernelStep, group: Group, first: int | None) -> Call:
        if first is None:
            args = tuple(self.whole(a) if isinstance(a, Node) else a for a in s.args)
        else:
            args = tuple(
                self.array(a, a.probe, a.lead, group, first, a.offset) if isinstance(a, Node) else a
                for a in s.args
            )
        if s.target:
            return self.added(s, args)
        if first is None and s.form is s.node.probe:
            out = self.whole(s.node)
        else:
            out = self.array(s.node, s.form, s.lead, group, first, 0)
        if s.kernel in self.own:
            return self.own[s.kernel](self, s)
        if s.kernel == "matmul" and len(args) == 3:
            args = (*args[:2], args[2].reshape(out.shape))
        home = self.memory.home
        here = home.get(s.node)
        if here is not None:  # an argument that the result takes the memory of is the result's
            for k, a in enumerate(s.args):
                if isinstance(a, Node) and home.get(a.base) is here and alike(a, s.form):
                    args = (*args[:k], out, *args[k + 1 :])
        if s.kernel not in self.library.kernels:
            raise Unrecordable(f"there is no kernel for {s.kernel}")
        prepared = self.library.kernels[s.kernel](out, args, s.attrs)
        return sequence(self.zeroed(out), prepared) if s.kernel == "gathered" else prepared

    def zeroed(self, out: Any) -> Call:
        return out.zero_ if self.library.torch else lambda: out.fill(0)

    def added(self, s: KernelStep, args: tuple[Any, ...]) -> Call:
        """A step whose result is added to a total."""
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
    """Whether an array lies as a result does, but for axes of one entry.

    PyTorch refuses to write over an argument that has such an axis more or less than ``out``.
    """
    if a.offset or a.size == 0:
        return False
    if a.shape == form.shape and a.strides == form.strides:
        return True
    return axes(a.shape, a.strides) == axes(form.shape, form.strides)


def axes(shape: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """The axes of more than one entry, with their strides."""
    return [(n, stride) for n, stride in zip(shape, strides, strict=True) if n != 1]
