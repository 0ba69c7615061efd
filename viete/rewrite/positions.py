"""One formula rewritten for new positions of a text alone, and what each entry of it may depend on.

An axis as long as the text is *positional*. Rewritten, it runs over the NEW positions or over ALL
of them, whichever is asked for: the rows of a value over the new ones, what is summed over or
compared with over all. The rewritten formula equals the old one at those positions.

``sees`` says what an entry depends on: tokens up to the latest of the positions of these axes.
None says that it depends on later tokens, or on how long the text is. A mask takes later positions
out: of ``Q K^T`` an entry depends on the later of its row and its column, of ``causal(Q K^T)`` on
its row; a product with V sums along the columns, and without the mask would see everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from viete.analysis import shapes
from viete.analysis.masks import SIGN, Mask, blank, both, combined, hidden
from viete.analysis.shapes import REDUCE, Shapes, Type
from viete.errors import Text
from viete.graph.card import Argument, CardData, Function
from viete.graph.sizes import Size, size_of
from viete.library.functions import with_defaults
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
)  # fmt: skip

NEW, ALL = "new", "all"
ROW, COL, INNER = "row", "col", "inner"
EVERY, BEFORE = "@@all", "@@past"  # in sizes: how many positions there are, and are given
POLYNOMIAL = frozenset("add sub prod times had neg div pow".split())
FOLDS = {"sum": "0", "max": "-inf", "min": "inf"}  # what a fold passes over
SPARE = "s p b o u".split()  # names of a function's further arguments

Want = tuple[str, str]  # of rows, of columns
Sees = frozenset[str] | None
Sizes = tuple[Size, Size]
ZERO, ONE, WHOLE = Size(()), Size.of(1), Size.of(EVERY)
LATER = WHOLE - Size.of(BEFORE)  # how many positions are new


class Stuck(Exception):
    """There is no form for new positions alone; the message says why, as a clause."""


@dataclass(frozen=True)
class Form:
    """A rewritten expression and what is known of it; axes are called `ROW` and `COL`.

    ``size`` is, of a number made of dimensions and indices, what it stood for and what it is now;
    ``whole`` an expression that still is what it stood for, None where there is none as yet.
    ``const``: of such numbers alone.
    """

    expr: Expr
    whole: Expr | None
    sees: Sees = frozenset()
    mask: Mask | None = None
    size: Sizes | None = None
    const: bool = False

    def rename(self, labels: Mapping[str, str]) -> Form:
        """Axes by other names."""
        if self.sees is None:
            return replace(self, mask=None)
        sees = frozenset(labels.get(x, x) for x in self.sees)
        return replace(self, sees=sees, mask=self.mask and self.mask.rename(labels))


@dataclass(frozen=True)
class Letter:
    """A bound index letter: its axis, and its size as `Form` has it; ``kind`` if positional."""

    label: str
    size: Sizes
    kind: str | None = None


@dataclass
class Frame:
    """A function's body while it is rewritten: which of its arguments it needs over which axes.

    ``own`` are its names for what `Positions.own` are outside of functions.
    """

    arguments: Mapping[str, Callable[[Want], Form]]
    symbols: Mapping[str, Symbol]
    own: tuple[Ref, ...]
    used: dict[str, dict[tuple[str | None, ...], Form]] = field(default_factory=dict)


@dataclass(frozen=True)
class Env:
    """Names in force; ``types`` is the same for `Shapes`."""

    types: shapes.Env
    frame: Frame | None = None
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    letters: Mapping[str, Letter] = field(default_factory=dict)


def together(*many: Sees) -> Sees:
    """What depends on all of these."""
    out: frozenset[str] = frozenset()
    for sees in many:
        if sees is None:
            return None
        out |= sees
    return out


def past(mask: Mask | None, label: str, kind: str) -> str | None:
    """The axis whose position bounds those along ``label`` that are in sight, if a mask does."""
    return mask.now if mask is not None and (mask.later, mask.kind) == (label, kind) else None


class Positions:
    """Rewrites formulas of a model for the length ``length``.

    ``value(ref, want)`` gives the form of a named value or an input; ``own`` is the dimension that
    counts the positions before. ``functions`` holds the new functions that came up.
    """

    every = WHOLE  # how many positions an axis of all of them has
    suffix = "after"  # of new functions

    def __init__(
        self, card: CardData, table: Shapes, length: str, own: tuple[Ref, ...],
        value: Callable[[Ref, Want], Form],
    ) -> None:  # fmt: skip
        self.model, self.table, self.length, self.own = card, table, length, own
        self.value = value
        self.functions: dict[tuple[object, ...], Function] = {}
        self.labels = count()
        self.env = Env(table.env)

    # -- sizes -------------------------------------------------------------------------------------

    def sized(self, size: Size) -> Sizes:
        """A size over the card's dimensions: what it stood for, and what it is for new positions.

        A size that is the text's length stands, as written, for the new positions.
        """
        size = size.substitute(self.model.definitions)
        return size.substitute({self.length: WHOLE}), size.substitute({self.length: LATER})

    def axes(self, e: Expr, env: Env) -> list[bool]:
        """Whether each axis of an expression is positional."""
        return [self.positional(self.true(s, env), e) for s in self.table.of(e, env.types).shape]

    def true(self, size: Size, env: Env) -> Size:
        return self.sized(size)[0]

    def positional(self, size: Size, e: Expr) -> bool:
        if size != WHOLE and EVERY in size.names():
            said = size.substitute({EVERY: Size.of(self.length)})
            raise Stuck(f"{show(e)} has an axis of {said}, which are not the positions of the text")
        return size == WHOLE

    def names(self, env: Env) -> tuple[Ref, ...]:
        """What `own` is called here."""
        return self.own if env.frame is None else env.frame.own

    def settled(self, f: Form, env: Env) -> Form:
        """As `Form`, used as a number and not as a size: it must be what it stood for."""
        if f.size is None:
            return f
        true, said = f.size
        sees = None if EVERY in true.names() else f.sees
        expr = f.expr if true == said else f.whole or self.spelled(true, env)
        return replace(f, expr=expr, sees=sees, size=None)

    # -- how positions are counted -----------------------------------------------------------------

    def shifted(self, e: Expr, size: Sizes, env: Env) -> Expr | None:
        """An expression that is what ``e`` stood for: with the positions before added."""
        missing = size[0] - size[1]
        if not missing.terms:
            return e
        if missing != Size.of(BEFORE):
            raise Stuck(f"{show(e)} is no number of positions")
        (before,) = self.names(env)
        return Apply("add", (before, e) if isinstance(e, Ref) else (e, before))

    def spelled(self, size: Size, env: Env) -> Expr:
        """A size in words of its own."""
        raise Stuck("a number of positions cannot be written")

    def new_rows(self, start: Form | None, stop: Form | None, env: Env) -> Expr:
        """The place of the new positions in a table of all: ``m:m + n`` for ``:n``."""
        (before,) = self.names(env)
        begin: Expr = before
        if start is not None:
            assert start.whole is not None
            begin = Apply("add", (start.whole, before))
        return Slice(begin, None if stop is None else stop.whole)

    def all_rows(self, start: Form | None, stop: Form | None, env: Env) -> Expr:
        """The place of all positions."""
        return Slice(None if start is None else start.whole, None if stop is None else stop.whole)

    def picked(self, e: Pick, value: Expr, items: list[Expr], env: Env) -> Expr:
        """Rows and entries of a value."""
        return replace(e, value=value, items=tuple(items))

    def check_index(self, e: Expr, env: Env) -> None:
        """That a computed position can be an index."""

    def new_size(self, f: Form, env: Env) -> Expr:
        """How many new positions there are, for a size of all."""
        if f.size is not None and f.size[1] == LATER:
            return f.expr
        (before,) = self.names(env)
        assert f.whole is not None
        return Apply("sub", (f.whole, before))

    def all_size(self, f: Form, env: Env) -> Expr:
        """How many positions there are."""
        assert f.whole is not None
        return f.whole

    def last(self, f: Form, env: Env) -> Expr:
        """The last position, an upper bound."""
        assert f.whole is not None
        return f.whole

    # -- expressions -------------------------------------------------------------------------------

    def of(self, e: Expr, env: Env, want: Want) -> Form:
        """The form of an expression with its positional axes as wanted; raises Stuck."""
        match e:
            case Num(value):
                return Form(e, e, size=(Size.of(value), Size.of(value)), const=True)
            case Idx(name):
                letter = env.letters.get(name)
                if letter is None:
                    own = Size.of(SIGN + name)
                    return Form(e, e, size=(own, own), const=True)
                whole = e if letter.kind != NEW else self.shifted(e, letter.size, env)
                return Form(e, whole, size=letter.size, const=True)
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

    def ref(self, e: Ref, env: Env, want: Want) -> Form:
        if env.frame is not None:
            if e.key in env.sizes:
                return self.number(e, env.sizes[e.key], env)
            return self.argument(e, env.frame, env, want)
        if e.symbol.kind == "dim":
            return self.number(e, self.sized(Size.of(e.key)), env)
        if e.symbol.kind == "parameter":
            return Form(e, e)
        return self.value(e, want)

    def number(self, e: Ref, size: Sizes, env: Env) -> Form:
        """A dimension, or the size of an argument."""
        whole = e if size[0] == size[1] else self.shifted(e, size, env)
        return Form(e, whole, size=size, const=True)

    def argument(self, e: Ref, frame: Frame, env: Env, want: Want) -> Form:
        """An argument of a function, which thereby needs it as wanted."""
        axes = self.axes(e, env)
        kinds = tuple(k if p else None for k, p in zip(want[2 - len(axes) :], axes, strict=True))
        variants = frame.used.setdefault(e.key, {})
        if kinds not in variants:
            variants[kinds] = frame.arguments[e.key](want)
        f = variants[kinds]
        symbol = variant(frame.symbols[e.key], list(variants).index(kinds))
        ref = Ref(symbol)
        if f.size is None:
            return replace(f, expr=ref, whole=ref)
        return replace(self.number(ref, f.size, env), sees=f.sees)

    def pick(self, e: Pick, env: Env, want: Want) -> Form:
        axes = self.axes(e.value, env)
        names = (ROW, COL)[2 - len(axes) :]
        items: list[Expr | None] = [*e.items, *[None] * (len(axes) - len(e.items))]
        stay = [i is None or isinstance(i, Slice) or bool(self.axes(i, env)) for i in items]
        rest = iter((ROW, COL)[2 - sum(stay) :])
        to: dict[str, str] = {}  # axes of the value → of the result, or of an enclosing table
        gone: dict[str, str | None] = {}  # axes picked from → the axis that bounds the place
        wants = {ROW: ALL, COL: ALL}
        new: list[Expr] = []
        sees: Sees = frozenset()
        for name, place, item, stays in zip(names, axes, items, stay, strict=True):
            label = next(rest) if stays else ""
            kind = want[(ROW, COL).index(label)] if stays else ""
            if item is None:
                to[name], wants[name] = label, kind
                continue
            if isinstance(item, Slice):
                cut, full, seen = self.sliced(item, place, kind, env)
                sees = together(sees, seen)
                new.append(cut)
                to[name] = label
                wants[name] = kind if full else ALL
                if place and not full:
                    first = isinstance(cut, Slice) and cut.stop == num(1)
                    gone[name] = None if first else INNER
                continue
            f = self.of(item, env, (ALL, kind or ALL))
            letter = env.letters.get(item.name) if isinstance(item, Idx) else None
            if place and letter is not None and letter.kind is not None:
                wants[name], to[name] = letter.kind, letter.label
                new.append(item)
                continue
            if place:
                gone[name] = INNER if stays else self.bounded(item, env)
            f = self.settled(f, env)
            if place:
                self.check_index(f.expr, env)
            new.append(f.expr)
            sees = together(sees, f.rename({COL: label}).sees if stays else f.sees)
        v = self.of(e.value, env, (wants[ROW], wants[COL]))
        seen = v.sees
        for name, bound in gone.items():
            if seen is not None and name in seen:
                seen = None if bound == INNER else seen - {name} | ({bound} if bound else set())
        mask = v.mask if v.mask and {v.mask.now, v.mask.later} <= to.keys() - gone.keys() else None
        found = replace(v, sees=seen, mask=mask).rename(to)
        expr: Expr = self.picked(e, v.expr, new, env)
        if all(isinstance(i, Slice) and i.start is None and i.stop is None for i in new):
            expr = v.expr
        return Form(expr, expr, together(found.sees, sees), found.mask, const=v.const)

    def sliced(self, e: Slice, place: bool, kind: str, env: Env) -> tuple[Expr, bool, Sees]:
        """A slice of an axis; whether it is all of a positional one; what its ends depend on."""
        ends = [None if x is None else self.of(x, env, (ALL, ALL)) for x in (e.start, e.stop)]
        start, stop = ends
        first = ZERO if start is None or start.size is None else start.size[0]
        last = WHOLE if place else None
        if stop is not None and stop.size is not None:
            last = stop.size[0]
        length = None if last is None else last - first
        whole = Slice(*(None if x is None else x.whole for x in ends))
        if place:
            if first == ZERO and length == WHOLE:
                return Slice(None, None), True, frozenset()
            if length is None or EVERY in length.names() or EVERY in first.names():
                raise Stuck(f"{show(e)} is a part of the text that depends on its length")
            return whole, False, frozenset()
        if length == WHOLE:  # the first n rows of a table of positions
            sees: Sees = None if EVERY in first.names() else frozenset()
            rows = self.new_rows if kind == NEW else self.all_rows
            return rows(start, stop, env), False, sees
        if length is not None and EVERY in length.names():
            raise Stuck(f"{show(e)} is not as long as the text")
        return whole, False, together(*(self.settled(x, env).sees for x in ends if x is not None))

    def bounded(self, place: Expr, env: Env) -> str | None:
        """The axis whose position is never before ``place``; None where that is position 0.

        `INNER` where no such axis is known.
        """
        match place:
            case Apply("max", (a, b)):
                both = {self.bounded(x, env) for x in (a, b)} - {None}
                return both.pop() if len(both) == 1 else INNER if both else None
            case Apply("min", (a, b)):
                either = [self.bounded(x, env) for x in (a, b)]
                return next((x for x in either if x != INNER), INNER)
        size = self.of(place, env, (ALL, ALL)).size
        if size is None or size[0] == ZERO:
            return INNER if size is None else None
        for letter in env.letters.values():
            if letter.kind is not None:
                ahead = (size[0] - Size.of(SIGN + letter.label)).number()
                if ahead is not None and ahead <= 0:
                    return letter.label
        return INNER

    def bind(self, e: Bind, env: Env, want: Want) -> Form:
        block = e.index in self.model.loop_letters and env.frame is None
        if e.lower is None or e.upper is None or block:
            letters = {k: v for k, v in env.letters.items() if k != e.index}
            inner = replace(env, letters=letters, types=self.within(env, {e.index: None}))
            f = self.settled(self.of(e.body, inner, want), inner)
            mask = f.mask if e.op != "concat" else None
            expr: Expr = replace(e, body=f.expr)
            return Form(expr, expr, f.sees, mask, const=f.const)
        low, high = (self.of(x, env, want) for x in (e.lower, e.upper))
        if low.size is None or high.size is None:
            raise Stuck(f"the bounds of {show(e)} are no numbers of positions")
        size = high.size[0] - low.size[0] + ONE
        place = self.positional(size, e)
        if place and low.size[0] != ZERO:
            raise Stuck(f"{show(e)} does not run over the positions of the text")
        label = f"{e.index}@{next(self.labels)}"
        own = Size.of(SIGN + label)
        letter = Letter(label, (own, own), ALL if place else None)
        inner = self.bound(env, {e.index: (letter, size)})
        f = self.settled(self.of(e.body, inner, want), inner)
        sees = f.sees
        if place:
            now = past(f.mask, label, FOLDS.get(e.op, ""))
            sees = None if now is None or sees is None else sees - {label} | {now}
        kept = f.mask if f.mask and label not in (f.mask.now, f.mask.later) else None
        upper = self.last(high, env) if place else high.expr
        expr = replace(e, lower=low.expr, upper=upper, body=f.expr)
        return Form(expr, expr, sees, kept, const=f.const)

    def within(self, env: Env, ranges: Mapping[str, Size | None]) -> shapes.Env:
        """The names for `Shapes` under a binder; an index keeps the range that is declared."""
        old = env.types.ranges
        return replace(env.types, ranges={**old, **{
            k: (old.get(k) if v is None else v) for k, v in ranges.items()
        }})  # fmt: skip

    def bound(self, env: Env, letters: Mapping[str, tuple[Letter, Size]]) -> Env:
        types = self.within(env, {k: size for k, (_, size) in letters.items()})
        new = {**env.letters, **{k: letter for k, (letter, _) in letters.items()}}
        return replace(env, letters=new, types=types)

    def tabled(self, e: Table, env: Env, want: Want) -> Form:
        names = (ROW, COL)[2 - len(e.ranges) :]
        letters: dict[str, tuple[Letter, Size]] = {}
        ranges: list[tuple[str, Expr]] = []
        to: dict[str, str] = {}
        for (index, size), name in zip(e.ranges, names, strict=True):
            f = self.of(size, env, want)
            if f.size is None:
                raise Stuck(f"{show(size)} is no number of positions")
            label = f"{index}@{next(self.labels)}"
            to[label] = name
            own, said = Size.of(SIGN + label), f.expr
            letter = Letter(label, (own, own))
            if self.positional(f.size[0], e):
                kind = want[(ROW, COL).index(name)]
                letter = Letter(label, (own, own - Size.of(BEFORE) if kind == NEW else own), kind)
                said = (self.new_size if kind == NEW else self.all_size)(f, env)
            ranges.append((index, said))
            declared = self.table.size(size, env.types)
            assert declared is not None
            letters[index] = letter, declared
        inner = self.bound(env, letters)
        f = self.settled(self.of(e.body, inner, want), inner)
        expr = replace(e, ranges=tuple(ranges), body=f.expr)
        return replace(f.rename(to), expr=expr, whole=expr)

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: Env, want: Want) -> Form:
        op = e.op
        if op in ("inf", "pi"):
            return Form(e, e, const=True)
        if op in self.model.function:
            return self.call(e, env, want)
        if op == "prod" and all(self.table.of(x, env.types).shape for x in e.args):
            return self.product(e, env, want)
        if op == "T":
            f = self.of(e.args[0], env, (want[1], want[0]))
            return self.made(e, [f], f.rename({ROW: COL, COL: ROW}))
        if op in ("rows", "cols"):
            return self.counted(e, env)
        if op in REDUCE and len(e.args) == 1:
            return self.reduced(e, env, want)
        if op == "inner":
            fs = [self.of(x, env, (ALL, ALL)) for x in e.args]
            sees = self.folded(fs, self.axes(e.args[0], env)[0], [f.mask for f in fs], COL)
            return self.made(e, fs, Form(e, e, sees))
        if op == "concat" and any(self.axes(x, env)[-1] for x in e.args):
            raise Stuck(f"{show(e)} puts positions one after the other")
        fs = [self.of(x, env, want) for x in e.args]
        return self.entrywise(e, fs, env)

    def made(self, e: Apply, args: list[Form], f: Form) -> Form:
        """The operation on rewritten arguments, with what ``f`` says of it."""
        expr = replace(e, args=tuple(x.expr for x in args))
        return replace(f, expr=expr, whole=expr, size=None)

    def counted(self, e: Apply, env: Env) -> Form:
        """``rows(x)``: as a number what x had; as written what it has now."""
        f = self.of(e.args[0], env, (NEW, ALL))
        shape = self.table.of(e.args[0], env.types).shape
        true = self.true(shape[0] if e.op == "rows" else shape[-1], env)
        new = e.op == "rows" or len(shape) == 1
        self.positional(true, e)
        size = true, true
        if true == WHOLE:
            size = true, LATER if new else self.every
        expr = replace(e, args=(f.expr,))
        whole = expr if size[0] == size[1] else self.shifted(expr, size, env)
        return Form(expr, whole, size=size)

    def entrywise(self, e: Apply, fs: list[Form], env: Env) -> Form:
        op = e.op
        if op in POLYNOMIAL and all(f.size is not None for f in fs):
            size = self.computed(op, fs)
            if size is not None:
                expr = replace(e, args=tuple(f.expr for f in fs))
                wholes = tuple(f.whole for f in fs if f.whole is not None)
                whole = replace(e, args=wholes) if len(wholes) == len(fs) else None
                sees = together(*(f.sees for f in fs))
                return Form(expr, whole, sees, size=size, const=all(f.const for f in fs))
        was = fs
        fs = [self.settled(f, env) for f in fs]
        sees = together(*(f.sees for f in fs))
        if op == "where":
            mask = hidden(
                e, {k: v.label for k, v in env.letters.items()}, lambda r: self.lookup(r, env)
            )
            shown = fs[1].mask
            if mask is None and shown is not None and blank(e.args[2]) == shown.kind:
                mask = shown
            mask = mask or both(fs[1].mask, fs[2].mask)
        else:
            fixed = all(f.const or f.mask for f in was)
            mask = combined(op, [f.mask for f in fs], fixed) if op != "concat" else None
        if mask is not None and sees is not None and mask.later in sees:
            sees = sees - {mask.later} | {mask.now}
        return self.made(e, fs, Form(e, e, sees, mask, const=all(f.const for f in was)))

    def lookup(self, r: Ref, env: Env) -> Size | None:
        """What a name stood for as a size."""
        if env.frame is None:
            return self.sized(Size.of(r.key))[0] if r.symbol.kind == "dim" else None
        if r.key in env.sizes:
            return env.sizes[r.key][0]
        given = env.types.arguments.get(r.key) if env.types.arguments else None
        return None if given is None or given.size is None else self.true(given.size, env)

    def computed(self, op: str, fs: list[Form]) -> Sizes | None:
        """A polynomial of sizes, as they stood and as they are."""
        args = tuple(Ref(Symbol("dim", str(k))) for k in range(len(fs)))
        out = []
        for k in (0, 1):
            table = {str(i): f.size[k] for i, f in enumerate(fs) if f.size is not None}
            out.append(size_of(Apply(op, args), lambda r, table=table: table[r.key]))  # type: ignore[misc]
        return None if out[0] is None or out[1] is None else (out[0], out[1])

    def folded(self, fs: list[Form], place: bool, masks: list[Mask | None], label: str) -> Sees:
        """What a sum of products along ``label`` depends on."""
        sees = together(*(f.sees for f in fs))
        if not place or sees is None:
            return sees
        now = next((n for m in masks if (n := past(m, label, "0")) is not None), None)
        return None if now is None else sees - {label} | {now}

    def product(self, e: Apply, env: Env, want: Want) -> Form:
        """A matrix product: along positions, only with a mask that takes out the later ones."""
        a, b = e.args
        left, right = self.axes(a, env), self.axes(b, env)
        column = len(right) == 1  # a matrix on a vector gives a vector
        x = self.of(a, env, (want[1] if column else want[0], ALL))
        y = self.of(b, env, (ALL, want[1] if len(right) == 2 else ALL))
        x = x.rename({ROW: COL if column else ROW, COL: INNER})
        y = y.rename({(COL if column else ROW): INNER})
        sees = self.folded([x, y], left[-1] or right[0], [x.mask, y.mask], INNER)
        return self.made(e, [x, y], Form(e, e, sees, const=x.const and y.const))

    def reduced(self, e: Apply, env: Env, want: Want) -> Form:
        """A row to one number."""
        axes = self.axes(e.args[0], env)
        turned = e.op == "argmax"
        f = self.of(e.args[0], env, (want[1] if turned else want[0], ALL))
        sees = f.sees
        if axes[-1] and sees is not None:
            now = past(f.mask, COL, FOLDS.get(e.op, ""))
            sees = None if now is None else sees - {COL} | {now}
        g = Form(e, e, sees, const=f.const)
        return self.made(e, [f], g.rename({ROW: COL}) if turned else g)

    # -- functions ---------------------------------------------------------------------------------

    def call(self, e: Apply, env: Env, want: Want) -> Form:
        """A named function: itself where its definition holds for new positions, else a new one.

        The definition of RoPE counts positions from 0; that of causal takes the rows for the last
        ones.
        """
        function = self.model.function[e.op]
        exprs = with_defaults(e, self.model.function)
        given = [env if k < len(e.args) else self.env for k in range(len(exprs))]
        types = [
            replace(t, family=frozenset(f + "'" for f in t.family))
            for t in (self.table.of(x, g.types) for x, g in zip(exprs, given, strict=True))
        ]
        wants = [want[2 - len(t.shape) :] for t in types]
        kinds: dict[str, str] = {}
        for a, t, w in zip(function.arguments, types, wants, strict=True):
            for s, size, kind in zip(a.pattern, t.shape, w, strict=False):
                if self.true(size, env) == WHOLE:
                    kinds.setdefault(s.key, kind)
        for _ in range(3):
            frame, f = self.body(function, exprs, given, types, kinds, want)
            found = self.found(function, frame, types, env)
            if found == kinds:
                return self.called(e, function, frame, f, exprs, given, kinds, env, want)
            kinds = found
        raise Stuck(f"{show(e)} needs its arguments in more than one way")

    def body(
        self, function: Function, exprs: tuple[Expr, ...], given: list[Env], types: list[Type],
        kinds: Mapping[str, str], want: Want,
    ) -> tuple[Frame, Form]:  # fmt: skip
        """A definition rewritten, its sizes being of new positions or of all as ``kinds`` says."""
        keys = [a.symbol.key for a in function.arguments]
        sizes: dict[str, Size] = {}
        for a, t in zip(function.arguments, types, strict=True):
            for s, size in zip(a.pattern, t.shape, strict=False):
                sizes.setdefault(s.key, size)
        ways = {
            key: (lambda w, x=x, g=g: self.of(x, g, w))
            for key, x, g in zip(keys, exprs, given, strict=True)
        }
        symbols = {a.symbol.key: a.symbol for a in function.arguments}
        taken = {*keys, *sizes, *self.model.names, *function.body.binders}
        own: tuple[Ref, ...] = ()
        for _ in self.own:
            own += (Ref(Symbol("argument", fresh(taken, SPARE))),)
            taken.add(own[-1].key)
        frame = Frame(ways, symbols, own)
        numbers: dict[str, Sizes] = {}
        for key, size in sizes.items():
            true = self.sized(size)[0]
            numbers[key] = true, true
            if true == WHOLE:
                numbers[key] = true, LATER if kinds.get(key) == NEW else self.every
        arguments = dict(zip(keys, types, strict=True))
        inner = Env(shapes.Env(arguments, sizes), frame, numbers)
        return frame, self.settled(self.of(function.body, inner, want), inner)

    def found(
        self, function: Function, frame: Frame, types: list[Type], env: Env
    ) -> dict[str, str]:
        """Whether each size of an argument counts new positions: where it is needed so at all."""
        out: dict[str, str] = {}
        for a, t in zip(function.arguments, types, strict=True):
            for k, (s, size) in enumerate(zip(a.pattern, t.shape, strict=False)):
                if self.true(size, env) == WHOLE and s.key not in out:
                    used = [v[k] for v in frame.used.get(a.symbol.key, {})]
                    out[s.key] = NEW if NEW in used or not used else ALL
        return out

    def called(
        self, e: Apply, function: Function, frame: Frame, f: Form, exprs: tuple[Expr, ...],
        given: list[Env], kinds: Mapping[str, str], env: Env, want: Want,
    ) -> Form:  # fmt: skip
        """The call, of the function or of one made from it."""
        args: list[Expr] = []
        arguments: list[Argument] = []
        semi = 0
        used = f.expr.keys
        same = f.expr == function.body
        for k, a in enumerate(function.arguments):
            ways = frame.used.get(a.symbol.key) or {(): self.of(exprs[k], given[k], want)}
            same = same and len(ways) == 1
            for n, (places, x) in enumerate(ways.items()):
                pattern = tuple(
                    variant(s, int(place is not None and place != kinds.get(s.key)))
                    for s, place in zip(a.pattern, places or (None,) * 2, strict=False)
                )
                same = same and pattern == a.pattern
                arguments.append(Argument(variant(a.symbol, n), pattern))
                args.append(x.expr)
            semi = len(args) if k < e.semi else semi
        if same:
            expr: Expr = replace(e, args=tuple(args[: len(e.args)]))
            return replace(f, expr=expr, whole=expr)
        for inside, outside in zip(frame.own, self.names(env), strict=True):
            if inside.key in used:
                arguments.append(Argument(inside.symbol))
                args.append(outside)
        name = self.renamed(function, tuple(arguments), f.expr)
        expr = Apply(name, tuple(args), semi=semi)
        return replace(f, expr=expr, whole=expr)

    def renamed(self, function: Function, arguments: tuple[Argument, ...], body: Expr) -> str:
        """The name of the function with this definition."""
        key = (function.name, arguments, body)
        if key not in self.functions:
            taken = {*self.model.function, *(f.name for f in self.functions.values())}
            taken |= self.model.symbols.keys()
            body = apart(body, {f.name for f in self.model.functions}, self.model.names)
            names = (f"{function.name}_{self.suffix}{k or ''}" for k in count())
            name = next(n for n in names if n not in taken)
            said = f"{function.name} for positions that come after others"
            semi = min(function.semi, len(arguments) - 1) if function.semi else 0
            self.functions[key] = Function(name, arguments, body, semi, said, Text(name))
        return self.functions[key].name


def variant(symbol: Symbol, number: int) -> Symbol:
    """An argument's name where a function needs it twice: over new positions, and over all."""
    if not number:
        return symbol
    return replace(symbol, sub=(*symbol.sub, Slot("all" + (str(number) if number > 1 else ""))))
