"""Rewrites formulas for the new positions of a text, with one rule for each kind of node.

An axis as long as the text is *positional*. Rewritten, it runs over the NEW positions or over ALL
of them, as requested: the rows of a value over the new ones, the axes that are summed or compared
over all. The rewritten formula equals the old one at those positions if none of them reads a later
one; `viete.analysis.flows` decides that.

This is not an `Evaluator`, which goes from the parts to the whole. Here the whole asks its parts
for positions: for K in ``Q K^T`` all of them, for the same K in ``x K`` the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from viete.analysis.masks import SIGN
from viete.analysis.shapes import Shapes
from viete.analysis.types import TypeEnv
from viete.errors import Text
from viete.graph.card import CardData
from viete.graph.evaluator import COL, REDUCTIONS, ROW
from viete.graph.sizes import ONE, ZERO, Size, calculated
from viete.library.functions import Argument, Function, with_defaults
from viete.notation.printer import show
from viete.notation.substitution import apart, fresh
from viete.notation.tree import (
    MEASURES,
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
    place_from_end,
)
from viete.rewrite.kv_cache import (
    ALL,
    ALL_COUNT,
    NEW,
    NEW_COUNT,
    ROOM,
    DynamicCache,
    Stuck,
    with_names,
)

EVERY, PAST = "@every", "@past"  # in sizes: how many positions there are, and come before

Want = tuple[str, str]  # of rows, of columns
Kinds = tuple[str | None, ...]  # NEW or ALL of each axis that is positional
Sizes = tuple[Size, Size]
WHOLE = Size.of(EVERY)
LATER = WHOLE - Size.of(PAST)  # how many positions are new
COUNTS = {NEW: NEW_COUNT, ALL: ALL_COUNT}
SPARE = "s p b o u".split()  # names of a function's further arguments


@dataclass(frozen=True)
class Form:
    """A rewritten expression, with what is known of the original one.

    ``size``, for a number made of dimensions and indices, is its original value and its value as
    written, which now counts the new positions; ``whole`` is the original, where ``expr`` differs
    from it.
    """

    expr: Expr
    size: Sizes | None = None
    whole: Expr | None = None

    @property
    def true(self) -> Expr:
        """An expression with the original value."""
        return self.whole or self.expr


@dataclass(frozen=True)
class BoundLetter:
    """A bound index letter: its axis, and NEW or ALL if that is positional."""

    label: str
    kind: str | None = None


@dataclass
class Frame:
    """A function's body while it is rewritten, and the forms in which it needs each argument."""

    arguments: Mapping[str, Callable[[Want], Form]]
    sizes: Mapping[str, Sizes]
    used: dict[str, dict[Kinds, Form]] = field(default_factory=dict)


@dataclass(frozen=True)
class FormEnv:
    """The names in force: types, the function's frame, and bound letters."""

    types: TypeEnv
    frame: Frame | None = None
    letters: Mapping[str, BoundLetter] = field(default_factory=dict)


