"""Running a model: inputs and weights in, every named value out.

A schedule (each equation, once for every block) is made from the card once; from it is known what
a wanted value needs and when an array was used for the last time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from viete.algebra.dims import Size
from viete.algebra.model import Equation, Input, Model, Parameter
from viete.algebra.shapes import Shapes
from viete.errors import Text, VieteError
from viete.interpret.array import COL, MOST_BLOCKS, ROW, Array, Arrays, Env, Value, permute
from viete.notation.expr import Apply, Bind, Expr, Idx, Num, Ref, Symbol, free_indices, walk
from viete.notation.parser import parse
from viete.notation.printer import show, show_symbol

Member = tuple[str, tuple[int, ...]]  # a symbol's key and its block numbers


def member_name(symbol: Symbol, loops: Mapping[str, int]) -> str:
    """The name of one block's member of a family: ``W_Q^{i,h}`` at i = 3 is ``W_Q^{3,h}``."""
    index = tuple(Num(Fraction(loops[s])) if s in loops else Idx(s) for s in symbol.slots)
    return show(Ref(symbol, index))


@dataclass(frozen=True)
class Step:
    """One equation for one turn of its loop, what it makes and what it needs."""

    equation: Equation
    loops: Mapping[str, int]
    makes: Member
    needs: frozenset[Member]


