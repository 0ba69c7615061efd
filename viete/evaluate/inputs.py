"""Inputs and weights of a run, checked against the card and converted."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    is_array_api_obj,
    is_jax_array,
    is_numpy_array,
    is_torch_array,
)

from viete.errors import VieteError
from viete.evaluate.backends import backend_of
from viete.evaluate.labelled import COL, ROW, Array, Value, device_of, is_float, traced
from viete.evaluate.schedule import Member, Program
from viete.evaluate.spelling import by_own_names
from viete.graph.card import Input
from viete.notation.printer import show
from viete.notation.tree import Ref

NO_TARGET = -100  # of a position without a target, in the library's losses and in PyTorch
SMALL = 8 * 2**20  # bytes of weights that may be cached from one run to the next
STRIDES = operator.attrgetter("strides")
NO_WEIGHT = np.zeros(0)
PIECE = 1024  # positions: a layer's values for them fit the cache, and keep the cores busy


class Feeding:
    """Arrays for one run of a program: ``store`` holds the given arrays, ``sizes`` all sizes.

    ``like`` is an array with the dtype, device and library to compute in.
    """

    def __init__(
        self, program: Program, inputs: Mapping[str, Array], weights: Mapping[str, Array]
    ) -> None:
        self.program, self.model = program, program.model
        self.sizes = dict(program.sizes)
        self.store: dict[Member, Value] = {}
        like = next((w for w in weights.values() if is_float(w)), None)
        self.like = NO_WEIGHT if like is None else like
        inputs = by_own_names(program.model, inputs, program.inputs)
        for name, (item, loops) in program.inputs.items():
            value = self.input(item, name, inputs)
            if value is not None:
                self.store[item.name, loops] = value
        batches = {k[0]: v.size("batch") for k, v in self.store.items() if "batch" in v.axes}
        if len(set(batches.values())) > 1 or 0 in batches.values():
            shown = ", ".join(f"{k} has {n}" for k, n in batches.items())
            raise VieteError(f"all inputs must come in one batch, and not an empty one: {shown}")
        self.default_inputs(inputs)
        self.inputs = list(self.store)
        self.weights = given_weights(program, weights)
        self.store |= self.weights.store

    def input(self, item: Input, name: str, given: Mapping[str, Array]) -> Value | None:
        """A given input, with its lengths recorded and its shape and entries checked."""
        if name not in given:
            return None
        sizes = self.sizes
        array = as_input(item, given[name], self.like)
        letters = self.model.heads_of(item.symbol)
        rank = len(letters) + len(item.shape)
        if array.ndim not in (rank, rank + 1):
            raise VieteError(
                f"the input {name} has {array.ndim} axes; it takes {rank}, or {rank + 1} with "
                f"a batch in front"
            )
        shape = tuple(array.shape)[array.ndim - rank :]
        for letter, n in zip(letters, shape[: len(letters)], strict=True):
            if n != (wanted := len(self.program.range_of(letter))):
                raise VieteError(f"the input {name} has {n} members where {letter} has {wanted}")
        for e, n in zip(item.shape, shape[len(letters) :], strict=True):
            if isinstance(e, Ref) and e.key in self.model.lengths and e.key not in sizes:
                limit = self.model.size(self.model.lengths[e.key])
                most = (
                    None if limit is None else self.program.evaluate(limit, f"the length {e.key}")
                )
                if most is not None and n > most:
                    raise VieteError(f"the input {name} is {n} long, and {e.key} is at most {most}")
                if n == 0:
                    raise VieteError(f"the input {name} is empty; it needs at least one entry")
                sizes[e.key] = Fraction(n)
                continue
            size = self.model.size(e)
            assert size is not None
            try:
                length = size.evaluate(sizes)
            except KeyError as missing:
                raise VieteError(f"the length {missing.args[0]} has no value here") from None
            if n != length:
                raise VieteError(f"the input {name} is {n} long where {show(e)} = {length}")
        self.check_range(item, array)
        core = (ROW, COL)[2 - len(item.shape) :]
        return Value(array, (("batch",) if array.ndim > rank else ()) + letters + core)

    def pieces(self, positions: int = PIECE) -> list[tuple[range, dict[Member, Value]]]:
        """On a CPU, the store split into a few sequences at a time; empty if one piece suffices."""
        batch = next((v.size("batch") for v in self.store.values() if "batch" in v.axes), 1)
        length = max((self.sizes[k] for k in self.model.lengths if k in self.sizes), default=1)
        step = max(1, positions // int(length))
        if step >= batch or "cpu" not in str(getattr(self.like, "device", "cpu")):
            return []
        return [
            (
                range(k, min(k + step, batch)),
                {
                    m: Value(v.array[k : k + step], v.axes) if "batch" in v.axes else v
                    for m, v in self.store.items()
                },
            )
            for k in range(0, batch, step)
        ]

    def check_range(self, item: Input, array: Array) -> None:
        if (
            item.low is None
            or item.high is None
            or not array.shape
            or 0 in array.shape
            or traced(array)
        ):
            return
        bounds = []
        for e in (item.low, item.high):
            size = self.model.size(e)
            value = None if size is None else size.evaluate(self.sizes)
            # A whole bound as an int: arrays compare with fractions one entry at a time.
            bounds.append(int(value) if value is not None and value.denominator == 1 else value)
        entries, hint = host(array), ""
        if item.name in self.program.targets:
            entries, bounds[0] = entries[entries != NO_TARGET], 0
        elif NO_TARGET in entries:
            high = "" if item.high is None else show(item.high)
            hint = f"; targets of which some are none, -100, are declared ∈ {{-100, ..., {high}}}"
        for bad in (entries[entries < bounds[0]], entries[entries > bounds[1]]):
            if bad.size:
                raise VieteError(
                    f"the input {item.name} holds {bad.flat[0]}, which is not among "
                    f"{bounds[0]} … {bounds[1]}{hint}"
                )

    def default_inputs(self, given: Mapping[str, Array]) -> None:
        known = self.program.inputs
        if unknown := [n for n in given if n not in known]:
            raise VieteError(
                f"{self.model.title} has no input {unknown[0]}; "
                f"it has {', '.join(sorted(known)) or 'none'}"
            )
        for name, (item, loops) in known.items():
            if name in given or item.default is None:
                continue
            letters = self.model.heads_of(item.symbol)
            shape = [len(self.program.range_of(s)) for s in letters]
            for e in item.shape:
                size = self.model.size(e)
                try:
                    shape.append(int(size.evaluate(self.sizes)))  # type: ignore[union-attr]
                except KeyError:
                    break
            else:
                fill = self.model.size(item.default)
                value = 0 if fill is None else fill.evaluate(self.sizes)
                array = np.full(shape, int(value) if item.high is not None else float(value))
                self.store[item.name, loops] = Value(
                    as_input(item, array, self.like),
                    letters + (ROW, COL)[2 - len(item.shape) :],
                )


class GivenWeights:
    """Weights as labelled values, by member; ``strides`` are recorded at their first use.

    ``layout`` is their layout in memory, see `layout_of`.
    """

    def __init__(self, program: Program, weights: Mapping[str, Array], layout: Any) -> None:
        self.names, self.arrays, self.layout = tuple(weights), list(weights.values()), layout
        self.strides: tuple[tuple[int, ...], ...] | None = None
        self.bytes = sum(math.prod(w.shape) * int(getattr(w, "itemsize", 8)) for w in self.arrays)
        self.store: dict[Member, Value] = {}
        for name, (p, loops, shape) in program.parameters.items():
            if name in weights:
                w = weights[name]
                if tuple(w.shape) != shape:
                    raise VieteError(
                        f"the weight {name} has shape {tuple(w.shape)}, but the card says {shape}"
                    )
                axes = program.model.heads_of(p.symbol) + (ROW, COL)[2 - len(p.shape) :]
                self.store[p.name, loops] = Value(w, axes)


def given_weights(program: Program, weights: Mapping[str, Array]) -> GivenWeights:
    """As `GivenWeights`; small weights are checked again only if an array was replaced.

    Or if the same array got other memory or another shape.
    """
    known: GivenWeights | None = program.weights
    layout = layout_of(weights)
    if (
        known is not None
        and len(known.arrays) == len(weights)
        and all(map(operator.is_, known.arrays, weights.values()))
        and known.names == tuple(weights)
        and known.layout == layout
    ):
        return known
    found = GivenWeights(program, weights, layout)
    program.weights = None if layout is None or found.bytes > SMALL else found
    return found


def layout_of(weights: Mapping[str, Array]) -> Any:
    """What can change in arrays that stay the same objects: their strides and their memory.

    None if nothing may be cached about them: while a function of them is transformed, or if they
    are of several libraries.
    """
    like = next(iter(weights.values()), NO_WEIGHT)
    try:
        if is_numpy_array(like):
            # Memory and number of entries cannot change, so the strides determine the shape too.
            return [*map(STRIDES, weights.values())]
        if not is_torch_array(like):
            return None if any(map(traced, weights.values())) else ()
        if backend_of(like).transforming():
            return None
        import torch

        asked = (torch.Tensor.data_ptr, torch.Tensor.stride, torch.Tensor.size)
        return [[*map(ask, weights.values())] for ask in asked]
    except (AttributeError, TypeError):  # of several libraries
        return None


def as_input(item: Input, given: Array, like: Array) -> Array:
    """An input as an array of the weights' kind, in memory that no caller writes to."""
    whole = item.high is not None
    if not hasattr(given, "dtype"):
        try:
            given = np.asarray(given)
        except (ValueError, OverflowError, TypeError):
            raise VieteError(
                f"the input {item.name} must be a rectangular list of numbers"
            ) from None
    kind = getattr(given.dtype, "kind", None)
    if kind is not None and kind not in "iuf" + "b":
        raise VieteError(f"the input {item.name} must be numbers, not {given.dtype}")
    if whole and is_float(given) and 0 not in given.shape:
        raise VieteError(f"the input {item.name} takes whole numbers, not {given.dtype}")
    xp = array_namespace(like)
    if array_namespace(given) is not xp and traced(given):
        raise VieteError(
            f"the input {item.name} has no values while its function is transformed, so it "
            f"must be an array of the same library as the weights"
        )
    if is_numpy_array(like):
        return host(given).astype(np.int64 if whole else like.dtype)
    dtype = backend_of(like).int64 if whole else like.dtype
    if array_namespace(given) is not xp:  # libraries read each other's bytes in different ways
        given = np.array(host(given))
    elif is_torch_array(given):
        return given.to(like.device, dtype, copy=True)
    return xp.asarray(given, dtype=dtype, device=None if traced(given) else device_of(like))


