"""Recording: evaluates a step on nodes instead of arrays.

A function with its own kernel is one node, made by a `Backend` of nodes. All other functions are
recorded by their definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from viete.evaluate.backends import Backend
from viete.evaluate.fast import VERSIONS, Term
from viete.evaluate.gradient import Summing
from viete.evaluate.labelled import COL, ROW, Array, Value, expand
from viete.evaluate.plan.node import FLOAT, INT, Node, Unrecordable
from viete.evaluate.plan.recorder import Recorder
from viete.evaluate.plan.sparse import sum_of_rows

Lead = tuple[int, int] | None


class Nodes(Backend):
    """A recorder as a backend: each function with a kernel becomes one node.

    With ``whole`` norms are nodes, too: in runs without backward equations, which would share parts
    of a norm. Activations are nodes if the library has kernels for them (``fused``).
    """

    xp: Recorder

    def __init__(self, xp: Recorder, whole: bool = False) -> None:
        super().__init__(xp)
        self.whole = whole
        self.activations = whole or xp.fused

    def is_real(self, array: Node) -> bool:
        return array.kind == FLOAT

    def entrywise(self, op: str, args: list[Array], out: Array | None = None) -> Node:
        return self.xp.entrywise({"had": "mul", "times": "mul"}.get(op, op), args)

    def by_rows(self, name: str, z: Node, axis: int, attrs: tuple[Any, ...] = ()) -> Node:
        """The node of a kernel that maps rows to rows along the last axis."""
        z, back = last(self.xp, z, axis)
        lead = z.lead if z.lead and z.lead[0] < z.ndim - 1 else None
        return self.xp.permute_dims(self.xp.node(name, (z,), z.shape, FLOAT, lead, attrs), back)

    def softmax(self, z: Node, axis: int, fresh: bool) -> Node:
        return self.by_rows("softmax", z, axis)

    def greatest(self, z: Node, axis: int, k: int) -> Node:
        return self.by_rows("greatest", z, axis, (k,))

    def logsumexp(self, z: Node, axis: int) -> Node:
        z, back = last(self.xp, z, axis)
        found = self.xp.reduced("logsumexp", z, z.ndim - 1)
        return self.xp.permute_dims(found[..., None], back)

    def normed(self, z: Node, axis: int, epsilon: Any, centred: bool, fresh: bool) -> Node | None:
        return self.by_rows("normed", z, axis, (float(epsilon), centred)) if self.whole else None

    def masked(self, z: Node, hidden: Node, fresh: bool) -> Node:
        return self.xp.entrywise("masked", [z, hidden])

    def relu(self, x: Node, fresh: bool) -> Node:
        return self.xp.entrywise("relu", [x])

    def gelu(self, x: Node, fresh: bool) -> Node | None:
        return self.xp.entrywise("gelu", [x]) if self.activations else None

    def gelu_tanh(self, x: Node, fresh: bool) -> Node | None:
        return self.xp.entrywise("gelu_tanh", [x]) if self.activations else None

    def sigmoid(self, x: Node, fresh: bool) -> Node:
        return self.xp.entrywise("sigmoid", [x])

    def silu(self, x: Node, fresh: bool) -> Node | None:
        return self.xp.entrywise("silu", [x]) if self.activations else None

    def add_rows(self, rows: Node, places: Node, count: int) -> Node:
        return self.xp.node("gathered", (rows, places), (count, rows.shape[1]))

    def padded(self, y: Node, axis: int, first: int, count: int) -> Node:
        if y.shape[axis] == count:
            return y
        shape = (*y.shape[:axis], count, *y.shape[axis + 1 :])
        lead = y.lead if y.lead and y.lead[0] != axis else None
        return self.xp.node("placed", (y,), shape, FLOAT, lead, (axis, first))

    def equal(self, t: Node, count: int) -> Node:
        places = self.xp.asarray(np.arange(count))
        return self.xp.astype(self.xp.entrywise("eq", [t[..., None], places]), "int64")

    def softmax_back(self, g: Node, y: Node) -> Node:
        return self.xp.node("softmax_back", (g, y), g.shape, FLOAT, shared(g, y))

    def relu_back(self, g: Node, y: Node) -> Node:
        return self.xp.entrywise("relu_back", [g, y])

    def gelu_back(self, g: Node, z: Node) -> Node | None:
        return self.xp.entrywise("gelu_back", [g, z]) if self.xp.fused else None

    def less_onehot(self, p: Node, t: Node) -> Node:
        return self.xp.node("less_onehot", (p, t), p.shape, FLOAT, shared(p, t))


def last(xp: Recorder, z: Node, axis: int) -> tuple[Node, list[int]]:
    """An array with the given axis moved last, and the permutation that moves it back."""
    order = [k for k in range(z.ndim) if k != axis] + [axis]
    return xp.permute_dims(z, order), np.argsort(order).tolist()


def shared(a: Node, b: Node) -> Lead:
    """The axis of the sequences if two arrays have the same one; else None."""
    return a.lead if a.lead == b.lead else None


class Recording(Summing):
    """`Summing` on nodes: every operation becomes a node."""

    xp: Any  # a Recorder

    def __init__(self, *args: Any) -> None:
        super().__init__(*args[:5], {})  # nodes belong to this recording
        self.backend = Nodes(self.xp)
        if self.fast:
            self.quick |= {"cross_entropy": cross_entropy, "LN": layer_norm}
            self.quick.pop("RMSNorm", None)

    def gathered(self, v: Value, label: str, at: Value, first: int) -> Value:
        if not at.const and self.interval(at) is None:
            node = self.xp.node("whole", (at.array,), at.array.shape, FLOAT, at.array.lead)
            at = Value(node, at.axes)
        return super().gathered(v, label, at, first)

    def inside(self, where: Array, size: int) -> Array:
        """Indices that the plan checks at every run, unless they are constant."""
        if isinstance(where, np.ndarray):
            return where
        return self.xp.node("inside", (where,), where.shape, INT, where.lead, (size,))


def cross_entropy(it: Recording, args: list[Value]) -> Value | None:
    """The mean over positions of log Σ exp z − z[t], by the softmax that its derivative uses.

    A position with target -100 contributes 0, and does not count. The kernel refuses other targets
    outside.
    """
    z, t = args
    if z.const or t.const or z.axes[-2:] != (ROW, COL) or t.axes != (*z.axes[:-2], COL):
        return None
    if it.interval(t) is None:
        return None
    p = it.backend.softmax(z.array, len(z.axes) - 1, False)
    lead = shared(z.array, t.array)
    each = it.xp.node("nll", (z.array, p, t.array), t.array.shape, FLOAT, lead)
    known = it.interval(t)
    if known is not None and known[0] > -100:  # every position has one
        return it.reduce("mean", Value(each, t.axes))
    count = it.reduce("sum", it.call(it.card.library("has_target").op, [t]))
    return it.entrywise("div", [it.reduce("sum", Value(each, t.axes)), count])


def layer_norm(it: Recording, args: list[Value]) -> Value | None:
    """Layer norm as defined, but scaled last: backward equations need the unscaled rows too."""
    z, gamma, beta, epsilon = args
    centred = it.entrywise("sub", [z, it.reduce("mean", z)])
    variance = it.call(it.card.library("var").op, [z])
    scale = it.entrywise("sqrt", [it.entrywise("add", [variance, epsilon])])
    normed = it.entrywise("div", [centred, scale])
    return it.entrywise("add", [it.entrywise("had", [gamma, normed]), beta])


class Forward(Recording):
    """`Recording` for a run without backward equations: a norm is one node."""

    sparse = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.backend = Nodes(self.xp, whole=True)
        if self.fast:
            self.quick |= {name: VERSIONS[name] for name in ("LN", "RMSNorm")}
            self.quick["written"] = cache_update

    def sum_of_rows(self, kept: Node, rows: Mapping[str, Value], term: Term) -> Node:
        return sum_of_rows(self, kept, rows, term)


def cache_update(it: Recording, args: list[Value]) -> Value:
    """The new row written into the cache, which the first argument is."""
    a, b, _ = args
    if a.array.name != "given":
        raise Unrecordable("what is written to is no room")
    row = expand(it.xp, it.lift(b), b.axes, a.axes)
    node = it.xp.node("written", (a.array, row), a.array.shape, attrs=(a.axes.index(ROW),))
    return Value(node, a.axes)
