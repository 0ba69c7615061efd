"""Kernels on PyTorch tensors: for each operation, a function that prepares its call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from viete.evaluate.backends import within
from viete.evaluate.greatest import greatest_in_torch
from viete.evaluate.plan.kernels import (
    SMALLEST,
    Call,
    Prepare,
    check_targets,
    inside,
    sequence,
    whole,
)
from viete.evaluate.plan.numpy_kernels import numpy_kernels
from viete.notation.lexer import ELEMENTARY


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
            check_targets(t, p.shape[-1])
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
            inside = (t >= 0) & (t < out.shape[-1])  # -100 is not a target
            less = inside.to(out.dtype).neg_()
            out.scatter_add_(-1, torch.where(inside, t, 0)[..., None], less[..., None])

        return add if out is p else sequence(partial(out.copy_, p), add)

    def gathered(out: Any, args: Any, attrs: Any) -> Call:
        (rows, places), count = args, out.shape[0]

        def in_order() -> None:  # one row after the other, the same every time
            out.index_add_(0, *reversed(within(rows, places, count)))

        def at_once() -> None:
            inside = torch.where((places >= 0) & (places < count), places, count)
            back = aten.embedding_dense_backward(rows, inside, count + 1, count, False)
            out.add_(back[:count])

        return in_order if out.device.type == "cpu" else at_once

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


__all__ = ["torch_kernels"]
