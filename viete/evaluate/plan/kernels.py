"""Kernels: for each operation, a function that prepares its call, on NumPy and on PyTorch.

``prepare(out, args, attrs)`` gets arrays that stay in place, and returns the call that is made
again and again. If ``adds`` is set, the call adds to `out`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from viete.errors import VieteError
from viete.evaluate.greatest import greatest, greatest_in_torch
from viete.notation.lexer import ELEMENTARY

Call = Callable[[], Any]
Prepare = Callable[[Any, tuple[Any, ...], tuple[Any, ...]], Call]

SMALLEST = 1e-30  # of a probability whose logarithm is taken: float32 ends at 1e-38

# The arguments whose memory the result may take.
IN_PLACE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "max", "min"), (0, 1)),
    **dict.fromkeys(
        (*ELEMENTARY, "neg", "abs", "floor", "relu", "softmax", "softmax_back", "less_onehot",
         "relu_back", "masked", "gelu_back", "pow", "sigmoid"), (0,)),
    "where": (2,), "matmul": (2,),
}  # fmt: skip


def sequence(*calls: Call) -> Call:
    """Several calls combined into one."""

    def run() -> None:
        for call in calls:
            call()

    return run


class Misplaced(VieteError):
    """An index outside of an axis."""


def inside(out: Any, args: Any, attrs: Any) -> Call:
    """A copy of indices within an axis. The call raises Misplaced for one outside."""

    def call() -> None:
        low, high = int(args[0].min()), int(args[0].max())
        if low < 0 or high >= attrs[0]:
            wrong = low if low < 0 else high
            raise Misplaced(f"index {wrong} is outside 0 to {attrs[0] - 1}")
        out[...] = args[0]

    return call


def whole(out: Any, args: Any, attrs: Any) -> Call:
    """A copy of whole numbers. The call raises Misplaced for others."""

    def call() -> None:
        if bool((args[0] % 1 != 0).any()):
            raise Misplaced("an index must be a whole number, and this one is not")
        out[...] = args[0]

    return call


def erf(z: Any, out: Any = None) -> Any:
    """The error function of a NumPy array."""
    from scipy.special import erf as function  # slow to import: only where it is needed

    return function(z, out=out)


def numpy_kernels() -> dict[str, Prepare]:
    """Kernels on NumPy arrays; each writes into ``out``."""
    import numpy as np

    def ufunc(f: Callable[..., Any]) -> Prepare:
        return lambda out, args, attrs: partial(f, *args, out=out)

    def where(out: Any, args: Any, attrs: Any) -> Call:
        condition, a, b = args
        put = partial(np.copyto, out, a, where=condition)
        return put if out is b else sequence(partial(np.copyto, out, b), put)

    def reduction(f: Callable[..., Any]) -> Prepare:
        return lambda out, args, attrs: partial(f, args[0], axis=attrs[0], out=out)

    def matmul(out: Any, args: Any, attrs: Any) -> Call:
        return partial(np.matmul, args[0], args[1], out=out)

    def copy(out: Any, args: Any, attrs: Any) -> Call:
        return partial(np.copyto, out, args[0])

    def astype(out: Any, args: Any, attrs: Any) -> Call:
        return partial(np.copyto, out, args[0], casting="unsafe")

    def take(out: Any, args: Any, attrs: Any) -> Call:
        return partial(np.take, args[0], args[1], axis=attrs[0], out=out, mode="clip")

    def pick(out: Any, args: Any, attrs: Any) -> Call:
        return lambda: np.copyto(out, np.take_along_axis(args[0], args[1], axis=attrs[0]))

    def concat(out: Any, args: Any, attrs: Any) -> Call:
        return partial(np.concatenate, args, axis=attrs[0], out=out)

    def along(a: Any, axis: int, out: Any) -> Call:
        """The sum along an axis; along one of the last two as a product, which is faster."""
        if a.dtype == out.dtype and a.dtype.kind == "f" and axis >= a.ndim - 2:
            ones = np.ones(a.shape[axis], a.dtype)
            sides = (a, ones) if axis == a.ndim - 1 else (ones, a)
            return partial(np.matmul, *sides, out=out)
        return partial(np.add.reduce, a, axis=axis, dtype=out.dtype, out=out)

    def mean(out: Any, args: Any, attrs: Any) -> Call:
        count = out.dtype.type(args[0].shape[attrs[0]])
        return sequence(along(args[0], attrs[0], out), partial(np.divide, out, count, out=out))

    def total(out: Any, args: Any, attrs: Any) -> Call:
        return along(args[0], attrs[0], out)

    def logsumexp(out: Any, args: Any, attrs: Any) -> Call:
        z = args[0]
        powers, rows = np.empty(z.shape, z.dtype), np.empty((*z.shape[:-1], 1), z.dtype)
        top, most = rows[..., 0], np.finfo(z.dtype).max
        return sequence(
            partial(np.max, z, axis=-1, out=top),
            partial(np.clip, top, -most, most, out=top),  # ∞ - ∞ is no number
            partial(np.subtract, z, rows, out=powers),
            partial(np.exp, powers, out=powers),
            along(powers, powers.ndim - 1, out),
            partial(np.log, out, out=out),
            partial(np.add, out, top, out=out),
        )

    def largest(out: Any, args: Any, attrs: Any) -> Call:
        return lambda: np.copyto(out, greatest(args[0], attrs[0]))

    def softmax(out: Any, args: Any, attrs: Any) -> Call:
        z = args[0]
        rows = np.empty((*z.shape[:-1], 1), z.dtype)
        return sequence(
            partial(np.max, z, axis=-1, keepdims=True, out=rows),
            partial(np.subtract, z, rows, out=out),
            partial(np.exp, out, out=out),
            along(out, out.ndim - 1, rows[..., 0]),
            partial(np.divide, out, rows, out=out),
        )

    def softmax_back(out: Any, args: Any, attrs: Any) -> Call:
        g, y = args
        rows = np.empty((*y.shape[:-1], 1), y.dtype)
        return sequence(
            partial(np.vecdot, g, y, out=rows[..., 0]),
            partial(np.subtract, g, rows, out=out),
            partial(np.multiply, out, y, out=out),
        )

    def inner(out: Any, args: Any, attrs: Any) -> Call:
        a, b = args
        dot = partial(np.vecdot, a, b, out=out)
        if attrs[0] == 1:
            return dot
        return sequence(dot, partial(np.divide, out, out.dtype.type(attrs[0]), out=out))

    def normed(out: Any, args: Any, attrs: Any) -> Call:
        """(z − mean z) / sqrt(var z + ε), or z / sqrt(mean z² + ε)."""
        z, (epsilon, centred) = args[0], attrs
        rows, number = np.empty((*z.shape[:-1], 1), z.dtype), z.dtype.type
        row, count = rows[..., 0], number(z.shape[-1])
        first: list[Call] = []
        if centred:
            first = [
                along(z, z.ndim - 1, row),
                partial(np.divide, row, count, out=row),
                partial(np.subtract, z, rows, out=out),
            ]
            z = out
        return sequence(
            *first,
            partial(np.vecdot, z, z, out=row),
            partial(np.divide, row, count, out=row),
            partial(np.add, row, number(epsilon), out=row),
            partial(np.sqrt, row, out=row),
            partial(np.divide, z, rows, out=out),
        )

    def relu(out: Any, args: Any, attrs: Any) -> Call:
        return partial(np.maximum, args[0], 0, out=out)

    def relu_back(out: Any, args: Any, attrs: Any) -> Call:
        mask, bits = np.empty(args[1].shape, bool), f"i{out.itemsize}"
        # As whole numbers, since 0 times any of them is 0; 0 times a float NaN or ∞ is NaN.
        return sequence(
            partial(np.greater, args[1], 0, out=mask),
            partial(np.multiply, args[0].view(bits), mask, out=out.view(bits)),
        )

    def masked(out: Any, args: Any, attrs: Any) -> Call:
        array, hidden = args
        bits = f"i{out.itemsize}"  # two passes without a branch for each entry
        kept = np.where(hidden, 0, -1).astype(bits)
        filled = np.where(hidden, np.array(-np.inf, out.dtype).view(bits), 0).astype(bits)
        out = out.view(bits)
        return sequence(
            partial(np.bitwise_and, array.view(bits), kept, out=out),
            partial(np.bitwise_or, out, filled, out=out),
        )

    def nll(out: Any, args: Any, attrs: Any) -> Call:
        z, p, t = args
        places = np.empty((*t.shape, 1), t.dtype)

        def call() -> None:
            np.maximum(t, 0, out=places[..., 0])  # -100 is not a target
            picked = np.take_along_axis(p, places, axis=-1)[..., 0]
            if picked.size and picked.min() < SMALLEST:  # its logarithm has lost its digits
                top = z.max(axis=-1, keepdims=True)
                total = top[..., 0] + np.log(np.exp(z - top).sum(axis=-1))
                np.subtract(total, np.take_along_axis(z, places, axis=-1)[..., 0], out=out)
            else:
                np.negative(np.log(picked), out=out)
            out[t < 0] = 0

        return call

    def less_onehot(out: Any, args: Any, attrs: Any) -> Call:
        p, t = args
        places = np.ix_(*map(np.arange, t.shape))

        def call() -> None:
            if out is not p:
                np.copyto(out, p)
            out[(*places, np.maximum(t, 0))] -= t >= 0  # -100 is not a target

        return call

    def gathered(out: Any, args: Any, attrs: Any) -> Call:
        rows, places = args

        def call() -> None:
            order = np.argsort(places, kind="stable")
            sorted_places = places[order]
            starts = np.flatnonzero(np.diff(sorted_places, prepend=-1))
            out[sorted_places[starts]] += np.add.reduceat(rows[order], starts, axis=0)

        return call

    def placed(out: Any, args: Any, attrs: Any) -> Call:
        axis, first = attrs
        inside = out[(slice(None),) * axis + (slice(first, first + args[0].shape[axis]),)]
        return sequence(partial(out.fill, 0), partial(np.copyto, inside, args[0]))

    def gelu_tanh(out: Any, args: Any, attrs: Any) -> Call:
        """z (1 + tanh(√(2/π) (z + 0.044715 z³))) / 2, in one array."""
        z, number = args[0], args[0].dtype.type
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

    def gelu(out: Any, args: Any, attrs: Any) -> Call:
        """z (1 + erf(z / √2)) / 2, in one array."""
        z, number = args[0], args[0].dtype.type
        return sequence(
            partial(np.multiply, z, number(0.5**0.5), out=out),
            partial(erf, out, out=out),
            partial(np.add, out, number(1), out=out),
            partial(np.multiply, out, z, out=out),
            partial(np.multiply, out, number(0.5), out=out),
        )

    def sigmoid(out: Any, args: Any, attrs: Any) -> Call:
        """1 / (1 + exp(−z)); an overflowing exp gives the correct 0."""
        one = out.dtype.type(1)
        return sequence(*exp_of_negative(out, args[0]), partial(np.divide, one, out, out=out))

    def silu(out: Any, args: Any, attrs: Any) -> Call:
        """z / (1 + exp(−z))."""
        return sequence(*exp_of_negative(out, args[0]), partial(np.divide, args[0], out, out=out))

    def exp_of_negative(out: Any, z: Any) -> tuple[Call, ...]:
        """1 + exp(−z)."""
        return (
            partial(np.negative, z, out=out),
            partial(np.exp, out, out=out),
            partial(np.add, out, out.dtype.type(1), out=out),
        )

    names = {"sub": "subtract", "mul": "multiply", "div": "divide", "mod": "remainder",
             "pow": "power", "neg": "negative", "max": "maximum", "min": "minimum", "lt": "less",
             "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
             "ne": "not_equal", "and": "logical_and", "or": "logical_or", "not": "logical_not",
             "quotient": "floor_divide"}  # fmt: skip
    plain = {*ELEMENTARY, "add", "abs", "floor"} - {"erf"}
    return {
        **{k: ufunc(getattr(np, v)) for k, v in names.items()},
        **{k: ufunc(getattr(np, k)) for k in plain},
        **{k: reduction(getattr(np, k)) for k in ("amax", "amin", "argmax")},
        "sum": total, "mean": mean, "inner": inner, "erf": ufunc(erf), "where": where,
        "inside": inside, "whole": whole,
        "matmul": matmul, "copy": copy, "astype": astype, "logsumexp": logsumexp,
        "take": take, "pick": pick, "concat": concat, "softmax": softmax,
        "softmax_back": softmax_back, "relu": relu, "relu_back": relu_back, "masked": masked,
        "nll": nll, "less_onehot": less_onehot, "gathered": gathered, "placed": placed,
        "sigmoid": sigmoid, "greatest": largest, "silu": silu, "gelu": gelu, "gelu_tanh": gelu_tanh,
        "normed": normed,
    }  # fmt: skip


def torch_kernels() -> dict[str, Prepare]:
    """Kernels on PyTorch tensors; each writes into ``out``."""
    import torch

    aten = torch.ops.aten

    numpys = numpy_kernels()

    def numpys_own(name: str, own: Prepare) -> Prepare:
        """NumPy's kernel, which is faster, on CPU float32 and float64 tensors; else ``own``."""

        def prepare(out: Any, args: Any, attrs: Any) -> Call:
            arrays = [a for a in (out, *args) if isinstance(a, torch.Tensor)]
            there = (torch.float32, torch.float64)
            if any(a.device.type != "cpu" or a.dtype not in there for a in arrays):
                return own(out, args, attrs)
            seen = tuple(a.numpy() if isinstance(a, torch.Tensor) else a for a in args)
            return numpys[name](out.numpy(), seen, attrs)

        return prepare

    def tensor(a: Any, args: Any, out: Any) -> Any:
        """A plain number as a tensor of the other arguments' dtype."""
        if isinstance(a, torch.Tensor):
            return a
        kinds = [x.dtype for x in args if isinstance(x, torch.Tensor) and x.is_floating_point()]
        if not kinds and out.is_floating_point():
            kinds = [out.dtype]
        return torch.tensor(a, dtype=kinds[0] if kinds else None, device=out.device)

    def ufunc(f: Callable[..., Any]) -> Prepare:
        """An operation that accepts a plain number as second argument, but not as first."""
        return lambda out, args, attrs: partial(f, tensor(args[0], args, out), *args[1:], out=out)

    def strict(f: Callable[..., Any]) -> Prepare:
        return lambda out, args, attrs: partial(f, *(tensor(a, args, out) for a in args), out=out)

    def where(out: Any, args: Any, attrs: Any) -> Call:
        condition, a, b = args
        if isinstance(condition, bool):
            return partial(out.copy_, tensor(a if condition else b, args, out))
        if isinstance(a, float) and out is b:
            return partial(out.masked_fill_, condition, a)
        rest = [tensor(x, args, out) for x in (a, b)]
        return partial(torch.where, condition, *rest, out=out)

    def all_at_once(out: Any, args: Any, attrs: Any) -> Call:
        return partial(torch.matmul, *args, out=out)

    def inner(out: Any, args: Any, attrs: Any) -> Call:
        dot = partial(torch.linalg.vecdot, *args, out=out)
        return dot if attrs[0] == 1 else sequence(dot, partial(out.div_, attrs[0]))

    def normed(out: Any, args: Any, attrs: Any) -> Call:
        """(z − mean z) / sqrt(var z + ε), or z / sqrt(mean z² + ε)."""
        z, (epsilon, centred) = args[0], attrs

        def call() -> None:
            x = z - z.mean(-1, keepdim=True) if centred else z
            torch.div(x, x.square().mean(-1, keepdim=True).add_(epsilon).sqrt_(), out=out)

        return call

    def matmul(out: Any, args: Any, attrs: Any) -> Call:
        scale, more = attrs[0] if attrs else 1, 1 if len(args) == 3 else 0
        a, b, c = (*args, out)[:3]  # the product is added to c, if given
        while a.ndim == b.ndim == out.ndim > 3 and out.shape[0] == 1:
            a, b, c, out = a[0], b[0], c[0], out[0]
        if a.ndim == b.ndim == out.ndim in (2, 3):
            f = torch.addmm if a.ndim == 2 else torch.baddbmm
            return partial(f, c, a, b, beta=more, alpha=scale, out=out)
        if more:
            return lambda: torch.add(c, torch.matmul(a, b), alpha=scale, out=out)
        # NumPy computes the products one by one; PyTorch first copies both sides.
        product = numpys_own("matmul", all_at_once)(out, (a, b), ())
        return product if scale == 1 else sequence(product, partial(out.mul_, scale))

    def reduction(f: Callable[..., Any]) -> Prepare:
        return lambda out, args, attrs: partial(f, args[0], attrs[0], out=out)

    def total(out: Any, args: Any, attrs: Any) -> Call:
        return partial(torch.sum, args[0], attrs[0], dtype=out.dtype, out=out)

    def copy(out: Any, args: Any, attrs: Any) -> Call:
        return partial(out.copy_, args[0])

    def take(out: Any, args: Any, attrs: Any) -> Call:
        return partial(torch.index_select, args[0], attrs[0], args[1], out=out)

    def pick(out: Any, args: Any, attrs: Any) -> Call:
        return partial(torch.gather, args[0], attrs[0], args[1], out=out)

    def concat(out: Any, args: Any, attrs: Any) -> Call:
        return partial(torch.cat, args, attrs[0], out=out)

    def largest(out: Any, args: Any, attrs: Any) -> Call:
        return lambda: out.copy_(greatest_in_torch(args[0], attrs[0]))

    def softmax(out: Any, args: Any, attrs: Any) -> Call:
        return partial(torch.softmax, args[0], -1, out=out)

    def softmax_back(out: Any, args: Any, attrs: Any) -> Call:
        g, y = args
        return partial(aten._softmax_backward_data.out, g, y, -1, y.dtype, grad_input=out)

    def relu(out: Any, args: Any, attrs: Any) -> Call:
        return partial(torch.clamp_min, args[0], 0, out=out)

    def relu_back(out: Any, args: Any, attrs: Any) -> Call:
        g, y = args
        zero = torch.zeros((), dtype=out.dtype, device=out.device)
        quick = partial(aten.threshold_backward.grad_input, g, y, 0, grad_input=out)
        exact = lambda: torch.where(y > 0, g, zero, out=out)  # noqa: E731
        if out.device.type != "cpu":
            return exact
        # The first treats NaN as greater than 0; the second takes 20 times as long on a CPU.
        return lambda: exact() if bool(y.sum().isnan()) else quick()

    def masked(out: Any, args: Any, attrs: Any) -> Call:
        array, hidden = args
        fill = torch.tensor(-torch.inf, dtype=out.dtype, device=out.device)
        if out.device.type != "cpu":
            return partial(torch.where, hidden, fill, array, out=out)
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[out.itemsize]
        kept = torch.where(hidden, 0, -1).to(bits)  # two passes without a branch for each entry
        filled = torch.where(hidden, fill.view(bits), 0).to(bits)
        out = out.view(bits)
        return sequence(
            partial(torch.bitwise_and, array.view(bits), kept, out=out),
            partial(torch.bitwise_or, out, filled, out=out),
        )

    def nll(out: Any, args: Any, attrs: Any) -> Call:
        z, p, t = args

        def from_scores(places: Any) -> None:
            wide = z.float() if z.itemsize < 4 else z
            out.copy_(wide.logsumexp(-1).sub_(wide.gather(-1, places)[..., 0]))

        def call() -> None:
            places = t.clamp_min(0)[..., None]  # -100 is not a target
            picked = p.gather(-1, places)[..., 0] if on_cpu else None
            if (
                picked is None or float(picked.min()) < SMALLEST
            ):  # its logarithm has lost its digits
                from_scores(places)
            else:
                out.copy_((picked.float() if picked.itemsize < 4 else picked).log_().neg_())
            out.masked_fill_(t < 0, 0)

        on_cpu = z.device.type == "cpu"

        return call

    def less_onehot(out: Any, args: Any, attrs: Any) -> Call:
        p, t = args

        def add() -> None:
            less = (t < 0).to(out.dtype).sub_(1)  # -100 is not a target
            out.scatter_add_(-1, t.clamp_min(0)[..., None], less[..., None])

        return add if out is p else sequence(partial(out.copy_, p), add)

    def gathered(out: Any, args: Any, attrs: Any) -> Call:
        rows, places = args
        if out.device.type == "cpu":  # one row after the other, in the same order every time
            return partial(out.index_add_, 0, places, rows)
        count = out.shape[0]
        return lambda: out.add_(aten.embedding_dense_backward(rows, places, count, -1, False))

    def placed(out: Any, args: Any, attrs: Any) -> Call:
        axis, first = attrs
        inside = out.narrow(axis, first, args[0].shape[axis])
        return sequence(out.zero_, partial(inside.copy_, args[0]))

    def gelu_back(out: Any, args: Any, attrs: Any) -> Call:
        return partial(aten.gelu_backward.grad_input, args[0], args[1], grad_input=out)

    def gelu(approximate: str) -> Prepare:
        return lambda out, args, attrs: partial(
            aten.gelu.out, args[0], approximate=approximate, out=out
        )

    names = {"max": "maximum", "min": "minimum", "and": "logical_and", "or": "logical_or",
             "not": "logical_not"}  # fmt: skip
    plain = (*ELEMENTARY, *"add sub mul div pow neg abs floor sigmoid lt le gt ge eq ne".split())
    return {
        **{k: strict(getattr(torch, v)) for k, v in names.items()},
        **{k: ufunc(getattr(torch, k)) for k in plain},
        **{k: reduction(getattr(torch, k)) for k in ("amax", "amin", "argmax")},
        "sum": numpys_own("sum", total), "mean": numpys_own("mean", reduction(torch.mean)),
        "inside": inside, "whole": whole,
        "inner": numpys_own("inner", inner), "normed": normed, "where": where,
        "matmul": matmul, "copy": copy, "astype": copy, "take": take,
        "logsumexp": reduction(torch.logsumexp),
        "mod": ufunc(torch.remainder), "quotient": ufunc(torch.floor_divide),
        "pick": pick, "concat": concat, "softmax": softmax, "softmax_back": softmax_back,
        "relu": relu, "relu_back": relu_back, "masked": masked, "nll": nll,
        "less_onehot": less_onehot, "greatest": largest,
        "gathered": gathered, "placed": placed,
        "gelu_back": gelu_back, "gelu": gelu("none"), "gelu_tanh": gelu("tanh"),
        "silu": lambda out, args, attrs: partial(aten.silu.out, args[0], out=out),
    }  # fmt: skip
