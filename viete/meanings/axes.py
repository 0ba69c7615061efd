"""What `counting` knows of an expression: its axes, what they run over, and who read along them.

An axis may run over positions of the text (its *place*), and then over those of named values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viete.analysis.masks import Mask
from viete.graph.sizes import Size
from viete.notation.tree import Expr

ROW, COL = "row", "col"
ZERO, ONE = Size(()), Size.of(1)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its size and what it runs over.

    ``place`` is the length whose positions it counts. ``names`` are the values and inputs whose
    own positions these are, ``weights`` the (parameter, which axis) that it came from.
    """

    size: Size
    place: Size | None = None
    names: frozenset[str] = frozenset()
    weights: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Read:
    """Positions of ``name`` read by others: summed over, or (not yet) an axis of the result.

    ``past``: only positions up to the reader's own are, and at most ``width`` of them.
    """

    name: str
    place: Size
    past: bool
    width: Size | None = None
    summed: bool = True


@dataclass(frozen=True, slots=True)
class Flow:
    """An expression's axes by label, and what it is made of.

    ``const``: of numbers, dimensions and indices alone. ``live``: of parameters, so that training
    needs its gradient. ``given``: of inputs. ``size``: the value of a scalar made of dimensions.
    ``ids``: whole-number inputs it holds. ``lost``: reads along axes that are gone.
    """

    axes: Mapping[str, Axis] = field(default_factory=dict)
    const: bool = True
    live: bool = False
    given: bool = False
    size: Size | None = None
    mask: Mask | None = None
    ids: frozenset[str] = frozenset()
    lost: frozenset[Read] = frozenset()

    @property
    def entries(self) -> Size:
        return math.prod((a.size for a in self.axes.values()), start=ONE)

    @property
    def core(self) -> bool:
        return ROW in self.axes or COL in self.axes

    @property
    def own(self) -> str | None:
        """The axis of the value's own positions: rows, else columns, that count positions."""
        return next((k for k in (ROW, COL) if k in self.axes and self.axes[k].place), None)

    def rename(self, labels: Mapping[str, str]) -> Flow:
        axes = {labels.get(k, k): a for k, a in self.axes.items()}
        return replace(self, axes=axes, mask=self.mask and self.mask.rename(labels))

    def without(self, label: str, mask: Mask | None = None) -> Flow:
        """Summed or picked along an axis; ``mask`` may hide later positions from the sum."""
        axis = self.axes[label]
        rest = {k: a for k, a in self.axes.items() if k != label}
        gone = self.mask if self.mask and label not in (self.mask.now, self.mask.later) else None
        lost = self.lost | seen(axis, label, mask)
        return replace(self, axes=rest, size=None, mask=gone, lost=lost)


def seen(axis: Axis, label: str, mask: Mask | None) -> frozenset[Read]:
    """The reads of a sum along an axis."""
    if axis.place is None:
        return frozenset()
    past = mask is not None and mask.later == label
    width = mask.width if mask is not None and past else None
    return frozenset(Read(n, axis.place, past, width) for n in axis.names)


def turned(axis: Axis) -> frozenset[Read]:
    """The reads of a result that has an axis of other positions (``Q K^T``)."""
    if axis.place is None:
        return frozenset()
    return frozenset(Read(n, axis.place, True, summed=False) for n in axis.names)


@dataclass(frozen=True, slots=True)
class Env:
    """Names in force: arguments, their sizes, and (label, count) of each letter that is an axis.

    ``shared`` holds what a definition has computed already: within one, equal expressions are
    computed once (softmax needs exp(z) once).
    """

    arguments: Mapping[str, Flow] | None = None
    sizes: Mapping[str, Size] = field(default_factory=dict)
    index: Mapping[str, tuple[str, Size]] = field(default_factory=dict)
    shared: dict[Expr, Flow] | None = None
    level: int = 0

    def bound(self, letters: Mapping[str, tuple[str, Size]]) -> Env:
        shared: dict[Expr, Flow] | None = None if self.shared is None else {}
        return replace(self, index={**self.index, **letters}, shared=shared, level=self.level + 1)
