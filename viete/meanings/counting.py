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

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from viete.analysis.kinds import COMPARISONS
from viete.analysis.masks import SIGN, Mask, blank, both, combined, distance, hidden
from viete.evaluate.embeddings import Embeddings
from viete.graph.card import CardData, Equation
from viete.graph.sizes import Size, size_of
from viete.meanings.axes import COL, ONE, ROW, ZERO, Axis, Env, Flow, Read, turned
from viete.notation.tree import Apply, Bind, Expr, Idx, Num, Pick, Ref, Slice, Table

INNER, BATCH = "inner", "batch"
REDUCTIONS = frozenset("sum mean max min argmax".split())


@dataclass
class Tally:
    """Operations counted so far: of products, and of everything else; forward and backward."""

    products: Size = ZERO
    operations: Size = ZERO
    products_back: Size = ZERO
    operations_back: Size = ZERO


class Flows:
    """Evaluates a model's equations in order; ``tally`` counts, ``known`` holds what was named.

    ``batch`` sequences are run at once.
    """

    def __init__(self, card: CardData, batch: int = 1) -> None:
        self.model, self.shapes = card, card.shapes
        self.tally, self.scale = Tally(), ONE
        self.env = Env()
        self.embeddings = Embeddings(card, self.shapes)
        self.known: dict[str, Flow] = {}
        self.ranges = {i.name: self.count(i.lower, i.upper) for i in card.indices}
        self.env = Env(index={k: (k, n) for k, n in self.ranges.items()})
        for item in card.inputs:
            axes = {BATCH: Axis(Size.of(batch))} if batch > 1 else {}
            axes |= {s: Axis(self.ranges[s]) for s in item.symbol.slots if s in self.ranges}
            labels = (ROW, COL)[2 - len(item.shape) :] if item.shape else ()
            for k, (label, e) in enumerate(zip(labels, item.shape, strict=True)):
                size = self.size(e)
                axes[label] = Axis(size, *((size, frozenset((item.name,))) if k == 0 else ()))
            ids = frozenset((item.name,) if item.high is not None else ())
            self.known[item.name] = Flow(axes, const=False, given=True, ids=ids)
        for p in card.parameters:
            axes = {s: Axis(self.ranges[s]) for s in p.symbol.slots if s in self.ranges}
            labels = (ROW, COL)[2 - len(p.shape) :]
            for k, (label, e) in enumerate(zip(labels, p.shape, strict=True)):
                axes[label] = Axis(self.size(e), weights=frozenset(((p.name, k),)))
            self.known[p.name] = Flow(axes, const=False, live=True)

    def size(self, e: Expr, env: Env | None = None) -> Size:
        """An expression over dimensions; shapes were checked, so there is one."""
        size = size_of(e, self.sizes(self.env if env is None else env))
        assert size is not None
        return size

    def sizes(self, env: Env) -> Callable[[Ref], Size | None]:
        """What names mean as sizes, seen from inside ``env``."""

        def lookup(r: Ref) -> Size | None:
            if env.arguments is None:
                return Size.of(r.key) if r.symbol.kind == "dim" else None
            found = env.arguments.get(r.key)
            return env.sizes.get(r.key) or (found.size if found else None)

        return lookup

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
        self.embeddings.named(v)
        own, reads = v.own, frozenset[Read]()
        axes = dict(v.axes)
        if own is not None:
            reads = v.lost.union(*(turned(a) for k, a in axes.items() if k != own))
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
        if self.embeddings.looked_up(v, label, at):
            at = replace(at, ids=frozenset())
        # x_{j-1} inside table_{j<n} reads a position of the past.
        past = isinstance(index, Apply) and len(at.axes) == 1 and self.behind(index, env, at)
        (now,) = at.axes if past else ("",)
        rest = v.without(label, Mask("0", now, label) if past else None)
        return self.joined([rest, at], {**self.placed(v.axes[label], at.axes), **rest.axes})

    def placed(self, old: Axis, axes: Mapping[str, Axis]) -> dict[str, Axis]:
        """Axes that replace an axis of positions count positions."""
        return {k: a if a.place or k == BATCH else replace(a, place=old.place)
                for k, a in axes.items()}  # fmt: skip

    def behind(self, index: Expr, env: Env, at: Flow) -> bool:
        """Whether ``j - 1`` is j or before."""
        (label,) = at.axes
        labels = {letter: label for letter, (label, _) in env.index.items()}
        size = distance(index, labels, self.sizes(env))
        rest = None if size is None else (size - Size.of(SIGN + label)).number()
        return rest is not None and rest <= 0

    def pick(self, e: Pick, env: Env) -> Flow:
        v = self.of(e.value, env)
        core = [k for k in (ROW, COL) if k in v.axes]
        v = v.rename({k: "picked" + k for k in core[: len(e.items)]})
        for label, item in zip(core, e.items, strict=False):
            old = "picked" + label
            if isinstance(item, Slice):
                start = self.size(item.start, env) if item.start else ZERO
                stop = self.size(item.stop, env) if item.stop else v.axes[old].size
                axis = replace(v.axes[old], size=stop - start)
                v = replace(v, axes={**v.axes, old: axis}, mask=None).rename({old: label})
                continue
            at = None if isinstance(item, Idx) else self.of(item, env)
            if at is None or COL not in at.axes:
                v = self.along(v, old, item, env)
                continue
            # A vector of places (token ids): its axis takes the place of the picked one.
            if self.embeddings.looked_up(v, old, at):
                at = replace(at, ids=frozenset())
            rest = v.without(old)
            v = self.joined([rest, at], {**at.rename({COL: label}).axes, **rest.axes})
        if ROW in v.axes and COL not in v.axes and core:
            v = v.rename({ROW: COL})
        return v

    def bind(self, e: Bind, env: Env) -> Flow:
        if e.index in self.model.loop_letters and env.arguments is None:
            count = self.counted(e, env)
            before, self.scale = self.scale, self.scale * count
            v = self.of(e.body, env)
            self.scale = before
            self.spend(False, v.entries * (count - ONE), (v, v))
            return v
        inner, label = self.bound(e, env)
        if e.op == "sum":
            return self.sum(e, inner, label)
        v = self.of(e.body, inner)
        if e.op != "concat":
            return self.reduced(v, label)
        if COL not in v.axes:
            return v.rename({label: COL})
        wide = replace(v.axes[COL], size=v.axes[label].size * v.axes[COL].size)
        axes = {k: wide if k == COL else a for k, a in v.axes.items() if k != label}
        return replace(v, axes=axes, mask=None)

    def counted(self, e: Bind, env: Env) -> Size:
        """How many values a binder's index takes."""
        if e.lower is not None and e.upper is not None:
            return self.count(e.lower, e.upper, env)
        return env.index[e.index][1]

    def bound(self, e: Bind, env: Env) -> tuple[Env, str]:
        """The names in force under a binder, and its index's label."""
        label = f"{e.index}{env.level + 1}"
        return env.bound({e.index: (label, self.counted(e, env))}), label

    def sum(self, e: Bind, env: Env, label: str) -> Flow:
        """A sum, or sums within sums; over a product they are part of its contraction."""
        labels, body, loops = [label], e.body, self.model.loop_letters
        while isinstance(body, Bind) and body.op == "sum" and body.index not in loops:
            env, label = self.bound(body, env)
            labels.append(label)
            body = body.body
        if isinstance(body, Apply) and body.op == "prod":
            a, b = (self.of(x, env) for x in body.args)
            both = tuple(x for x in labels if x in a.axes and x in b.axes)
            v = self.product(a, b, both if a.core and b.core else ())
        else:
            v = self.of(body, env)
        for label in labels:
            if label in v.axes:
                v = self.reduced(v, label)
        return v

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
        if op in ("cols", "inner", "concat") or (len(args) == 1 and op in REDUCTIONS):
            args = [column(v) for v in args]  # of rows that keep no axis for their one entry
        if op == "prod":
            left, right = args
            return self.product(left, right)
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
            size = sum((a.size for a in wide), ZERO)
            names = frozenset[str]().union(*(a.names for a in wide))
            out = self.joined(args, {})
            return replace(out, axes={**out.axes, COL: Axis(size, wide[0].place, names)}, mask=None)
        if op in REDUCTIONS and len(args) == 1:
            out = self.reduced(args[0], COL)
            if op == "argmax":
                return replace(out.rename({ROW: COL}), live=False)
            return out
        if op == "where":
            labels = {letter: label for letter, (label, _) in env.index.items()}
            mask = hidden(e, labels, self.sizes(env)) or both(args[1].mask, args[2].mask)
            shown = args[1].mask
            if mask is None and shown is not None and blank(e.args[2]) == shown.kind:
                mask = shown
        else:
            mask = combined(op, [v.mask for v in args], all(v.const or v.mask for v in args))
        value = None if any(v.axes for v in args) else size_of(e, self.sizes(env))
        return replace(self.entrywise(op, args), mask=mask, size=value)

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
            given=any(v.given for v in args),
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
            self.embeddings.placed(out, label)
            out = replace(out, weights=frozenset())
        return out

    def entrywise(self, op: str, args: list[Flow]) -> Flow:
        out = self.joined(args, {})
        if op in COMPARISONS | {"floor", "mod", "not", "and", "or"}:
            out = replace(out, live=False)
        neutral = ONE if op in ("had", "times", "prod") else ZERO if op == "add" else None
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
            mask = combined("times", [a.mask, b.mask], a.const or b.const)
            size = a.size * b.size if a.size is not None and b.size is not None else None
            return replace(self.entrywise("times", [a, b]), mask=mask, size=size)
        a = column(a)
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
        masks = (v.mask for v in (a, b) if v.mask and v.mask.kind == "0")
        mask = next((m for m in masks if m.later in over), None)
        for label in over:
            for v in (a, b):
                self.embeddings.summed(v.axes[label])
            every = every.without(label, mask)
        return every


def column(v: Flow) -> Flow:
    """A column's rows of one entry each, which it keeps without an axis, with one."""
    return v if COL in v.axes else replace(v, axes={**v.axes, COL: Axis(ONE)})