class Program:
    """A model for given dimensions, ready to run on arrays.

    ``sizes`` gives the numbers of all dimensions but lengths. Raises VieteError for a dimension
    without a value.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.sizes = dict(model.sizes)
        for d in model.dims:
            if d.name not in self.sizes and d.at_most is None:
                raise VieteError(
                    f"the dimension {d.name} of {model.title} has no value; give one with "
                    f"--set {d.name}=… or model.bind({d.name}=…)"
                )
        self.memo: dict[Any, Any] = {}
        self.parameters = self.members()
        self.steps = [
            Step(e, loops, self.made(e.left, loops), self.needed(e.right, loops))
            for e, loops in self.unrolled()
        ]
        self.computed = {e.name for e in model.equations}
        self.names = {
            member_name(s.equation.left.symbol, self.loops_of(s.equation.left.symbol, s.makes[1])):
            s.makes for s in self.steps
        }  # fmt: skip

    # -- what there is ------------------------------------------------------------------------------

    @cached_property
    def shapes(self) -> Shapes:
        """For formulas that a run is asked for; what a card states need not hold of other sizes."""
        plain = tuple(replace(e, stated=None) for e in self.model.equations)
        return Shapes(replace(self.model, equations=plain, claims=()))

    def bounds(self, lower: Expr, upper: Expr, what: str) -> range:
        values = []
        for e in (lower, upper):
            size = self.model.size(e)
            value = None if size is None else self.evaluate(size, what)
            if value is None or value.denominator != 1:
                raise VieteError(f"{what} runs to {show(e)} = {value}, which is not a whole number")
            values.append(int(value))
        if values[1] < values[0] - 1:
            raise VieteError(f"{what} runs from {values[0]} down to {values[1]}; it must run up")
        return range(values[0], values[1] + 1)

    def evaluate(self, size: Size, what: str) -> Fraction:
        try:
            return size.evaluate(self.sizes)
        except KeyError as missing:
            raise VieteError(f"{what} needs the dimension {missing.args[0]}, which has no value") from None
        except ZeroDivisionError:
            raise VieteError(f"{what} = {size} divides by zero") from None

    def range_of(self, letter: str) -> range:
        """The values of an index letter."""
        ranges = {loop.index: (loop.lower, loop.upper) for loop in self.model.loops}
        ranges |= {i.name: (i.lower, i.upper) for i in self.model.indices}
        if letter not in ranges:
            raise VieteError(f"the index {letter} has no range")
        found = self.bounds(*ranges[letter], f"the index {letter}")
        loop = letter in self.model.loop_letters
        if loop and len(found) > MOST_BLOCKS:
            raise VieteError(
                f"the index {letter} runs over {len(found):,} blocks; at most {MOST_BLOCKS:,}"
            )
        if not loop and not found:
            raise VieteError(
                f"the index {letter} has no values: it runs from {found.start} to {found.stop - 1}"
            )
        return found

    def unrolled(self) -> Iterator[tuple[Equation, Mapping[str, int]]]:
        """Every equation in the order of computing, loops written out."""
        equations, k = self.model.equations, 0
        while k < len(equations):
            loop = equations[k].loop
            if loop is None:
                yield equations[k], {}
                k += 1
                continue
            end = k
            while end < len(equations) and equations[end].loop == loop:
                end += 1
            for i in self.range_of(loop.index):
                for equation in equations[k:end]:
                    yield equation, {loop.index: i}
            k = end

    def loop_slots(self, symbol: Symbol) -> list[str]:
        return [s for s in symbol.slots if s in self.model.loop_letters]

    def loops_of(self, symbol: Symbol, values: tuple[int, ...]) -> dict[str, int]:
        return dict(zip(self.loop_slots(symbol), values, strict=True))

    def made(self, left: Ref, loops: Mapping[str, int]) -> Member:
        return left.key, self.places(left, loops)

    def places(self, ref: Ref, loops: Mapping[str, int]) -> tuple[int, ...]:
        """The block numbers of a reference."""
        out = []
        for slot, index in zip(ref.symbol.slots, ref.index, strict=True):
            if slot in self.model.loop_letters:
                size = self.index_size(index, loops)
                if size.denominator != 1:
                    raise VieteError(f"the block {show(index)} = {size} is not a whole number")
                out.append(int(size))
        return tuple(out)

    def index_size(self, index: Expr, loops: Mapping[str, int]) -> Fraction:
        match index:
            case Idx(name) if name in loops:
                return Fraction(loops[name])
            case Num(value):
                return value
            case Ref() if index.symbol.kind == "dim" and index.key in self.sizes:
                return self.sizes[index.key]
            case Apply("add" | "sub" | "prod" | "times" | "div" as op, (a, b)):
                x, y = self.index_size(a, loops), self.index_size(b, loops)
                if op == "div" and not y:
                    raise VieteError(f"the block {show(index)} divides by zero")
                if op == "div":
                    return x / y
                return x + y if op == "add" else x - y if op == "sub" else x * y
            case Apply("neg", (a,)):
                return -self.index_size(a, loops)
            case Apply("floor", (a,)):
                return Fraction(self.index_size(a, loops).__floor__())
            case Apply("mod", (a, b)):
                y = self.index_size(b, loops)
                if not y:
                    raise VieteError(f"the block {show(index)} divides by zero")
                return self.index_size(a, loops) % y
        raise VieteError(f"{show(index)} is no block number; write a number, or give the index a value")

    def needed(self, e: Expr, loops: Mapping[str, int]) -> frozenset[Member]:
        """Values, parameters and inputs that an expression refers to."""
        if isinstance(e, Bind) and e.index in self.model.loop_letters and e.lower and e.upper:
            first, last = (int(self.index_size(x, loops)) for x in (e.lower, e.upper))
            if last - first >= MOST_BLOCKS:
                raise VieteError(f"a {e.op} over {last - first + 1:,} blocks; at most {MOST_BLOCKS:,}")
            parts = [self.needed(e.body, {**loops, e.index: k}) for k in range(first, last + 1)]
            return frozenset[Member]().union(*parts)
        out: set[Member] = set()
        binders = [x for x in walk(e) if isinstance(x, Bind) and x.index in self.model.loop_letters
                   and x.lower and x.upper]  # fmt: skip
        inside = {id(y) for x in binders for y in walk(x)}
        for binder in binders:
            out |= self.needed(binder, loops)
        for x in walk(e):
            if isinstance(x, Ref) and x.symbol.kind in ("value", "parameter", "input") and id(x) not in inside:
                out.add((x.key, self.places(x, loops)))
        return frozenset(out)

    def members(self) -> dict[str, tuple[Parameter, tuple[int, ...], tuple[int, ...]]]:
        """Name of each parameter array → (parameter, its block numbers, its array shape).

        Array axes are the index letters other than blocks, in the order of the name, then rows and
        columns.
        """
        out: dict[str, tuple[Parameter, tuple[int, ...], tuple[int, ...]]] = {}
        for p in self.model.parameters:
            shape = []
            for letter in p.symbol.slots:
                if letter not in self.model.loop_letters:
                    shape.append(len(self.range_of(letter)))
            for e in p.shape:
                size = self.model.size(e)
                assert size is not None  # shapes were checked
                value = self.evaluate(size, f"a size of {p.name}")
                if value.denominator != 1 or value < 0:
                    raise VieteError(f"{p.name} has the size {size} = {value}, which is no whole number")
                shape.append(int(value))
            slots = self.loop_slots(p.symbol)
            combos: list[dict[str, int]] = [{}]
            for slot in slots:
                combos = [{**c, slot: k} for c in combos for k in self.range_of(slot)]
            for loops in combos:
                out[member_name(p.symbol, loops)] = (p, tuple(loops.values()), tuple(shape))
        return out

    # -- running -----------------------------------------------------------------------------------------

    def run(
        self, inputs: Mapping[str, Array], weights: Mapping[str, Array],
        names: Sequence[str] | None = None, quick: bool = True,
    ) -> Run:  # fmt: skip
        """Compute the named values, or all that the inputs allow; see `run`."""
        if len(self.memo) > 4096:
            self.memo.clear()
        sizes = dict(self.sizes)
        store: dict[Member, Value] = {}
        like = next((w for w in weights.values() if is_float(w)), None)
        like = np.zeros(0) if like is None else like
        for item in self.model.inputs:
            value = self.input(item, inputs, sizes, like)
            if value is not None:
                store[item.name, ()] = value
        batches = {k[0]: v.size("batch") for k, v in store.items() if "batch" in v.axes}
        if len(set(batches.values())) > 1 or 0 in batches.values():
            shown = ", ".join(f"{k} has {n}" for k, n in batches.items())
            raise VieteError(f"all inputs must come in one batch, and not an empty one: {shown}")
        self.default_inputs(inputs, sizes, store, like)
        for name, (p, loops, shape) in self.parameters.items():
            if name in weights:
                w = weights[name]
                if tuple(w.shape) != shape:
                    raise VieteError(
                        f"the weight {name} has shape {tuple(w.shape)}, and the card says {shape}"
                    )
                axes = tuple(s for s in p.symbol.slots if s not in self.model.loop_letters)
                store[p.name, loops] = Value(w, axes + ((ROW, COL)[2 - len(p.shape) :]))
        out = Run(self, store, like, sizes, quick)
        out.compute(names)
        return out

    def input(
        self, item: Input, given: Mapping[str, Array], sizes: dict[str, Fraction], like: Array
    ) -> Value | None:
        if item.name not in given:
            return None
        array = as_input(item, given[item.name], like)
        rank = len(item.shape)
        if array.ndim not in (rank, rank + 1):
            raise VieteError(
                f"the input {item.name} has {array.ndim} axes; it takes {rank}, or {rank + 1} with a "
                f"batch in front"
            )
        shape = tuple(array.shape)[array.ndim - rank :]
        for e, n in zip(item.shape, shape, strict=True):
            if isinstance(e, Ref) and e.key in self.model.lengths and e.key not in sizes:
                limit = self.model.size(self.model.lengths[e.key])
                most = None if limit is None else self.evaluate(limit, f"the length {e.key}")
                if most is not None and n > most:
                    raise VieteError(
                        f"the input {item.name} is {n} long, and {e.key} is at most {most}"
                    )
                if n == 0:
                    raise VieteError(f"the input {item.name} is empty; it needs at least one entry")
                sizes[e.key] = Fraction(n)
                continue
            size = self.model.size(e)
            assert size is not None
            try:
                wanted = size.evaluate(sizes)
            except KeyError as missing:
                raise VieteError(f"the length {missing.args[0]} has no value here") from None
            if n != wanted:
                raise VieteError(f"the input {item.name} is {n} long where {show(e)} = {wanted}")
        self.check_range(item, array, sizes)
        return Value(array, (("batch",) if array.ndim > rank else ()) + (ROW, COL)[2 - rank :])

    def check_range(self, item: Input, array: Array, sizes: dict[str, Fraction]) -> None:
        if item.low is None or item.high is None or not array.shape or 0 in array.shape:
            return
        bounds = []
        for e in (item.low, item.high):
            size = self.model.size(e)
            bounds.append(None if size is None else size.evaluate(sizes))
        host = np.asarray(array.cpu() if hasattr(array, "cpu") else array)
        for bad in (host[host < bounds[0]], host[host > bounds[1]]):
            if bad.size:
                raise VieteError(
                    f"the input {item.name} holds {bad.flat[0]}, which is not among "
                    f"{bounds[0]} … {bounds[1]}"
                )

    def default_inputs(
        self, given: Mapping[str, Array], sizes: dict[str, Fraction],
        store: dict[Member, Value], like: Array,
    ) -> None:  # fmt: skip
        known = {i.name for i in self.model.inputs}
        if unknown := [n for n in given if n not in known]:
            raise VieteError(
                f"{self.model.title} has no input {unknown[0]}; it has {', '.join(sorted(known)) or 'none'}"
            )
        for item in self.model.inputs:
            if item.name in given or item.default is None:
                continue
            shape = []
            for e in item.shape:
                size = self.model.size(e)
                try:
                    shape.append(int(size.evaluate(sizes)))  # type: ignore[union-attr]
                except KeyError:
                    break
            else:
                fill = self.model.size(item.default)
                value = 0 if fill is None else fill.evaluate(sizes)
                array = np.full(shape, int(value) if item.high is not None else float(value))
                store[item.name, ()] = Value(
                    as_input(item, array, like), (ROW, COL)[2 - len(shape) :]
                )


class Run(Mapping[str, Array]):
    """Every named value of one run; any expression of the notation is a key.

    ``run["S"]``, ``run["x^3"]``, ``run["x^3_5"]`` (position 5), ``run["A^{2,h}"]`` (all heads),
    ``run["A^{2,1}"]`` (one head), ``run["Q K^T / sqrt(d_k)"]``. Axes come in the order batch, index
    letters, rows, columns. Raises VieteError for a name the card does not have.
    """

    def __init__(
        self, program: Program, store: dict[Member, Value], like: Array,
        sizes: Mapping[str, Fraction], quick: bool,
    ) -> None:  # fmt: skip
        self.program, self.store, self.sizes = program, store, dict(sizes)
        self.wanted: set[Member] | None = None
        self.missing: dict[Member, str] = {}  # what could not be computed, and for want of what
        self.arrays = Arrays(program.model, sizes, like, self.lookup, quick, program.memo)
        self.derived = {e.name: e for e in program.model.derived}

    def compute(self, names: Sequence[str] | None) -> None:
        """Run the schedule, keeping all values, or just those that ``names`` need."""
        steps, self.missing = self.runnable()
        if names is not None:
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise VieteError(f"names is a list of names or formulas, not {names!r:.60}")
            keep = {m for name in names for m in self.members(name)}
            there = {s.makes for s in steps} | self.missing.keys() | self.store.keys()
            if beyond := sorted(keep - there):
                given = "" if beyond[0][1] else ": it was not given"
                raise VieteError(f"there is no {self.lacking(beyond[0])}{given}")
            if lacking := keep & self.missing.keys():
                what, why = next((m, self.missing[m]) for m in lacking)
                raise VieteError(f"{what[0]} needs {why}, which was not given")
            needed, chosen = set(keep), []
            for step in reversed(steps):
                if step.makes in needed:
                    needed |= step.needs
                    chosen.append(step)
            steps = chosen[::-1]
            last = {m: k for k, step in enumerate(steps) for m in (*step.needs, step.makes)}
            self.wanted = keep
        for k, step in enumerate(steps):
            env = self.arrays.env
            if step.loops:
                env = replace(env, index={**env.index, **step.loops})
            try:
                value = self.arrays.of(step.equation.right, env)
            except VieteError as error:
                if error.where is None:
                    raise step.equation.text.error(error.message) from None
                raise
            except MemoryError:
                raise step.equation.text.error("this needs more memory than there is") from None
            self.store[step.makes] = replace(self.full(value, step.equation), fresh=False)
            if names is not None:
                for m in (*step.needs, step.makes):
                    if last[m] == k and m not in keep and m[0] in self.program.computed:
                        self.store.pop(m, None)

    def full(self, v: Value, equation: Equation) -> Value:
        """A constant side as an array; a family that does not vary gets its axis all the same."""
        letters = [s for s in equation.left.symbol.slots if s not in self.program.model.loop_letters]
        if v.const or any(s not in v.axes for s in letters):
            array = self.arrays.lift(v)
            if not hasattr(array, "shape"):
                array = self.arrays.xp.asarray(array, dtype=self.arrays.like.dtype)
            missing = [s for s in letters if s not in v.axes]
            shape = tuple(len(self.program.range_of(s)) for s in missing)
            array = self.arrays.xp.broadcast_to(array, shape + tuple(array.shape))
            return Value(array, (*missing, *v.axes))
        return v

    def runnable(self) -> tuple[list[Step], dict[Member, str]]:
        """The steps whose inputs and weights are there, and for the others what they lack."""
        missing: dict[Member, str] = {}
        steps = []
        made = set(self.store)
        for step in self.program.steps:
            lacking = next((m for m in step.needs if m not in made), None)
            if lacking is None:
                steps.append(step)
                made.add(step.makes)
            else:
                missing[step.makes] = missing.get(lacking) or self.lacking(lacking)
        return steps, missing

    def lacking(self, member: Member) -> str:
        if any(i.name == member[0] for i in self.program.model.inputs):
            return f"the input {member[0]}"
        for name, (p, loops, _) in self.program.parameters.items():
            if (p.name, loops) == member:
                return f"the weight {name}"
        return f"{member[0]} at block {', '.join(map(str, member[1]))}"

    def members(self, name: str) -> set[Member]:
        e = self.parse(name)
        out: set[Member] = set()
        todo = [self.program.needed(e, {})]
        while todo:
            for member in todo.pop():
                if member[0] in self.derived:
                    equation = self.derived[member[0]]
                    loops = self.program.loops_of(equation.left.symbol, member[1])
                    todo.append(self.program.needed(equation.right, loops))
                else:
                    out.add(member)
        return out

    def parse(self, name: str) -> Expr:
        if not isinstance(name, str):
            raise VieteError(f"a value is asked for by its name or a formula, not {name!r:.60}")
        e = parse(Text(name, "<name>"), self.program.model.scope)
        if loose := sorted(free_indices(e) & self.program.model.loop_letters):
            values = self.program.range_of(loose[0])
            raise VieteError(
                f"{name} is one value for each {loose[0]}; give a number, {values.start} to "
                f"{values.stop - 1}"
            )
        return e

    def lookup(self, key: str, loops: tuple[int, ...]) -> Value:
        found = self.store.get((key, loops))
        if found is not None:
            return found
        if key in self.derived:
            equation = self.derived[key]
            index = self.program.loops_of(equation.left.symbol, loops)
            env = self.arrays.env
            value = self.arrays.of(equation.right, replace(env, index={**env.index, **index}))
            return self.full(value, equation)
        place = f" at block {', '.join(map(str, loops))}" if loops else ""
        if loops and not any(s.makes == (key, loops) for s in self.program.steps):
            raise VieteError(f"there is no {key}{place}")
        if (key, loops) in self.missing:
            raise VieteError(f"{key}{place} needs {self.missing[key, loops]}, which was not given")
        raise VieteError(f"{key}{place} was not computed: it was not asked for")

    def __getitem__(self, name: str) -> Array:
        if isinstance(name, str) and self.program.names.get(name) in self.store:
            return self.ordered(self.store[self.program.names[name]], self.symbol(name).slots)
        e = self.parse(name)
        letters = tuple(dict.fromkeys(x.name for x in walk(e) if isinstance(x, Idx)))
        self.program.shapes.located(Text(name, "<name>"), e, free_indices(e), loops=True)
        try:
            found = self.arrays.of(e)
        except MemoryError:
            raise VieteError(f"{name} needs more memory than there is") from None
        slots = e.symbol.slots if isinstance(e, Ref) else ()
        return self.ordered(found, (*slots, *letters))

    def symbol(self, name: str) -> Symbol:
        key = self.program.names[name][0]
        return next(e.left.symbol for e in self.program.model.equations if e.name == key)

    def ordered(self, v: Value, letters: Iterable[str]) -> Array:
        """The array with its axes in the order that the class describes."""
        array = self.arrays.lift(v)
        if not v.axes:
            return array
        first = ("batch", *letters)
        lead = [a for a in first if a in v.axes]
        rest = [a for a in v.axes if a not in (*lead, ROW, COL)]
        order = (*dict.fromkeys(lead), *rest, *(a for a in (ROW, COL) if a in v.axes))
        array = permute(self.arrays.xp, array, v.axes, order)
        return array[..., None] if ROW in v.axes and COL not in v.axes else array  # a column

    def __iter__(self) -> Iterator[str]:
        return (name for name, member in self.program.names.items() if member in self.store
                and (self.wanted is None or member in self.wanted))  # fmt: skip

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        shown = ", ".join(list(self)[:8])
        return f"<run of {self.program.model.title}: {shown}{', …' if len(self) > 8 else ''}>"


def is_float(array: Array) -> bool:
    kind = getattr(array.dtype, "kind", None)
    if kind == "V":  # ml_dtypes' bfloat16 and the like, not a plain void or a record
        return "float" in array.dtype.name
    return kind == "f" if kind is not None else bool(array.dtype.is_floating_point)


def as_input(item: Input, given: Array, like: Array) -> Array:
    """An input as an array of the kind the weights are."""
    from array_api_compat import array_namespace, is_numpy_array

    whole = item.high is not None
    if not hasattr(given, "dtype"):
        try:
            given = np.asarray(given)
        except (ValueError, OverflowError, TypeError):
            raise VieteError(f"the input {item.name} must be a rectangular list of numbers") from None
    kind = getattr(given.dtype, "kind", None)
    if kind is not None and kind not in "iuf" + "b":
        raise VieteError(f"the input {item.name} must be numbers, not {given.dtype}")
    if whole and is_float(given) and 0 not in given.shape:
        raise VieteError(f"the input {item.name} takes whole numbers, not {given.dtype}")
    xp = array_namespace(like)
    if is_numpy_array(like):
        return np.asarray(given).astype(np.int64 if whole else like.dtype, copy=False)
    dtype = xp.int64 if whole and "jax" not in xp.__name__ else xp.int32 if whole else like.dtype
    return xp.asarray(given, dtype=dtype, device=like.device)


def program(model: Model) -> Program:
    """The model's program, kept on the model object for its next run."""
    kept = model.__dict__  # as functools.cached_property keeps its values
    if "_program" not in kept:
        kept["_program"] = Program(model)
    found = kept["_program"]
    assert isinstance(found, Program)
    return found