def writable(array: Any) -> Any:
    """The array, or a copy of a read-only NumPy array, which PyTorch would warn of."""
    return array.copy() if isinstance(array, np.ndarray) and not array.flags.writeable else array


def host(array: Array) -> Array:
    """Any library's array as a NumPy array."""
    return array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)


def in_numpy(array: Any) -> np.ndarray:
    """An array or a number as a NumPy array; bfloat16, which NumPy lacks, becomes float32."""
    if "bfloat16" in str(getattr(array, "dtype", "")):
        array = array.float() if hasattr(array, "detach") else array.astype("float32")
    return np.asarray(host(array))


class Weights(dict[str, Array]):
    """Weights checked once, and again only if an array was replaced."""

    checked: tuple[int, ...] = ()

    @property
    def arrays(self) -> tuple[int, ...]:
        """The identities of the arrays."""
        return tuple(map(id, self.values()))


def check_weights(ready: Program, weights: Mapping[str, Array]) -> None:
    """Raise VieteError for weights that do not fit the card: names, kinds of array and values.

    An entry written into one of `Weights` is not checked: for a small model that would take a third
    of its run.
    """
    if isinstance(weights, Weights) and weights.checked == (id(ready), *weights.arrays):
        return
    check_each(ready, weights)
    if isinstance(weights, Weights):
        weights.checked = (id(ready), *weights.arrays)


