"""What flows through a card: the operations of each equation and who reads whose positions.

The rules are those of array.py with a symbolic size in place of an array, so that nothing is run
and no block is unrolled. Every axis remembers what it runs over: positions of the text (a
*place*), positions of a named value, rows or columns of a parameter. From that follow

- the cache: a value is read by other positions where its own position axis is summed over
  (``A V``) or ends as another axis of the result (``Q K^T``);
- whether a card is causal: no such sum is over positions that the mask leaves in sight;
- the embeddings: parameters looked up by token, added along positions, or giving the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from viete.algebra.dims import Size, size_of
from viete.algebra.model import Equation, Model
from viete.algebra.shapes import COMPARE, Shapes
from viete.notation.expr import Apply, Bind, Expr, Idx, Num, Pick, Ref, Slice, Symbol, Table
from viete.notation.expr import transform

ROW, COL, INNER, BATCH = "row", "col", "inner", "batch"
ONE = Size.of(1)
FREE = frozenset(("T", "concat", "rows", "cols", "inf", "pi"))  # move entries, compute nothing
NEGATED = {"le": "gt", "lt": "ge", "ge": "lt", "gt": "le"}


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
class Mask:
    """All entries whose position along ``later`` comes after that along ``now`` are ``kind``.

    ``kind`` is '0', '-inf' or 'inf'; ``width`` says that only so many positions are in sight.
    """

    kind: str
    now: str
    later: str
    width: Size | None = None

    def rename(self, labels: Mapping[str, str]) -> Mask:
        now, later = labels.get(self.now, self.now), labels.get(self.later, self.later)
        return replace(self, now=now, later=later)


@dataclass(frozen=True, slots=True)
class Read:
    """Positions of ``name`` summed over; ``past``: only those up to the reader's own."""

    name: str
    place: Size
    past: bool
    width: Size | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """An expression's axes by label, and what it is made of.

    ``const``: of numbers, dimensions and indices alone. ``live``: of parameters, so that training
    needs its gradient. ``size``: the value of a scalar made of dimensions. ``ids``: whole-number
    inputs it holds. ``lost``: reads along axes that are gone.
    """

    axes: Mapping[str, Axis] = field(default_factory=dict)
    const: bool = True
    live: bool = False
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
        return replace(self, axes=rest, size=None, mask=gone, lost=self.lost | seen(axis, label, mask))


def seen(axis: Axis, label: str, mask: Mask | None) -> frozenset[Read]:
    """The reads of a sum along an axis."""
    if axis.place is None:
        return frozenset()
    past = mask is not None and mask.later == label
    width = mask.width if mask is not None and past else None
    return frozenset(Read(n, axis.place, past, width) for n in axis.names)


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
        shared = None if self.shared is None else {}
        return replace(self, index={**self.index, **letters}, shared=shared, level=self.level + 1)


@dataclass
class Tally:
    """Operations counted so far: of products, and of everything else; forward and backward."""

    products: Size = Size(())
    operations: Size = Size(())
    products_back: Size = Size(())
    operations_back: Size = Size(())