def run(
    model: Model, tokens: Array | Sequence[int] | None = None,
    weights: Mapping[str, Array] | None = None, *,
    names: Sequence[str] | None = None, exact_definitions: bool = False, **inputs: Array,
) -> Run:  # fmt: skip
    """Run a model's equations on arrays: NumPy, PyTorch or JAX, whichever the weights are.

    ``tokens``, of shape (n) or (batch, n), goes to the card's first input, ``inputs`` to others by
    name. ``weights`` maps the names in `parameter_shapes` to arrays. With ``names`` only those
    values are computed and kept; otherwise all are. ``exact_definitions`` follows the definitions
    of named functions to the letter instead of their fast versions.

    Raises VieteError for a missing, mis-shaped or non-finite weight, a token out of range and a
    text longer than the card's context.
    """
    ready = program(model)
    weights = {} if weights is None else weights
    check_weights(ready, weights)
    given = dict(inputs)
    if tokens is not None:
        if not model.inputs:
            raise VieteError(f"{model.title} takes no input")
        if model.inputs[0].name in given:
            raise VieteError(f"the input {model.inputs[0].name} is given twice")
        given = {model.inputs[0].name: tokens, **given}
    elif model.inputs and not given:
        raise VieteError(f"{model.title} needs its input {model.inputs[0].name}")
    return ready.run(given, weights, names, not exact_definitions)


