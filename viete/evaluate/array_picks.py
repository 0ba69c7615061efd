"""Picks from an array along an axis: stretches, and members at computed places."""

from __future__ import annotations

import numpy as np
from array_api_compat import array_namespace

from viete.errors import VieteError
from viete.evaluate.array_kinds import ArrayKinds
from viete.evaluate.backends import CONSTANTS
from viete.evaluate.labelled import Array, Value, device_of, expand, permute, traced


class ArrayPicks(ArrayKinds):
    """Picks from labelled arrays, and merges two axes into one."""

    def together(self, v: Value, first: str, second: str, label: str) -> Value:
        """Two axes merged into one, the second varying fastest."""
        xp, array, const = self.alone(v)
        at = min(v.axes.index(first), v.axes.index(second))
        rest = [a for a in v.axes if a not in (first, second)]
        array = permute(xp, array, v.axes, (*rest[:at], first, second, *rest[at:]))
        shape = (*array.shape[:at], v.size(first) * v.size(second), *array.shape[at + 2 :])
        axes = (*rest[:at], label, *rest[at:])
        return Value(xp.reshape(array, shape), axes, const, False, v.interval)

    def stretch(self, v: Value, label: str, start: int, stop: int) -> Value:
        place = tuple(slice(start, stop) if a == label else slice(None) for a in v.axes)
        return Value(v.array[place], v.axes, v.const, False, v.interval)

    def gathered(self, v: Value, label: str, at: Value, first: int) -> Value:
        """Members of an axis at computed places: ``E[x]``, ``p_{j,t_j}``, ``K^{⌈h/2⌉}``."""
        size, const = v.size(label), at.const and v.const
        known = self.interval(at)
        inside = known is not None and first <= known[0] and known[1] < first + size
        if not inside:
            check_places(at, first, size)
        xp = self.alone(v if at.const else at)[0]
        array = v.array if const else self.lift(v)
        where = at.array.astype(np.int64) if at.const else at.array
        if at.const and not const:
            where = self.xp.asarray(where, device=device_of(self.like))
        elif not at.const and "float" in str(where.dtype):  # as results of floor
            where = xp.astype(where, self.int64)
        where = where - first if first else where
        if not inside:
            where = self.inside(where, size)
        shared = [a for a in at.axes if a in v.axes and a != label]
        axis = v.axes.index(label)
        if not shared:
            flat = xp.reshape(where, (-1,))
            take = self.backend.take if xp is self.xp else CONSTANTS.take
            out = take(array, flat, axis)
            shape = (*array.shape[:axis], *where.shape, *array.shape[axis + 1 :])
            axes = (*v.axes[:axis], *at.axes, *v.axes[axis + 1 :])
            return Value(xp.reshape(out, shape), axes, const, True, v.interval)
        # Some axes of the indices are axes of the value too: pick along them together.
        extra = tuple(a for a in at.axes if a not in v.axes)
        order = tuple(a for a in v.axes if a != label) + (label,)
        big = permute(xp, array, v.axes, order)
        for _ in extra:
            big = big[None, ...]
        target = extra + order[:-1]
        places = expand(xp, where, at.axes, target)
        shape = tuple(
            where.shape[at.axes.index(a)] if a in at.axes else big.shape[target.index(a)]
            for a in target
        )
        big = xp.broadcast_to(big, (*shape, big.shape[-1]))
        places = xp.broadcast_to(places, shape)[..., None]
        picked = xp.take_along_axis(big, places, axis=-1)[..., 0]
        return Value(picked, target, const, True, v.interval)

    def inside(self, where: Array, size: int) -> Array:
        """Indices that `check_places` could not check against ``size``, because they are traced."""
        if not traced(where):
            return where
        # JAX would count negative indices from the end, and gives NaN for indices too large.
        return self.xp.where(where < 0, size, where)


def check_places(at: Value, first: int, size: int) -> None:
    """Check that computed indices are whole numbers, among the ``size`` ones from ``first`` on."""
    array = at.array
    if str(getattr(array, "device", "cpu")) == "meta" or traced(array):
        return
    xp = array_namespace(array)
    whole = "int" in str(array.dtype) or bool(xp.all(array == xp.floor(array)))
    if not whole:
        raise VieteError("an index must be a whole number, and this one is not")
    if 0 in tuple(array.shape):
        return
    low, high = int(array.min()), int(array.max())
    if low < first or high >= first + size:
        wrong = low if low < first else high
        raise VieteError(f"index {wrong} is outside {first} to {size + first - 1}")


__all__ = ["ArrayPicks"]
