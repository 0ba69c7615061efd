"""Entry-by-entry primitives, and fast versions of named functions.

A fast version computes what the definition in algebra/functions.md says, in fewer passes over
memory and without overflow; tests/laws/test_fast.py holds each to its definition. It returns None
where it does not apply. On NumPy, and on PyTorch without gradients, an array that nobody else holds
is written in place.
"""

from __future__ import annotations

import math
from fractions import Fraction
from operator import iadd, imul, isub, itruediv
from typing import TYPE_CHECKING, Any

import numpy as np

from viete.analysis.kinds import LONG, Interval
from viete.evaluate.labelled import COL, ROW, Array, Value, expand
from viete.notation.lexer import ELEMENTARY

if TYPE_CHECKING:
    from viete.evaluate.array import Arrays

BINARY = {
    "add": "add", "sub": "subtract", "had": "multiply", "times": "multiply", "div": "divide",
    "mod": "remainder", "pow": "pow", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal", "eq": "equal", "ne": "not_equal", "and": "logical_and",
    "or": "logical_or", "max": "maximum", "min": "minimum", "quotient": "floor_divide",
}  # fmt: skip
UNARY = {
    **{name: name for name in (*ELEMENTARY, "abs", "floor")}, "neg": "negative",
    "not": "logical_not",
}  # fmt: skip
LOGICAL = frozenset("lt le gt ge eq ne and or not".split())  # their results are no floats
OPERATORS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "had": lambda a, b: a * b,
    "times": lambda a, b: a * b, "div": lambda a, b: a / b, "mod": lambda a, b: a % b,
    "pow": lambda a, b: a**b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "quotient": lambda a, b: a // b,
}  # fmt: skip
IN_PLACE = {"add": iadd, "sub": isub, "had": imul, "times": imul, "div": itruediv}  # PyTorch


def whole_numbers(xp: Any) -> tuple[Any, Interval]:
    """The dtype of whole numbers, and what fits into it; JAX has 32 bits unless told otherwise."""
    if "jax" not in xp.__name__:
        return xp.int64, LONG
    from jax import dtypes

    dtype = dtypes.canonicalize_dtype(np.int64)
    most = int(np.iinfo(dtype).max)
    return dtype, (-most, most)


def free_of_gradients(xp: Any) -> bool:
    """PyTorch under no_grad: no array is kept for a derivative, so a fresh one may be reused."""
    if "torch" not in xp.__name__:
        return False
    import torch

    return not torch.is_grad_enabled()


def entrywise(xp: Any, op: str, args: list[Array], out: Array | None) -> Array:
    """One primitive on arrays that already line up; ``out``, if any, may take the result."""
    if op == "where":
        return xp.where(*like_arrays(xp, args))
    if op == "erf":
        return erf(xp, args[0])
    with np.errstate(all="ignore"):
        if out is not None and op in UNARY | BINARY and op not in LOGICAL:
            if isinstance(out, np.ndarray):
                return getattr(np, (UNARY | BINARY)[op])(*args, out=out)
            if op in IN_PLACE:
                return IN_PLACE[op](out, args[1])
        if op in OPERATORS:
            if op == "pow" and args[1] == 2 if not hasattr(args[1], "shape") else False:
                return args[0] * args[0]
            return OPERATORS[op](*args)
        if op in ("max", "min") and xp is not np:
            args = like_arrays(xp, args)
        return getattr(xp, (UNARY | BINARY)[op])(*args)


def like_arrays(xp: Any, args: list[Array]) -> list[Array]:
    """Plain numbers among arrays as arrays of the same type."""
    model = next((a for a in args if hasattr(a, "dtype") and a.dtype != xp.bool), None)
    if model is None or xp is np:
        return args

    def dtype(a: bool | int | float) -> Any:
        if isinstance(a, bool):
            return xp.bool
        # Among whole numbers (an argmax) only a whole number may take their type.
        fits = float(a).is_integer() or xp.isdtype(model.dtype, "real floating")
        return model.dtype if fits else None

    return [
        a if hasattr(a, "shape") else xp.asarray(a, dtype=dtype(a), device=model.device)
        for a in args
    ]


def erf(xp: Any, x: Array) -> Array:
    """The error function, which the array API standard lacks."""
    name = xp.__name__
    if "torch" in name:
        import torch

        return torch.erf(x)
    if "jax" in name:
        from jax.scipy.special import erf as jax_erf

        return jax_erf(x)
    from scipy.special import erf as scipy_erf

    return scipy_erf(x)


