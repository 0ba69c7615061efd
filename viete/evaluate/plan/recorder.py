"""The namespace in which a run is recorded: every operation becomes a node; nothing is computed.

The same operation on the same arrays is one node, so nothing is computed twice.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from viete.evaluate.plan.node import BOOL, FLOAT, HALF, INT, Node, Shape, laid_out, offset_of
from viete.notation.lexer import ELEMENTARY

AS_IT_IS = frozenset("given constant matmul astype copy".split())  # accept half precision
COMPARISONS = frozenset("lt le gt ge eq ne and or not".split())
REAL = frozenset((*ELEMENTARY, "div"))  # of whole numbers, too


Flag = bool  # which in the class below is the name of a dtype


class Recorder:
    """An array API namespace of nodes, for ``batch`` sequences at a time.

    ``fused`` says whether activations are kernels of the library, as PyTorch's are; otherwise they
    are recorded by their definitions, and share parts with their derivatives.

    With ``half`` matrix products are in half precision, and all else is not, as under PyTorch's
    autocast: sums, norms, softmax, losses, residuals. ``weights`` are the names of the arrays that
    exist in both precisions.
    """

    __name__ = "recorder"
    float, int64, bool = "float", "int64", "bool"

    def __init__(
        self, batch: int, fused: Flag = True, half: Flag = False, weights: Collection[str] = ()
    ) -> None:
        self.batch, self.fused, self.half, self.weights = batch, fused, half, frozenset(weights)
        self.nodes: list[Node] = []
        self.known: dict[Any, Node] = {}
        self.constants: list[Any] = []
        self.equation: Any = None

    # -- making nodes ------------------------------------------------------------------------------

    def node(
        self, name: str, args: Sequence[Any], shape: Shape, kind: str = FLOAT,
        lead: tuple[int, int] | None = None, attrs: tuple[Any, ...] = (),
    ) -> Node:  # fmt: skip
        if name not in AS_IT_IS:
            args = tuple(self.cast(a, FLOAT) if isinstance(a, Node) else a for a in args)
            kind = FLOAT if kind == HALF else kind
        if name == "astype" and kind == HALF and args[0].name == "given" and (
            args[0].attrs[0] in self.weights
        ):  # fmt: skip
            return self.leaf((HALF, args[0].attrs[0]), shape, HALF)
        key = (
            name,
            *(a.id if isinstance(a, Node) else ("number", type(a), a) for a in args),
            attrs,
        )
        found = self.known.get(key)
        if found is None:
            made = Node(name, tuple(args), attrs, kind, laid_out(shape), self, lead)
            found = self.known[key] = self.added(made)
        return found

    def added(self, node: Node) -> Node:
        node.id, node.equation = len(self.nodes), self.equation
        self.nodes.append(node)
        return node

    def leaf(self, name: Any, shape: Shape, kind: str = FLOAT, batched: Any = False) -> Node:
        """The node of an input or a weight."""
        return self.node("given", (), shape, kind, (0, 1) if batched else None, (name,))

    def constant(self, array: Any) -> Node:
        array = np.asarray(array)
        kind = {"b": BOOL, "i": INT, "u": INT}.get(array.dtype.kind, FLOAT)
        same = (array.dtype.str, array.item()) if array.ndim == 0 else (id(array),)
        node = self.node("constant", (), array.shape, kind, None, same)
        node.data = array
        return node

    def cast(self, a: Node, kind: str) -> Node:
        """A real array in another precision."""
        if a.kind == kind or a.kind not in (FLOAT, HALF):
            return a
        base = self.node("astype", (a.base,), a.base.shape, kind, a.base.lead)
        return base if a.of is None else self.view(base, a.probe, a.lead, a.offset)

    # -- views -------------------------------------------------------------------------------------

    def view(
        self, a: Node, probe: np.ndarray, lead: tuple[int, int] | None, offset: int | None = None
    ) -> Node:
        """Some entries of an array; ``offset`` is that of the first, if known."""
        offset = offset_of(probe) if offset is None else offset
        key = ("view", a.base.id, probe.shape, probe.strides, offset)
        found = self.known.get(key)
        if found is None:
            made = Node("view", (a.base,), (), a.kind, probe, self, lead, a.base, offset=offset)
            found = self.known[key] = self.added(made)
        return found

    def permute_dims(self, a: Node, order: Sequence[int]) -> Node:
        lead = None if a.lead is None else (list(order).index(a.lead[0]), a.lead[1])
        return self.view(a, a.probe.transpose(order), lead, a.offset)

    def reshape(self, a: Node, shape: Sequence[int]) -> Node:
        shape = tuple(int(n) for n in shape)
        if -1 in shape:
            rest = -math.prod(shape)
            shape = tuple(a.size // max(rest, 1) if n == -1 else n for n in shape)
        if shape == a.shape:
            return a
        lead = self.regrouped(a, shape)
        try:
            return self.view(a, np.reshape(a.probe, shape, copy=False), lead, a.offset)
        except ValueError:  # the entries have to be moved
            a = self.node("copy", (a,), a.shape, a.kind, a.lead)
            return self.view(a, laid_out(shape), lead, 0)

    def regrouped(self, a: Node, shape: Shape) -> tuple[int, int] | None:
        """The axis of the sequences after a reshape that keeps each of them together; else None."""
        if a.lead is None or self.batch == 1:
            return None
        before = math.prod(a.shape[: a.lead[0]])
        for axis, n in enumerate(shape):
            if n > 1 and math.prod(shape[:axis]) == before:
                return (axis, n // self.batch) if n % self.batch == 0 else None
        return None

    def index(self, a: Node, place: Any) -> Node:
        place = place if isinstance(place, tuple) else (place,)
        lead, axis, out = None, 0, 0
        items = [x for x in place if x is not Ellipsis]
        if len(items) < len(place):
            k = place.index(Ellipsis)
            filled = a.ndim - sum(x is not None for x in items)
            place = (*place[:k], *(slice(None),) * filled, *place[k + 1 :])
        for item in (*place, *(slice(None),) * (a.ndim - sum(x is not None for x in place))):
            if item is None:
                out += 1
                continue
            if a.lead is not None and axis == a.lead[0] and isinstance(item, slice):
                lead = (out, a.lead[1]) if item == slice(None) else None
            axis += 1
            out += isinstance(item, slice)
        return self.view(a, a.probe[(*place, Ellipsis)], lead)

    def broadcast_to(self, a: Any, shape: Shape) -> Node:
        a = a if isinstance(a, Node) else self.constant(np.asarray(a, dtype=np.float64))
        if tuple(shape) == a.shape:
            return a
        extra = len(shape) - a.ndim
        lead = None if a.lead is None else (a.lead[0] + extra, a.lead[1])
        return self.view(a, np.broadcast_to(a.probe, shape), lead, a.offset)

    def squeeze(self, a: Node, axis: int) -> Node:
        return self.index(a, tuple(0 if k == axis else slice(None) for k in range(a.ndim)))

    # -- entry by entry ----------------------------------------------------------------------------

    def aligned(self, args: Sequence[Any], shape: Shape) -> tuple[int, int] | None:
        """The axis of the sequences in the result of broadcasting the arguments."""
        leads = set()
        for a in args:
            if isinstance(a, Node) and a.lead is not None:
                leads.add((a.lead[0] + len(shape) - a.ndim, a.lead[1]))
        if len(leads) != 1:
            return None
        ((axis, each),) = leads
        for a in args:  # the others must be the same for every sequence
            if isinstance(a, Node) and a.lead is None:
                at = axis - len(shape) + a.ndim
                if at >= 0 and a.shape[at] != 1:
                    return None
        return axis, each

    def entrywise(self, name: str, args: Sequence[Any]) -> Node:
        arrays = [a for a in args if isinstance(a, Node)]
        match name, args:
            case "pow", [Node() as a, 2]:
                name, args = "mul", [a, a]
            case ("add" | "sub", [Node() as a, 0]) | ("add", [0, Node() as a]) if a.kind == FLOAT:
                return a
            case ("mul" | "div", [Node() as a, float()]) if a.kind == HALF:
                if a.base.name == "matmul":  # which scales before it rounds
                    key = "scaled", name, a.id, args[1]
                    if key not in self.known:
                        made = Node(name, tuple(args), (), HALF, laid_out(a.shape), self, a.lead)
                        self.known[key] = self.added(made)
                    return self.known[key]
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        kinds = {a.kind for a in (arrays[1:] if name == "where" else arrays)}
        kinds = {FLOAT if kind == HALF else kind for kind in kinds}
        if name in REAL or any(isinstance(a, float) for a in args):
            kinds.add(FLOAT)
        kind = BOOL if name in COMPARISONS else FLOAT if FLOAT in kinds or not kinds else INT
        return self.node(name, args, shape, kind, self.aligned(args, shape))

    def where(self, condition: Any, a: Any, b: Any) -> Node:
        return self.entrywise("where", [condition, a, b])

    def sqrt(self, a: Node) -> Node:
        return self.entrywise("sqrt", [a])

    def astype(self, a: Node, dtype: str) -> Node:
        kind = {"float": FLOAT, "int64": INT, "bool": BOOL}[dtype]
        return a if kind == a.kind else self.node("astype", (a,), a.shape, kind, a.lead)

    # -- along axes --------------------------------------------------------------------------------

    def reduced(self, name: str, a: Node, axis: int, kind: str = FLOAT) -> Node:
        axis %= a.ndim
        shape = a.shape[:axis] + a.shape[axis + 1 :]
        lead = None
        if a.lead is not None and a.lead[0] != axis:
            lead = (a.lead[0] - (a.lead[0] > axis), a.lead[1])
        return self.node(name, (a,), shape, kind, lead, (axis,))

    def sum(self, a: Node, axis: int) -> Node:
        return self.reduced("sum", a, axis, INT if a.kind == INT else FLOAT)

    def mean(self, a: Node, axis: int) -> Node:
        return self.reduced("mean", a, axis)

    def max(self, a: Node, axis: int) -> Node:
        return self.reduced("amax", a, axis, a.kind)

    def min(self, a: Node, axis: int) -> Node:
        return self.reduced("amin", a, axis, a.kind)

    def argmax(self, a: Node, axis: int) -> Node:
        return self.reduced("argmax", a, axis, INT)

    def take(self, a: Node, where: Node, axis: int) -> Node:
        shape = (*a.shape[:axis], *where.shape, *a.shape[axis + 1 :])
        lead = None
        if where.lead is not None and a.lead is None:
            lead = (where.lead[0] + axis, where.lead[1])
        return self.node("take", (a, where), shape, a.kind, lead, (axis,))

    def take_along_axis(self, a: Node, where: Node, axis: int) -> Node:
        axis %= a.ndim
        lead = a.lead if a.lead == where.lead and a.lead and a.lead[0] != axis else None
        return self.node("pick", (a, where), where.shape, a.kind, lead, (axis,))

    def concat(self, arrays: Sequence[Node], axis: int) -> Node:
        axis %= arrays[0].ndim
        shape = list(arrays[0].shape)
        shape[axis] = sum(a.shape[axis] for a in arrays)
        leads = {a.lead for a in arrays}
        lead = next(iter(leads)) if len(leads) == 1 else None
        if lead is not None and lead[0] == axis:
            lead = None
        return self.node("concat", tuple(arrays), tuple(shape), arrays[0].kind, lead, (axis,))

    def matmul(self, a: Node, b: Node) -> Node:
        if self.half:
            a, b = self.cast(a, HALF), self.cast(b, HALF)
        front = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        shape = (*front, a.shape[-2], b.shape[-1])
        rank, lead = len(shape), None
        x = None if a.lead is None else (a.lead[0] + rank - a.ndim, a.lead[1])
        y = None if b.lead is None else (b.lead[0] + rank - b.ndim, b.lead[1])
        if x is not None and y is not None:
            lead = x if x == y and x[0] < rank - 2 else None
        elif x is not None and x[0] != rank - 1:
            lead = x if x[0] == rank - 2 or alone(b, x[0] - rank) else None
        elif y is not None and y[0] != rank - 2:
            lead = y if y[0] == rank - 1 or alone(a, y[0] - rank) else None
        order = sorted(range(rank), key=lambda k: -b.strides[k]) if b.ndim == rank else []
        if lead is None or lead[0] != 0 or order[:1] != [0] or order[-1:] != [rank - 1] \
                or order == [*range(rank)] or 0 in b.strides:  # fmt: skip
            return self.node("matmul", (a, b), shape, a.kind, lead)
        # In memory the heads of a position lie side by side, as in b, because they will be joined
        # again. The node is that memory; its attribute says how the product is laid into it.
        laid = tuple(shape[k] for k in order)
        node = self.node("matmul", (a, b), laid, a.kind, lead, ("laid", *order))
        return self.permute_dims(node, np.argsort(order).tolist())

    # -- others ------------------------------------------------------------------------------------

    def asarray(self, a: Any, dtype: Any = None, device: Any = None) -> Node:
        if isinstance(a, Node):
            return a
        kind = {"float": np.float64, "int64": np.int64, "bool": np.bool_}.get(dtype)
        self.constants.append(a := np.asarray(a, dtype=kind))  # kept, so that its id is not reused
        return self.constant(a)

    def isdtype(self, dtype: str, kind: str) -> Any:
        return dtype == "float"


def alone(a: Node, axis: int) -> bool:
    """Whether an array has a single entry along an axis, counted from the end."""
    return a.ndim < -axis or a.shape[axis] == 1


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable the garbage collector, which would visit every node again and again."""
    going = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if going:
            gc.enable()
