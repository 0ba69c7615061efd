"""Backends: what each array library offers beyond the array API standard.

A `Backend` uses the standard only. `NumPy`, `Torch` and `Jax` add what their library does better:
in-place operations, fused passes, kernels. A method returns None if its library has nothing for it.
Axes are numbers here; `fast` knows which axis is meant.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_jax_array, is_numpy_array

from viete.analysis.kinds import LONG, Interval
from viete.evaluate.greatest import greatest, greatest_in_torch
from viete.evaluate.labelled import Array, device_of, is_float, traced
from viete.notation.lexer import ELEMENTARY

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
TRUTHS = frozenset("lt le gt ge eq ne and or not".split())  # their results are not floats
OPERATORS = {
    **{op: getattr(operator, op) for op in "add sub mod pow lt le gt ge eq ne".split()},
    "had": operator.mul, "times": operator.mul, "div": operator.truediv, "and": operator.and_,
    "or": operator.or_, "quotient": operator.floordiv,
}  # fmt: skip
IN_PLACE = {"add": operator.iadd, "sub": operator.isub, "had": operator.imul,
            "times": operator.imul, "div": operator.itruediv}  # fmt: skip


class Backend:
    """The array API standard. ``writes``: an array without another owner may be overwritten."""

    writes = False
    within: Interval = LONG  # what fits into its whole numbers

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        self.int64 = xp.int64

    def transforming(self) -> bool:
        """Whether a function is being transformed now."""
        return False

    # -- primitives --------------------------------------------------------------------------------

    def entrywise(self, op: str, args: list[Array], out: Array | None = None) -> Array:
        """One primitive on aligned arrays; ``out``, if given, may take the result."""
        if op == "where":
            return self.xp.where(*self.alike(args))
        if op == "erf":
            return self.erf(args[0])
        with np.errstate(all="ignore"):
            if out is not None and op not in TRUTHS:
                found = self.into(out, op, args)
                if found is not None:
                    return found
            if op == "pow" and not hasattr(args[1], "shape") and args[1] == 2:
                return args[0] * args[0]
            if op in OPERATORS:
                return OPERATORS[op](*args)
            if op in ("max", "min"):
                args = self.alike(args)
            return getattr(self.xp, (UNARY | BINARY)[op])(*args)

    def into(self, out: Array, op: str, args: list[Array]) -> Array | None:
        """A primitive written into ``out``, which is one of its arguments; None if impossible."""
        return None

    def alike(self, args: list[Array]) -> list[Array]:
        """Arguments with plain numbers turned into arrays of the same type as the arrays."""
        xp = self.xp
        model = next((a for a in args if hasattr(a, "dtype") and a.dtype != xp.bool), None)
        if model is None:
            return args

        def dtype(a: bool | int | float) -> Any:
            if isinstance(a, bool):
                return xp.bool
            # Among whole numbers (an argmax) only a whole number may take their type.
            fits = float(a).is_integer() or xp.isdtype(model.dtype, "real floating")
            return model.dtype if fits else None

        return [
            a if hasattr(a, "shape") else xp.asarray(a, dtype=dtype(a), device=device_of(model))
            for a in args
        ]

    def erf(self, x: Array) -> Array:
        """The error function, which the standard lacks."""
        from scipy.special import erf

        return erf(x)

    def is_real(self, array: Array) -> bool:
        """Whether an array's entries are floating-point numbers."""
        return is_float(array)

    # -- rows --------------------------------------------------------------------------------------

    def softmax(self, z: Array, axis: int, fresh: bool) -> Array:
        """exp(z − max z) / Σ exp(z − max z): the definition's quotient without overflow."""
        z = self.xp.exp(z - self.xp.max(z, axis=axis, keepdims=True))
        return z / self.xp.sum(z, axis=axis, keepdims=True)

    def logsumexp(self, z: Array, axis: int) -> Array:
        """log Σ exp z, with the greatest score subtracted first; ``axis`` is kept, with size 1."""
        xp = self.xp
        with np.errstate(all="ignore"):
            if not z.shape[axis]:  # no entry is the greatest
                return xp.log(xp.sum(z, axis=axis, keepdims=True))
            top = xp.max(z, axis=axis, keepdims=True)
            top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))  # ∞ - ∞ is no number
            return top + xp.log(xp.sum(xp.exp(z - top), axis=axis, keepdims=True))

    def normed(self, z: Array, axis: int, epsilon: Any, centred: bool, fresh: bool) -> Array | None:
        """Each row divided by its standard deviation, or by its root mean square."""
        if centred:
            z = z - self.xp.mean(z, axis=axis, keepdims=True)
        square = self.xp.mean(z * z, axis=axis, keepdims=True)
        with np.errstate(all="ignore"):
            scale = self.xp.sqrt(square + epsilon)
            return z / scale

    def length(self, z: Array, axis: int) -> Array | None:
        """The square root of the sum of squares."""
        return None

    def held(self, z: Array) -> Array:
        """The array, with its derivative in the library stopped."""
        return z

    def greatest(self, z: Array, axis: int, k: int) -> Array | None:
        """The k greatest entries along an axis, the others 0; None if the library has no method."""
        return None

    def triangular(self, array: Array) -> Array | None:
        """R of the decomposition Q R, Q with orthonormal columns; None if the library has none."""
        return None

    def dots(self, xp: Any, x: Array, y: Array) -> Array:
        """The sum of products along the last axis, row by row, in the library ``xp``."""
        return xp.matmul(x[..., None, :], y[..., None])[..., 0, 0]

    def take(self, array: Array, places: Array, axis: int) -> Array:
        """Members of an axis at a vector of indices."""
        return self.xp.take(array, places, axis=axis)

    def masked(self, z: Array, hidden: Array, fresh: bool) -> Array:
        """The array with −∞ at hidden entries."""
        return self.xp.where(hidden, -math.inf, z)

    # -- entries -----------------------------------------------------------------------------------

    def relu(self, x: Array, fresh: bool) -> Array:
        """max(0, x), in one pass."""
        return self.xp.maximum(x, self.xp.zeros_like(x))

    def gelu(self, x: Array, fresh: bool) -> Array | None:
        """x (1 + erf(x / √2)) / 2."""
        return x * (1 + self.erf(x * math.sqrt(0.5))) * 0.5

    def gelu_tanh(self, x: Array, fresh: bool) -> Array | None:
        """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2."""
        inner = (x * x * 0.044715 + 1) * x * math.sqrt(2 / math.pi)
        return (self.xp.tanh(inner) + 1) * x * 0.5

    def sigmoid(self, x: Array, fresh: bool) -> Array:
        """1 / (1 + exp(−x)); an overflowing exp gives the correct 0."""
        with np.errstate(over="ignore"):
            return 1 / (1 + self.xp.exp(-x))

    def silu(self, x: Array, fresh: bool) -> Array | None:
        """x / (1 + exp(−x)): one quotient instead of the product of x and its sigmoid."""
        with np.errstate(over="ignore"):
            return x / (self.xp.exp(-x) + 1)

    def softplus(self, x: Array, fresh: bool) -> Array:
        """log(1 + exp(x)) as max(0, x) + log(1 + exp(−|x|)), which does not overflow."""
        below = self.entrywise("exp", [self.entrywise("neg", [self.entrywise("abs", [x])])])
        above = self.entrywise("log", [self.entrywise("add", [below, 1.0])])
        return self.entrywise("add", [self.relu(x, False), above])

    # -- places ------------------------------------------------------------------------------------

    def add_rows(self, rows: Array, places: Array, count: int) -> Array:
        """An array of ``count`` rows, each the sum of the rows assigned to it; others are left."""
        out = self.xp.zeros((count, rows.shape[1]), dtype=rows.dtype)
        # JAX drops rows beyond the end, and would count negative places from it.
        return out.at[self.xp.where(places < 0, count, places)].add(rows)

    def padded(self, y: Array, axis: int, first: int, count: int) -> Array | None:
        """An array padded with zeros along an axis to size ``count``; it begins at ``first``."""
        return None

    def equal(self, t: Array, count: int) -> Array:
        """Whether each entry equals 0, 1, …, ``count`` − 1, along a new last axis."""
        places = self.xp.arange(count, device=getattr(t, "device", None))
        return self.xp.astype(t[..., None] == places, self.int64)

    # -- derivatives -------------------------------------------------------------------------------

    def softmax_back(self, g: Array, y: Array) -> Array | None:
        """y ⊙ (g − Σ g ⊙ y) along the last axis."""
        return None

    def relu_back(self, g: Array, y: Array) -> Array | None:
        """g where y > 0, else 0."""
        return None

    def gelu_back(self, g: Array, z: Array) -> Array | None:
        """g times the derivative of GELU at z."""
        return None

    def less_onehot(self, p: Array, t: Array) -> Array | None:
        """p less 1 at the target t of each row, in place if possible; −100 is no target."""
        return None


