"""Incremental computation: formulas rewritten for new positions of a text, a rule a kind of node.

An axis as long as the text is *positional*. Rewritten, it runs over the NEW positions or over ALL
of them, whichever is asked for: the rows of a value over the new ones, what is summed over or
compared with over all. The rewritten formula equals the old one at those positions. A `Form` says
beside it what each entry may depend on.

That is why this is no `Evaluator`, which goes from the parts to the whole: here the whole asks its
parts for positions, K in ``Q K^T`` for all and the same K in ``x K`` for the new ones, and what is
found out depends on which. What hides later positions, and which place is never later, is said in
`viete.analysis.masks`, for `viete.analysis.flows` as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count

from viete.analysis.masks import SIGN, combined, latest, mask_of_where
from viete.analysis.shapes import Shapes
from viete.errors import Text
from viete.graph.card import CardData
from viete.graph.evaluator import COL, INNER, REDUCTIONS, ROW
from viete.graph.sizes import ONE, ZERO, Size, calculated
from viete.library.functions import Argument, Function, with_defaults
from viete.notation.printer import show
from viete.notation.substitution import apart, fresh
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    Slot,
    Symbol,
    Table,
    num,
)
from viete.rewrite.forms import (
    EVERY,
    LATER,
    PAST,
    WHOLE,
    BoundLetter,
    Form,
    FormEnv,
    Frame,
    Sees,
    Sizes,
    Want,
    summed,
    together,
)  # fmt: skip
from viete.rewrite.kv_cache import ALL, ALL_COUNT, NEW, NEW_COUNT, ROOM, DynamicCache, Stuck, named

COUNTS = {NEW: NEW_COUNT, ALL: ALL_COUNT}
FOLDS = {"sum": "0", "max": "-inf", "min": "inf"}  # what a fold passes over
SPARE = "s p b o u".split()  # names of a function's further arguments


class Positions:
    """Rewrites formulas of a model for the length ``length``.

    ``value(ref, want)`` gives the form of a named value or an input. ``functions`` holds the new
    functions that came up.
    """

    def __init__(
        self, card: CardData, table: Shapes, length: str, cache: DynamicCache,
        value: Callable[[Ref, Want], Form],
    ) -> None:  # fmt: skip
        self.model, self.table, self.length, self.cache = card, table, length, cache
        self.value = value
        self.functions: dict[tuple[object, ...], Function] = {}
        # What a count of all positions is as written: in a room there are more rows.
        self.every = Size.of(ROOM.key) if ROOM in cache.own else WHOLE
        self.labels = count()
        self.env = FormEnv(table.env)

    # -- sizes -------------------------------------------------------------------------------------

    def size(self, size: Size, length: Size = WHOLE) -> Size:
        """A size over the card's dimensions, with `EVERY` for the text's length."""
        return size.substitute(self.model.definitions).substitute({self.length: length})

    def axes(self, e: Expr, env: FormEnv) -> list[bool]:
        """Whether each axis of an expression is positional."""
        return [self.positional(self.size(s), e) for s in self.table.of(e, env.types).shape]

    def positional(self, size: Size, e: Expr) -> bool:
        """Whether an axis of this size is. Raises Stuck for one as long as a part of the text."""
        if size != WHOLE and EVERY in size.names():
            said = size.substitute({EVERY: Size.of(self.length)})
            raise Stuck(f"{show(e)} has an axis of {said}, which are not the positions of the text")
        return size == WHOLE

    def dimension(self, e: Ref, size: Sizes) -> Form:
        """A dimension, or the size of an argument."""
        true, _ = size
        if true != WHOLE and EVERY in true.names():
            raise Stuck(f"{show(e)} is no number of positions")
        return Form(e, size=size, whole=ALL_COUNT if true == WHOLE else None, const=True)

    def number(self, f: Form, env: FormEnv) -> Form:
        """The form, used as a number and not as a size: it must be what it stood for.

        How long the text is, a new token changes.
        """
        if f.size is None:
            return f
        true, said = f.size
        expr = f.expr if true == said else self.spelled(true, env) or f.true
        sees = None if EVERY in true.names() else f.sees
        return replace(f, expr=expr, sees=sees, size=None, whole=None)

    def spelled(self, size: Size, env: FormEnv) -> Expr | None:
        """A sum of positions and numbers, such as ``q_j - 1``: of j + m - n no m is left."""
        letters = {SIGN + v.label: (k, v.kind) for k, v in env.letters.items()}
        out: Expr | None = None
        for monomial, factor in sorted(size.terms, key=lambda t: (t[1] < 0, not t[0])):
            term: Expr = num(factor if factor > 0 else -factor)
            if monomial:
                name, power = monomial[0]
                if len(monomial) > 1 or power != 1 or name not in letters or abs(factor) != 1:
                    return None
                letter, kind = letters[name]
                term = self.cache.position(Idx(letter)) if kind == NEW else Idx(letter)
            if out is None:
                out = term if factor > 0 else Apply("neg", (term,))
            else:
                out = Apply("add" if factor > 0 else "sub", (out, term))
        return out or num(0)

    # -- expressions -------------------------------------------------------------------------------

    def of(self, e: Expr, env: FormEnv, want: Want) -> Form:
        """The form of an expression with its positional axes as wanted; raises Stuck."""
        match e:
            case Num(value):
                return Form(e, size=(Size.of(value), Size.of(value)), const=True)
            case Idx(name):
                letter = env.letters.get(name, BoundLetter(name))
                size = Size.of(SIGN + letter.label)
                if letter.kind != NEW:
                    return Form(e, size=(size, size), const=True)
                position, said = self.cache.position(e), size - Size.of(PAST)
                return Form(e, size=(size, said), whole=position, const=True)
            case Ref():
                return self.ref(e, env, want)
            case Pick():
                return self.pick(e, env, want)
            case Bind():
                return self.bind(e, env, want)
            case Table():
                return self.tabled(e, env, want)
            case Apply():
                return self.apply(e, env, want)
        raise TypeError(e)

    def ref(self, e: Ref, env: FormEnv, want: Want) -> Form:
        if env.frame is not None:
            if e.key in env.frame.sizes:
                return self.dimension(e, env.frame.sizes[e.key])
            return self.argument(e, env.frame, env, want)
        if e.symbol.kind == "dim":
            own = Size.of(e.key)
            return self.dimension(e, (self.size(own), self.size(own, LATER)))
        return Form(e) if e.symbol.kind == "parameter" else self.value(e, want)

    def argument(self, e: Ref, frame: Frame, env: FormEnv, want: Want) -> Form:
        """An argument of a function, which thereby needs it as wanted."""
        axes = self.axes(e, env)
        kinds = tuple(k if p else None for k, p in zip(want[2 - len(axes) :], axes, strict=True))
        variants = frame.used.setdefault(e.key, {})
        if kinds not in variants:
            variants[kinds] = frame.arguments[e.key](want)
        f, symbol = variants[kinds], variant(e.symbol, list(variants).index(kinds))
        if f.size is not None:
            return replace(self.dimension(Ref(symbol), f.size), sees=f.sees)
        return replace(f, expr=Ref(symbol))

    def pick(self, e: Pick, env: FormEnv, want: Want) -> Form:
        axes = self.axes(e.value, env)
        names = (ROW, COL)[2 - len(axes) :]
        items: list[Expr | None] = [*e.items, *[None] * (len(axes) - len(e.items))]
        stay = [i is None or isinstance(i, Slice) or bool(self.axes(i, env)) for i in items]
        rest = iter((ROW, COL)[2 - sum(stay) :])
        to: dict[str, str] = {}  # axes of the value → of the result, or of an enclosing table
        gone: dict[str, str | None] = {}  # axes picked from → what bounds the place; see `latest`
        wants = {ROW: ALL, COL: ALL}
        new: list[Expr] = []
        sees: Sees = frozenset()
        for name, place, item, stays in zip(names, axes, items, stay, strict=True):
            label = next(rest) if stays else ""
            kind = want[(ROW, COL).index(label)] if stays else ""
            if item is None:  # the axis is left alone
                to[name], wants[name] = label, kind
            elif isinstance(item, Slice):
                cut, full, seen = self.sliced(item, place, kind, env)
                sees = together(sees, seen)
                new.append(cut)
                to[name] = label
                wants[name] = kind if full else ALL
                if place and not full:  # a part of the text: its first row has no rows before it
                    first = isinstance(cut, Slice) and cut.stop == num(1)
                    gone[name] = "" if first else None
            elif place and isinstance(item, Idx) and (at := env.letters.get(item.name)) and at.kind:
                wants[name], to[name] = at.kind, at.label  # the row of the table's own position
                new.append(item)
            else:
                f = self.number(self.of(item, env, (ALL, kind or ALL)), env)
                if place:  # x_{j-1} sees what row j - 1 does: no more than position j may
                    gone[name] = None if stays else self.bounded(item, env)
                new.append(f.expr)
                sees = together(sees, f.rename({COL: label}).sees if stays else f.sees)
        v = self.of(e.value, env, (wants[ROW], wants[COL]))
        seen = v.sees
        for name, bound in gone.items():
            if seen is not None and name in seen:
                seen = None if bound is None else seen - {name} | ({bound} if bound else set())
        mask = v.mask if v.mask and {v.mask.now, v.mask.later} <= to.keys() - gone.keys() else None
        found = replace(v, sees=seen, mask=mask).rename(to)
        everything = all(isinstance(i, Slice) and i.start is i.stop is None for i in new)
        expr = v.expr if everything else replace(e, value=v.expr, items=tuple(new))
        return Form(expr, together(found.sees, sees), found.mask, const=v.const)

    def sliced(self, e: Slice, place: bool, kind: str, env: FormEnv) -> tuple[Expr, bool, Sees]:
        """A slice of an axis; whether it is all of a positional one; what its ends depend on."""
        ends = [None if x is None else self.of(x, env, (ALL, ALL)) for x in (e.start, e.stop)]
        low, high = (None if x is None or x.size is None else x.size[0] for x in ends)
        first, last = low or ZERO, high or (WHOLE if place else None)
        length = None if last is None else last - first
        start, stop = (None if x is None else x.true for x in ends)
        if place:
            if first == ZERO and length == WHOLE:
                return Slice(None, None), True, frozenset()
            if length is None or EVERY in length.names() or EVERY in first.names():
                raise Stuck(f"{show(e)} is a part of the text that depends on its length")
            return Slice(start, stop), False, frozenset()
        if length == WHOLE:  # the first n rows of a table of positions
            sees = None if EVERY in first.names() else frozenset[str]()
            return self.cache.rows(kind, start, stop), False, sees
        if length is not None and EVERY in length.names():
            raise Stuck(f"{show(e)} is not as long as the text")
        sees = together(*(self.number(x, env).sees for x in ends if x is not None))
        return Slice(start, stop), False, sees

    def bounded(self, place: Expr, env: FormEnv) -> str | None:
        """The positional axis whose position a place is never after; see `latest`."""

        def size(x: Expr) -> Size | None:
            found = self.of(x, env, (ALL, ALL)).size
            return found and found[0]

        return latest(place, size, [x.label for x in env.letters.values() if x.kind is not None])

    def body(
        self, e: Bind | Table, letters: Mapping[str, BoundLetter], env: FormEnv, want: Want
    ) -> Form:
        """What a binder binds, whose letters these are."""
        others = {k: v for k, v in env.letters.items() if k not in e.bound}
        inner = FormEnv(self.table.inside(e, env.types), env.frame, {**others, **letters})
        return self.number(self.of(e.body, inner, want), inner)

    def bind(self, e: Bind, env: FormEnv, want: Want) -> Form:
        block = e.index in self.model.loop_letters and env.frame is None
        if e.ranges is None or block:
            f = self.body(e, {}, env, want)
            mask = f.mask if e.op != "concat" else None
            return Form(replace(e, body=f.expr), f.sees, mask, const=f.const)
        low, high = (self.of(x, env, want) for x in e.ranges)
        if low.size is None or high.size is None:
            raise Stuck(f"the bounds of {show(e)} are no numbers of positions")
        place = self.positional(high.size[0] - low.size[0] + ONE, e)
        if place and low.size[0] != ZERO:
            raise Stuck(f"{show(e)} does not run over the positions of the text")
        letter = BoundLetter(f"{e.index}@{next(self.labels)}", ALL if place else None)
        f = self.body(e, {e.index: letter}, env, want)
        label, sees = letter.label, f.sees
        if place:
            sees = summed(sees, label, [f.mask], FOLDS.get(e.op, ""))
        mask = f.mask if f.mask and label not in (f.mask.now, f.mask.later) else None
        expr = replace(e, lower=low.expr, upper=high.true, body=f.expr)
        return Form(expr, sees, mask, const=f.const)

    def tabled(self, e: Table, env: FormEnv, want: Want) -> Form:
        letters: dict[str, BoundLetter] = {}
        ranges: list[tuple[str, Expr]] = []
        to: dict[str, str] = {}
        names = (ROW, COL)[2 - len(e.ranges) :]
        for (index, size), name, kind in zip(e.ranges, names, want[2 - len(names) :], strict=True):
            f = self.of(size, env, want)
            if f.size is None:
                raise Stuck(f"{show(size)} is no number of positions")
            place = self.positional(f.size[0], e)
            letters[index] = BoundLetter(f"{index}@{next(self.labels)}", kind if place else None)
            to[letters[index].label] = name
            ranges.append((index, COUNTS[kind] if place else f.expr))
        f = self.body(e, letters, env, want)
        return replace(f.rename(to), expr=replace(e, ranges=tuple(ranges), body=f.expr))

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: FormEnv, want: Want) -> Form:
        op, args = e.op, e.args
        if op in ("inf", "pi"):
            return Form(e, const=True)
        if op in self.model.function:
            return self.call(e, env, want)
        if op == "prod" and all(self.table.of(x, env.types).shape for x in args):
            return self.product(e, env, want)
        if op == "T":
            f = self.of(args[0], env, (want[1], want[0]))
            return self.made(e, [f], f.rename({ROW: COL, COL: ROW}))
        if op in ("rows", "cols"):
            return self.counted(e, env)
        if op == "inner":
            parts: list[tuple[Expr, Want, dict[str, str]]] = [
                (x, (ALL, ALL), {COL: INNER}) for x in args
            ]
            return self.folded(e, parts, self.axes(args[0], env)[0], "0", env)
        if op in REDUCTIONS and len(args) == 1:  # a row to one number
            at, label = (1, COL) if op == "argmax" else (0, ROW)
            part = args[0], (want[at], ALL), {COL: INNER, ROW: label}
            return self.folded(e, [part], self.axes(args[0], env)[-1], FOLDS.get(op, ""), env)
        if op == "concat" and any(self.axes(x, env)[-1] for x in args):
            raise Stuck(f"{show(e)} puts positions one after the other")
        return self.entrywise(e, [self.of(x, env, want) for x in args], env)

    def made(self, e: Apply, args: list[Form], f: Form) -> Form:
        """The operation on rewritten arguments, with what ``f`` says of it."""
        return replace(f, expr=replace(e, args=tuple(x.expr for x in args)), size=None, whole=None)

    def counted(self, e: Apply, env: FormEnv) -> Form:
        """``rows(x)``: as a number what x had; as written what it has now."""
        f = self.of(e.args[0], env, (NEW, ALL))
        shape = self.table.of(e.args[0], env.types).shape
        size = self.size(shape[0] if e.op == "rows" else shape[-1])
        expr = replace(e, args=(f.expr,))
        if not self.positional(size, e):
            return Form(expr, size=(size, size))
        new = e.op == "rows" or len(shape) == 1
        return Form(expr, size=(size, LATER if new else self.every), whole=ALL_COUNT)

    def entrywise(self, e: Apply, fs: list[Form], env: FormEnv) -> Form:
        const = all(f.const for f in fs)
        size = self.computed(e.op, fs)
        if size is not None:
            sees, whole = together(*(f.sees for f in fs)), tuple(f.true for f in fs)
            f = self.made(e, fs, Form(e, sees, const=const))
            return replace(f, size=size, whole=replace(e, args=whole))
        fixed = all(f.const or f.mask for f in fs)
        fs = [self.number(f, env) for f in fs]
        sees = together(*(f.sees for f in fs))
        if e.op == "where":
            labels = {k: v.label for k, v in env.letters.items()}
            sides = fs[1].mask, fs[2].mask
            mask = mask_of_where(e, sides, labels, lambda r: self.lookup(r, env))
        else:
            mask = combined(e.op, [f.mask for f in fs], fixed) if e.op != "concat" else None
        if mask is not None and sees is not None and mask.later in sees:
            sees = sees - {mask.later} | {mask.now}
        return self.made(e, fs, Form(e, sees, mask, const=const))

    def lookup(self, r: Ref, env: FormEnv) -> Size | None:
        """A name as a size."""
        if env.frame is None:
            return self.size(Size.of(r.key)) if r.symbol.kind == "dim" else None
        if r.key in env.frame.sizes:
            return env.frame.sizes[r.key][0]
        given = env.types.arguments.get(r.key) if env.types.arguments else None
        return None if given is None or given.size is None else self.size(given.size)

    def computed(self, op: str, fs: list[Form]) -> Sizes | None:
        """A polynomial of sizes, as they stood and as they are."""
        true, said = (calculated(op, [f.size and f.size[k] for f in fs]) for k in (0, 1))
        return None if true is None or said is None else (true, said)

    def product(self, e: Apply, env: FormEnv, want: Want) -> Form:
        """A matrix product: along positions, only with a mask that takes out the later ones."""
        a, b = e.args
        left, right = self.axes(a, env), self.axes(b, env)
        rows = {COL: INNER, ROW: ROW}
        if len(right) == 1:  # a matrix on a vector gives a vector
            first = a, (want[1], ALL), {COL: INNER, ROW: COL}
            return self.folded(e, [first, (b, (ALL, ALL), {COL: INNER})], left[-1], "0", env)
        wide = b, (ALL, want[1]), {ROW: INNER}
        return self.folded(e, [(a, (want[0], ALL), rows), wide], left[-1] or right[0], "0", env)

    def folded(
        self, e: Apply, parts: list[tuple[Expr, Want, dict[str, str]]], place: bool,
        passed_over: str, env: FormEnv,
    ) -> Form:  # fmt: skip
        """Parts folded along what is `INNER` of each, which may be positions."""
        fs = [self.of(x, env, want).rename(names) for x, want, names in parts]
        sees = together(*(f.sees for f in fs))
        if place:
            sees = summed(sees, INNER, [f.mask for f in fs], passed_over)
        return self.made(e, fs, Form(e, sees, const=all(f.const for f in fs)))

    # -- functions ---------------------------------------------------------------------------------

    def call(self, e: Apply, env: FormEnv, want: Want) -> Form:
        """A named function: itself where its definition holds for new positions, else a new one.

        The definition of RoPE counts positions from 0; that of causal takes the rows for the last
        ones.
        """
        function = self.model.function[e.op]
        exprs = with_defaults(e, self.model.function)
        types = self.table.applied(e, [self.table.of(x, env.types) for x in e.args])
        sizes = {key: self.size(size) for key, size in types.sizes.items()}
        kinds: dict[str, str] = {}  # whether a size of arguments is said of new positions or of all
        for a in function.arguments:
            for s, kind in zip(a.pattern, want[2 - len(a.pattern) :], strict=True):
                if sizes[s.key] == WHOLE:
                    kinds.setdefault(s.key, kind)
        said = {NEW: LATER, ALL: self.every}
        for _ in range(3):  # what the body needs over new positions shows when it is rewritten
            frame = Frame(
                {a.symbol.key: partial(self.of, x, env if k < len(e.args) else self.env)
                 for k, (a, x) in enumerate(zip(function.arguments, exprs, strict=True))},
                {k: (size, said[kinds[k]] if k in kinds else size) for k, size in sizes.items()},
            )  # fmt: skip
            inner = FormEnv(types, frame)
            f = self.number(self.of(function.body, inner, want), inner)
            for a in function.arguments:
                if a.symbol.key not in frame.used:  # it is given all the same
                    self.argument(Ref(a.symbol), frame, inner, want)
            needed = {(s.key, kind) for a in function.arguments for way in frame.used[a.symbol.key]
                      for s, kind in zip(a.pattern, way, strict=False)}  # fmt: skip
            found = {key: NEW if (key, NEW) in needed else ALL for key in kinds}
            if found == kinds:
                # Of causal(S: n × m) n now counts new positions and m all: k <= j + m - n holds.
                return replace(f, expr=self.called(e, function, frame, f.expr, kinds))
            kinds = found
        raise Stuck(f"{show(e)} needs its arguments in more than one way")

    def called(
        self, e: Apply, function: Function, frame: Frame, body: Expr, kinds: Mapping[str, str]
    ) -> Expr:
        """The call, of the function or of one made from it with this body."""
        args: list[Expr] = []
        arguments: list[Argument] = []
        counts: dict[str | None, Expr] = {}  # what counts the new positions, and all
        semi = 0
        for k, a in enumerate(function.arguments):
            for n, (way, x) in enumerate(frame.used[a.symbol.key].items()):
                axes = list(zip(a.pattern, way, strict=False))
                twice = [kind not in (None, kinds.get(s.key)) for s, kind in axes]
                pattern = tuple(map(variant, a.pattern, twice))
                arguments.append(Argument(variant(a.symbol, n), pattern))
                args.append(x.expr)
                for s, kind in zip(pattern, way, strict=False):
                    counts.setdefault(kind, Ref(s))
                if x.size is not None and x.size[0] == WHOLE:
                    counts.setdefault(NEW if x.size[1] == LATER else ALL, Ref(a.symbol))
            semi = len(args) if k < function.semi else semi
        body = named(body, self.cache.counts(counts.get(NEW), counts.get(ALL)))
        own = [(a.symbol, a.pattern) for a in function.arguments]
        if body == function.body and own == [(a.symbol, a.pattern) for a in arguments]:
            return replace(e, args=tuple(args[: len(e.args)]))
        taken = {*frame.arguments, *frame.sizes, *self.model.names, *function.body.binders}
        for further in self.cache.own:
            if further.key in body.keys:
                symbol = Symbol("argument", fresh(taken, SPARE))
                taken.add(symbol.key)
                body = named(body, {further.key: Ref(symbol)})
                arguments.append(Argument(symbol))
                args.append(further)
        return Apply(self.renamed(function, tuple(arguments), body, semi), tuple(args), semi=semi)

    def renamed(
        self, function: Function, arguments: tuple[Argument, ...], body: Expr, semi: int
    ) -> str:
        """The name of the function with this definition."""
        key = (function.name, arguments, body)
        if key not in self.functions:
            taken = {*self.model.function, *(f.name for f in self.functions.values())}
            taken |= self.model.symbols.keys()
            body = apart(body, {f.name for f in self.model.functions}, self.model.names)
            names = (f"{function.name}_{self.cache.suffix}{k or ''}" for k in count())
            name = next(n for n in names if n not in taken)
            said = f"{function.name} for positions that come after others"
            self.functions[key] = Function(name, arguments, body, semi, said, Text(name))
        return self.functions[key].name


def variant(symbol: Symbol, number: int) -> Symbol:
    """An argument's name where a function needs it twice: over new positions, and over all."""
    if not number:
        return symbol
    return replace(symbol, sub=(*symbol.sub, Slot("all" + (str(number) if number > 1 else ""))))