def check_weights(ready: Program, weights: Mapping[str, Array]) -> None:
    """Refuse weights that do not fit the card: names, kinds of array and values."""
    from array_api_compat import array_namespace, is_array_api_obj

    if not isinstance(weights, Mapping):
        raise VieteError(f"weights are a mapping from names to arrays, not {type(weights).__name__}")
    unknown = [str(n) for n in weights if n not in ready.parameters]
    missing = [n for n in ready.parameters if n not in weights]
    if unknown or missing:
        parts = []
        if missing:
            parts.append(f"{count(missing)} missing ({some(missing)})")
        if unknown:
            parts.append(f"{count(unknown)} not in the card ({some(unknown)})")
        raise VieteError(f"these weights do not fit {ready.model.title}: {', '.join(parts)}")
    kinds = set()
    for name, w in weights.items():
        if not is_array_api_obj(w):
            raise VieteError(f"the weight {name} must be an array, not {type(w).__name__}")
        if not is_float(w):
            raise VieteError(f"the weight {name} must be floating-point numbers, not {w.dtype}")
        xp = array_namespace(w)
        kinds.add((xp.__name__, str(w.dtype)))
        if not bool(xp.all(xp.isfinite(w))):
            raise VieteError(f"the weight {name} holds a value that is not a finite number")
    if len(kinds) > 1:
        shown = " and ".join(sorted(f"{k.rsplit('.', 1)[-1]} {d}" for k, d in kinds))
        raise VieteError(f"the weights are of different kinds: {shown}; convert them to one")


def count(names: Sequence[str]) -> str:
    return f"{len(names)} {'is' if len(names) == 1 else 'are'}"


def some(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def parameter_shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """The name and array shape of every weight that `run` takes."""
    return {name: shape for name, (_, _, shape) in program(model).parameters.items()}


__all__ = ["Env", "Program", "Run", "Shapes", "parameter_shapes", "program", "run", "show_symbol"]