class Positions:
    """Rewrites formulas of a model, for texts whose number of tokens is the dimension ``length``.

    ``value(ref, want)`` gives the form of a named value or an input. ``functions`` holds the new
    functions.
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
        """A size with definitions of dimensions put in, and `EVERY` for the text's length."""
        return size.substitute(self.model.definitions).substitute({self.length: length})

    def axes(self, e: Expr, env: FormEnv) -> list[bool]:
        """Whether each axis of an expression is positional."""
        return [self.positional(self.size(s), e) for s in self.table.of(e, env.types).shape]

    def positional(self, size: Size, e: Expr) -> bool:
        """Whether an axis of this size is positional. Raises Stuck for part of the text."""
        if size != WHOLE and EVERY in size.names():
            said = size.substitute({EVERY: Size.of(self.length)})
            raise Stuck(f"{show(e)} has an axis of {said}, which are not the positions of the text")
        return size == WHOLE

    def dimension(self, e: Ref, size: Sizes) -> Form:
        """A dimension, or the size of an argument."""
        true, _ = size
        if true != WHOLE and EVERY in true.names():
            raise Stuck(f"{show(e)} is not a number of positions")
        return Form(e, size=size, whole=ALL_COUNT if true == WHOLE else None)

    def number(self, f: Form, env: FormEnv) -> Form:
        """The form as a number that is not a size, and so must keep its original value."""
        if f.size is None:
            return f
        true, said = f.size
        return Form(f.expr if true == said else self.spelled(true, env) or f.true)

    def spelled(self, size: Size, env: FormEnv) -> Expr | None:
        """A position plus or minus a number, such as ``q_j - 1``; None for any other size."""
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
        """The form of an expression, with NEW or ALL positions on each axis. Raises Stuck."""
        match e:
            case Num(value):
                return Form(e, size=(Size.of(value), Size.of(value)))
            case Idx(name):
                letter = env.letters.get(name, BoundLetter(name))
                size = Size.of(SIGN + letter.label)
                if letter.kind != NEW:
                    return Form(e, size=(size, size))
                position, said = self.cache.position(e), size - Size.of(PAST)
                return Form(e, size=(size, said), whole=position)
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
        """An argument of a function, recorded as needed in this form."""
        axes = self.axes(e, env)
        kinds = tuple(k if p else None for k, p in zip(want[2 - len(axes) :], axes, strict=True))
        variants = frame.used.setdefault(e.key, {})
        if kinds not in variants:
            variants[kinds] = frame.arguments[e.key](want)
        f, symbol = variants[kinds], variant(e.symbol, list(variants).index(kinds))
        if f.size is not None:
            return self.dimension(Ref(symbol), f.size)
        return Form(Ref(symbol))

    def pick(self, e: Pick, env: FormEnv, want: Want) -> Form:
        axes = self.axes(e.value, env)
        names = (ROW, COL)[2 - len(axes) :]
        items: list[Expr | None] = [*e.items, *[None] * (len(axes) - len(e.items))]
        stay = [i is None or isinstance(i, Slice) or bool(self.axes(i, env)) for i in items]
        rest = iter(want[2 - sum(stay) :])
        wants = {ROW: ALL, COL: ALL}
        new: list[Expr] = []
        for axis, (name, place, item, stays) in enumerate(
            zip(names, axes, items, stay, strict=True)
        ):
            kind = next(rest) if stays else ALL
            if item is None:  # the axis is left alone
                wants[name] = kind
            elif isinstance(item, Slice):
                part, full = self.sliced(item, place, kind, env)
                new.append(part)
                wants[name] = kind if full else ALL
            elif place and isinstance(item, Idx) and (at := env.letters.get(item.name)) and at.kind:
                wants[name] = at.kind  # the row of the table's own position
                new.append(item)
            elif (k := e.from_end(axis)) is not None:  # of all positions, not of the new ones
                new.append(Apply("sub", (ALL_COUNT, num(k))) if place else item)
            else:
                new.append(self.number(self.of(item, env, (ALL, kind)), env).expr)
        v = self.of(e.value, env, (wants[ROW], wants[COL]))
        for axis in range(len(e.items)):
            if not axes[axis] and (k := e.from_end(axis)) is not None:
                new[axis] = place_from_end(v.expr, axis, k)
        everything = all(isinstance(i, Slice) and i.start is i.stop is None for i in new)
        return Form(v.expr if everything else replace(e, value=v.expr, items=tuple(new)))

    def sliced(self, e: Slice, place: bool, kind: str, env: FormEnv) -> tuple[Expr, bool]:
        """A slice of an axis, and whether it is a whole positional axis."""
        ends = [None if x is None else self.of(x, env, (ALL, ALL)) for x in (e.start, e.stop)]
        low, high = (None if x is None or x.size is None else x.size[0] for x in ends)
        first, last = low or ZERO, high or (WHOLE if place else None)
        length = None if last is None else last - first
        start, stop = (None if x is None else x.true for x in ends)
        if place:
            if first == ZERO and length == WHOLE:
                return Slice(None, None), True
            if length is None or EVERY in length.names() or EVERY in first.names():
                raise Stuck(f"{show(e)} is a part of the text that depends on its length")
            return Slice(start, stop), False
        if length == WHOLE:  # the first n rows of a table of positions
            return self.cache.rows(kind, start, stop), False
        if length is not None and EVERY in length.names():
            raise Stuck(f"{show(e)} is not as long as the text")
        return Slice(start, stop), False

    def body(
        self, e: Bind | Table, letters: Mapping[str, BoundLetter], env: FormEnv, want: Want
    ) -> Form:
        """The body of a binder with these letters."""
        others = {k: v for k, v in env.letters.items() if k not in e.bound}
        inner = FormEnv(self.table.inside(e, env.types), env.frame, {**others, **letters})
        return self.number(self.of(e.body, inner, want), inner)

    def bind(self, e: Bind, env: FormEnv, want: Want) -> Form:
        block = e.index in self.model.loop_letters and env.frame is None
        if e.ranges is None or block:
            return Form(replace(e, body=self.body(e, {}, env, want).expr))
        low, high = (self.of(x, env, want) for x in e.ranges)
        if low.size is None or high.size is None:
            raise Stuck(f"the bounds of {show(e)} are not numbers of positions")
        place = self.positional(high.size[0] - low.size[0] + ONE, e)
        if place and low.size[0] != ZERO:
            raise Stuck(f"{show(e)} does not run over the positions of the text")
        letter = BoundLetter(f"{e.index}@{next(self.labels)}", ALL if place else None)
        body = self.body(e, {e.index: letter}, env, want).expr
        return Form(replace(e, lower=low.expr, upper=high.true, body=body))

    def tabled(self, e: Table, env: FormEnv, want: Want) -> Form:
        letters: dict[str, BoundLetter] = {}
        ranges: list[tuple[str, Expr]] = []
        for (index, size), kind in zip(e.ranges, want[2 - len(e.ranges) :], strict=True):
            f = self.of(size, env, want)
            if f.size is None:
                raise Stuck(f"{show(size)} is not a number of positions")
            place = self.positional(f.size[0], e)
            letters[index] = BoundLetter(f"{index}@{next(self.labels)}", kind if place else None)
            ranges.append((index, COUNTS[kind] if place else f.expr))
        body = self.body(e, letters, env, want).expr
        return Form(replace(e, ranges=tuple(ranges), body=body))

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: FormEnv, want: Want) -> Form:
        op, args = e.op, e.args
        if op in ("inf", "pi"):
            return Form(e)
        if op in self.model.function:
            return self.call(e, env, want)
        if op == "prod" and all(self.table.of(x, env.types).shape for x in args):
            return self.product(e, env, want)
        if op in MEASURES:
            return self.counted(e, env)
        if op == "T":
            want = want[::-1]
        elif op == "inner" or (op in REDUCTIONS and len(args) == 1):  # rows to one number each
            self.axes(args[0], env)  # along all positions, if these are a part of it
            want = ALL if op == "inner" else want[1 if op == "argmax" else 0], ALL
        elif op == "concat" and any(self.axes(x, env)[-1] for x in args):
            raise Stuck(f"{show(e)} puts positions one after the other")
        else:
            return self.entrywise(e, [self.of(x, env, want) for x in args], env)
        return made(e, [self.of(x, env, want) for x in args])

    def counted(self, e: Apply, env: FormEnv) -> Form:
        """``rows(x)``: its size in the original formula, and in the rewritten one."""
        f = self.of(e.args[0], env, (NEW, ALL))
        shape = self.table.of(e.args[0], env.types).shape
        size = self.size(shape[-1] if e.op == "cols" else shape[0])
        expr = replace(e, args=(f.expr,))
        if not self.positional(size, e):
            return Form(expr, size=(size, size))
        new = e.op != "cols" or len(shape) == 1
        return Form(expr, size=(size, LATER if new else self.every), whole=ALL_COUNT)

    def entrywise(self, e: Apply, fs: list[Form], env: FormEnv) -> Form:
        size = self.computed(e.op, fs)
        if size is not None:
            return replace(made(e, fs), size=size, whole=replace(e, args=tuple(f.true for f in fs)))
        return made(e, [self.number(f, env) for f in fs])

    def computed(self, op: str, fs: list[Form]) -> Sizes | None:
        """The size that an operation gives, in the original and in the rewritten formula."""
        true, said = (calculated(op, [f.size and f.size[k] for f in fs]) for k in (0, 1))
        return None if true is None or said is None else (true, said)

    def product(self, e: Apply, env: FormEnv, want: Want) -> Form:
        """A matrix product, summed over all positions."""
        a, b = e.args
        _, right = (self.axes(x, env) for x in (a, b))
        vector = len(right) == 1  # a matrix on a vector gives a vector
        wants = ((want[1], ALL), (ALL, ALL)) if vector else ((want[0], ALL), (ALL, want[1]))
        return made(e, [self.of(x, env, w) for x, w in zip((a, b), wants, strict=True)])

    # -- functions ---------------------------------------------------------------------------------

    def call(self, e: Apply, env: FormEnv, want: Want) -> Form:
        """A named function: itself where its definition holds for new positions, else a new one.

        The definition of RoPE counts positions from 0; the definition of causal takes its rows for
        the last ones.
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
                return Form(self.called(e, function, frame, f.expr, kinds))
            kinds = found
        raise Stuck(f"{show(e)} needs its arguments in more than one way")

    def called(
        self, e: Apply, function: Function, frame: Frame, body: Expr, kinds: Mapping[str, str]
    ) -> Expr:
        """A call of the function, or of a new function with this body."""
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
        body = with_names(body, self.cache.counts(counts.get(NEW), counts.get(ALL)))
        own = [(a.symbol, a.pattern) for a in function.arguments]
        if body == function.body and own == [(a.symbol, a.pattern) for a in arguments]:
            return replace(e, args=tuple(args[: len(e.args)]))
        taken = {*frame.arguments, *frame.sizes, *self.model.names, *function.body.binders}
        for further in self.cache.own:
            if further.key in body.keys:
                symbol = Symbol("argument", fresh(taken, SPARE))
                taken.add(symbol.key)
                body = with_names(body, {further.key: Ref(symbol)})
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


def made(e: Apply, args: list[Form]) -> Form:
    """The operation on rewritten arguments."""
    return Form(replace(e, args=tuple(x.expr for x in args)))


def variant(symbol: Symbol, number: int) -> Symbol:
    """An argument's name where a function needs it over new positions and over all."""
    if not number:
        return symbol
    return replace(symbol, sub=(*symbol.sub, Slot("all" + (str(number) if number > 1 else ""))))
