"""Float arrays: every expression as operations of the array API standard.

A value is an array together with a label for each of its axes: ``row`` and ``col`` for the axes it
has on paper, an index letter for every family index, ``batch`` in front of all. Labels make heads
and batches broadcast by name, turn a transpose into a swap of labels, and let one rule,
`contract`, serve every product and every sum over heads.

What depends on no weight and no input (masks, rotary angles) is computed once, in float64 NumPy,
and cast where it first meets the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_jax_array, is_numpy_array

from viete.analysis.kinds import BIT, COMPARISONS, LOGICAL, Interval, interval_of, quotient
from viete.errors import VieteError
from viete.evaluate import fast, fused
from viete.evaluate.labelled import (
    COL,
    INNER,
    ROW,
    Array,
    Value,
    device_of,
    digits,
    expand,
    fits,
    number,
    permute,
)
from viete.graph.card import CardData
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Idx, Num, Pick, Ref, Slice, Table

MOST_VALUES, MOST_BLOCKS = 100_000_000, 10_000  # of an index letter


@dataclass(frozen=True, slots=True)
class Env:
    """Names in force: a function's arguments and sizes, and what each index letter stands for.

    ``index`` maps a letter to its number (a block loop) or to (label, first value, how many).
    ``level`` counts enclosing binders; it keeps their labels apart.
    """

    arguments: Mapping[str, Value] | None
    sizes: Mapping[str, Fraction]
    index: Mapping[str, int | tuple[str, int, int]]
    level: int = 0


Lookup = Callable[[str, tuple[int, ...]], Value]

EXACT = (-(2**53), 2**53)  # whole numbers among float64, as constants are computed
USUAL = (1 - 2**31, 2**31 - 1)  # of an array of whole numbers that says nothing else


class Arrays:
    """Evaluates expressions of one model for one set of sizes and one kind of array.

    ``lookup(key, loops)`` gives a parameter's, input's or earlier value's `Value`. ``like`` is an
    array with the dtype, device and namespace to compute in.
    """

    divides = True  # whether whole numbers are divided as such where a quotient is rounded down

    def __init__(
        self, card: CardData, sizes: Mapping[str, Fraction], like: Array, lookup: Lookup,
        quick: bool = True, memo: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        self.model, self.like, self.lookup = card, like, lookup
        self.xp = array_namespace(like)
        self.numpy = is_numpy_array(like)
        self.writes = self.numpy or fast.free_of_gradients(self.xp)
        self.int64, self.within = fast.whole_numbers(self.xp)
        self.quick = fast.FAST | fused.PLACES if quick else {}
        self.memo = {} if memo is None else memo
        # What is kept in the memo as an array of this kind must not reach a run on another kind.
        self.kind = (self.xp.__name__, str(like.dtype), str(device_of(like)))
        index: dict[str, int | tuple[str, int, int]] = {}
        for i in card.indices:
            first, last = (self.whole(card.size(x), sizes, i.name) for x in (i.lower, i.upper))
            index[i.name] = (i.name, first, last - first + 1)
        self.env = Env(None, sizes, index)
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

    # -- constants and weights ---------------------------------------------------------------------

    def interval(self, v: Value) -> Interval | None:
        """What whole numbers or truth values lie in; None for real numbers."""
        if v.interval is not None:
            return v.interval
        a = v.array
        if isinstance(a, bool):
            return BIT
        if isinstance(a, Fraction | int):
            return (int(a), int(a)) if a.denominator == 1 else None
        if isinstance(a, float) or a.dtype == self.like.dtype:
            return None
        kind = str(a.dtype)
        return BIT if "bool" in kind else USUAL if "int" in kind else None

    def lift(self, v: Value) -> Array:
        """A constant as an array (or number) of the kind computed in: whole, truth or real."""
        if not v.const:
            return v.array
        if isinstance(v.array, Fraction | int | float):
            return weak(v.array)
        if v.array.dtype == bool:
            return self.constant(v, self.xp.bool)
        return self.constant(v, self.like.dtype if v.interval is None else self.int64)

    def array(self, v: Value) -> Array:
        """As an array of its kind, a plain number as well."""
        found = self.lift(v)
        if hasattr(found, "shape"):
            return found
        there = {} if self.numpy else {"device": device_of(self.like)}
        interval = interval_of("floor", [self.interval(v)], self.within)
        dtype = self.like.dtype if interval is None else self.int64
        dtype = self.xp.bool if isinstance(found, bool) else dtype
        return self.xp.asarray(found, dtype=dtype, **there)

    def constant(self, v: Value, dtype: Any) -> Array:
        """A constant array in the library computed with, made once."""
        memo = ("lift", id(v.array), str(dtype), self.kind)
        if memo not in self.memo:
            if self.numpy:
                moved = v.array.astype(dtype, copy=False)
            else:
                moved = self.xp.asarray(v.array.copy(), dtype=dtype, device=device_of(self.like))
            self.memo[memo] = (v.array, moved)
        return self.memo[memo][1]

    def truth(self, v: Value) -> bool:
        """Whether these are truth values and not yet numbers."""
        return isinstance(v.array, bool) or "bool" in str(getattr(v.array, "dtype", ""))

    def real(self, v: Value) -> Value:
        """Whole numbers and truth values as real numbers of the run's kind."""
        if v.const or self.interval(v) is None:
            return v
        return Value(self.xp.astype(v.array, self.like.dtype), v.axes, False, True)

    def reals(self, v: Value) -> Array:
        """As an array (or number) of the run's kind of float."""
        if not v.const:
            return self.real(v).array
        if isinstance(v.array, Fraction | int | float):
            return weak(v.array)
        return self.constant(v, self.like.dtype)

    def wholes(self, v: Value) -> Array:
        """As an array (or number) of whole numbers."""
        if isinstance(v.array, Fraction | int | float):
            return int(v.array)
        if v.const:
            return self.constant(v, self.int64)
        if self.truth(v):
            return self.xp.astype(v.array, self.int64)
        return v.array

    def alone(self, v: Value) -> tuple[Any, Array, bool]:
        """The library to use for one value, its array as it is, and whether it is constant."""
        if v.const:
            return np, number(v.array), True
        return self.xp, v.array, False

    def namespace(
        self, values: list[Value], op: str, count: int = 1, const: bool | None = None
    ) -> tuple[Any, list[Array], bool, Interval | None]:  # fmt: skip
        """The library to use, the arrays to give it, whether the result is constant, its interval.

        Operands of an operation are all whole numbers, if its result is among those that the
        library has, or else all real.
        """
        const = all(v.const for v in values) if const is None else const
        of = [self.interval(v) for v in values]
        within = EXACT if const else self.within
        interval = BIT if op in COMPARISONS else interval_of(op, of, within, count)
        if const:
            return np, [plain(v.array) for v in values], True, interval
        whole = interval is not None and None not in of
        if op in COMPARISONS and whole:  # which have to be whole numbers there themselves
            whole = all(interval_of("floor", [x], within) is not None for x in of)
        rule = self.wholes if whole else self.reals
        return self.xp, [rule(v) for v in values], False, interval

    # -- expressions -------------------------------------------------------------------------------

    def of(self, e: Expr, env: Env | None = None) -> Value:
        """The value of an expression."""
        env = self.env if env is None else env
        match e:
            case Apply():
                return self.apply(e, env)
            case Ref():
                return self.ref(e, env)
            case Num():
                return Value(e.value, (), True)
            case Idx():
                return self.idx(e, env)
            case Pick():
                return self.pick(e, env)
            case Bind():
                return self.bind(e, env)
            case Table():
                return self.table(e, env)
        raise VieteError(f"{show(e)} has no value by itself")

    def idx(self, e: Idx, env: Env) -> Value:
        meaning = env.index[e.name]
        if isinstance(meaning, int):
            return Value(Fraction(meaning), (), True)
        label, first, count = meaning
        if count > MOST_VALUES:
            raise VieteError(
                f"the index {e.name} runs over {count:,} values; at most {MOST_VALUES:,}"
            )
        key = ("idx", first, count)
        if key not in self.memo:
            self.memo[key] = np.arange(first, first + count, dtype=np.float64)
        return Value(self.memo[key], (label,), True, False, (first, first + max(count, 1) - 1))

    def exact(self, e: Expr, env: Env) -> int:
        """A size, a bound or a block number, which must come out whole."""
        if isinstance(e, Idx) and isinstance(k := env.index[e.name], int):
            return k
        v = self.of(e, env)
        if v.axes or not isinstance(v.array, Fraction | int):
            raise VieteError(f"{show(e)} is not made of dimensions, so it is no size")
        if Fraction(v.array).denominator != 1:
            here = "" if show(e) == str(v.array) else f" is {v.array} here, which"
            raise VieteError(f"{show(e)}{here} is not a whole number")
        return int(v.array)

    def ref(self, e: Ref, env: Env) -> Value:
        if env.arguments is not None and e.key in env.arguments:
            return env.arguments[e.key]
        if e.symbol.kind == "dim":
            if e.key not in env.sizes:
                raise VieteError(
                    f"the dimension {e.key} has no value; give one with --set {e.key}=…"
                )
            return Value(env.sizes[e.key], (), True)
        if not e.index:
            return self.declared(e.key, self.lookup(e.key, ()))
        blocks, rest = [], []
        for slot, index in zip(e.symbol.slots, e.index, strict=True):
            if slot in self.model.loop_letters:
                blocks.append(self.exact(index, env))
            else:
                rest.append((slot, index))
        v = self.declared(e.key, self.lookup(e.key, tuple(blocks)))
        for slot, index in rest:
            v = self.along(v, slot, index, env, first=self.env.index[slot][1])  # type: ignore[index]
        return v

    def declared(self, key: str, v: Value) -> Value:
        """An input's whole numbers lie where the card says."""
        if key not in self.inputs or v.interval is not None:
            return v
        return Value(v.array, v.axes, v.const, False, self.inputs[key])

    def along(self, v: Value, label: str, index: Expr, env: Env, first: int = 0) -> Value:
        """Take members ``index`` (counted from ``first``) of the axis ``label``."""
        size = v.size(label)
        if isinstance(index, Idx) and not isinstance(meaning := env.index[index.name], int):
            new, start, count = meaning
            if new == label or new not in v.axes:
                if start == first and count == size:
                    return v.relabel(label, new)
                if not first <= start <= start + count <= first + size:
                    raise VieteError(
                        f"{show(index)} runs to {start + count - 1}, outside {first} to "
                        f"{first + size - 1}"
                    )
                return self.cut(v, label, start - first, start - first + count).relabel(label, new)
        at = self.of(index, env)
        if not at.axes and isinstance(at.array, Fraction | int | float):
            if at.array != math.floor(at.array):
                raise VieteError(f"{show(index)} is not a whole number, so it cannot be an index")
            k = int(at.array) - first
            if not 0 <= k < size:
                raise VieteError(f"index {k + first} is outside {first} to {size + first - 1}")
            place = tuple(k if a == label else slice(None) for a in v.axes)
            rest = tuple(a for a in v.axes if a != label)
            return Value(v.array[place], rest, v.const, False, v.interval)
        return self.gather(v, label, at, first)

    def cut(self, v: Value, label: str, start: int, stop: int) -> Value:
        place = tuple(slice(start, stop) if a == label else slice(None) for a in v.axes)
        return Value(v.array[place], v.axes, v.const, False, v.interval)

    def gather(self, v: Value, label: str, at: Value, first: int) -> Value:
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
        elif not at.const and "float" in str(where.dtype):  # as floor gives them
            where = xp.astype(where, self.int64)
        where = where - first if first else where
        if not inside:
            where = self.inside(where, size)
        shared = [a for a in at.axes if a in v.axes and a != label]
        axis = v.axes.index(label)
        if not shared:
            flat = xp.reshape(where, (-1,))
            out = xp.take(array, flat, axis=axis)
            shape = (*array.shape[:axis], *where.shape, *array.shape[axis + 1 :])
            axes = (*v.axes[:axis], *at.axes, *v.axes[axis + 1 :])
            return Value(xp.reshape(out, shape), axes, const, True, v.interval)
        # Some axes of the places are axes of the value too: pick along them together.
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
        """Places of which `check_places` could not know whether they are among ``size``."""
        if not traced(where):
            return where
        # JAX would count negative ones from the end, and gives NaN for what is too large.
        return self.xp.where(where < 0, size, where)

    def pick(self, e: Pick, env: Env) -> Value:
        v = self.of(e.value, env)
        if len(e.items) > v.core:
            v = self.column(v)
        core = [a for a in (ROW, COL) if a in v.axes]
        for label in core[: len(e.items)]:
            # Out of the way, so that what the index brings in may be called row or column.
            v = v.relabel(label, "picked" + label)
        for label, item in zip(core, e.items, strict=False):
            label = "picked" + label
            if isinstance(item, Slice):
                start = self.exact(item.start, env) if item.start else 0
                stop = self.exact(item.stop, env) if item.stop else v.size(label)
                if not 0 <= start <= stop <= v.size(label):
                    raise VieteError(
                        f"{show(e)} asks for {start}:{stop} of an axis of {v.size(label)}"
                    )
                v = self.cut(v, label, start, stop).relabel(label, label.removeprefix("picked"))
                continue
            at = None if isinstance(item, Idx) else self.of(item, env)
            if at is None or COL not in at.axes:
                v = self.along(v, label, item, env)
                continue
            # A vector of places (token ids): its axis takes the place of the picked one.
            v = self.gather(v, label, at.relabel(COL, "new"), 0)
            v = v.relabel("new", label.removeprefix("picked"))
        if ROW in v.axes and COL not in v.axes and COL in core:
            v = v.relabel(ROW, COL)
        return v

    def bind(self, e: Bind, env: Env) -> Value:
        if e.index in self.model.loop_letters and env.arguments is None and e.lower and e.upper:
            return self.fold_loop(e, env)
        inner, label = self.bound(e, env)
        if e.op == "sum":
            return self.sum(e, inner, label)
        v = self.of(e.body, inner)
        if e.op != "concat":
            return self.fold(e.op, v, label)
        if COL not in v.axes:
            return v.relabel(label, COL)
        xp, array, const = self.alone(v)
        order = tuple(a for a in v.axes if a not in (label, COL)) + (label, COL)
        array = xp.reshape(
            permute(xp, array, v.axes, order), (*(v.size(a) for a in order[:-2]), -1)
        )
        return Value(array, order[:-2] + (COL,), const, False, v.interval)

    def bound(self, e: Bind, env: Env) -> tuple[Env, str]:
        """The names in force under a binder, and its index's label."""
        meaning, level = env.index.get(e.index), env.level + 1
        label = f"{e.index}{level}"
        if e.lower is not None and e.upper is not None:
            first, last = self.exact(e.lower, env), self.exact(e.upper, env)
            if last < first - (e.op == "sum"):
                raise VieteError(f"{e.op}_{e.index} runs from {first} to {last}: over nothing")
            index = (label, first, last - first + 1)
        elif isinstance(meaning, tuple):
            index = (label, *meaning[1:])
        else:
            raise VieteError(f"{e.op}_{e.index} needs bounds")
        return replace(env, index={**env.index, e.index: index}, level=level), label

    def sum(self, e: Bind, env: Env, label: str) -> Value:
        """A sum, or sums within sums; over a product they are part of its contraction."""
        labels, body = [label], e.body
        while (
            isinstance(body, Bind)
            and body.op == "sum"
            and body.index not in self.model.loop_letters
        ):
            env, label = self.bound(body, env)
            labels.append(label)
            body = body.body
        return self.summed(body, env, labels)

    def summed(self, e: Expr, env: Env, labels: list[str]) -> Value:
        """``e`` summed over labels, term by term where a term is a product."""
        if isinstance(e, Apply) and e.op in ("add", "sub") and any(map(is_product, e.args)):
            return self.entrywise(e.op, [self.summed(x, env, labels) for x in e.args])
        if isinstance(e, Apply) and e.op == "prod":
            a, b = (self.of(x, env) for x in e.args)
            both = tuple(x for x in labels if x in a.axes and x in b.axes)
            v, varies = self.product(a, b, both if a.core and b.core else ()), a.axes + b.axes
        else:
            v = self.of(e, env)
            varies = v.axes
        for label in labels:
            if label in v.axes:
                v = self.fold("sum", v, label)
            elif label not in varies:  # the same for each value of the index
                count = next(x[2] for x in env.index.values()
                             if isinstance(x, tuple) and x[0] == label)  # fmt: skip
                v = self.entrywise("times", [v, Value(Fraction(count), (), True)])
        return v

    def fold(self, op: str, v: Value, label: str) -> Value:
        """One axis folded away by a reduction of the array library."""
        axis = v.axes.index(label)
        rest = v.axes[:axis] + v.axes[axis + 1 :]
        if op == "argmax":
            xp, array, const = self.alone(v)
            interval: Interval | None = (0, max(v.size(label) - 1, 0))
        else:
            xp, (array,), const, interval = self.namespace([v], op, v.size(label))
        return Value(getattr(xp, op)(array, axis=axis), rest, const, True, interval)

    def fold_loop(self, e: Bind, env: Env) -> Value:
        """A sum over blocks, whose values are separate arrays."""
        assert e.lower is not None and e.upper is not None
        values = range(self.exact(e.lower, env), self.exact(e.upper, env) + 1)
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

    def table(self, e: Table, env: Env) -> Value:
        level = env.level + 1
        bounds = {i: (f"{i}{level}", 0, self.exact(size, env)) for i, size in e.ranges}
        if negative := [i for i, b in bounds.items() if b[2] < 0]:
            raise VieteError(
                f"the table's index {negative[0]} runs over {bounds[negative[0]][2]} values"
            )
        inner = replace(env, index={**env.index, **bounds}, level=level)
        v = self.of(e.body, inner)
        xp, array, const = self.alone(v)
        labels = tuple(b[0] for b in bounds.values())
        missing = tuple(b for b in bounds.values() if b[0] not in v.axes)
        if missing:  # an entry that does not depend on an index is the same all along it
            if not hasattr(array, "shape"):
                v = replace(v, interval=self.interval(v))
                array = xp.asarray(array, dtype=bool if isinstance(array, bool) else xp.float64)
            shape = tuple(b[2] for b in missing) + tuple(array.shape)
            array = xp.broadcast_to(array, shape)
            v = Value(array, tuple(b[0] for b in missing) + v.axes, const, False, v.interval)
        target = (ROW, COL) if len(labels) == 2 else (COL,)
        for old, new in zip(labels, target, strict=True):
            v = v.relabel(old, new)
        return Value(array, v.axes, const, False, v.interval)

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: Env) -> Value:
        op = e.op
        if self.quick and op in fused.forms():
            form = fused.found(e)
            if form is not None and self.model.library_names.keys() >= {*form[2]}:
                v = self.special(form[1], {k: self.of(x, env) for k, x in form[0].items()})
                if v is not None:
                    return v
        if op in self.model.function:
            return self.call(op, [self.of(a, env) for a in e.args], env.level + 1)
        if op in ("inf", "pi"):
            return Value(math.inf if op == "inf" else math.pi, (), True)
        if self.divides and (parts := quotient(e)) is not None:
            a, b = (self.of(x, env) for x in parts)
            if interval_of("quotient", [self.interval(a), self.interval(b)]) is not None:
                return self.entrywise("quotient", [a, b])
            return self.entrywise("floor", [self.entrywise("div", [a, b])])
        args = [self.of(a, env) for a in e.args]
        if op == "prod":
            return self.product(args[0], args[1])
        if op == "T":
            (v,) = args
            if COL not in v.axes:  # a column becomes a matrix of one row
                v = v.relabel(ROW, COL)
                return Value(v.array[None, ...], (ROW, *v.axes), v.const, False, v.interval)
            if ROW not in v.axes:
                v = Value(v.array[None, ...], (ROW, *v.axes), v.const, False, v.interval)
            swap = {ROW: COL, COL: ROW}
            axes = tuple(swap.get(a, a) for a in v.axes)
            return Value(v.array, axes, v.const, False, v.interval)
        if len(args) == 1 and op in ("sum", "mean", "max", "min", "argmax"):
            return self.reduce(op, args[0])
        if op in ("cols", "inner", "concat"):
            args = [self.column(v) for v in args]
        if op in ("rows", "cols"):
            return Value(Fraction(args[0].size(ROW if op == "rows" else COL)), (), True)
        if op == "inner":
            return self.contract(args[0].relabel(COL, INNER), args[1].relabel(COL, INNER), (INNER,))
        if op == "concat":
            return self.concat(args)
        return self.entrywise(op, args)

    def call(self, name: str, args: list[Value], level: int = 1) -> Value:
        """A named function: its fast version where there is one, else its definition."""
        constant = all(v.const for v in args)
        key: tuple[Any, ...] = ()
        if constant:
            key = ("call", name, *(
                v.array if isinstance(v.array, Fraction | int | float) else id(v.array)
                for v in args
            ), *(v.axes for v in args))  # fmt: skip
            if key in self.memo:
                return self.memo[key][1]
        function = self.model.function[name]
        for argument in function.arguments[len(args) :]:
            assert argument.default is not None
            args.append(self.of(argument.default))
        said = self.model.library_names.get(name, "")
        quick = self.quick.get(said)
        if said in fast.OF_REALS:
            args = [self.real(args[0]), *args[1:]]
        elif quick is not None and said in fast.FAST and self.interval(args[0]) is not None:
            quick = None  # the definition makes whole numbers of them
        if quick is not None and not args[0].const and COL in args[0].axes:
            found = quick(self, args)
            if found is not None:
                return found
        sizes: dict[str, Fraction] = {}
        values: dict[str, Value] = {}
        for argument, v in zip(function.arguments, args, strict=True):
            labels = (ROW, COL) if len(argument.pattern) == 2 else (COL,)
            v = self.column(v) if argument.pattern else v
            for symbol, label in zip(argument.pattern, labels, strict=False):
                sizes[symbol.key] = Fraction(v.size(label))
            values[argument.symbol.key] = v.kept()
        found = self.of(function.body, Env(values, sizes, {}, level))
        if constant:
            if len(self.memo) > 512:
                self.memo.clear()
            self.memo[key] = (args, found)  # holding the arguments keeps their ids their own
        return found

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
            # Of two plain numbers one must say what kind of array they make.
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
        return Value(self.primitive(xp, op, arrays, out), axes, const, True, interval)

    def primitive(self, xp: Any, op: str, arrays: list[Array], out: Array | None) -> Array:
        """One operation on arrays that line up; ``out``, if any, may take the result."""
        return fast.entrywise(xp, op, arrays, out)

    def special(self, form: fused.Form, values: dict[str, Value]) -> Value | None:
        """An expression that fits the pattern of a fast form."""
        return form(self, values)

    def column(self, v: Value) -> Value:
        """A column's rows of one entry each, which it keeps without an axis, with one."""
        if COL in v.axes:
            return v
        array = self.alone(v)[1]
        return Value(array[..., None], (*v.axes, COL), v.const, False, v.interval)

    def reduce(self, op: str, v: Value) -> Value:
        found = self.fold(op, self.column(v), COL)
        return found.relabel(ROW, COL) if op == "argmax" else found

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

    # -- products ----------------------------------------------------------------------------------

    def product(self, a: Value, b: Value, also: tuple[str, ...] = ()) -> Value:
        """Juxtaposition: scaling by a number, or the matrix product (summed over ``also``)."""
        if not a.core or not b.core:
            return self.entrywise("times", [a, b])
        a = self.column(a)
        vector = ROW not in b.axes  # A v: a matrix on a vector gives a vector
        a = a.relabel(COL, INNER)
        b = b.relabel(COL if vector else ROW, INNER)
        if a.size(INNER) != b.size(INNER):
            raise VieteError(f"a product of inner sizes {a.size(INNER)} and {b.size(INNER)}")
        out = self.contract(a, b, (*also, INNER))  # in the order of memory
        return out.relabel(ROW, COL) if vector else out

    def contract(self, a: Value, b: Value, over: tuple[str, ...]) -> Value:
        """Sum of products over the labels ``over``, entry by entry in the labels both have.

        Brought to one (batched) matrix product: shared labels in front, the labels of only one
        factor flattened. ``x W^h`` for all heads, and ``sum_h A^h V^h W^h``, are each one product.
        """
        count = math.prod(a.size(s) for s in over)
        xp, (x, y), const, interval = self.namespace([a, b], "prod", count)
        shared = tuple(s for s in a.axes if s in b.axes and s not in over)
        left = tuple(s for s in a.axes if s not in b.axes)
        right = tuple(s for s in b.axes if s not in a.axes)
        x = permute(xp, x, a.axes, shared + left + over)
        y = permute(xp, y, b.axes, shared + over + right)
        s, t = len(shared), len(shared) + len(left)
        lead, m, k, n = x.shape[:s], x.shape[s:t], x.shape[t:], y.shape[s + len(over) :]
        if len(m) != 1 or len(k) != 1:
            x = xp.reshape(x, (*lead, math.prod(m), math.prod(k)))
        if len(n) != 1 or len(k) != 1:
            y = xp.reshape(y, (*lead, math.prod(k), math.prod(n)))
        if interval is None or const or "cuda" not in str(device_of(x)):
            out = xp.matmul(x, y)
        else:  # which multiplies no matrices of whole numbers
            out = xp.astype(xp.matmul(*(xp.astype(z, xp.float64) for z in (x, y))), self.int64)
        if len(m) != 1 or len(n) != 1:
            out = xp.reshape(out, (*lead, *m, *n))
        return Value(out, shared + left + right, const, True, interval)


