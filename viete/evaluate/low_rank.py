"""Row norms of a low-rank product: ``|A B|`` as ``|A Rᵀ|`` where ``Bᵀ = Q R``.

The columns of Q are orthonormal, so R, which is as small as the rank, gives every row the same
norm, and the wide matrix is never made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from viete.evaluate.labelled import COL, Value, permute

if TYPE_CHECKING:
    from viete.evaluate.contraction import Contraction, Factor, Network

TRIANGLE = object()  # replaces an array, in the memory of products
WORTH = 32  # least ratio of rows to rank: factorizing is far slower than multiplying


def narrow(it: Contraction, net: Network) -> Network:
    """A product with fewer columns and the same row norms; unchanged if none is cheaper."""
    at = net.with_axis(COL)
    if at is None:
        return net
    f = net.factors[at]
    inner = tuple(a for a in f.axes if a in net.bound)
    sizes = {a: x.value.size(a) for x in net.factors if x.value is not None for a in x.value.axes}
    rank = math.prod(sizes[a] for a in inner)
    rows = math.prod(n for a, n in sizes.items() if a not in (*net.bound, *f.axes))
    rows *= math.prod(it.turns.get(x, 1) for x in net.letters - f.letters)
    if not inner or sizes[COL] <= rank or rows < WORTH * rank:
        return net
    smaller = triangle(it, f, inner, rank)
    if smaller is None:
        return net
    return net.with_factor(at, smaller)


def triangle(it: Contraction, f: Factor, inner: tuple[str, ...], rank: int) -> Factor | None:
    """R of a factor, with as many columns as its rank; None if the library has none."""
    v, place = f.value, (COL, *inner)
    assert v is not None
    if v.const or it.arrays.interval(v) is not None:
        return None
    along = Value(TRIANGLE, place)
    found = it.products.made(v, along, place)
    if found is None:
        xp, axes = it.arrays.xp, (*(a for a in v.axes if a not in place), *place)
        array = permute(xp, v.array, v.axes, axes)
        lead, shape = array.shape[: -len(place)], array.shape[-len(inner) :]
        made = it.arrays.backend.triangular(xp.reshape(array, (*lead, -1, rank)))
        if made is None:
            return None
        found = Value(xp.reshape(made, (*lead, rank, *shape)), axes)
        it.products.keep(v, along, place, found, f.letters)
    return type(f)(found.axes, found, f.letters)
