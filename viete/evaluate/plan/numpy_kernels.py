"""Kernels on NumPy arrays: for each operation, a function that prepares its call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from viete.evaluate.backends import within
from viete.evaluate.greatest import greatest
from viete.evaluate.plan.kernels import (
    SMALLEST,
    Call,
    Prepare,
    check_targets,
    inside,
    sequence,
    whole,
)
from viete.notation.lexer import ELEMENTARY


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
            check_targets(t, p.shape[-1])
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
            inside = (t >= 0) & (t < out.shape[-1])  # -100 is not a target
            out[(*places, np.where(inside, t, 0))] -= inside

        return call

    def gathered(out: Any, args: Any, attrs: Any) -> Call:
        def call() -> None:
            rows, places = within(args[0], args[1], len(out))
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


def erf(z: Any, out: Any = None) -> Any:
    """The error function of a NumPy array."""
    from scipy.special import erf as function  # slow to import: only where it is needed

    return function(z, out=out)


__all__ = ["numpy_kernels"]
