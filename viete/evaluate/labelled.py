"""Arrays with named axes, and how two of them are aligned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from array_api_compat import is_jax_array, is_torch_array

from viete.errors import VieteError
from viete.graph.evaluator import COL as COL
from viete.graph.evaluator import ROW as ROW

Array = Any
BATCH = "batch"  # the label of the axis of texts


@dataclass(slots=True)
class Value:
    """An array (or a plain number) and the meaning of its axes.

    ``const``: computed only from numbers, dimensions and indices. ``fresh``: the array has no other
    owner, so the next operation may write into it. ``interval``: the bounds of whole numbers and
    truth values, where known.
    """

    array: Array
    axes: tuple[str, ...] = ()
    const: bool = False
    fresh: bool = False
    interval: tuple[int, int] | None = None

    @property
    def core(self) -> int:
        return (ROW in self.axes) + (COL in self.axes)

    def size(self, label: str) -> int:
        return int(self.array.shape[self.axes.index(label)])

    def frozen(self) -> Value:
        """The same value, kept under a name: no operation may write into it."""
        return Value(self.array, self.axes, self.const, False, self.interval)

    def relabel(self, old: str, new: str) -> Value:
        axes = tuple(new if a == old else a for a in self.axes)
        return Value(self.array, axes, self.const, self.fresh, self.interval)


@dataclass(frozen=True)
class Layout:
    """The labels that make up each axis, in order; an axis without labels has size 1.

    ``counts`` gives the number of values of each index letter.
    """

    groups: tuple[tuple[str, ...], ...]
    counts: Mapping[str, int]

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels in order."""
        return tuple(label for group in self.groups for label in group)

    def outward(self, xp: Any, array: Array, axes: tuple[str, ...], batch: int) -> Array:
        """A labelled array in this layout, repeated along axes that it lacks."""
        labels = self.labels
        array = expand(xp, array, axes, labels)
        counts = {**self.counts, "batch": batch}
        shape = tuple(
            counts.get(label, n) if n == 1 and label not in axes else n
            for label, n in zip(labels, array.shape, strict=True)
        )
        if shape != tuple(array.shape):
            array = xp.broadcast_to(array, shape)
        sizes, at = [], 0
        for group in self.groups:
            sizes.append(math.prod(shape[at : at + len(group)]))
            at += len(group)
        return array if len(sizes) == len(shape) else xp.reshape(array, tuple(sizes))

    def inward(self, xp: Any, array: Array, shape: Sequence[int], what: str) -> Value:
        """An array in this layout as a labelled one. Raises VieteError unless it has ``shape``."""
        if not hasattr(array, "shape") or tuple(array.shape) != tuple(shape):
            found = tuple(getattr(array, "shape", ())) or f"{array!r:.40}"
            raise VieteError(f"{what} must have its shape {tuple(shape)}, not {found}")
        sizes: list[int] = []
        for group, n in zip(self.groups, shape, strict=True):
            sizes += [self.counts[x] for x in group] if len(group) > 1 else [n] * len(group)
        return Value(xp.reshape(array, tuple(sizes)), self.labels)


def number(a: Array) -> Array:
    """An exact number as a float; an array unchanged."""
    try:
        return float(a) if isinstance(a, Fraction) else a
    except OverflowError:
        raise VieteError("a number here is larger than any float64 (10^308)") from None


def as_fraction(value: Any) -> Fraction:
    """The exact value of a whole number, a fraction or a float (a dyadic fraction).

    Raises VieteError for a value that is not a finite number.
    """
    if isinstance(value, str):
        raise VieteError(f"{value!r:.60} is not a number")
    try:
        return Fraction(value.item() if hasattr(value, "item") else value)
    except (ValueError, OverflowError):
        raise VieteError(f"{value} is not a finite number, so it has no exact value") from None
    except TypeError:
        raise VieteError(f"{value!r:.60} is not a number") from None


def device_of(array: Array) -> Any:
    """The device of an array; None for plain numbers."""
    return getattr(array, "device", None)


def traced(array: Array) -> bool:
    """Whether a function transformation traces the array, so that it may have no values yet.

    Under ``jax.jit``, ``jax.grad`` and ``torch.func`` its entries cannot be read.
    """
    if is_torch_array(array):
        from torch._C import _functorch

        return bool(_functorch.is_functorch_wrapped_tensor(array))
    if not is_jax_array(array):
        return False
    from jax.core import Tracer

    return isinstance(array, Tracer)


def is_float(array: Array) -> bool:
    """Whether the entries are floating-point numbers, in any array library."""
    kind = getattr(array.dtype, "kind", None)
    if kind == "V":  # ml_dtypes' bfloat16 and the like, not a plain void or a record
        return "float" in array.dtype.name
    return kind == "f" if kind is not None else bool(array.dtype.is_floating_point)


def permute(xp: Any, array: Array, have: tuple[str, ...], want: tuple[str, ...]) -> Array:
    """The array with its axes in the order ``want``."""
    return array if have == want else xp.permute_dims(array, tuple(have.index(a) for a in want))


def in_order(v: Value, letters: Iterable[str]) -> tuple[str, ...]:
    """A value's axes in the order of a run: batch, index letters, rows, columns."""
    lead = [a for a in ("batch", *letters) if a in v.axes]
    rest = [a for a in v.axes if a not in (*lead, ROW, COL)]
    return (*dict.fromkeys(lead), *rest, *(a for a in (ROW, COL) if a in v.axes))


def expand(xp: Any, array: Array, have: tuple[str, ...], want: tuple[str, ...]) -> Array:
    """The array with its axes in the order ``want``, of size 1 for missing labels."""
    array = permute(xp, array, have, tuple(a for a in want if a in have))
    return array[tuple(slice(None) if a in have else None for a in want)]


def fits(array: Array, into: Array) -> bool:
    """Whether an array (or number) broadcasts to the shape of another."""
    shape = getattr(array, "shape", ())
    return all(n in (1, m) for n, m in zip(shape[::-1], into.shape[::-1], strict=False))


def digits(a: Fraction) -> int:
    """The number of binary digits of an exact number."""
    return a.numerator.bit_length() + a.denominator.bit_length()
