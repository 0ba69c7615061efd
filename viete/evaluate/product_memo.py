"""Remembers products of two arrays, so the same product along the same axes is computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viete.evaluate.labelled import Value

Key = tuple[int, int, frozenset[tuple[int, int, bool]]]


class ProductMemo:
    """Products by their arrays, each with the block letters that it depends on."""

    def __init__(self) -> None:
        self.there: dict[Key, tuple[Value, Value, Value, frozenset[str]]] = {}

    def key(self, a: Value, b: Value, over: Sequence[str]) -> Key:
        """The identities of two arrays, their paired axes, and which of these are summed."""
        links = ((a.axes.index(x), b.axes.index(x), x in over) for x in a.axes if x in b.axes)
        return id(a.array), id(b.array), frozenset(links)

    def made(self, a: Value, b: Value, over: Sequence[str]) -> Value | None:
        """The remembered product with the axis names used here; None if it is not remembered."""
        for one, two in ((a, b), (b, a)):
            if (found := self.there.get(self.key(one, two, over))) is not None:
                first, second, value, _ = found
                names = dict(zip((*first.axes, *second.axes), (*one.axes, *two.axes), strict=True))
                axes = tuple(names[x] for x in value.axes)
                return Value(value.array, axes, value.const, False, value.interval)
        return None

    def keep(
        self, a: Value, b: Value, over: Sequence[str], value: Value, letters: frozenset[str]
    ) -> None:
        """Remember a product, and its factors, so that their identities stay their own."""
        self.there[self.key(a, b, over)] = a, b, value, letters

    def forget(self, gone: Callable[[frozenset[str]], bool]) -> None:
        """Forget the products whose block letters are ``gone``."""
        self.there = {k: v for k, v in self.there.items() if not gone(v[3])}
