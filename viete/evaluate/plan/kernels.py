"""Kernels: what those of every array library share; a kernel prepares the call of one operation.

``prepare(out, args, attrs)`` gets arrays that stay in place, and returns the call that is made
again and again. If ``adds`` is set, the call adds to `out`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from viete.errors import VieteError
from viete.evaluate.inputs import NO_TARGET
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


def check_targets(t: Any, count: int) -> None:
    """Raise Misplaced for a target that is neither one of ``count`` places nor -100, none."""
    outside = ((t < 0) & (t != NO_TARGET)) | (t >= count)
    if bool(outside.any()):
        raise Misplaced(f"index {int(t[outside][0])} is outside 0 to {count - 1}")


def whole(out: Any, args: Any, attrs: Any) -> Call:
    """A copy of whole numbers. The call raises Misplaced for others."""

    def call() -> None:
        if bool((args[0] % 1 != 0).any()):
            raise Misplaced("an index must be a whole number, and this one is not")
        out[...] = args[0]

    return call