def plain(a: Array) -> Array:
    """A constant's numbers as floats where they are exact fractions or truth values."""
    return a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype == np.bool_ else number(a)


def weak(a: Array) -> Array:
    """A constant number as Python's, which takes the kind of the array that it meets."""
    return a.item() if isinstance(a, np.generic) else number(a)


def is_product(e: Expr) -> bool:
    """Whether an expression is a product, or a sum with one in it."""
    return isinstance(e, Apply) and (
        e.op == "prod" or (e.op in ("add", "sub") and any(map(is_product, e.args)))
    )


def check_places(at: Value, first: int, size: int) -> None:
    """That computed places are whole numbers from ``first`` on, ``size`` of them there."""
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


def traced(array: Array) -> bool:
    """Whether JAX is tracing: then there are no values yet, and a wrong place will be NaN."""
    if not is_jax_array(array):
        return False
    from jax.core import Tracer

    return isinstance(array, Tracer)


def scalar(op: str, args: list[Any]) -> Any:
    """An operation on plain numbers: exact while it can be."""
    exact = [Fraction(a) if isinstance(a, int) else a for a in args]
    if all(isinstance(a, Fraction) for a in exact):
        match op, exact:
            case "add", [a, b]:
                return a + b
            case "sub", [a, b]:
                return a - b
            case (("times" | "had" | "prod"), [a, b]):
                return a * b
            case "div", [a, b] if b:
                return a / b
            case "quotient", [a, b] if b:
                return Fraction(math.floor(a / b))
            case "where", [c, a, b]:
                return a if c else b
            case "abs", [a]:
                return abs(a)
            case "neg", [a]:
                return -a
            case "floor", [a]:
                return Fraction(math.floor(a))
            case "mod", [a, b] if b:
                return a % b
            case "pow", [a, b] if b.denominator == 1 and abs(b) * digits(a) < 4000 and (a or b > 0):
                return a ** int(b)
            case (("max" | "min"), [a, b]):
                return max(a, b) if op == "max" else min(a, b)
            case (("and" | "or"), [a, b]):
                return bool(a and b) if op == "and" else bool(a or b)
            case "not", [a]:
                return not a
    result = fast.entrywise(np, op, [np.float64(number(a)) for a in args], None)
    return bool(result) if isinstance(result, np.bool_) else float(result)