class NumPy(Backend):
    """NumPy, in place wherever allowed."""

    writes = True

    def greatest(self, z: Array, axis: int, k: int) -> Array:
        return np.moveaxis(greatest(np.moveaxis(z, axis, -1), k), -1, axis)

    def into(self, out: Array, op: str, args: list[Array]) -> Array | None:
        return getattr(np, (UNARY | BINARY)[op])(*args, out=out)

    def alike(self, args: list[Array]) -> list[Array]:
        return args

    def softmax(self, z: Array, axis: int, fresh: bool) -> Array:
        z = np.subtract(z, np.max(z, axis=axis, keepdims=True), out=z if fresh else None)
        np.exp(z, out=z)
        z /= np.sum(z, axis=axis, keepdims=True)
        return z

    def normed(self, z: Array, axis: int, epsilon: Any, centred: bool, fresh: bool) -> Array | None:
        if centred:
            z, fresh = z - np.mean(z, axis=axis, keepdims=True), True
        square = np.mean(z * z, axis=axis, keepdims=True)
        with np.errstate(all="ignore"):
            return np.divide(z, np.sqrt(square + epsilon), out=z if fresh else None)

    def masked(self, z: Array, hidden: Array, fresh: bool) -> Array:
        out = z if fresh else z.copy()
        np.copyto(out, -np.inf, where=hidden)
        return out

    def triangular(self, array: Array) -> Array | None:
        exact = array.dtype in (np.float32, np.float64)
        return np.linalg.qr(array, mode="r") if exact else None

    def relu(self, x: Array, fresh: bool) -> Array:
        return np.maximum(x, 0, out=x if fresh else None)

    def gelu(self, x: Array, fresh: bool) -> Array | None:
        if x.dtype not in (np.float32, np.float64):
            return super().gelu(x, fresh)
        from scipy.special import erf

        out = x * np.asarray(math.sqrt(0.5), x.dtype)
        erf(out, out=out)
        out += 1
        out *= x
        out *= 0.5
        return out

    def gelu_tanh(self, x: Array, fresh: bool) -> Array | None:
        out = x * x
        out *= 0.044715
        out += 1
        out *= x
        out *= math.sqrt(2 / math.pi)
        np.tanh(out, out=out)
        out += 1
        out *= x
        out *= 0.5
        return out

    def silu(self, x: Array, fresh: bool) -> Array | None:
        with np.errstate(over="ignore"):
            down = np.exp(-x)
            down += 1
            return np.divide(x, down, out=down)

    def softplus(self, x: Array, fresh: bool) -> Array:
        return np.logaddexp(x, 0, out=x if fresh else None)

    def add_rows(self, rows: Array, places: Array, count: int) -> Array:
        out = np.zeros((count, rows.shape[1]), dtype=rows.dtype)
        rows, places = within(rows, places, count)
        np.add.at(out, places, rows)
        return out

    def padded(self, y: Array, axis: int, first: int, count: int) -> Array | None:
        return among_zeros(self.xp, y, axis, first, count)

    def softmax_back(self, g: Array, y: Array) -> Array | None:
        out = g * y
        total = np.sum(out, axis=-1, keepdims=True)
        np.subtract(g, total, out=out)
        out *= y
        return out

    def relu_back(self, g: Array, y: Array) -> Array | None:
        bits = f"i{g.itemsize}"  # as whole numbers, 0 times any number is 0, also for NaN
        return np.multiply(g.view(bits), y > 0, dtype=bits).view(g.dtype)

    def less_onehot(self, p: Array, t: Array) -> Array | None:
        return without_targets(self.xp, p, t, np.arange(t.size))