class Flows:
    """Evaluates a model's equations in order; ``tally`` counts, ``known`` holds what was named.

    ``batch`` sequences are run at once.
    """

    def __init__(self, model: Model, batch: int = 1) -> None:
        self.model, self.shapes = model, Shapes(model)
        self.tally, self.scale = Tally(), ONE
        self.roles: dict[str, set[str]] = {p.name: set() for p in model.parameters}
        self.summed: set[tuple[str, int]] = set()
        self.known: dict[str, Flow] = {}
        self.ranges = {i.name: self.count(i.lower, i.upper) for i in model.indices}
        self.env = Env(index={k: (k, n) for k, n in self.ranges.items()})
        for item in model.inputs:
            axes = {BATCH: Axis(Size.of(batch))} if batch > 1 else {}
            labels = (ROW, COL)[2 - len(item.shape) :] if item.shape else ()
            for k, (label, e) in enumerate(zip(labels, item.shape, strict=True)):
                size = self.size(e)
                axes[label] = Axis(size, *((size, frozenset((item.name,))) if k == 0 else ()))
            ids = frozenset((item.name,) if item.high is not None else ())
            self.known[item.name] = Flow(axes, const=False, ids=ids)
        for p in model.parameters:
            axes = {s: Axis(self.ranges[s]) for s in p.symbol.slots if s in self.ranges}
            for k, (label, e) in enumerate(zip((ROW, COL)[2 - len(p.shape) :], p.shape, strict=True)):
                axes[label] = Axis(self.size(e), weights=frozenset(((p.name, k),)))
            self.known[p.name] = Flow(axes, const=False, live=True)

    def size(self, e: Expr, env: Env | None = None) -> Size:
        """An expression over dimensions; shapes were checked, so there is one."""

        def lookup(r: Ref) -> Size | None:
            if env is not None and env.arguments is not None:
                found = env.arguments.get(r.key)
                return env.sizes.get(r.key) or (found.size if found else None)
            return Size.of(r.key) if r.symbol.kind == "dim" else None

        size = size_of(e, lookup)
        assert size is not None
        return size

    def count(self, lower: Expr, upper: Expr, env: Env | None = None) -> Size:
        return self.size(upper, env) - self.size(lower, env) + ONE

    def spend(self, product: bool, entries: Size, args: Iterable[Flow]) -> None:
        """Count work forward; backward as much again for every argument that needs a gradient."""
        work = self.scale * entries
        back = work * Size.of(sum(f.live for f in args))
        if product:
            self.tally.products += work
            self.tally.products_back += back
        else:
            self.tally.operations += work
            self.tally.operations_back += back

    # -- equations ---------------------------------------------------------------------------------

    def equation(self, e: Equation) -> tuple[Flow, frozenset[Read]]:
        """The named value, and the reads of other positions by its own, as one block makes it."""
        v = self.of(e.right, self.env)
        for s in e.left.symbol.slots:
            if s in self.ranges and s not in v.axes:
                v = replace(v, axes={s: Axis(self.ranges[s]), **v.axes})
        own, reads = v.own, frozenset[Read]()
        axes = dict(v.axes)
        if own is not None:
            keys = (a for k, a in axes.items() if k != own and a.place is not None)
            reads = v.lost | {Read(n, a.place, True) for a in keys for n in a.names if a.place}
            axes[own] = replace(axes[own], names=frozenset((e.name,)))
            v = replace(v, lost=frozenset())
        self.known[e.name] = replace(v, axes=axes, const=False, size=None)
        return v, reads

    # -- expressions -------------------------------------------------------------------------------

    def of(self, e: Expr, env: Env) -> Flow:
        """The flow of an expression; what it computes goes to the tally."""
        if env.shared is not None and e in env.shared:
            return env.shared[e]
        match e:
            case Num():
                return Flow(size=Size.of(e.value))
            case Idx():
                if e.name not in env.index:
                    return Flow()  # a block's number
                label, count = env.index[e.name]
                return Flow({label: Axis(count)})
            case Ref():
                return self.ref(e, env)
            case Pick():
                found = self.pick(e, env)
            case Bind():
                found = self.bind(e, env)
            case Table():
                found = self.table(e, env)
            case Apply():
                found = self.apply(e, env)
            case _:
                raise TypeError(e)
        if env.shared is not None:
            env.shared[e] = found
        return found

    def ref(self, e: Ref, env: Env) -> Flow:
        if env.arguments is not None:
            return Flow(size=env.sizes[e.key]) if e.key in env.sizes else env.arguments[e.key]
        if e.symbol.kind == "dim":
            return Flow(size=Size.of(e.key))
        v = self.known[e.key]
        for slot, index in zip(e.symbol.slots, e.index, strict=True):
            if slot in self.ranges:
                v = self.along(v, slot, index, env)
        return v

    def along(self, v: Flow, label: str, index: Expr, env: Env) -> Flow:
        """Members ``index`` of an axis: a letter renames it, anything else takes its place."""
        if isinstance(index, Idx) and index.name in env.index:
            new = env.index[index.name][0]
            if new == label or new not in v.axes:
                return v.rename({label: new})
        at = self.of(index, env)
        if self.looked_up(v.axes[label], at):
            at = replace(at, ids=frozenset())
        # x_{j-1} inside table_{j<n} reads a position of the past.
        past = isinstance(index, Apply) and len(at.axes) == 1 and self.behind(index, env, at)
        (now,) = at.axes if past else ("",)
        rest = v.without(label, Mask("0", now, label) if past else None)
        return self.joined([rest, at], {**rest.axes, **self.placed(v.axes[label], at.axes)})

    def placed(self, old: Axis, axes: Mapping[str, Axis]) -> dict[str, Axis]:
        """Axes that replace an axis of positions count positions."""
        return {k: a if a.place or k == BATCH else replace(a, place=old.place)
                for k, a in axes.items()}  # fmt: skip

    def behind(self, index: Expr, env: Env, at: Flow) -> bool:
        size = size_of(lettered(index, env), lambda r: self.letter_or_size(r, env))
        rest = None if size is None else (size - Size.of("@" + next(iter(at.axes)))).number()
        return rest is not None and rest <= 0

    def looked_up(self, axis: Axis, at: Flow) -> bool:
        """Note an embedding: rows of a parameter taken by whole-number inputs."""
        if not at.ids or not axis.weights:
            return False
        for name, which in axis.weights:
            for item in (i for i in self.model.inputs if i.name in at.ids and which == 0):
                reach = self.reach(item.name)
                longest = [self.model.size(x) for x in self.model.lengths.values()]
                position = reach and any(s and self.shapes.same(s, reach) for s in longest)
                self.roles[name].add("position" if position else "token")
        return True

    def reach(self, name: str) -> Size | None:
        """How many values a whole-number input can have."""
        item = next(i for i in self.model.inputs if i.name == name)
        if item.low is None or item.high is None:
            return None
        low, high = self.model.size(item.low), self.model.size(item.high)
        return None if low is None or high is None else high - low + ONE

    def pick(self, e: Pick, env: Env) -> Flow:
        v = self.of(e.value, env)
        core = [k for k in (ROW, COL) if k in v.axes]
        v = v.rename({k: "picked" + k for k in core[: len(e.items)]})
        for label, item in zip(core, e.items, strict=False):
            old = "picked" + label
            if isinstance(item, Slice):
                start = self.size(item.start, env) if item.start else Size(())
                stop = self.size(item.stop, env) if item.stop else v.axes[old].size
                axis = replace(v.axes[old], size=stop - start)
                v = replace(v, axes={**v.axes, old: axis}, mask=None).rename({old: label})
                continue
            at = None if isinstance(item, Idx) else self.of(item, env)
            if at is None or COL not in at.axes:
                v = self.along(v, old, item, env)
                continue
            # A vector of places (token ids): its axis takes the place of the picked one.
            if self.looked_up(v.axes[old], at):
                at = replace(at, ids=frozenset())
            rest = v.without(old)
            v = self.joined([rest, at], {**at.rename({COL: label}).axes, **rest.axes})
        if ROW in v.axes and COL not in v.axes and core:
            v = v.rename({ROW: COL})
        return v

    def bind(self, e: Bind, env: Env) -> Flow:
        blocks = e.index in self.model.loop_letters and env.arguments is None
        if e.lower is not None and e.upper is not None:
            count = self.count(e.lower, e.upper, env)
        else:
            count = env.index[e.index][1]
        if blocks:
            before, self.scale = self.scale, self.scale * count
            v = self.of(e.body, env)
            self.scale = before
            self.spend(False, v.entries * (count - ONE), (v, v))
            return v
        label = f"{e.index}{env.level + 1}"
        inner = env.bound({e.index: (label, count)})
        if e.op == "sum" and isinstance(e.body, Apply) and e.body.op == "prod":
            a, b = (self.of(x, inner) for x in e.body.args)
            if label in a.axes and label in b.axes and a.core and b.core:
                return self.product(a, b, (label,))
            v = self.product(a, b)
        else:
            v = self.of(e.body, inner)
        if e.op != "concat":
            return self.reduced(v, label)
        if COL not in v.axes:
            return v.rename({label: COL})
        wide = replace(v.axes[COL], size=count * v.axes[COL].size)
        axes = {k: wide if k == COL else a for k, a in v.axes.items() if k != label}
        return replace(v, axes=axes, mask=None)

    def table(self, e: Table, env: Env) -> Flow:
        bounds = {i: (f"{i}{env.level + 1}", self.size(n, env)) for i, n in e.ranges}
        v = self.of(e.body, env.bound(bounds))
        axes = {**{label: Axis(n) for label, n in bounds.values()}, **v.axes}
        names = (ROW, COL) if len(bounds) == 2 else (COL,)
        labels = {label: new for (label, _), new in zip(bounds.values(), names, strict=True)}
        return replace(v, axes=axes, size=None).rename(labels)

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: Env) -> Flow:
        op = e.op
        if op in self.model.function:
            return self.call(op, [self.of(a, env) for a in e.args], env.level)
        args = [self.of(a, env) for a in e.args]
        if op == "prod":
            return self.product(*args)
        if op == "inner":
            a, b = (v.rename({COL: INNER}) for v in args)
            return self.contract(a, b, (INNER,))
        if op == "T":
            (v,) = args
            if ROW not in v.axes:
                v = replace(v, axes={ROW: Axis(ONE), **v.axes})
            return v.rename({ROW: COL, COL: ROW})
        if op in ("rows", "cols"):
            label = ROW if op == "rows" else COL
            return Flow(size=args[0].axes[label].size)
        if op == "concat":
            wide = [v.axes[COL] for v in args]
            size = sum((a.size for a in wide), Size(()))
            names = frozenset[str]().union(*(a.names for a in wide))
            out = self.joined(args, {})
            return replace(out, axes={**out.axes, COL: Axis(size, wide[0].place, names)}, mask=None)
        if op in ("sum", "mean", "max", "min", "argmax") and len(args) == 1:
            out = self.reduced(args[0], COL)
            if op == "argmax":
                return replace(out.rename({ROW: COL}), live=False)
            return out
        mask = self.hidden(e, env) if op == "where" else combined(op, args)
        size = None
        if not any(v.axes for v in args):
            size = size_of(e, lambda r: self.letter_or_size(r, env))
        return replace(self.entrywise(op, args), mask=mask, size=size)

    def call(self, name: str, args: list[Flow], level: int) -> Flow:
        """A named function, by its definition."""
        function = self.model.function[name]
        for argument in function.arguments[len(args) :]:
            assert argument.default is not None
            args.append(self.of(argument.default, Env()))
        sizes: dict[str, Size] = {}
        for argument, v in zip(function.arguments, args, strict=True):
            labels = (ROW, COL) if len(argument.pattern) == 2 else (COL,)
            for symbol, label in zip(argument.pattern, labels, strict=False):
                sizes[symbol.key] = v.axes[label].size if label in v.axes else ONE
        values = {a.symbol.key: v for a, v in zip(function.arguments, args, strict=True)}
        return self.of(function.body, Env(values, sizes, {}, {}, level + 1))

    def joined(self, args: list[Flow], axes: Mapping[str, Axis]) -> Flow:
        """What a result over all arguments is made of; ``axes`` or, if none are given, all."""
        if not axes:
            axes = {}
            for label in dict.fromkeys(k for v in args for k in v.axes):
                axes[label] = self.merged(label, [v.axes[label] for v in args if label in v.axes])
        return Flow(
            axes,
            const=all(v.const for v in args),
            live=any(v.live for v in args),
            ids=frozenset[str]().union(*(v.ids for v in args)),
            lost=frozenset[Read]().union(*(v.lost for v in args)),
        )

    def merged(self, label: str, axes: list[Axis]) -> Axis:
        """One axis for several that line up."""
        out = axes[0]
        for a in axes[1:]:
            size = a.size if out.size == ONE else out.size if a.size == ONE else None
            size = self.shapes.better(out.size, a.size) if size is None else size
            names, weights = out.names | a.names, out.weights | a.weights
            out = Axis(size, out.place or a.place, names, weights)
        if out.place is not None:
            for name, which in out.weights if label == ROW else ():
                if which == 0:
                    self.roles[name].add("position")
            out = replace(out, weights=frozenset())
        return out

    def entrywise(self, op: str, args: list[Flow]) -> Flow:
        out = self.joined(args, {})
        if op in COMPARE | {"floor", "mod", "not", "and", "or"}:
            out = replace(out, live=False)
        neutral = ONE if op in ("had", "times", "prod") else Size(()) if op == "add" else None
        if not out.const and not any(v.size == neutral and neutral is not None for v in args):
            self.spend(False, out.entries, args if out.live else ())
        return out

    def reduced(self, v: Flow, label: str) -> Flow:
        if not v.const:
            self.spend(False, v.entries, (v,))
        return v.without(label, v.mask)

    def product(self, a: Flow, b: Flow, also: tuple[str, ...] = ()) -> Flow:
        """Juxtaposition: scaling by a number, or the matrix product (summed over ``also``)."""
        if not a.core or not b.core:
            mask = combined("times", [a, b])
            size = a.size * b.size if a.size is not None and b.size is not None else None
            return replace(self.entrywise("times", [a, b]), mask=mask, size=size)
        if COL not in a.axes:  # a column, n × 1
            a = replace(a, axes={**a.axes, COL: Axis(ONE)})
        vector = ROW not in b.axes
        out = self.contract(
            a.rename({COL: INNER}), b.rename({COL if vector else ROW: INNER}), (INNER, *also)
        )
        return out.rename({ROW: COL}) if vector else out

    def contract(self, a: Flow, b: Flow, over: tuple[str, ...]) -> Flow:
        """A sum of products along ``over``: 2 operations for each entry of either factor's axes."""
        every = self.joined([a, b], {})
        if not every.const:
            self.spend(True, every.entries * Size.of(2), (a, b))
        vocabularies = [r for i in self.model.inputs if (r := self.reach(i.name))]
        mask = next((v.mask for v in (a, b) if v.mask and v.mask.later in over
                     and v.mask.kind == "0"), None)  # fmt: skip
        for label in over:
            for v in (a, b):
                axis = v.axes[label]
                if any(self.shapes.same(axis.size, n) for n in vocabularies):
                    self.summed |= axis.weights
            every = every.without(label, mask)
        return every

    # -- masks -------------------------------------------------------------------------------------

    def letter_or_size(self, r: Ref, env: Env) -> Size | None:
        if r.symbol.base.startswith("@"):
            return Size.of(r.symbol.base)
        if env.arguments is not None:
            found = env.arguments.get(r.key)
            return env.sizes.get(r.key) or (found.size if found else None)
        return Size.of(r.key) if r.symbol.kind == "dim" else None

    def hidden(self, e: Apply, env: Env) -> Mask | None:
        """The mask of ``where(k <= j, S_{j,k}, -inf)``, from its condition."""
        condition, shown, other = e.args
        kind = blank(other)
        if kind is None:
            kind = blank(shown)
            if kind is None or not isinstance(condition, Apply) or condition.op not in NEGATED:
                return None
            condition = replace(condition, op=NEGATED[condition.op])
        limits = [x for c in conjuncts(condition) if (x := self.limit(c, env)) is not None]
        for later, now, rest in limits:
            least = rest.number()
            if least is not None and least >= 0:
                widths = [ONE - r for p, q, r in limits if (p, q) == (now, later)]
                return Mask(kind, now, later, widths[0] if widths else None)
        return None

    def limit(self, e: Expr, env: Env) -> tuple[str, str, Size] | None:
        """``k <= j - c`` as (k, j, c), for the labels of two index letters."""
        if not isinstance(e, Apply) or e.op not in NEGATED:
            return None
        a, b = e.args if e.op in ("le", "lt") else e.args[::-1]
        difference = size_of(lettered(Apply("sub", (a, b)), env), lambda r: self.letter_or_size(r, env))
        if difference is None:
            return None
        above, below, rest = [], [], Size.of(int(e.op in ("lt", "gt")))
        for monomial, c in difference.terms:
            if len(monomial) == 1 and monomial[0][0].startswith("@") and abs(c) == 1:
                (above if c > 0 else below).append(monomial[0][0][1:])
            else:
                rest += Size(((monomial, c),))
        if len(above) != 1 or len(below) != 1 or any(n.startswith("@") for n in rest.names()):
            return None
        return above[0], below[0], rest


