"""The cheapest order of multiplying many factors, found from the sizes of their axes.

A product of the same arrays along the same axes that occurs twice is made once: ``W_O W_Q`` in
``tr(… W_O W_Q … W_Q^T W_O^T …)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

MOST = 8  # factors up to which all orders are compared; above, the cheapest pair comes first
Sizes = tuple[tuple[str, int], ...]
Made = dict[object, float]  # what each product costs


@lru_cache(maxsize=4096)
def path(
    factors: tuple[tuple[tuple[str, ...], int | None], ...], sizes: Sizes, out: frozenset[str]
) -> tuple[tuple[int, int], ...]:
    """Which two factors to multiply at each step; the product goes to the end of the list.

    Each factor is its axes and a number for its array, equal for the same array; None for a factor
    that only subtracts the mean between two axes.
    """
    order = Order([frozenset(axes) for axes, _ in factors], [one is None for _, one in factors],
                  dict(sizes), out, factors)  # fmt: skip
    return tuple(order.best() if len(factors) <= MOST else order.greedy())


@dataclass
class Order:
    """The search for a cheap order; a set of factors is a whole number with one bit for each."""

    factors: list[frozenset[str]]
    between: list[bool]
    sizes: dict[str, int]
    out: frozenset[str]
    arrays: tuple[tuple[tuple[str, ...], int | None], ...]
    found: dict[int, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def beside(self) -> frozenset[str]:
        """The axes of the result along which no mean is subtracted."""
        ends = (f for f, between in zip(self.factors, self.between, strict=True) if between)
        return self.out.difference(*ends)

    @cached_property
    def sides(self) -> dict[str, int]:
        """A number for each other axis, equal for axes that factors connect."""
        found = {a: k for k, a in enumerate(self.sizes)}
        for _ in self.factors:
            for f, between in zip(self.factors, self.between, strict=True):
                inner = f - self.beside
                if inner and not between:
                    found |= dict.fromkeys(inner, min(found[a] for a in inner))
        return found

    def axes(self, group: int) -> frozenset[str]:
        """The axes of the product of a set of factors, which the result or another factor has."""
        if group not in self.found:
            self.found[group] = self.axes_of(group)
        return self.found[group]

    def axes_of(self, group: int) -> frozenset[str]:
        inside = [f for k, f in enumerate(self.factors) if group >> k & 1]
        if len(inside) == 1:
            return inside[0]
        others = (f for k, f in enumerate(self.factors) if not group >> k & 1)
        return frozenset[str]().union(*inside) & self.out.union(*others)

    def alike(self, group: int) -> object:
        """A key that is equal for the same product of the same arrays, whatever the axes' names.

        It compares, for each array, which other axes its axes are paired or summed with.
        """
        touched: dict[str, list[tuple[int, int]]] = {}
        for k, (axes, array) in enumerate(self.arrays):
            if group >> k & 1:
                if array is None:
                    return group
                for place, a in enumerate(axes):
                    touched.setdefault(a, []).append((array, place))
        kept = self.axes(group)
        return tuple(sorted((sorted(t), a in kept, a if a in self.out else "")
                            for a, t in touched.items()))  # fmt: skip

    def pair(self, a: int, b: int) -> float:
        """The number of operations of a product of two products; infinite if it is not allowed.

        A mean is subtracted along an axis that no other factor has, before the factors on its two
        sides are multiplied.
        """
        one, two = self.axes(a), self.axes(b)
        centring = [self.between[g.bit_length() - 1] and not g & (g - 1) for g in (a, b)]
        if any(centring):
            shared = one & two
            if all(centring) or len(shared) != 1 or not shared.isdisjoint(self.axes(a | b)):
                return math.inf
            return self.size(two if centring[0] else one)
        sides = [{self.sides[x] for x in axes - self.beside} for axes in (one, two)]
        if all(sides) and sides[0].isdisjoint(sides[1]):
            return math.inf
        return self.size(one | two) + self.size(self.axes(a | b))

    def size(self, axes: frozenset[str]) -> int:
        return math.prod(self.sizes[x] for x in axes)

    def best(self) -> list[tuple[int, int]]:
        """The cheapest order, found by comparing all."""
        cheapest: dict[int, tuple[float, int, int, Made]] = {
            1 << k: (0, 0, 0, {}) for k in range(len(self.factors))
        }
        every = (1 << len(self.factors)) - 1
        for group in range(1, every + 1):  # the parts of a set are smaller numbers
            low, part = group & -group, (group - 1) & group
            found: tuple[float, int, int, Made] | None = None
            name = repr(self.alike(group)) if part else ""
            while part:
                if part & low:
                    a, b = cheapest[part], cheapest[group ^ part]
                    if found is None or max(a[0], b[0]) < found[0]:
                        made = {**a[3], **b[3], name: self.pair(part, group ^ part)}
                        cost = sum(made.values())
                        if found is None or (cost, part) < found[:2]:
                            found = cost, part, group ^ part, made
                part = (part - 1) & group
            if found is not None:
                cheapest[group] = found
        return self.steps(every, {g: (a, b) for g, (_, a, b, _) in cheapest.items()})

    def steps(self, every: int, halves: dict[int, tuple[int, int]]) -> list[tuple[int, int]]:
        """The products of an order, from the innermost out, by their indices in the list."""
        places, out = [1 << k for k in range(len(self.factors))], list[tuple[int, int]]()

        def make(group: int) -> None:
            if group & (group - 1):
                a, b = halves[group]
                make(a)
                make(b)
                i, j = places.index(a), places.index(b)
                out.append((i, j))
                places[:] = [p for k, p in enumerate(places) if k not in (i, j)] + [group]

        make(every)
        return out

    def greedy(self) -> list[tuple[int, int]]:
        """The order that takes the cheapest pair next, or the written order if that is cheaper."""
        groups, halves = [1 << k for k in range(len(self.factors))], dict[int, tuple[int, int]]()
        while len(groups) > 1:
            pairs = [(a, b) for k, b in enumerate(groups) for a in groups[:k]]
            a, b = min(pairs, key=lambda p: self.pair(*p))
            halves[a | b] = a, b
            groups = [g for g in groups if g not in (a, b)] + [a | b]
        firsts = ((1 << k) - 1 for k in range(1, len(self.factors)))
        straight = {2 * g + 1: (g, g + 1) for g in firsts}
        orders = [halves, straight]
        halves = min(orders, key=lambda order: sum(self.pair(*two) for two in order.values()))
        return self.steps(groups[0], halves)
