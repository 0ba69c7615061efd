"""Recording: the array meaning of a step, run on nodes in place of arrays.

Named functions with a kernel of their own are one node; all others are what their definitions say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from viete.analysis.kinds import BIT
from viete.evaluate.array import Lookup
from viete.evaluate.fast import scaled
from viete.evaluate.gradient import Summing
from viete.evaluate.labelled import COL, ROW, Array, Value, expand, permute
from viete.evaluate.plan.node import FLOAT, INT, Unrecordable
from viete.graph.card import CardData


class Recording(Summing):
    """`Summing`, of which every operation becomes a node."""

    xp: Any  # a Recorder

    def __init__(
        self, card: CardData, sizes: Mapping[str, Fraction], like: Array, lookup: Lookup,
        quick: bool = True, memo: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(card, sizes, like, lookup, quick, {})  # nodes are this recording's own
        self.quick = {**NAMED, **PLACES} | (ACTIVATIONS if self.xp.fused else {})

    def primitive(self, xp: Any, op: str, arrays: list[Array], out: Array | None) -> Array:
        if xp is not self.xp:  # on constants
            return super().primitive(xp, op, arrays, out)
        return self.xp.entrywise({"had": "mul", "times": "mul"}.get(op, op), arrays)

    def gathered(self, v: Value, label: str, at: Value, first: int) -> Value:
        if not at.const and self.interval(at) is None:
            node = self.xp.node("whole", (at.array,), at.array.shape, FLOAT, at.array.lead)
            at = Value(node, at.axes)
        return super().gathered(v, label, at, first)

    def inside(self, where: Array, size: int) -> Array:
        """Looked at whenever the plan runs, unless they are constant."""
        if isinstance(where, np.ndarray):
            return where
        return self.xp.node("inside", (where,), where.shape, INT, where.lead, (size,))

    def special(self, form: Callable[..., Any], values: dict[str, Value]) -> Value | None:
        recorded = FORMS.get(form.__name__)
        return None if recorded is None else recorded(self, values)


def last(it: Recording, v: Value) -> Value:
    """The value with its columns as the last axis."""
    order = (*(a for a in v.axes if a != COL), COL)
    return Value(permute(it.xp, v.array, v.axes, order), order)


def along_rows(name: str) -> Callable[[Recording, list[Value]], Value]:
    """A kernel that takes each row to a row."""

    def recorded(it: Recording, args: list[Value]) -> Value:
        v = last(it, args[0])
        return Value(it.xp.node(name, (v.array,), v.array.shape, FLOAT, rows(v)), v.axes)

    return recorded


def rows(v: Value) -> tuple[int, int] | None:
    """The axis of the sequences, where it is not that of the columns, which are last."""
    lead: tuple[int, int] | None = v.array.lead
    return lead if lead and lead[0] < v.array.ndim - 1 else None


def by_entries(name: str) -> Callable[[Recording, list[Value]], Value]:
    """A kernel that takes each entry to an entry."""

    def recorded(it: Recording, args: list[Value]) -> Value:
        return Value(it.xp.entrywise(name, [args[0].array]), args[0].axes)

    return recorded


def logsumexp(it: Recording, args: list[Value]) -> Value:
    """log Σ exp z, without an overflow."""
    v = last(it, it.column(args[0]))
    return Value(it.xp.reduced("logsumexp", v.array, v.array.ndim - 1), v.axes[:-1])


def logsoftmax(it: Recording, args: list[Value]) -> Value:
    """z − log Σ exp z, without an overflow."""
    v = last(it, args[0])
    return Value(v.array - logsumexp(it, [v]).array[..., None], v.axes)


def cross_entropy(it: Recording, args: list[Value]) -> Value | None:
    """The mean over positions of log Σ exp z − z[t], by way of the softmax the derivative takes.

    A position whose target is -100 has 0, and does not count.
    """
    z, t = args
    if not lined_up(z, t):
        return None
    p = SOFTMAX(it, [z])
    lead = z.array.lead if z.array.lead == t.array.lead else None
    each = it.xp.node("nll", (z.array, p.array, t.array), t.array.shape, FLOAT, lead)
    known = it.interval(t)
    if known is not None and known[0] > -100:  # every position has one
        return it.reduce("mean", Value(each, t.axes))
    count = it.reduce("sum", it.call(it.card.library("has_target").op, [t]))
    return it.entrywise("div", [it.reduce("sum", Value(each, t.axes)), count])


def lined_up(z: Value, t: Value) -> bool:
    """Whether there is a target for every row of z, in the same order."""
    return (
        not z.const and not t.const and z.axes[-2:] == (ROW, COL) and t.axes == (*z.axes[:-2], COL)
    )


def layer_norm(it: Recording, args: list[Value]) -> Value:
    """As defined, but scaled last: what is scaled is wanted on the way back as well."""
    z, gamma, beta, epsilon = args
    centred = it.entrywise("sub", [z, it.reduce("mean", z)])
    variance = it.call(it.card.library("var").op, [z])
    scale = it.entrywise("sqrt", [it.entrywise("add", [variance, epsilon])])
    normed = it.entrywise("div", [centred, scale])
    return it.entrywise("add", [it.entrywise("had", [gamma, normed]), beta])


def causal(it: Recording, args: list[Value]) -> Value:
    """A row sees no later column, whatever score stands there."""
    v = last(it, args[0])
    order = (*(a for a in v.axes if a not in (ROW, COL)), ROW, COL)
    array = permute(it.xp, v.array, v.axes, order)
    n, m = array.shape[-2:]
    key = ("hidden", n, m)
    if key not in it.memo:
        it.memo[key] = it.xp.asarray(np.arange(m) > np.arange(n)[:, None] + (m - n))
    return Value(it.xp.entrywise("masked", [array, it.memo[key]]), order)


SOFTMAX = along_rows("softmax")
NAMED: dict[str, Callable[..., Value | None]] = {
    "softmax": SOFTMAX,
    "logsumexp": logsumexp,
    "logsoftmax": logsoftmax,
    "cross_entropy": cross_entropy,
    "ReLU": by_entries("relu"),
    "sigmoid": by_entries("sigmoid"),
    "LN": layer_norm,
    "causal": causal,
}  # fmt: skip
ACTIVATIONS: dict[str, Callable[..., Value | None]] = {
    "GELU": by_entries("gelu"),
    "GELU_tanh": by_entries("gelu_tanh"),
    "SiLU": by_entries("silu"),
}


# -- forms of forward runs, which no derivative shares ---------------------------------------------


class Forward(Recording):
    """`Recording` of a run that has no backward equations: a norm is one node."""

    def __init__(
        self, card: CardData, sizes: Mapping[str, Fraction], like: Array, lookup: Lookup,
        quick: bool = True, memo: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(card, sizes, like, lookup, quick, memo)
        self.quick = {**self.quick, **FORWARD}


def normed_layer(it: Recording, args: list[Value]) -> Value | None:
    """(z − mean z) / sqrt(var z + ε), scaled and shifted."""
    z, gamma, beta, epsilon = args
    return None if epsilon.axes else scaled(it, normed(it, z, epsilon, True), gamma, beta)


def rms_norm(it: Recording, args: list[Value]) -> Value | None:
    """z / sqrt(mean z² + ε), scaled."""
    z, gamma, epsilon = args
    return None if epsilon.axes else scaled(it, normed(it, z, epsilon, False), gamma, None)


def normed(it: Recording, z: Value, epsilon: Value, centred: bool) -> Value:
    """Each row by its standard deviation, or by its root mean square, as one node."""
    v = last(it, z)
    attrs = (float(it.lift(epsilon)), centred)
    return Value(it.xp.node("normed", (v.array,), v.array.shape, FLOAT, rows(v), attrs), v.axes)


def written(it: Recording, args: list[Value]) -> Value:
    """The new row put into the room, which the first argument is."""
    a, b, _ = args
    if a.array.name != "given":
        raise Unrecordable("what is written to is no room")
    row = expand(it.xp, it.lift(b), b.axes, a.axes)
    node = it.xp.node("written", (a.array, row), a.array.shape, attrs=(a.axes.index(ROW),))
    return Value(node, a.axes)


FORWARD: dict[str, Callable[..., Value | None]] = {
    **ACTIVATIONS, "LN": normed_layer, "RMSNorm": rms_norm, "written": written,
}  # fmt: skip


# -- forms of backward equations -------------------------------------------------------------------


def computed(*values: Value) -> bool:
    """Whether these are nodes of real numbers, not constants and not whole numbers."""
    return all(not v.const and v.array.kind == FLOAT for v in values)


def written_logsumexp(it: Recording, of: dict[str, Value]) -> Value | None:
    """log Σ exp z, written out."""
    return None if of["z"].const else logsumexp(it, [it.real(of["z"])])


def softmax_back(it: Recording, of: dict[str, Value]) -> Value | None:
    """y ⊙ (g − Σ g ⊙ y)."""
    y, g = of["y"], of["a"]
    if (
        not computed(y, g)
        or y.axes != g.axes
        or y.axes[-1:] != (COL,)
        or y.array.shape != g.array.shape
    ):
        return None
    lead = y.array.lead if y.array.lead == g.array.lead else None
    node = it.xp.node("softmax_back", (g.array, y.array), g.array.shape, FLOAT, lead)
    return Value(node, y.axes)


def relu_back(it: Recording, of: dict[str, Value]) -> Value | None:
    """g where y > 0, else 0."""
    y, g = of["y"], of["a"]
    if not computed(y, g) or y.axes != g.axes or y.array.shape != g.array.shape:
        return None
    return Value(it.xp.entrywise("relu_back", [g.array, y.array]), y.axes)


def gelu_back(it: Recording, of: dict[str, Value]) -> Value | None:
    """The derivative of GELU, in one pass."""
    z, g = of["z"], of["a"]
    if not it.xp.fused or not computed(z, g) or z.axes != g.axes or z.array.shape != g.array.shape:
        return None
    return Value(it.xp.entrywise("gelu_back", [g.array, z.array]), z.axes)


def loss_back(it: Recording, of: dict[str, Value]) -> Value | None:
    """softmax(z) less 1 at the target."""
    z, t = of["z"], of["t"]
    if not lined_up(z, t):
        return None
    p = SOFTMAX(it, [z])
    lead = z.array.lead if z.array.lead == t.array.lead else None
    node = it.xp.node("less_onehot", (p.array, t.array), p.array.shape, FLOAT, lead)
    return Value(node, z.axes)


FORMS: dict[str, Callable[..., Value | None]] = {
    "logsumexp": written_logsumexp,
    **{f.__name__: f for f in (softmax_back, relu_back, gelu_back, loss_back)},
}


# -- places ----------------------------------------------------------------------------------------


def gathered(it: Recording, args: list[Value], batch: bool = False) -> Value | None:
    """Rows added up by where they belong; with ``batch`` over all sequences at once."""
    y, t, size = args
    if not computed(y) or t.const or y.axes[-2:] != (ROW, COL) or size.axes:
        return None
    if y.axes[:-2] not in ((), ("batch",) if batch else ()) or t.axes != (*y.axes[:-2], COL):
        return None
    rows = it.xp.reshape(y.array, (-1, y.array.shape[-1]))
    places = it.xp.reshape(t.array, (-1,))
    shape = (int(size.array), rows.shape[1])
    return Value(it.xp.node("gathered", (rows, places), shape), (ROW, COL))


def placed(it: Recording, args: list[Value]) -> Value | None:
    """Rows among zeros."""
    y, start, size = args
    if not computed(y) or start.axes or size.axes or ROW not in y.axes:
        return None
    axis, first, count = y.axes.index(ROW), int(start.array), int(size.array)
    if first < 0 or first + y.size(ROW) > count:
        return None
    shape = (*y.array.shape[:axis], count, *y.array.shape[axis + 1 :])
    lead = y.array.lead if y.array.lead and y.array.lead[0] != axis else None
    return Value(it.xp.node("placed", (y.array,), shape, FLOAT, lead, (axis, first)), y.axes)


def part(it: Recording, args: list[Value]) -> Value | None:
    """Columns k m to (k + 1) m − 1 for all k of a family: a new axis, and nothing moved."""
    y, k, width = args
    if y.const or y.axes[-1:] != (COL,) or width.axes or len(k.axes) != 1 or not k.const:
        return None
    m, label = int(width.array), k.axes[0]
    if label in y.axes or list(np.asarray(k.array)) != list(range(y.size(COL) // m)):
        return None
    shape = (*y.array.shape[:-1], y.size(COL) // m, m)
    axes = (*y.axes[:-1], label, COL)
    return Value(it.xp.reshape(y.array, shape), axes, False, False, y.interval)


def onehot(it: Recording, args: list[Value]) -> Value | None:
    """A comparison with all places."""
    t, size = args
    if t.const or size.axes or t.axes[-1:] != (COL,):
        return None
    places = it.xp.asarray(np.arange(int(size.array)))
    hot = it.xp.entrywise("eq", [t.array[..., None], places])
    return Value(it.xp.astype(hot, "int64"), (*t.axes[:-1], ROW, COL), False, False, BIT)


PLACES: dict[str, Callable[..., Value | None]] = {
    "gathered": gathered, "placed": placed, "part": part, "onehot": onehot,
}  # fmt: skip
