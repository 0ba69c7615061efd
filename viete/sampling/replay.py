"""A step of the fixed incremental form as a list of calls on arrays that stay.

The step is recorded once, as nodes. What weights and constants alone decide is computed then; what
positions alone decide (angles, masks) is computed for every position then, in float64, and looked
up; the rest are the calls of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from viete.evaluate.array import Lookup
from viete.evaluate.labelled import ROW, Array, Value, expand
from viete.evaluate.plan.kernels import Prepare, sequence
from viete.evaluate.plan.making import Library
from viete.evaluate.plan.node import BOOL, FLOAT, INT, Node, ancestors, laid_out
from viete.evaluate.plan.recorder import Recorder
from viete.evaluate.plan.recording import Recording
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Program
from viete.graph.card import CardData

TOKENS, PLACES, WEIGHTS = "tokens", "places", "weights"  # what nodes are made of
Call = Callable[[], Any]


class Unplanned(Exception):
    """A step that cannot be replayed."""


class Writing(Recording):
    """`Recording`, in which ``written`` writes into its first argument."""

    def __init__(
        self, card: CardData, sizes: Mapping[str, Fraction], like: Array, lookup: Lookup,
        quick: bool = True, memo: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(card, sizes, like, lookup, quick, memo)
        self.quick = {**self.quick, "written": written, "LN": layer_norm, "RMSNorm": rms_norm}


def written(it: Any, args: list[Value]) -> Value:
    """The new row put into the room."""
    a, b, _ = args
    if a.array.name != "given":
        raise Unplanned
    row = expand(it.xp, it.lift(b), b.axes, a.axes)
    node = it.xp.node("written", (a.array, row), a.array.shape, attrs=(a.axes.index(ROW),))
    return Value(node, a.axes)


def layer_norm(it: Any, args: list[Value]) -> Value | None:
    """As defined, the centred row being one node."""
    z, gamma, beta, epsilon = args
    if epsilon.axes or z.axes[-1:] != ("col",):
        return None
    node = it.xp.node("normed", (z.array,), z.array.shape, attrs=(float(epsilon.array), True))
    return scaled(it, Value(node, z.axes), gamma, beta)


def rms_norm(it: Any, args: list[Value]) -> Value | None:
    """As defined."""
    z, gamma, epsilon = args
    if epsilon.axes or z.axes[-1:] != ("col",):
        return None
    node = it.xp.node("normed", (z.array,), z.array.shape, attrs=(float(epsilon.array), False))
    return scaled(it, Value(node, z.axes), gamma, None)


def scaled(it: Any, x: Value, gamma: Value, beta: Value | None) -> Value:
    if gamma.axes or gamma.array != 1:
        x = it.entrywise("had", [x, gamma])
    if beta is not None and (beta.axes or beta.array != 0):
        x = it.entrywise("add", [x, beta])
    return x


class Recorded(Run):
    """A run of the equations on nodes."""

    meaning = Writing


class Replay:
    """One step of a program for one token in each of several texts.

    ``given`` maps members to arrays with their axes: weights, the rooms, what is computed once;
    ``rooms`` are those written to, ``tokens`` and ``places`` the inputs of a step. ``target`` is
    computed. Raises Unplanned where a step cannot be recorded.
    """

    def __init__(
        self, program: Program, given: Mapping[Member, Value], rooms: set[Member],
        tokens: str, places: str, count: int, sizes: Mapping[str, Fraction], target: Member,
        like: Array, room: int,
    ) -> None:  # fmt: skip
        self.library = Library(like)
        self.place, self.room = 0, room
        self.space = Recorder(1)
        self.arrays: dict[Node, Array] = {}
        self.moving: set[str] = {TOKENS, PLACES, *(f"{m}" for m in rooms)}
        store = {m: self.put(f"{m}", v) for m, v in given.items()}
        whole = self.library.kind(INT)
        self.tokens = self.library.empty(count, whole).reshape(count, 1)
        self.places = self.library.empty(1, whole)
        store[tokens, ()] = self.put(TOKENS, Value(self.tokens, ("batch", "col")))
        store[places, ()] = self.put(PLACES, Value(self.places, ("col",)))
        run = Recorded(program, store, self.space.given("like", ()), sizes, True)
        run.compute_members({target})
        found = run.store[target]
        axes = tuple(a for a in ("batch", "row", "col") if a in found.axes)
        self.axes = axes
        self.scores = self.space.permute_dims(found.array, [found.axes.index(a) for a in axes])
        self.calls = self.compiled()
        self.out = self.arrays[self.scores]

    def put(self, name: str, v: Value) -> Value:
        """An array that stays, as a node: a view of the memory that it lies in, however it does.

        So a weight that is a transposed part of a file's tensor is used where it is.
        """
        kind = INT if "int" in str(v.array.dtype) else FLOAT
        shape = tuple(v.array.shape)
        flat, strides = memory(v.array)
        if strides == laid_out(shape).strides:
            node = self.space.given(name, shape, kind)
            self.arrays[node] = v.array
        else:
            base = self.space.given(name, (len(flat),), kind)
            self.arrays[base] = flat
            node = self.space.view(base, as_strided(base.probe, shape, strides), None)
        return Value(node, v.axes)

    def step(self, tokens: np.ndarray, place: int) -> Array:
        """The scores after one token more in each text, which stands at ``place``."""
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

    # -- compiling ---------------------------------------------------------------------------------

    def compiled(self) -> list[Call]:
        """The calls of a step; all else is done here."""
        needed = ancestors([self.scores])
        reads = self.reads(needed)
        placed = [n for n in needed if reads[n] == {PLACES}]
        others = {a for n in needed if reads[n] != {PLACES} for a in n.args if isinstance(a, Node)}
        tables = self.tables(placed, {a.base for a in others} | {self.scores.base})
        inner = {n for n in placed if n.base not in tables and n.name != "given"}
        calls: list[Call] = []
        for node in needed:
            if node in self.arrays or node in inner:
                continue
            if node.name == "constant":
                self.arrays[node] = self.library.constant(node)
            elif node.of is not None:
                self.arrays[node] = self.view(node)
            elif node.name == "written":
                self.arrays[node] = self.arrays[node.args[0]]
                calls.append(self.writing(node))
            else:
                dtype = self.library.kind(node.kind)
                out = self.library.empty(node.size, dtype).reshape(node.shape)
                self.arrays[node] = out
                if node in tables:
                    calls.append(self.looking(out, tables[node]))
                    continue
                call = self.kernel(node.name, self.library.torch)(
                    out, tuple(map(self.argument, node.args)), node.attrs
                )
                if reads[node] <= {WEIGHTS}:
                    call()
                else:
                    calls.append(call)
        return calls

    def reads(self, nodes: list[Node]) -> dict[Node, set[str]]:
        """What each node is made of: weights, places, and what else changes from step to step."""
        out: dict[Node, set[str]] = {}
        for node in nodes:
            if node.name == "given":
                name = node.attrs[0]
                out[node] = {name if name in self.moving else WEIGHTS}
            else:
                args = [a for a in node.args if isinstance(a, Node)]
                out[node] = set().union(*(out[a] for a in args))
        return out

    def argument(self, a: Any) -> Any:
        return self.arrays[a] if isinstance(a, Node) else a

    def view(self, node: Node) -> Array:
        assert node.of is not None
        flat = self.arrays[node.of].reshape(-1)
        return self.library.strided(flat, node.shape, node.strides, node.offset)

    def kernel(self, name: str, torch: bool) -> Prepare:
        own = TORCH if torch else NUMPY
        if name in own:
            return own[name]
        if name not in self.library.kernels:
            raise Unplanned
        return self.library.kernels[name]

    def writing(self, node: Node) -> Call:
        """A row of a room, taken from a value of one position."""
        room, row = (self.arrays[a] for a in node.args)
        before = (slice(None),) * node.attrs[0]
        new = row[(*before, 0)]

        def call() -> None:
            room[(*before, self.place)] = new

        return call

    def looking(self, out: Array, table: Array) -> Call:
        """What a position decides."""

        def call() -> None:
            out[...] = table[self.place]

        return call

    def tables(self, nodes: list[Node], wanted: set[Node]) -> dict[Node, Array]:
        """Of nodes that positions alone decide, the wanted: their values at every position."""
        kinds = {FLOAT: np.float64, INT: np.int64, BOOL: np.bool_}
        library = Library(np.zeros(0))
        arrays: dict[Node, Any] = {}
        calls: list[Call] = []
        places = np.zeros(1, np.int64)
        for node in nodes:
            for a in node.args:
                if isinstance(a, Node) and a not in arrays and a.name != "given":
                    self.constant(a, arrays, library)
            if node.name == "given":
                arrays[node] = places
            elif node.of is not None:
                flat = arrays[node.of].reshape(-1)
                arrays[node] = library.strided(flat, node.shape, node.strides, node.offset)
            elif node.name in library.kernels:
                out = arrays[node] = np.zeros(node.shape, kinds[node.kind])
                args = tuple(arrays[a] if isinstance(a, Node) else a for a in node.args)
                calls.append(library.kernels[node.name](out, args, node.attrs))
            else:
                raise Unplanned
        found: dict[Node, np.ndarray] = {n: np.zeros((self.room, *n.shape), kinds[n.kind])
                 for n in nodes if n in wanted and n.name != "given"}  # fmt: skip
        with np.errstate(all="ignore"):
            for k in range(self.room if found else 0):
                places[...] = k
                for call in calls:
                    call()
                for n, table in found.items():
                    table[k] = arrays[n]
        return {n: self.kept(n, table) for n, table in found.items()}

    def constant(self, node: Node, arrays: dict[Node, Any], library: Library) -> None:
        """A constant, or a view of one, in float64."""
        if node.of is not None:
            self.constant(node.of, arrays, library)
            flat = arrays[node.of].reshape(-1)
            arrays[node] = library.strided(flat, node.shape, node.strides, node.offset)
        elif node.name == "constant":
            arrays[node] = library.constant(node)
        elif node not in arrays:
            raise Unplanned

    def kept(self, node: Node, table: np.ndarray) -> Array:
        dtype = self.library.kind(node.kind)
        if self.library.torch:
            import torch

            return torch.asarray(table, device=self.library.device).to(dtype)
        return table.astype(dtype)


def memory(array: Array) -> tuple[Array, tuple[int, ...]]:
    """The stretch of memory that an array lies in, as a row, and its strides there, in entries."""
    if hasattr(array, "detach"):
        strides = tuple(array.stride())
    else:
        strides = tuple(s // array.itemsize for s in array.strides)
        if min(strides, default=1) < 0 or any(s % array.itemsize for s in array.strides):
            array = np.ascontiguousarray(array)
            strides = laid_out(array.shape).strides
    span = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    if 0 in array.shape:
        return array.reshape(-1), laid_out(tuple(array.shape)).strides
    if hasattr(array, "detach"):
        return array.as_strided((span,), (1,)), strides
    return as_strided(array, (span,), (array.itemsize,), writeable=False), strides


# -- kernels for one row ---------------------------------------------------------------------------


def normed(out: Any, args: Any, attrs: Any) -> Call:
    """(z − mean z) / sqrt(var z + ε), or z / sqrt(mean z² + ε)."""
    z, (epsilon, centred) = args[0], attrs
    d = z.shape[-1]
    row = np.empty((*z.shape[:-1], 1), z.dtype)
    add = np.add.reduce
    first: list[Call] = []
    if centred:
        first = [
            partial(add, z, axis=-1, keepdims=True, out=row),
            partial(np.multiply, row, z.dtype.type(1 / d), out=row),
            partial(np.subtract, z, row, out=out),
        ]
        z = out
    return sequence(
        *first,
        partial(np.vecdot, z, z, out=row[..., 0]),
        partial(np.multiply, row, z.dtype.type(1 / d), out=row),
        partial(np.add, row, z.dtype.type(epsilon), out=row),
        partial(np.sqrt, row, out=row),
        partial(np.divide, z, row, out=out),
    )


def torch_normed(out: Any, args: Any, attrs: Any) -> Call:
    """The same on PyTorch."""
    z, (epsilon, centred) = args[0], attrs

    def call() -> None:
        x = z - z.mean(-1, keepdim=True) if centred else z
        out.copy_(x * (x.square().mean(-1, keepdim=True) + epsilon).rsqrt_())

    return call


def softmax(out: Any, args: Any, attrs: Any) -> Call:
    """exp(z − max z) over its sum."""
    z = args[0]
    row = np.empty((*z.shape[:-1], 1), z.dtype)
    return sequence(
        partial(np.maximum.reduce, z, axis=-1, keepdims=True, out=row),
        partial(np.subtract, z, row, out=out),
        partial(np.exp, out, out=out),
        partial(np.add.reduce, out, axis=-1, keepdims=True, out=row),
        partial(np.divide, out, row, out=out),
    )


def gelu_tanh(out: Any, args: Any, attrs: Any) -> Call:
    """z (1 + tanh(√(2/π) (z + 0.044715 z³))) / 2, in place."""
    z = args[0]
    number = z.dtype.type
    return sequence(
        partial(np.multiply, z, z, out=out),
        partial(np.multiply, out, number(0.044715), out=out),
        partial(np.add, out, number(1), out=out),
        partial(np.multiply, out, z, out=out),
        partial(np.multiply, out, number((2 / np.pi) ** 0.5), out=out),
        partial(np.tanh, out, out=out),
        partial(np.add, out, number(1), out=out),
        partial(np.multiply, out, z, out=out),
        partial(np.multiply, out, number(0.5), out=out),
    )


def reduction(f: Any) -> Prepare:
    return lambda out, args, attrs: partial(f, args[0], axis=attrs[0], out=out)


NUMPY: dict[str, Prepare] = {
    "normed": normed, "softmax": softmax, "gelu_tanh": gelu_tanh,
    "sum": reduction(np.add.reduce), "amax": reduction(np.maximum.reduce),
}  # fmt: skip
TORCH: dict[str, Prepare] = {"normed": torch_normed}

__all__ = ["Replay", "Unplanned"]