def check_each(ready: Program, weights: Mapping[str, Array]) -> None:
    """As `check_weights`, without skipping weights checked before."""
    if not isinstance(weights, Mapping):
        raise VieteError(
            f"weights must be a mapping from names to arrays, not {type(weights).__name__}"
        )
    check_names(ready, weights)
    kinds = set()
    with np.errstate(all="ignore"):  # once: it takes as long as checking a small weight
        for name, w in weights.items():
            if not is_array_api_obj(w):
                exact = isinstance(w, list | Fraction)
                hint = "; exact numbers, as card.exact_weights gives them, run with meaning='exact'"
                raise VieteError(
                    f"the weight {name} must be an array, not {type(w).__name__}{hint * exact}"
                )
            if not is_float(w):
                raise VieteError(f"the weight {name} must be floating-point numbers, not {w.dtype}")
            kinds.add((array_namespace(w), w.dtype))
            if not finite(w):
                raise VieteError(f"the weight {name} holds a value that is not a finite number")
    if len(kinds) > 1:
        names = (f"{xp.__name__.rsplit('.', 1)[-1]} {dtype}" for xp, dtype in kinds)
        shown = " and ".join(sorted(names))
        raise VieteError(f"the weights are of different kinds: {shown}; convert them to one")


def finite(w: Array) -> bool:
    """Whether all entries are finite numbers, as far as can be known.

    They are if their sum is finite, or the sum of their squares, which is quick to compute.
    """
    if isinstance(w, np.ndarray) and w.dtype.char in "fd" and w.flags.c_contiguous:
        flat = w.reshape(-1)
        if math.isfinite(np.dot(flat, flat)):
            return True
    if traced(w):
        return True
    xp = array_namespace(w)
    total = xp.isfinite(xp.sum(w))
    if is_jax_array(total) and traced(total):  # as for known arrays under `jax.jit`
        return finite(host(w))
    return bool(total) or bool(xp.all(xp.isfinite(w)))


def check_names(ready: Program, weights: Mapping[str, Array]) -> None:
    """Raise VieteError for weights that are missing or not in the card."""
    if weights.keys() == ready.parameters.keys():
        return
    unknown = [str(n) for n in weights if n not in ready.parameters]
    missing = [n for n in ready.parameters if n not in weights]
    if unknown or missing:
        parts = []
        if missing:
            parts.append(f"{count(missing)} missing ({some(missing)})")
        if unknown:
            parts.append(f"{count(unknown)} not in the card ({some(unknown)})")
        raise VieteError(f"these weights do not fit {ready.model.title}: {', '.join(parts)}")


def count(names: Sequence[str]) -> str:
    """The number of names with its verb: ``1 is`` or ``3 are``."""
    return f"{len(names)} {'is' if len(names) == 1 else 'are'}"


def some(names: Sequence[str], most: int = 4) -> str:
    """The first few names, and whether there are more."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
