"""Fast forms of formulas that stand in backward equations, found by their pattern.

Each computes what its pattern says, in fewer passes over memory; tests/laws/test_fast.py holds each
to its pattern. As in `fast`, None is returned where a form does not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from viete.analysis.kinds import BIT
from viete.errors import Text
from viete.evaluate.labelled import COL, ROW, Array, Value, expand, is_float
from viete.graph.matching import match
from viete.graph.rules import scope
from viete.library.functions import library
from viete.notation.parser import parse
from viete.notation.tree import Apply, Expr, walk
from viete.rewrite.simplify import row_sum

if TYPE_CHECKING:
    from viete.evaluate.array import Arrays

Form = Callable[["Arrays", dict[str, Value]], Value | None]


def computed(*values: Value) -> bool:
    """Whether these are arrays of real numbers, not constants and not whole numbers."""
    return all(not v.const and is_float(v.array) for v in values)


def softmax_back(it: Arrays, of: dict[str, Value]) -> Value | None:
    """y ⊙ (g − Σ g ⊙ y), in one pass on PyTorch, in place of a product on NumPy."""
    y, g = of["y"], of["a"]
    if not computed(y, g) or y.axes != g.axes or y.axes[-1:] != (COL,):
        return None
    if "torch" in it.xp.__name__:
        import torch

        out = torch.ops.aten._softmax_backward_data(g.array, y.array, -1, y.array.dtype)
        return Value(out, y.axes, False, True)
    if not it.numpy:
        return None
    out = g.array * y.array
    total = np.sum(out, axis=-1, keepdims=True)
    np.subtract(g.array, total, out=out)
    out *= y.array
    return Value(out, y.axes, False, True)


def relu_back(it: Arrays, of: dict[str, Value]) -> Value | None:
    """g where y > 0, else 0, without a branch for each entry."""
    y, g = of["y"], of["a"]
    if not computed(y, g) or y.axes != g.axes or y.array.shape != g.array.shape:
        return None
    if it.numpy:
        bits = f"i{g.array.itemsize}"  # of which 0 times any number is 0, and of NaN as well
        out = np.multiply(g.array.view(bits), y.array > 0, dtype=bits)
        return Value(out.view(g.array.dtype), y.axes, False, True)
    if it.writes and y.array.device.type == "cpu" and not bool(y.array.sum().isnan()):
        import torch  # whose kernel takes NaN for greater than 0

        return Value(torch.ops.aten.threshold_backward(g.array, y.array, 0), y.axes, False, True)
    return None


def gelu_back(it: Arrays, of: dict[str, Value]) -> Value | None:
    """The derivative of GELU, in one pass on PyTorch."""
    z, g = of["z"], of["a"]
    if "torch" not in it.xp.__name__ or not computed(z, g) or z.axes != g.axes:
        return None
    import torch

    return Value(torch.ops.aten.gelu_backward(g.array, z.array), z.axes, False, True)


def loss_back(it: Arrays, of: dict[str, Value]) -> Value | None:
    """softmax(z) less 1 at the target."""
    z, t = of["z"], of["t"]
    if it.writes and not z.const and not t.const and z.axes[-2:] == (ROW, COL):
        p = it.quick["softmax"](it, [z.kept()])
        if t.axes != z.axes[:-2] + (COL,) or p is None:
            return None
        flat = p.array.reshape(-1, p.array.shape[-1])
        places = t.array.reshape(-1)
        # A target of -100 is none: nothing is taken off, at column 0.
        hot, where = it.xp.astype(places >= 0, flat.dtype), it.xp.clip(places, min=0)
        if it.numpy:
            flat[np.arange(len(places)), where] -= hot
        else:
            flat[it.xp.arange(len(places), device=flat.device), where] -= hot
        return Value(p.array, z.axes, False, True)
    return None


def logsumexp(it: Arrays, of: dict[str, Value]) -> Value | None:
    """The library's logsumexp, written out."""
    form = it.quick.get("logsumexp")
    return None if form is None else form(it, [it.real(of["z"])])


