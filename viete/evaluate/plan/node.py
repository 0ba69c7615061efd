"""One operation of a plan: its arguments, the shape of its result, and its place in memory.

A view (a slice, a transpose, a reshape that moves nothing) shares the memory of its base. NumPy
itself works out shapes and strides, on arrays that have strides but no memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

FLOAT, HALF, INT, BOOL = "float", "half", "int", "bool"  # HALF: as products are computed
DTYPES = {FLOAT: "float", HALF: "float", INT: "int64", BOOL: "bool"}  # of an array's namespace
Shape = tuple[int, ...]


class Unrecordable(Exception):
    """Raised for what cannot be recorded, such as a choice by values; it is evaluated instead."""


_NOWHERE = np.empty(1, dtype=np.int8)  # entries of one byte: strides count entries
_START = int(_NOWHERE.__array_interface__["data"][0])


@lru_cache(maxsize=2**14)
def laid_out(shape: Shape) -> np.ndarray:
    """An array in row-major order without memory, which is never read."""
    strides = tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))
    return as_strided(_NOWHERE, shape, strides)


def offset_of(probe: np.ndarray) -> int:
    """The offset of the first entry, in entries."""
    return int(probe.__array_interface__["data"][0]) - _START


@dataclass(eq=False, slots=True)
class Node:
    """An operation and its result: an array of the recorder's namespace.

    ``lead`` is the axis that runs over the sequences of the batch, and the number of its entries
    that belong to each; None if sequences cannot be told apart (any more). ``offset`` counts
    entries of the base before the first one.
    """

    name: str
    args: tuple[Any, ...]
    attrs: tuple[Any, ...]
    kind: str
    probe: np.ndarray
    space: Any
    lead: tuple[int, int] | None = None
    of: Node | None = None  # the array that this is a view of
    equation: Any = None
    data: Any = None  # a constant's entries
    id: int = 0
    offset: int = 0
    shape: Shape = field(init=False)
    strides: Shape = field(init=False)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.shape, self.strides = self.probe.shape, self.probe.strides
        self.size = math.prod(self.shape)

    def copied(self, args: tuple[Any, ...], space: Any) -> Node:
        """The same operation on similar arguments, in another space."""
        node = object.__new__(Node)
        node.name, node.args, node.attrs, node.kind = self.name, args, self.attrs, self.kind
        node.probe, node.space, node.lead, node.data = self.probe, space, self.lead, self.data
        node.shape, node.strides, node.size = self.shape, self.strides, self.size
        node.offset, node.of = self.offset, None if self.of is None else args[0]
        return node

    @property
    def ndim(self) -> int:
        return self.probe.ndim

    @property
    def dtype(self) -> Any:
        return DTYPES[self.kind]

    @property
    def device(self) -> str:
        return "meta"  # it has no entries

    @property
    def base(self) -> Node:
        return self if self.of is None else self.of

    @property
    def whole(self) -> bool:
        """Whether this is all of its base, in the base's order."""
        return self.of is None or (
            self.size == self.of.size and self.strides == laid_out(self.shape).strides
        )

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return self.space

    def value(self) -> Any:
        """Raise Unrecordable: a node has no values yet."""
        raise Unrecordable(f"a value of {self!r}")

    __bool__ = __int__ = __float__ = __index__ = __len__ = __iter__ = __array__ = value

    def __getitem__(self, place: Any) -> Node:
        return self.space.index(self, place)

    def __repr__(self) -> str:
        return f"<{self.name} {self.shape}>"


def ancestors(nodes: Iterable[Node]) -> list[Node]:
    """Some nodes and all nodes they are computed from, in the order of recording."""
    found: set[Node] = set()
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += [a for a in node.args if isinstance(a, Node) and a not in found]
    return sorted(found, key=lambda n: n.id)


def _binary(name: str, swapped: bool = False) -> Callable[[Node, Any], Node]:
    def operator(a: Node, b: Any) -> Node:
        return a.space.entrywise(name, [b, a] if swapped else [a, b])

    return operator


for _op, _name in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"),
                   ("pow", "pow"), ("mod", "mod")):  # fmt: skip
    setattr(Node, f"__{_op}__", _binary(_name))
    setattr(Node, f"__r{_op}__", _binary(_name, swapped=True))
for _op in ("lt", "le", "gt", "ge"):
    setattr(Node, f"__{_op}__", _binary(_op))
