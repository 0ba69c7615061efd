"""Fast versions of named functions, and of formulas that occur in backward equations.

A fast version computes its definition in library/functions.md, or its pattern below, in fewer
passes over memory and without overflow; tests/laws/test_fast.py and test_fused.py check each. This
module decides which axes are meant and where a fast version applies; a `Backend` does the work. A
fast version returns None where it does not apply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np

from viete.analysis.kinds import BIT
from viete.errors import Text
from viete.evaluate.array import Arrays
from viete.evaluate.labelled import COL, ROW, Array, Value, device_of, expand
from viete.evaluate.memos import remembered
from viete.graph.evaluator import Env
from viete.graph.matching import match
from viete.graph.rules import scope
from viete.library.functions import library
from viete.notation.parser import parse
from viete.notation.tree import Apply, Expr, walk
from viete.rewrite.simplify import row_sum

Version = Callable[..., Value | None]
Term = Callable[[int, Mapping[str, Value]], Array | None]  # of a member's rows, by their values


class FastArrays(Arrays):
    """`Arrays` with fast versions, those of ``quick``; if empty, only definitions are evaluated."""

    sparse = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.quick: dict[str, Version] = dict(VERSIONS) if self.fast else {}

    def apply(self, e: Apply, env: Env[Value]) -> Value:
        if self.quick and e.op in forms():
            form = found(e)
            if form is not None and self.card.library_names.keys() >= {*form[2]}:
                values = {k: self.of(x, env) for k, x in form[0].items()}
                v = form[1](self, values)
                if v is not None:
                    return v
        return super().apply(e, env)

    def version(self, name: str, args: list[Value]) -> Value | None:
        quick = self.quick.get(name)
        if quick is None or args[0].const or COL not in args[0].axes:
            return None
        if not args[0].size(COL):
            return None  # the definition has the empty sum
        if name in VERSIONS.keys() - PLACES.keys() and self.interval(args[0]) is not None:
            return None  # the definition returns whole numbers for them
        return quick(self, args)

    def sum_of_rows(self, kept: Array, rows: Mapping[str, Value], term: Term) -> Array | None:
        """∑_k of term k on the rows where ``kept[k]`` is true; None if a term is not such rows.

        ``kept`` is members × rows; ``rows`` have the rows as their first axis.
        """
        out: Array = None
        for k in range(kept.shape[0]):
            at = self.xp.nonzero(kept[k])[0]
            if at.shape[0] == 0:
                continue
            own = {key: replace(v, array=self.xp.take(v.array, at, axis=0))
                   for key, v in rows.items()}  # fmt: skip
            array = term(k, own)
            if array is None:
                return None
            if out is None:
                size = (kept.shape[1], array.shape[1])
                out = self.xp.zeros(size, dtype=array.dtype, device=device_of(array))
            if self.numpy:
                out[at] += array
            else:
                out = out.index_add(0, at, array)
        return out


# -- rows ------------------------------------------------------------------------------------------


def softmax(it: FastArrays, args: list[Value]) -> Value:
    """exp(z) / Σ exp(z) along the columns."""
    v = args[0]
    return made(it.backend.softmax(v.array, v.axes.index(COL), v.fresh), v.axes)


def logsumexp(it: FastArrays, args: list[Value]) -> Value | None:
    """log Σ exp z: a number for each row."""
    if args[0].const:
        return None
    v = it.column(args[0])
    axis = v.axes.index(COL)
    out = it.xp.squeeze(it.backend.logsumexp(v.array, axis), axis=axis)
    return made(out, v.axes[:axis] + v.axes[axis + 1 :])


def logsoftmax(it: FastArrays, args: list[Value]) -> Value:
    """z − log Σ exp z, which takes no logarithm of a quotient that underflowed to 0."""
    v = args[0]
    with np.errstate(invalid="ignore"):
        return made(v.array - it.backend.logsumexp(v.array, v.axes.index(COL)), v.axes)


def cross_entropy(it: FastArrays, args: list[Value]) -> Value | None:
    """Mean over positions with a target of log Σ exp z − z[t], largest score subtracted first."""
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


def layer_norm(it: FastArrays, args: list[Value]) -> Value | None:
    """Layer norm as defined, with the centred row computed once."""
    z, gamma, beta, epsilon = args
    return scaled(it, normed(it, z, epsilon, True), gamma, beta)


def length(it: FastArrays, args: list[Value]) -> Value | None:
    """The square root of the sum of squares: a number for each row."""
    v = args[0]
    axis = v.axes.index(COL)
    array = it.backend.length(v.array, axis)
    return None if array is None else made(array, v.axes[:axis] + v.axes[axis + 1 :])


def held(it: FastArrays, args: list[Value]) -> Value:
    """The value, with its derivative in the library stopped."""
    v = args[0]
    return v if v.const else replace(v, array=it.backend.held(v.array))


def greatest(it: FastArrays, args: list[Value]) -> Value | None:
    """The k greatest entries of each row, the others 0."""
    v, k = args
    if not k.const or k.axes:
        return None
    array = it.backend.greatest(v.array, v.axes.index(COL), math.ceil(k.array))
    return None if array is None else made(array, v.axes)


def rms_norm(it: FastArrays, args: list[Value]) -> Value | None:
    """γ z / sqrt(mean z² + ε)."""
    z, gamma, epsilon = args
    return scaled(it, normed(it, z, epsilon, False), gamma, None)


def normed(it: FastArrays, z: Value, epsilon: Value, centred: bool) -> Value | None:
    """Each row divided by its standard deviation, or by its root mean square."""
    if epsilon.axes:  # a different one for each head
        return None
    axis = z.axes.index(COL)
    array = it.backend.normed(z.array, axis, it.reals(epsilon), centred, z.fresh)
    return None if array is None else made(array, z.axes)


def scaled(it: FastArrays, x: Value | None, gamma: Value, beta: Value | None) -> Value | None:
    """γ x + β, without multiplying by 1 or adding 0."""
    if x is not None and (gamma.axes or gamma.array != 1):
        x = it.entrywise("had", [x, gamma])
    if x is not None and beta is not None and (beta.axes or beta.array != 0):
        x = it.entrywise("add", [x, beta])
    return x


def causal(it: FastArrays, args: list[Value]) -> Value:
    """The scores with the causal mask, which is computed once for each pair of sizes."""
    v = args[0]
    n, m = v.size(ROW), v.size(COL)
    if n == 1:  # the last position, which sees all
        return v

    def made_hidden() -> Any:
        hidden = np.arange(m)[None, :] > np.arange(n)[:, None] + (m - n)
        return hidden if it.numpy else it.xp.asarray(hidden, device=device_of(it.like))

    kept = remembered(it.memo, ("hidden", n, m, it.kind), made_hidden)
    hidden = expand(it.xp, kept, (ROW, COL), v.axes)
    return made(it.backend.masked(v.array, hidden, v.fresh), v.axes)


# -- entries ---------------------------------------------------------------------------------------


def by_entries(name: str) -> Version:
    """A fast version for an entrywise function, by the backend's method of that name."""

    def version(it: FastArrays, args: list[Value]) -> Value | None:
        v = args[0]
        array = getattr(it.backend, name)(v.array, v.fresh)
        return None if array is None else made(array, v.axes)

    return version