def owned(it: Arrays, v: Value) -> Array:
    """The value's array, to be written into on NumPy."""
    return v.array if v.fresh or not it.numpy else v.array.copy()


def softmax(it: Arrays, args: list[Value]) -> Value:
    """exp(z − max z) / Σ exp(z − max z): the same quotient without overflow."""
    v = args[0]
    xp, axis = it.xp, v.axes.index(COL)
    if "torch" in xp.__name__:
        return Value(v.array.softmax(dim=axis), v.axes, False, True)
    z = v.array
    top = xp.max(z, axis=axis, keepdims=True)
    if it.numpy:
        z = np.subtract(z, top, out=z if v.fresh else None)
        np.exp(z, out=z)
        z /= np.sum(z, axis=axis, keepdims=True)
    else:
        z = xp.exp(z - top)
        z = z / xp.sum(z, axis=axis, keepdims=True)
    return Value(z, v.axes, False, True)


def along(xp: Any, z: Array, axis: int) -> Array:
    """log Σ exp z with the greatest score taken out; ``axis`` is kept, of size 1."""
    if "torch" in xp.__name__:
        return z.logsumexp(axis, keepdim=True)
    with np.errstate(all="ignore"):
        top = xp.max(z, axis=axis, keepdims=True)
        top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))  # ∞ - ∞ is no number
        return top + xp.log(xp.sum(xp.exp(z - top), axis=axis, keepdims=True))


def logsumexp(it: Arrays, args: list[Value]) -> Value | None:
    """log Σ exp z without overflow: a number for each row."""
    if args[0].const:
        return None
    v = it.column(args[0])
    axis = v.axes.index(COL)
    out = it.xp.squeeze(along(it.xp, v.array, axis), axis=axis)
    return Value(out, v.axes[:axis] + v.axes[axis + 1 :], False, True)


def logsoftmax(it: Arrays, args: list[Value]) -> Value:
    """z − log Σ exp z: no logarithm is taken of a quotient that has become 0."""
    v = args[0]
    with np.errstate(invalid="ignore"):
        return Value(v.array - along(it.xp, v.array, v.axes.index(COL)), v.axes, False, True)


def cross_entropy(it: Arrays, args: list[Value]) -> Value | None:
    """Mean over positions with a target of log Σ exp z − z[t], with the largest score taken out."""
    z, t = args
    if ROW not in z.axes or t.const or z.const:
        return None
    row, t = z.relabel(ROW, "position"), t.relabel(COL, "position")
    none = it.entrywise("eq", [t, Value(Fraction(-100), (), True)])
    zero = Value(Fraction(0), (), True)
    picked = it.gathered(row, COL, it.entrywise("where", [none, zero, t]), 0)
    each = logsumexp(it, [row])
    assert each is not None
    each = it.entrywise("where", [none, zero, it.entrywise("sub", [each, picked])])
    there = it.xp.astype(~none.array, it.like.dtype)
    count = it.fold("sum", Value(there, none.axes), "position")
    return it.entrywise("div", [it.fold("sum", each, "position"), count])


def layer_norm(it: Arrays, args: list[Value]) -> Value | None:
    """As defined, with the centred row computed once."""
    z, gamma, beta, epsilon = args
    if epsilon.axes:  # a different one for each head
        return None
    xp, axis = it.xp, z.axes.index(COL)
    x = z.array - xp.mean(z.array, axis=axis, keepdims=True)
    variance = xp.mean(x * x, axis=axis, keepdims=True)
    x = divided(it, x, variance, epsilon)
    return scaled(it, Value(x, z.axes, False, True), gamma, beta)


def rms_norm(it: Arrays, args: list[Value]) -> Value | None:
    """γ z / sqrt(mean z² + ε), on NumPy in place where z is nobody else's."""
    z, gamma, epsilon = args
    if epsilon.axes:  # a different one for each head
        return None
    square = it.xp.mean(z.array * z.array, axis=z.axes.index(COL), keepdims=True)
    x = divided(it, owned(it, z), square, epsilon)
    return scaled(it, Value(x, z.axes, False, True), gamma, None)


def divided(it: Arrays, x: Array, square: Array, epsilon: Value) -> Array:
    """x / sqrt(square + ε)."""
    with np.errstate(all="ignore"):
        scale = it.xp.sqrt(square + it.reals(epsilon))
        if it.numpy:
            x /= scale
            return x
        return x / scale


def scaled(it: Arrays, x: Value, gamma: Value, beta: Value | None) -> Value:
    """γ x + β, without multiplying by 1 or adding 0."""
    if gamma.axes or gamma.array != 1:
        x = it.entrywise("had", [x, gamma])
    if beta is not None and (beta.axes or beta.array != 0):
        x = it.entrywise("add", [x, beta])
    return x


