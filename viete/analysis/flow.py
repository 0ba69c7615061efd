"""The flow of one expression: what each of its axes ranges over, and which positions it read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from viete.analysis.masks import SIGN, Mask
from viete.graph.evaluator import COL, ROW
from viete.graph.sizes import ONE, Size


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its size and what it ranges over.

    ``place`` is the length whose positions it counts. ``names`` are the values and inputs whose own
    positions these are, ``weights`` the (parameter, which axis) that it came from.
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
    """An expression's axes by label, and its parts.

    ``const``: only of numbers, dimensions and indices. ``live``: of parameters, so that training
    needs its gradient. ``given``: of inputs. ``count``: its number, where that is a polynomial of
    dimensions and, as ``@label``, of index letters. ``ids``: the integer inputs it contains.
    ``lost``: reads along removed axes. ``lengths``: dimensions used to compute its entries, or that
    say how many of them were added up.
    """

    axes: Mapping[str, Axis] = field(default_factory=dict)
    const: bool = True
    live: bool = False
    given: bool = False
    count: Size | None = None
    mask: Mask | None = None
    ids: frozenset[str] = frozenset()
    lost: frozenset[Read] = frozenset()
    lengths: frozenset[str] = frozenset()

    @property
    def size(self) -> Size | None:
        """The value of a scalar made of dimensions."""
        return None if self.axes else self.count

    @property
    def used_lengths(self) -> frozenset[str]:
        """The ``lengths`` that its entries depend on if it is used other than as a polynomial."""
        names = () if self.count is None else self.count.names()
        return self.lengths.union(n for n in names if not n.startswith(SIGN))

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

    @property
    def place(self) -> Size | None:
        """The length whose positions are the value's own."""
        return None if self.own is None else self.axes[self.own].place

    def relabel(self, old: str, new: str) -> Flow:
        return self.rename({old: new})

    def rename(self, labels: Mapping[str, str]) -> Flow:
        axes = {labels.get(k, k): a for k, a in self.axes.items()}
        return replace(self, axes=axes, mask=self.mask and self.mask.rename(labels))

    def without(self, label: str, mask: Mask | None = None) -> Flow:
        """The flow without an axis, summed or picked; ``mask`` may hide later positions."""
        axis = self.axes[label]
        rest = {k: a for k, a in self.axes.items() if k != label}
        gone = self.mask if self.mask and label not in (self.mask.now, self.mask.later) else None
        lost = self.lost | reads_along(axis, label, mask)
        return replace(self, axes=rest, count=None, mask=gone, lost=lost, lengths=self.used_lengths)

    def folded(self, label: str, mask: Mask | None) -> Flow:
        """The flow without an axis, reduced; without a mask it depends on the axis's length."""
        out = self.without(label, mask)
        if mask is not None and mask.later == label:
            return out
        return replace(out, lengths=out.lengths | self.axes[label].size.names())


def reads_along(axis: Axis, label: str, mask: Mask | None) -> frozenset[Read]:
    """The reads of a sum along an axis."""
    if axis.place is None:
        return frozenset()
    hides = mask is not None and mask.later == label
    width = mask.width if mask is not None and hides else None
    return frozenset(Read(n, axis.place, hides, width) for n in axis.names)


def reads_across(axis: Axis) -> frozenset[Read]:
    """The reads of a result that has an axis of other positions (``Q K^T``)."""
    if axis.place is None:
        return frozenset()
    return frozenset(Read(n, axis.place, True, summed=False) for n in axis.names)


__all__ = ["Axis", "Flow", "Read", "reads_across", "reads_along"]
