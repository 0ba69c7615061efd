"""Floating-point arrays: every expression as operations of the array API standard.

A value is an array with a label for each of its axes: ``row`` and ``col`` for the axes it has on
paper, an index letter for every family index, ``batch`` in front of all. With labels, heads and
batches broadcast by name, a transpose swaps labels, and one rule, `contract`, serves every product
and every sum over heads.

Values that depend on no weight and no input (masks, rotary angles) are computed once, in float64
NumPy, and cast where they first meet the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from viete.analysis.kinds import (
    BIT,
    LOGICAL,
    OF_REALS,
    Interval,
    interval_of,
    quotient,
)
from viete.errors import VieteError
from viete.evaluate.array_picks import ArrayPicks
from viete.evaluate.backends import CONSTANTS
from viete.evaluate.labelled import (
    BATCH,
    COL,
    ROW,
    Array,
    Value,
    device_of,
    expand,
    fits,
    permute,
)
from viete.evaluate.memos import remembered
from viete.evaluate.scalars import scalar
from viete.graph.card import CardData
from viete.graph.evaluator import Algebra, Env, Letter
from viete.notation.heads import head_of, joint
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Idx, Num, Pick, Ref, Slice

MOST_VALUES, MOST_BLOCKS = 100_000_000, 10_000  # of an index letter


Lookup = Callable[[str, tuple[int, ...]], Value]


class Arrays(ArrayPicks, Algebra[Value, Env[Value]]):
    """Evaluates expressions of one model for one set of sizes and one kind of array.

    ``lookup(key, loops)`` gives a parameter's, input's or earlier value's `Value`. ``like`` is an
    array with the dtype, device and namespace to compute in.
    """

    zero = 0
    divides = True  # whether floor of a quotient of whole numbers is a whole-number division
    sparse = False  # whether sums with few terms for each row only compute those rows

    def __init__(
        self, card: CardData, sizes: Mapping[str, Fraction], like: Array, lookup: Lookup,
        quick: bool = True, memo: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(like, memo)
        self.card, self.lookup, self.fast = card, lookup, quick
        index: dict[str, int | Letter] = {}
        for i in card.indices:
            first, last = (self.whole(card.size(x), sizes, i.name) for x in (i.lower, i.upper))
            index[i.name] = Letter(i.name, i.name, first, last - first + 1)
        self.env: Env[Value] = Env(None, sizes, index)
        self.inputs: dict[str, Interval] = {}
        for item in card.inputs:
            if item.low is not None and item.high is not None:
                ends = [card.size(x) for x in (item.low, item.high)]
                if all(x is not None and x.names() <= sizes.keys() for x in ends):
                    low, high = (x.evaluate(sizes) for x in ends if x is not None)
                    self.inputs[item.name] = math.floor(low), math.ceil(high)

    def whole(self, size: Any, sizes: Mapping[str, Fraction], what: str) -> int:
        value = size.evaluate(sizes)
        if value.denominator != 1:
            raise VieteError(f"{what} = {size} is {value}, which is not a whole number")
        return int(value)

    # -- names -------------------------------------------------------------------------------------

    def number(self, value: Fraction) -> Value:
        return Value(value, (), True)

    def idx(self, e: Idx, env: Env[Value]) -> Value:
        meaning = env.index[e.name]
        if isinstance(meaning, int):
            return Value(Fraction(meaning), (), True)
        if isinstance(meaning, Value):  # some of its values, along an axis of theirs
            return meaning
        first, count = meaning.first, meaning.count
        if count > MOST_VALUES:
            raise VieteError(
                f"the index {e.name} runs over {count:,} values; at most {MOST_VALUES:,}"
            )
        numbers = remembered(
            self.memo, ("idx", first, count),
            lambda: np.arange(first, first + count, dtype=np.float64))  # fmt: skip
        interval = (first, first + max(count, 1) - 1)
        return Value(numbers, (meaning.label,), True, False, interval)

    def size(self, e: Expr, env: Env[Value]) -> int:
        """A size, a bound or a block number, which must be a whole number."""
        if isinstance(e, Num) and e.value.denominator == 1:
            return int(e.value)
        if isinstance(e, Idx) and isinstance(k := env.index[e.name], int):
            return k
        v = self.of(e, env)
        if v.axes or not isinstance(v.array, Fraction | int):
            raise VieteError(f"{show(e)} is not made of dimensions, so it is not a size")
        if Fraction(v.array).denominator != 1:
            here = "" if show(e) == str(v.array) else f" is {v.array} here, which"
            raise VieteError(f"{show(e)}{here} is not a whole number")
        return int(v.array)

    def dimension(self, e: Ref, env: Env[Value]) -> Value:
        if e.key not in env.sizes:
            of = [i.name for i in self.card.inputs if any(e.key in x.keys for x in i.shape)]
            raise VieteError(
                f"the length {e.key} is that of the input {of[0]}, which was not given"
                if of else f"the dimension {e.key} has no value; give one with --set {e.key}=…"
            )  # fmt: skip
        return Value(env.sizes[e.key], (), True)

    def named(self, e: Ref, blocks: Sequence[Expr], env: Env[Value]) -> Value:
        return self.declared(e.key, self.lookup(e.key, tuple(self.size(b, env) for b in blocks)))

    def length(self, v: Value, label: str) -> Fraction:
        return Fraction(v.size(label))

    def declared(self, key: str, v: Value) -> Value:
        """An input with the interval that the card declares for its whole numbers."""
        if key not in self.inputs or v.interval is not None:
            return v
        return Value(v.array, v.axes, v.const, False, self.inputs[key])

    # -- members of an axis ------------------------------------------------------------------------

    def picked_heads(self, v: Value, indices: Sequence[tuple[str, Expr]], env: Env[Value]) -> Value:
        """As `Evaluator.picked_heads`; all heads of all groups become one axis without a copy."""
        rest = list(indices)
        for pair in pairwise(indices):
            (group, a), (place, b) = pair
            head = joint(a, b)
            letter = env.index.get(head.name) if isinstance(head, Idx) else None
            if not isinstance(letter, Letter) or {group, place} - {*v.axes}:
                continue
            if letter.label in v.axes:
                continue  # a value of each head's own run: picked head by head
            if (letter.first, letter.count) == (1, v.size(group) * v.size(place)):
                rest = [x for x in rest if x not in pair]
                v = self.together(v, group, place, letter.label)
        return super().picked_heads(v, rest, env)

    def members(
        self, v: Value, old: str, new: Letter, among: Letter, env: Env[Value]
    ) -> Value:  # fmt: skip
        first, count = int(among.first), v.size(old)
        if new.first == first and new.count == count:
            return v.relabel(old, new.label)
        if not first <= new.first <= new.first + new.count <= first + count:
            raise VieteError(
                f"{new.name} runs to {new.first + new.count - 1}, outside {first} to "
                f"{first + count - 1}"
            )
        start = new.first - first
        return self.stretch(v, old, start, start + new.count).relabel(old, new.label)

    def cut(self, v: Value, label: str, item: Slice, e: Pick, env: Env[Value]) -> Value:
        size = v.size(label)
        start = self.size(item.start, env) if item.start else 0
        stop = self.size(item.stop, env) if item.stop else size
        if not 0 <= start <= stop <= size:
            raise VieteError(f"{show(e)} asks for {start}:{stop} of an axis of {size}")
        return self.stretch(v, label, start, stop)

    def gather(
        self, v: Value, label: str, at: Value, index: Expr, among: Letter, env: Env[Value]
    ) -> Value:  # fmt: skip
        if at.axes or not isinstance(at.array, Fraction | int | float):
            return self.gathered(v, label, at, int(among.first))
        if at.array != math.floor(at.array):
            raise VieteError(f"{show(index)} is not a whole number, so it cannot be an index")
        size, first = v.size(label), int(among.first)
        k = int(at.array) - first
        if not 0 <= k < size:
            wrong, last = k + first, size + first - 1
            if (head := head_of(index)) is not None and isinstance(head[0], Num):
                wrong, last = int(head[0].value), size * int(self.size(head[1], env))
            raise VieteError(f"index {wrong} is outside {first} to {last}")
        place = tuple(k if a == label else slice(None) for a in v.axes)
        rest = tuple(a for a in v.axes if a != label)
        return Value(v.array[place], rest, v.const, False, v.interval)

    def from_end(
        self, v: Value, label: str, k: int, item: Expr, among: Letter, env: Env[Value]
    ) -> Value:  # fmt: skip
        if k > among.count:
            raise VieteError(f"-{k} is not an index: from the end, places are -1 to -{among.count}")
        return self.gather(v, label, self.sized(among.count - k), item, among, env)

    # -- binders -----------------------------------------------------------------------------------

    def bound_letter(self, e: Bind, env: Env[Value], label: str) -> Letter:
        if e.lower is not None and e.upper is not None:
            first, last = self.size(e.lower, env), self.size(e.upper, env)
            if last < first - (e.op == "sum"):
                raise VieteError(f"{e.op}_{e.index} runs from {first} to {last}, an empty range")
            return Letter(e.index, label, first, last - first + 1)
        meaning = env.index.get(e.index)
        if not isinstance(meaning, Letter):
            raise VieteError(f"{e.op}_{e.index} needs bounds")
        return meaning if meaning.label == BATCH else replace(meaning, label=label)

    def merge(self, v: Value, label: str) -> Value:
        xp, array, const = self.alone(v)
        order = tuple(a for a in v.axes if a not in (label, COL)) + (label, COL)
        array = xp.reshape(
            permute(xp, array, v.axes, order), (*(v.size(a) for a in order[:-2]), -1)
        )
        return Value(array, order[:-2] + (COL,), const, False, v.interval)

    def fold(self, op: str, v: Value, label: str) -> Value:
        """One axis reduced by a function of the array library."""
        axis = v.axes.index(label)
        rest = v.axes[:axis] + v.axes[axis + 1 :]
        if op in ("max", "min", "argmax", "mean") and not v.size(label):
            raise VieteError(f"there is no {op} of no entries; give it at least one")
        if op == "argmax":
            xp, array, const = self.alone(v)
            interval: Interval | None = (0, max(v.size(label) - 1, 0))
        else:
            xp, (array,), const, interval = self.namespace([v], op, v.size(label))
        return Value(getattr(xp, op)(array, axis=axis), rest, const, True, interval)

    def blocks(self, e: Bind, env: Env[Value]) -> Value:
        assert e.lower is not None and e.upper is not None
        values = range(self.size(e.lower, env), self.size(e.upper, env) + 1)
        if len(values) > MOST_BLOCKS:
            raise VieteError(f"a {e.op} over {len(values):,} blocks; at most {MOST_BLOCKS:,}")
        parts = [self.of(e.body, replace(env, index={**env.index, e.index: k})) for k in values]
        if not parts:
            return Value(Fraction(0), (), True)
        total = parts[0]
        for part in parts[1:]:
            total = self.entrywise("max" if e.op == "max" else "add", [total, part])
        if e.op == "mean":
            total = self.entrywise("div", [total, Value(Fraction(len(parts)), (), True)])
        return total

    def spread(self, v: Value, letters: Sequence[Letter], env: Env[Value]) -> Value:
        if negative := [x for x in letters if x.count < 0]:
            raise VieteError(
                f"the table's index {negative[0].name} runs over {negative[0].count} values"
            )
        xp, array, const = self.alone(v)
        missing = [x for x in letters if x.label not in v.axes]
        interval = v.interval
        if missing:
            if not hasattr(array, "shape"):
                interval = self.interval(v)
                array = xp.asarray(array, dtype=bool if isinstance(array, bool) else xp.float64)
            array = xp.broadcast_to(array, (*(x.count for x in missing), *array.shape))
        axes = (*(x.label for x in missing), *v.axes)
        return Value(array, axes, const, False, interval)

    def column(self, v: Value) -> Value:
        if COL in v.axes:
            return v
        array = self.alone(v)[1]
        return Value(array[..., None], (*v.axes, COL), v.const, False, v.interval)

    def transpose(self, v: Value) -> Value:
        if COL not in v.axes and ROW in v.axes:  # a column becomes a matrix of one row
            row = v.relabel(ROW, COL)
            return Value(v.array[None, ...], (ROW, *row.axes), v.const, False, v.interval)
        if ROW not in v.axes:
            return Value(v.array[None, ...], (COL, *v.relabel(COL, ROW).axes), v.const, False,
                         v.interval)  # fmt: skip
        swap = {ROW: COL, COL: ROW}
        axes = tuple(swap.get(a, a) for a in v.axes)
        return Value(v.array, axes, v.const, False, v.interval)

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: Env[Value]) -> Value:
        op = e.op
        if op in ("inf", "pi"):
            return Value(math.inf if op == "inf" else math.pi, (), True)
        if self.divides and (parts := quotient(e)) is not None:
            a, b = (self.of(x, env) for x in parts)
            if interval_of("quotient", [self.interval(a), self.interval(b)]) is not None:
                return self.entrywise("quotient", [a, b])
            return self.entrywise("floor", [self.entrywise("div", [a, b])])
        return super().apply(e, env)

    def call(self, name: str, args: list[Value], level: int = 1) -> Value:
        """A call of a named function: by a fast version if one applies, else by its definition."""
        key: tuple[Any, ...] = ()
        if all(v.const for v in args):
            key = ("call", name, *(
                v.array if isinstance(v.array, Fraction | int | float) else id(v.array)
                for v in args
            ), *(v.axes for v in args))  # fmt: skip
            if (before := self.memo.get(key)) is not None:
                return before[1]
        function = self.card.function[name]
        args = self.with_defaults(function, args)
        named = self.card.library_names.get(name, "")
        if named in OF_REALS:
            args = [self.real(args[0]), *args[1:]]
        found = self.version(named, args)
        if found is not None:
            return found
        found = self.defined(function, [v.frozen() for v in args], level)
        if key:
            if len(self.memo) > 512:
                self.memo.clear()
            self.memo[key] = (args, found)  # kept, so that the arguments' ids are not reused
        return found

    def reusable(self, v: Value) -> Value:
        return v.frozen()

    def version(self, name: str, args: list[Value]) -> Value | None:
        """A library function's fast version on arguments; None if only the definition applies."""
        return None

    def entrywise(self, op: str, args: list[Value]) -> Value:
        sides = args[1:] if op == "where" else args
        const, interval = all(v.const for v in args), BIT
        xp: Any = np if const else self.xp
        arrays: list[Array] = []
        if op not in LOGICAL and not (op == "where" and all(map(self.truth, sides))):
            xp, arrays, const, interval = self.namespace(sides, op, const=const)  # type: ignore[assignment]
        tests = args[: len(args) - len(arrays)]
        arrays = [v.array if const else self.lift(v) for v in tests] + arrays
        if not any(v.axes for v in args) and all(not hasattr(a, "shape") for a in arrays):
            return Value(scalar(op, [v.array for v in args]), (), True)
        axes = max((v.axes for v in args), key=len)
        if any(v.axes != axes and v.axes for v in args):
            extra = dict.fromkeys(a for v in args for a in v.axes if a not in axes)
            axes = (*extra, *axes)
            arrays = [
                expand(xp, a, v.axes, axes) if v.axes and v.axes != axes else a
                for a, v in zip(arrays, args, strict=True)
            ]
        if op == "where" and not const and not any(hasattr(a, "shape") for a in arrays[1:]):
            # One of two plain numbers must determine the dtype of the array.
            there = {} if self.numpy else {"device": device_of(self.like)}
            dtype = self.like.dtype if interval is None else self.int64
            dtype = xp.bool if isinstance(arrays[1], bool) else dtype
            arrays[1] = xp.asarray(arrays[1], dtype=dtype, **there)
        out = None
        free = self.writes and not const and axes and interval is None
        if free and args[0].fresh and not args[0].const and args[0].axes == axes:
            first = arrays[0]
            if first.dtype == self.like.dtype and all(fits(a, first) for a in arrays[1:]):
                out = first
        if op == "floor" and interval is not None:
            return Value(arrays[0], axes, const, False, interval)
        backend = CONSTANTS if const else self.backend
        return Value(backend.entrywise(op, arrays, out), axes, const, True, interval)

    def concat(self, args: list[Value]) -> Value:
        filled = [v for v in args if v.size(COL) > 0] or args[:1]
        if {a for v in filled for a in v.axes} == {a for v in args for a in v.axes}:
            args = filled
        if len(args) == 1:
            return args[0]
        xp, arrays, const, interval = self.namespace(args, "concat")
        if all(map(self.truth, args)):  # which stay truth values side by side
            arrays = [v.array if const else self.lift(v) for v in args]
        axes = max((v.axes for v in args), key=len)
        axes = (*dict.fromkeys(a for v in args for a in v.axes if a not in axes), *axes)
        arrays = [expand(xp, a, v.axes, axes) for a, v in zip(arrays, args, strict=True)]
        at = axes.index(COL)
        full = [max(a.shape[k] for a in arrays) for k in range(len(axes))]
        arrays = [
            xp.broadcast_to(a, tuple(a.shape[k] if k == at else n for k, n in enumerate(full)))
            for a in arrays
        ]
        return Value(xp.concat(arrays, axis=at), axes, const, True, interval)

    def contract(self, a: Value, b: Value, over: tuple[str, ...]) -> Value:
        """Sum of products over the labels ``over``, entry by entry in the labels both have.

        It is computed as one (batched) matrix product: shared labels in front, the labels of only
        one factor flattened. ``x W^h`` for all heads, and ``sum_h A^h V^h W^h``, are each one
        product.
        """
        count = math.prod(a.size(s) for s in over)
        xp, (x, y), const, interval = self.namespace([a, b], "prod", count)
        shared = tuple(s for s in a.axes if s in b.axes and s not in over)
        left = tuple(s for s in a.axes if s not in b.axes)
        right = tuple(s for s in b.axes if s not in a.axes)
        x = permute(xp, x, a.axes, shared + left + over)
        y = permute(xp, y, b.axes, shared + over + right)
        if shared and len(over) == 1 and not left and not right and not const and interval is None:
            return Value(self.backend.dots(xp, x, y), shared, False, True)
        s, t = len(shared), len(shared) + len(left)
        lead, m, k, n = x.shape[:s], x.shape[s:t], x.shape[t:], y.shape[s + len(over) :]
        if len(m) != 1 or len(k) != 1:
            x = xp.reshape(x, (*lead, math.prod(m), math.prod(k)))
        if len(n) != 1 or len(k) != 1:
            y = xp.reshape(y, (*lead, math.prod(k), math.prod(n)))
        if interval is None or const or "cuda" not in str(device_of(x)):
            out = xp.matmul(x, y)
        else:  # CUDA does not multiply matrices of whole numbers
            out = xp.astype(xp.matmul(*(xp.astype(z, xp.float64) for z in (x, y))), self.int64)
        if len(m) != 1 or len(n) != 1:
            out = xp.reshape(out, (*lead, *m, *n))
        return Value(out, shared + left + right, const, True, interval)