def lettered(e: Expr, env: Env) -> Expr:
    """Index letters as names of their axes (``@j1``), so that sizes can hold them."""

    def rule(x: Expr) -> Expr | None:
        if isinstance(x, Idx) and x.name in env.index:
            return Ref(Symbol("dim", "@" + env.index[x.name][0]))
        return None

    return transform(e, rule)


def conjuncts(e: Expr) -> list[Expr]:
    if isinstance(e, Apply) and e.op == "and":
        return [c for a in e.args for c in conjuncts(a)]
    return [e]


def blank(e: Expr) -> str | None:
    """What a masked entry holds, if it is nothing that could be read."""
    match e:
        case Num(value) if value == 0:
            return "0"
        case Apply("neg", (Apply("inf"),)):
            return "-inf"
        case Num(value) | Apply("neg", (Num(value),)) if abs(value) >= Fraction(10**4):
            return "-inf" if isinstance(e, Apply) or value < 0 else None  # exp of it is 0
    return None


def combined(op: str, args: list[Flow]) -> Mask | None:
    """How an operation on entries passes a mask on."""
    masks = [(k, v.mask) for k, v in enumerate(args) if v.mask is not None]
    if not masks:
        return None
    k, mask = masks[0]
    kind = mask.kind
    if op == "exp":
        return replace(mask, kind={"-inf": "0", "inf": "inf"}[kind]) if kind != "0" else None
    if op == "neg":
        return replace(mask, kind={"-inf": "inf", "inf": "-inf"}.get(kind, kind))
    if op in ("add", "sub") and kind != "0" and k == 0:
        return mask
    if op == "add" and kind != "0":
        return mask
    if op in ("had", "times", "div"):
        if kind == "0" and (op != "div" or k == 0):
            return mask
        if kind == "inf" and op == "div" and k == 1:
            return replace(mask, kind="0")
        if kind != "0" and k == 0 and args[1].const:
            return mask  # -inf / sqrt(d_k)
    return None