class Torch(Backend):
    """PyTorch; under ``no_grad`` no array is kept for a derivative, and fresh arrays are reused."""

    def __init__(self, xp: Any) -> None:
        import torch

        super().__init__(xp)
        self.writes = not (torch.is_grad_enabled() or self.transforming())

    def transforming(self) -> bool:
        """Whether ``torch.func`` transforms a function, or tangents are carried along."""
        from torch._C import _functorch
        from torch.autograd import forward_ad

        return forward_ad._current_level >= 0 or _functorch.maybe_current_level() is not None

    def into(self, out: Array, op: str, args: list[Array]) -> Array | None:
        return IN_PLACE[op](out, args[1]) if op in IN_PLACE else None

    def erf(self, x: Array) -> Array:
        return x.erf()

    def softmax(self, z: Array, axis: int, fresh: bool) -> Array:
        return z.softmax(dim=axis)

    def logsumexp(self, z: Array, axis: int) -> Array:
        return z.logsumexp(axis, keepdim=True)

    def length(self, z: Array, axis: int) -> Array | None:
        return self.xp.linalg.vector_norm(z, axis=axis)

    def held(self, z: Array) -> Array:
        return z.detach()

    def greatest(self, z: Array, axis: int, k: int) -> Array:
        return greatest_in_torch(z.movedim(axis, -1), k).movedim(-1, axis)

    def triangular(self, array: Array) -> Array | None:
        exact = array.dtype in (self.xp.float32, self.xp.float64)
        return self.xp.linalg.qr(array, mode="r")[1] if exact else None

    def dots(self, xp: Any, x: Array, y: Array) -> Array:
        return (x * y).sum(-1)  # its products of many small matrices take four times as long

    def take(self, array: Array, places: Array, axis: int) -> Array:
        if axis and array.stride(axis) == max(array.stride()):  # as the columns of W^T: whole rows
            return array.movedim(axis, 0).index_select(0, places).movedim(0, axis)
        return self.xp.take(array, places, axis=axis)

    def masked(self, z: Array, hidden: Array, fresh: bool) -> Array:
        fill = z.masked_fill_ if fresh and self.writes else z.masked_fill
        return fill(hidden, -math.inf)

    def relu(self, x: Array, fresh: bool) -> Array:
        return x.relu_() if fresh and self.writes else x.relu()

    def gelu(self, x: Array, fresh: bool) -> Array | None:
        from torch.nn.functional import gelu

        return gelu(x)

    def gelu_tanh(self, x: Array, fresh: bool) -> Array | None:
        from torch.nn.functional import gelu

        return gelu(x, approximate="tanh")

    def silu(self, x: Array, fresh: bool) -> Array | None:
        from torch.nn.functional import silu

        return silu(x)

    def softplus(self, x: Array, fresh: bool) -> Array:
        from torch.nn.functional import softplus

        return softplus(x, threshold=40)

    def add_rows(self, rows: Array, places: Array, count: int) -> Array:
        # Rows assigned to no place go to one that is dropped, also while they are transformed.
        spare = self.xp.where((places >= 0) & (places < count), places, count)
        return rows.new_zeros((count + 1, rows.shape[1])).index_add_(0, spare, rows)[:count]

    def padded(self, y: Array, axis: int, first: int, count: int) -> Array | None:
        return among_zeros(self.xp, y, axis, first, count) if self.writes else None

    def softmax_back(self, g: Array, y: Array) -> Array | None:
        from torch import ops

        return ops.aten._softmax_backward_data(g, y, -1, y.dtype)

    def relu_back(self, g: Array, y: Array) -> Array | None:
        if not self.writes or y.device.type != "cpu" or bool(y.sum().isnan()):
            return None  # the kernel treats NaN as greater than 0
        from torch import ops

        return ops.aten.threshold_backward(g, y, 0)

    def gelu_back(self, g: Array, z: Array) -> Array | None:
        from torch import ops

        return ops.aten.gelu_backward(g, z)

    def less_onehot(self, p: Array, t: Array) -> Array | None:
        if not self.writes:
            return None
        return without_targets(self.xp, p, t, self.xp.arange(t.numel(), device=p.device))