# -- places ----------------------------------------------------------------------------------------


def gathered(it: FastArrays, args: list[Value], batch: bool = False) -> Value | None:
    """Rows summed at their target indices; with ``batch``, over all sequences at once."""
    y, t, size = args
    if not computed(it, y) or t.const or y.axes[-2:] != (ROW, COL) or size.axes:
        return None
    if y.axes[:-2] not in ((), ("batch",) if batch else ()) or t.axes != (*y.axes[:-2], COL):
        return None
    rows = it.xp.reshape(y.array, (-1, y.array.shape[-1]))
    places = it.xp.reshape(t.array, (-1,))
    return made(it.backend.add_rows(rows, places, int(size.array)), (ROW, COL))


def placed(it: FastArrays, args: list[Value]) -> Value | None:
    """Rows padded with zeros."""
    y, start, size = args
    if not computed(it, y) or start.axes or size.axes or ROW not in y.axes:
        return None
    first, count = int(start.array), int(size.array)
    if first < 0 or first + y.size(ROW) > count:
        return None
    array = it.backend.padded(y.array, y.axes.index(ROW), first, count)
    return None if array is None else made(array, y.axes)


def part(it: FastArrays, args: list[Value]) -> Value | None:
    """Columns k m to (k + 1) m − 1 for all k of a family: a new axis, without a copy."""
    y, k, width = args
    if y.const or y.axes[-1:] != (COL,) or width.axes or len(k.axes) != 1 or not k.const:
        return None
    m, label = int(width.array), k.axes[0]
    if label in y.axes or list(np.asarray(k.array)) != list(range(y.size(COL) // m)):
        return None
    shape = (*y.array.shape[:-1], y.size(COL) // m, m)
    axes = (*y.axes[:-1], label, COL)
    return Value(it.xp.reshape(y.array, shape), axes, False, False, y.interval)


def column(it: FastArrays, args: list[Value]) -> Value | None:
    """Column k as a view, or the columns 0, 1, … as the axis of a family."""
    y, k = args
    if y.const or not k.const or COL not in y.axes:
        return None
    if not k.axes:
        at = int(k.array)
        inside = k.array == at and 0 <= at < y.size(COL)
        return it.stretch(y, COL, at, at + 1) if inside else None
    if len(k.axes) > 1 or k.axes[0] in y.axes or list(k.array) != list(range(y.size(COL))):
        return None
    return it.column(y.relabel(COL, k.axes[0]))


def onehot(it: FastArrays, args: list[Value]) -> Value | None:
    """One-hot rows, by comparing each entry with all indices."""
    t, size = args
    if t.const or size.axes or t.axes[-1:] != (COL,):
        return None
    hot = it.backend.equal(t.array, int(size.array))
    return Value(hot, (*t.axes[:-1], ROW, COL), False, True, BIT)


# -- formulas of backward equations ----------------------------------------------------------------


def computed(it: FastArrays, *values: Value) -> bool:
    """Whether all values are arrays of real numbers, neither constant nor whole."""
    return all(not v.const and it.backend.is_real(v.array) for v in values)


def together(name: str, letter: str, rows: bool = False) -> Version:
    """A form of ``a`` and another array of the same shape, by the backend's method of that name.

    With ``rows``, the columns must be the last axis.
    """

    def version(it: FastArrays, of: dict[str, Value]) -> Value | None:
        y, g = of[letter], of["a"]
        if not computed(it, y, g) or y.axes != g.axes or y.array.shape != g.array.shape:
            return None
        if rows and y.axes[-1:] != (COL,):
            return None
        array = getattr(it.backend, name)(g.array, y.array)
        return None if array is None else made(array, y.axes)

    return version


def loss_back(it: FastArrays, of: dict[str, Value]) -> Value | None:
    """softmax(z) less 1 at the target of each row."""
    z, t = of["z"], of["t"]
    if z.const or t.const or z.axes[-2:] != (ROW, COL) or t.axes != (*z.axes[:-2], COL):
        return None
    p = it.quick["softmax"](it, [z.frozen()])
    array = None if p is None else it.backend.less_onehot(p.array, t.array)
    return None if array is None else made(array, z.axes)


def written_logsumexp(it: FastArrays, of: dict[str, Value]) -> Value | None:
    """The library's logsumexp, for the same formula written out."""
    return logsumexp(it, [it.real(of["z"])])


FORMS: tuple[tuple[str, Version], ...] = (
    ("log(sum(exp(z)))", written_logsumexp),
    ("y ⊙ (a - sum(a ⊙ y))", together("softmax_back", "y", rows=True)),
    ("where(y > 0, a, 0)", together("relu_back", "y")),
    (
        "a ⊙ ((1 + erf(z / sqrt(2))) / 2 + z ⊙ exp(-z^2 / 2) / sqrt(2 pi))",
        together("gelu_back", "z"),
    ),
    ("softmax(z) - onehot(t, c)", loss_back),
)
PLACES: dict[str, Version] = {
    "gathered": gathered, "placed": placed, "part": part, "column": column,
    "onehot": onehot,
}  # fmt: skip
VERSIONS: dict[str, Version] = PLACES | {
    "softmax": softmax, "logsumexp": logsumexp, "logsoftmax": logsoftmax,
    "cross_entropy": cross_entropy, "LN": layer_norm, "RMSNorm": rms_norm, "causal": causal,
    "length": length, "top": greatest, "held": held,
    "ReLU": by_entries("relu"), "GELU": by_entries("gelu"), "GELU_tanh": by_entries("gelu_tanh"),
    "sigmoid": by_entries("sigmoid"), "SiLU": by_entries("silu"),
    "softplus": by_entries("softplus"),
}  # fmt: skip


def made(array: Array, axes: tuple[str, ...]) -> Value:
    """A value of an array without another owner."""
    return Value(array, axes, False, True)


@cache
def forms() -> dict[str, list[tuple[Expr, Version]]]:
    """The forms by the outermost operation of their patterns."""
    out = dict[str, list[tuple[Expr, Version]]]()
    for text, form in FORMS:
        e = parse(Text(text, "fast.py"), scope())
        assert isinstance(e, Apply)
        out.setdefault(e.op, []).append((e, form))
    return out


Found = tuple[dict[str, Expr], Version, tuple[str, ...]] | None


def functions(pattern: Expr) -> tuple[str, ...]:
    """The named functions in a pattern, which must be the library's where it is used."""
    return tuple({x.op for x in walk(pattern) if isinstance(x, Apply) and x.op in library()})


@lru_cache(maxsize=1 << 16)
def found(e: Apply) -> Found:
    """The first form that fits: what its letters stand for, the form, and the named functions."""
    row = row_sum(e)
    for pattern, form in forms().get(e.op, ()):
        if (fit := match(pattern, row, library())) is not None:
            values = {k: v for k, v in fit.letters.items() if isinstance(v, Expr)}
            return values, form, functions(pattern)
    return None
