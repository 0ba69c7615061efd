"""Sparse sums: of each term, only the rows whose factor is not 0, as in a mixture of experts.

The equations tell which sums may be computed so (`viete.analysis.sparsity`); the factor's numbers
tell which rows. A row of a term whose factor is 0 counts as 0, even if the rest of the term would
be infinite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from array_api_compat import is_jax_array

from viete.analysis.sparsity import SparseSum
from viete.evaluate.array import Arrays
from viete.evaluate.fast import FastArrays
from viete.evaluate.labelled import COL, ROW, Array, Value, permute
from viete.graph.evaluator import Env
from viete.notation.tree import Ref, walk

LEAST = 2**16  # entries of one member's weights, below which a product of all is as fast


def sparse_value(it: FastArrays, s: SparseSum, env: Env[Value]) -> Value | None:
    """The sum, or None if the definition is better: for small terms and for JAX's arrays."""
    letter = it.env.index[s.letter]
    factor = it.of(s.factor, env)
    if factor.const or is_jax_array(factor.array) or not heavy(it, s, env):
        return None
    axes = tuple(a for a in (s.letter, "batch", ROW) if a in factor.axes)
    if len(axes) != 2 + ("batch" in axes) or not {*factor.axes} <= {*axes, COL}:
        return None
    if COL in factor.axes:
        at = tuple(0 if a == COL else slice(None) for a in factor.axes)
        factor = Value(factor.array[at], tuple(a for a in factor.axes if a != COL))
    zero = Value(Fraction(0), (), True)
    kept = permute(it.xp, it.entrywise("ne", [factor.frozen(), zero]).array, factor.axes, axes)
    shape = tuple(kept.shape[1:])
    refs = {r.key: r for e in (s.term, *(i.right for i in s.inside)) for r in walk(e)
            if isinstance(r, Ref) and r.key in s.rows}  # fmt: skip
    whole = {key: flat(it, it.of(r, env), s.rows[key], shape) for key, r in refs.items()}

    def term(k: int, rows: Mapping[str, Value]) -> Array | None:
        """Some rows of a member's term, computed from the same rows of what it reads."""
        own = dict(rows)
        inner = replace(env, index={**env.index, s.letter: letter.first + k}, arguments=own)
        for e in s.inside:
            own[e.name] = it.of(e.right, inner).frozen()
        made = it.of(s.term, inner)
        if {*made.axes} != {ROW, COL}:
            return None
        return permute(it.xp, it.reals(made), made.axes, (ROW, COL))

    out = it.sum_of_rows(it.xp.reshape(kept, (letter.count, -1)), whole, term)
    if out is None:
        return None
    return Value(it.xp.reshape(out, (*shape, -1)), (*axes[1:], COL), False, True)


def heavy(it: Arrays, s: SparseSum, env: Env[Value]) -> bool:
    """Whether a member has so many weights that leaving some members out pays."""
    refs = [r for e in (s.term, *(i.right for i in s.inside)) for r in walk(e)
            if isinstance(r, Ref) and r.symbol.kind == "parameter"]  # fmt: skip
    sizes = (it.of(r, env) for r in refs if s.letter in r.free)
    return any(math.prod(v.array.shape) >= LEAST * v.size(s.letter) for v in sizes)


def flat(it: Arrays, v: Value, label: str, shape: tuple[int, ...]) -> Value:
    """A value with the rows of all sequences concatenated along its first axis."""
    rest = tuple(a for a in v.axes if a not in ("batch", label))
    order = (*(("batch",) if "batch" in v.axes else ()), label, *rest)
    array = permute(it.xp, it.lift(v), v.axes, order)
    more = tuple(array.shape[len(order) - len(rest) :])
    array = it.xp.broadcast_to(array, (*shape, *more)) if len(shape) == 2 else array
    return Value(it.xp.reshape(array, (-1, *more)), (label, *rest), False, False, v.interval)


__all__ = ["sparse_value"]