FORMS: tuple[tuple[str, Form], ...] = (
    ("log(sum(exp(z)))", logsumexp),
    ("y ⊙ (a - sum(a ⊙ y))", softmax_back),
    ("where(y > 0, a, 0)", relu_back),
    ("a ⊙ ((1 + erf(z / sqrt(2))) / 2 + z ⊙ exp(-z^2 / 2) / sqrt(2 pi))", gelu_back),
    ("softmax(z) - onehot(t, c)", loss_back),
)


@cache
def forms() -> dict[str, list[tuple[Expr, Form]]]:
    """The forms by the outermost operation of their patterns."""
    out = dict[str, list[tuple[Expr, Form]]]()
    for text, form in FORMS:
        e = parse(Text(text, "fused.py"), scope())
        assert isinstance(e, Apply)
        out.setdefault(e.op, []).append((e, form))
    return out


Found = tuple[dict[str, Expr], Form, tuple[str, ...]] | None


def functions(pattern: Expr) -> tuple[str, ...]:
    """The named functions in a pattern, which must be the library's where it is used."""
    return tuple({x.op for x in walk(pattern) if isinstance(x, Apply) and x.op in library()})


@lru_cache(maxsize=1 << 16)
def found(e: Apply) -> Found:
    """The first form that fits: what its letters stand for, the form, the functions it names."""
    row = row_sum(e)
    for pattern, form in forms().get(e.op, ()):
        if (fit := match(pattern, row, library())) is not None:
            values = {k: v for k, v in fit.letters.items() if isinstance(v, Expr)}
            return values, form, functions(pattern)
    return None


# -- places ----------------------------------------------------------------------------------------


def gathered(it: Arrays, args: list[Value], batch: bool = False) -> Value | None:
    """Rows added up by where they belong; with ``batch`` over all sequences at once."""
    y, t, size = args
    if not computed(y) or t.const or y.axes[-2:] != (ROW, COL) or size.axes:
        return None
    if y.axes[:-2] not in ((), ("batch",) if batch else ()) or t.axes != (*y.axes[:-2], COL):
        return None
    rows = y.array.reshape(-1, y.array.shape[-1])
    places = t.array.reshape(-1)
    shape = (int(size.array), rows.shape[1])
    if it.numpy:
        out = np.zeros(shape, dtype=rows.dtype)
        np.add.at(out, places, rows)
    elif "torch" in it.xp.__name__:
        out = rows.new_zeros(shape).index_add_(0, places, rows)
    else:
        out = it.xp.zeros(shape, dtype=rows.dtype).at[places].add(rows)
    return Value(out, (ROW, COL), False, True)


def placed(it: Arrays, args: list[Value]) -> Value | None:
    """Rows among zeros."""
    y, start, size = args
    if not computed(y) or start.axes or size.axes or ROW not in y.axes or not it.writes:
        return None
    axis = y.axes.index(ROW)
    first, count, n = int(start.array), int(size.array), y.size(ROW)
    if first < 0 or first + n > count:
        return None
    shape = (*y.array.shape[:axis], count, *y.array.shape[axis + 1 :])
    out = it.xp.zeros(shape, dtype=y.array.dtype, device=y.array.device)
    out[(*(slice(None),) * axis, slice(first, first + n))] = y.array
    return Value(out, y.axes, False, True)


def part(it: Arrays, args: list[Value]) -> Value | None:
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


def onehot(it: Arrays, args: list[Value]) -> Value | None:
    """A comparison with all places."""
    t, size = args
    if t.const or size.axes or t.axes[-1:] != (COL,):
        return None
    places = it.xp.arange(int(size.array), device=getattr(it.like, "device", None))
    hot = expand(it.xp, t.array, t.axes, t.axes)[..., None] == places
    return Value(it.xp.astype(hot, it.int64), (*t.axes[:-1], ROW, COL), False, True, BIT)


PLACES = {"gathered": gathered, "placed": placed, "part": part, "onehot": onehot}

__all__ = ["PLACES", "Array", "found", "gathered"]