def relu(it: Arrays, args: list[Value]) -> Value:
    """max(0, x), in one pass."""
    v = args[0]
    if "torch" in it.xp.__name__:
        z = v.array.relu_() if v.fresh and it.writes else v.array.relu()
        return Value(z, v.axes, False, True)
    if it.numpy:
        return Value(np.maximum(v.array, 0, out=v.array if v.fresh else None), v.axes, False, True)
    return Value(it.xp.maximum(v.array, it.xp.zeros_like(v.array)), v.axes, False, True)


def gelu(it: Arrays, args: list[Value]) -> Value:
    """x (1 + erf(x / √2)) / 2, on NumPy in a single new array."""
    v = args[0]
    if "torch" in it.xp.__name__:
        from torch.nn.functional import gelu as torch_gelu

        return Value(torch_gelu(v.array), v.axes, False, True)
    if it.numpy and v.array.dtype in (np.float32, np.float64):
        from scipy.special import erf as scipy_erf

        half = v.array * np.asarray(math.sqrt(0.5), v.array.dtype)
        scipy_erf(half, out=half)
        half += 1
        half *= v.array
        half *= 0.5
        return Value(half, v.axes, False, True)
    x = v.array
    return Value(x * (1 + erf(it.xp, x * math.sqrt(0.5))) * 0.5, v.axes, False, True)


def gelu_tanh(it: Arrays, args: list[Value]) -> Value:
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, on NumPy in a single new array."""
    v = args[0]
    x = v.array
    if "torch" in it.xp.__name__:
        from torch.nn.functional import gelu as torch_gelu

        return Value(torch_gelu(x, approximate="tanh"), v.axes, False, True)
    inner = x * x
    inner *= 0.044715
    inner += 1
    inner *= x
    inner *= math.sqrt(2 / math.pi)
    inner = np.tanh(inner, out=inner) if it.numpy else it.xp.tanh(inner)
    inner += 1
    inner *= x
    inner *= 0.5
    return Value(inner, v.axes, False, True)


def sigmoid(it: Arrays, args: list[Value]) -> Value:
    """1 / (1 + exp(−x)); an exp that overflows gives the 0 it should."""
    v = args[0]
    with np.errstate(over="ignore"):
        return Value(1 / (1 + it.xp.exp(-v.array)), v.axes, False, True)


def silu(it: Arrays, args: list[Value]) -> Value:
    """x / (1 + exp(−x)): one quotient for the product of x and its sigmoid."""
    v = args[0]
    if "torch" in it.xp.__name__:
        from torch.nn.functional import silu as torch_silu

        return Value(torch_silu(v.array), v.axes, False, True)
    with np.errstate(over="ignore"):
        down = it.xp.exp(-v.array)
        down += 1
        if it.numpy:
            return Value(np.divide(v.array, down, out=down), v.axes, False, True)
        return Value(v.array / down, v.axes, False, True)


def causal(it: Arrays, args: list[Value]) -> Value:
    """The mask itself is constant: made once for each pair of sizes."""
    v = args[0]
    n, m = v.size(ROW), v.size(COL)
    if n == 1:  # the last position, which sees all
        return v
    key = ("hidden", n, m, it.kind)
    if key not in it.memo:
        hidden = np.arange(m)[None, :] > np.arange(n)[:, None] + (m - n)
        it.memo[key] = hidden if it.numpy else it.xp.asarray(hidden, device=it.like.device)
    hidden = expand(it.xp, it.memo[key], (ROW, COL), v.axes)
    if it.numpy:
        array = owned(it, v)
        np.copyto(array, -np.inf, where=hidden)
        return Value(array, v.axes, False, True)
    if "torch" in it.xp.__name__:
        fill = v.array.masked_fill_ if v.fresh and it.writes else v.array.masked_fill
        return Value(fill(hidden, -math.inf), v.axes, False, True)
    return Value(it.xp.where(hidden, -math.inf, v.array), v.axes, False, True)


FAST = {
    "softmax": softmax,
    "logsumexp": logsumexp,
    "logsoftmax": logsoftmax,
    "cross_entropy": cross_entropy,
    "LN": layer_norm,
    "RMSNorm": rms_norm,
    "ReLU": relu,
    "GELU": gelu,
    "GELU_tanh": gelu_tanh,
    "sigmoid": sigmoid,
    "SiLU": silu,
    "causal": causal,
}
OF_REALS = FAST.keys() - {"ReLU"}  # the greater of a whole number and 0 is a whole number