class Jax(Backend):
    """JAX, whose whole numbers have 32 bits by default."""

    def __init__(self, xp: Any) -> None:
        from jax import dtypes

        super().__init__(xp)
        self.int64 = dtypes.canonicalize_dtype(np.int64)
        most = int(np.iinfo(self.int64).max)
        self.within = -most, most

    def held(self, z: Array) -> Array:
        import jax

        return jax.lax.stop_gradient(z)

    def transforming(self) -> bool:
        """Whether ``jax.jit`` traces a function, which traces constants as well."""
        return traced(self.xp.zeros(()))

    def erf(self, x: Array) -> Array:
        from jax.scipy.special import erf

        return erf(x)


def backend_of(like: Array) -> Backend:
    """The backend of an array's library."""
    xp = array_namespace(like)
    if is_numpy_array(like):
        return NumPy(xp)
    if is_jax_array(like):
        return Jax(xp)
    return Torch(xp) if "torch" in xp.__name__ else Backend(xp)


def among_zeros(xp: Any, y: Array, axis: int, first: int, count: int) -> Array:
    """An array padded with zeros along an axis."""
    shape = (*y.shape[:axis], count, *y.shape[axis + 1 :])
    out = xp.zeros(shape, dtype=y.dtype, device=y.device)
    out[(*(slice(None),) * axis, slice(first, first + y.shape[axis]))] = y
    return out


def without_targets(xp: Any, p: Array, t: Array, rows: Array) -> Array:
    """p less 1 at the target t of each row; nothing is subtracted where t is no column, as −100."""
    flat, places = p.reshape(-1, p.shape[-1]), t.reshape(-1)
    inside = (places >= 0) & (places < flat.shape[1])
    flat[rows, xp.where(inside, places, 0)] -= xp.astype(inside, flat.dtype)
    return p


def within(rows: Array, places: Array, count: int) -> tuple[Array, Array]:
    """The rows whose places are among the first ``count``, with their places."""
    inside = (places >= 0) & (places < count)
    return (rows, places) if bool(inside.all()) else (rows[inside], places[inside])


CONSTANTS = NumPy(np)  # for values that depend on no weight and no input
