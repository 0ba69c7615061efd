"""The double where: gives the unchosen operands of a `where` a finite derivative.

The derivative of ``where(x > 0, log(x), 0)`` in x is ``where(x > 0, ∂y, 0) / x``, which is 0 / 0
where x is 0: the condition chooses, but the infinite slope of the unchosen side turns its 0 into
NaN. In ``where(x > 0, log(where(x > 0, x, 1)), 0)`` both sides have a finite slope everywhere, and
the values are the same. The derivation of gradients, and programs whose library differentiates
them, read equations of this form. If a name below a `where` has such an operand in its definition,
the definition is put in.

`single_where.py` removes the inner condition again from equations that people read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from viete.analysis.row_counts import Measuring, measures
from viete.analysis.shapes import shapes_of
from viete.analysis.types import Type, TypeEnv
from viete.graph.card import CardData, Equation, memoised, with_right
from viete.graph.rules import derivatives
from viete.graph.sizes import ONE
from viete.library.functions import Argument, Function, inlined
from viete.notation.substitution import free_names
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    Symbol,
    Table,
    rebuilt,
    refs,
    replaced,
    transform,
    walk,
)
from viete.rewrite.adjoint.activity import depends, held, reached
from viete.rewrite.adjoint.single_where import OF_ROWS, Side, Single, by_entry, is_where
from viete.rewrite.simplify import row_sum, simplified

# What serves in place of an operand at which a slope, or the value, may be infinite.
HARMLESS: Mapping[str, tuple[int | None, ...]] = {
    "log": (1,), "sqrt": (1,), "exp": (0,), "div": (None, 1), "mod": (None, 1),
}  # fmt: skip


@dataclass(frozen=True)
class Doubled:
    """A model with the double where.

    ``conditions`` are the doubled ones, with their sides; ``names`` maps inserted definitions to
    the names they replaced. Such a name is still the other argument of a function ``opened``, since
    it has a derivative too.
    """

    model: CardData
    conditions: Mapping[Expr, Side]
    names: Mapping[Expr, Expr]
    opened: str = ""

    @cached_property
    def single(self) -> Single:
        """The rewriting that removes inner conditions from formulas of the gradient."""
        return Single(self.model, self.conditions)

    def on_paper(self, equations: list[Equation]) -> list[Equation]:
        """The gradient's equations for people: with single conditions and the original names."""

        def of(e: Equation) -> Equation:
            new = replaced(self.plain(self.single.of(e.right)), self.names)
            return with_right(e, new)

        return list(map(of, equations)) if self.conditions else equations

    def plain(self, e: Expr) -> Expr:
        """A formula in which inserted definitions stand without the names they replaced."""

        def rule(x: Expr) -> Expr | None:
            return x.args[0] if isinstance(x, Apply) and x.op == self.opened else None

        return transform(e, rule) if self.opened else e


@memoised
def doubled(card: CardData) -> Doubled:
    """The double where of a model; the model itself if no `where` needs it."""
    formulas = [*(e.right for e in card.equations), *(f.body for f in card.functions)]
    if not any(is_where(x) for e in formulas for x in walk(e)):
        return Doubled(card, {}, {})
    made = Doubling(card)
    functions = tuple(map(made.function, made.model.functions))
    equations = tuple(map(made.equation, card.equations))
    if made.conditions:
        card = replace(card, functions=functions, equations=equations)
    return Doubled(card, made.conditions, made.names, made.opened.name)


@memoised
def double_where(card: CardData) -> CardData:
    """The same model with finite derivatives in the sides of `where` that are not chosen."""
    found = doubled(card)
    equations = tuple(with_right(e, found.plain(e.right)) for e in found.model.equations)
    functions = tuple(f for f in found.model.functions if f.name != found.opened)
    return replace(found.model, functions=functions, equations=equations) if (
        found.conditions) else card  # fmt: skip


class Doubling:
    """Rewrites one model's functions and equations."""

    def __init__(self, card: CardData) -> None:
        definition, name = (Symbol("argument", x) for x in "ab")
        self.opened = Function(
            card.fresh("opened"), (Argument(definition), Argument(name)), definition.member
        )
        card = replace(card, functions=(*card.functions, self.opened))
        self.model, self.shapes = card, shapes_of(card)
        real = {i.name for i in card.inputs if i.high is None}
        self.active: Collection[str] = reached(card, real | {p.name for p in card.parameters})
        self.stop = held(card)
        self.rules = [rule.among(card.hidden) for rule in derivatives()]
        self.ruled = {rule.head for rule in self.rules}
        made = [e.name for e in card.equations]
        self.definitions = {
            e.name: e for e in card.equations
            if made.count(e.name) == 1 and e.left == e.left.symbol.member
        }  # fmt: skip
        self.conditions: dict[Expr, Side] = {}
        self.names: dict[Expr, Expr] = {}
        self.at: Equation | None = None  # the equation that is rewritten
        self.learned = self.learned_arguments()

    @cached_property
    def measuring(self) -> Measuring:
        """Names of dimensions for the sizes in inserted definitions of functions."""
        return Measuring(self.model)

    def depends(self, e: Expr, active: Collection[str] | None = None) -> bool:
        """Whether a derivative passes from ``e`` to an ``active`` value."""
        return depends(e, self.active if active is None else active, self.stop)

    def learned_arguments(self) -> dict[str, set[str]]:
        """For each function of the card, its arguments that a derivative passes to."""
        found: dict[str, set[str]] = {f.name: set() for f in self.model.functions}

        def calls(e: Expr, active: Collection[str]) -> None:
            for x in walk(e):
                if isinstance(x, Apply) and x.op in found:
                    given = zip(self.model.function[x.op].arguments, x.args, strict=False)
                    found[x.op] |= {a.symbol.key for a, v in given if self.depends(v, active)}

        for e in self.model.equations:
            calls(e.right, self.active)
        for f in reversed(self.model.functions):  # each calls those before it
            calls(f.body, {*self.active, *found[f.name]})
        return found

    def equation(self, e: Equation) -> Equation:
        """An equation with the double where in its right side."""
        self.at = e
        right = self.into(e.right, self.shapes.env)
        return with_right(e, right)

    def function(self, f: Function) -> Function:
        """A function of the card with the double where in its definition."""
        before, self.active = self.active, {*self.active, *self.learned[f.name]}
        body = self.into(f.body, None)
        self.active = before
        return f if body == f.body else replace(f, body=body)

    def into(self, e: Expr, env: TypeEnv | None) -> Expr:
        """A formula with every `where` doubled. ``env`` is None in a function's definition."""
        if not (parts := e.children):
            return e
        inner = self.inside(e, env) if isinstance(e, Bind | Table) else env
        e = rebuilt(e, [*(self.into(x, env) for x in parts[:-1]), self.into(parts[-1], inner)])
        if not isinstance(e, Apply) or e.op != "where" or not self.depends(e):
            return e
        test, yes, no = e.args
        found = self.type(test, env)
        number = found is not None and not found.shape
        side = Side(test, True, number, rows=found is not None and found.shape[1:] == (ONE,))
        if self.depends(yes):
            yes = self.under(yes, side, env)
        if self.depends(no):
            no = self.under(no, replace(side, holds=False), env)
        if (yes, no) != e.args[1:]:
            self.conditions[test] = side
        return replace(e, args=(test, yes, no))

    def inside(self, e: Bind | Table, env: TypeEnv | None) -> TypeEnv | None:
        return None if env is None else self.shapes.inside(e, env)

    def type(self, e: Expr, env: TypeEnv | None) -> Type | None:
        """The type of a formula; unknown in a function's definition."""
        return None if env is None else self.shapes.of(e, env)

    # -- what stands on a side ---------------------------------------------------------------------

    def under(self, e: Expr, side: Side, env: TypeEnv | None) -> Expr:
        """A formula on a side of a `where`, with harmless operands where the side is not chosen."""
        match e:
            case Ref():
                found = self.definition(e, env) if side.names and env is not None else None
                return e if found is None else self.put_in(e, found, side, env)
            case Pick():
                return self.under_pick(e, side, env)
            case Bind() | Table():
                return e if env is None else self.under_binder(e, side, env)
            case Apply(self.opened.name, (definition, name)):
                return replace(e, args=(self.under(definition, side, env), name))
            case Apply("log", _) if is_logsumexp(e):
                return e
            case Apply(op, args) if op in HARMLESS:
                pairs = zip(args, HARMLESS[op], strict=True)
                return replace(e, args=tuple(self.operand(a, x, side, env) for a, x in pairs))
            case Apply("pow", (a, c)) if not (natural(c) or e.constant or self.fixed(a, c)):
                base = self.operand(a, 1, side, env) if c.constant else (
                    side.of(self.under(a, side, env), 1))  # fmt: skip
                return replace(e, args=(base, self.under(c, side, env)))
            case Apply("where", (test, yes, no)):
                yes, no = self.under(yes, side, env), self.under(no, side, env)
                return replace(e, args=(test, yes, no))
            case Apply(op) if op in self.model.function:
                return self.under_call(e, side, env)
            case Apply():
                return self.under_operation(e, side, env)
        return e

    def operand(self, e: Expr, other: int | None, side: Side, env: TypeEnv | None) -> Expr:
        """An operand, replaced by a harmless number where the side is not chosen, if necessary."""
        new = self.under(e, side, env)
        if other is None or e.constant or (other == 1 and self.positive(e)):
            return new
        return side.of(new, other)

    def under_operation(self, e: Apply, side: Side, env: TypeEnv | None) -> Expr:
        types = [self.type(a, env) for a in e.args]
        entries = by_entry(e, self.model.function) or (
            e.op == "prod" and any(t and not t.shape for t in types))  # fmt: skip
        rows = side.rows and e.op in OF_ROWS and bool(types[0] and types[0].shape[1:])
        if not (entries or side.number or rows):
            return e
        if e.op == "prod" and not entries:
            side = replace(side, names=False)
        args = tuple(self.under(a, side, env) for a in e.args)
        if e.op in ("times", "prod") and not side.number and args != e.args:
            return Apply("had", args)  # what was a number may be one for each entry now
        return replace(e, args=args)

    def under_call(self, e: Apply, side: Side, env: TypeEnv | None) -> Expr:
        """A named function, written out if something in it needs another operand."""
        last = self.type(e.args[-1], env)
        some = last is None or last.may_be_negative  # targets, of which some may be none
        rule = next((r for r in self.rules if r.head == e.op and not (r.complete and some)), None)
        if rule is None or any(self.steep(x) for _, f in rule.formulas for x in walk(f)):
            body = inlined(e, self.model.function, self.around(env), self.model.names)
            if measures(body):
                if env is None:
                    return e  # where it stands in a definition nothing says how large it is
                body = self.measuring.spelled(body, env)
            return self.put_in(e, simplified(body), side, env)
        if by_entry(e, self.model.function):
            return replace(e, args=tuple(self.under(a, side, env) for a in e.args))
        by_row = side.rows and by_entry(e, self.model.function, OF_ROWS)

        def one(a: Expr) -> Expr:
            of = self.type(a, env) if by_row else None
            there = side.number or (of is not None and of.shape[1:])
            return self.under(a, replace(side, names=False), env) if there else a

        return replace(e, args=tuple(map(one, e.args)))

    def steep(self, e: Expr) -> bool:
        """Whether a part of a function's rule may be infinite where its operands are finite."""
        match e:
            case Apply(op, args) if op in HARMLESS:
                pairs = zip(args, HARMLESS[op], strict=True)
                return any(x == 1 and not a.constant for a, x in pairs)
            case Apply("pow", (_, c)):
                return not natural(c) and not e.constant
            case Apply(op) if op in self.model.function and op not in self.ruled:
                return any(map(self.steep, walk(self.model.function[op].body)))
        return False

    def fixed(self, base: Expr, exponent: Expr) -> bool:
        """Whether a power has a positive base and an exponent that is not learned, as in RoPE."""
        return self.positive(base) and not self.depends(exponent)

    def positive(self, e: Expr) -> bool:
        """Whether a formula is known to be positive, such as a square plus an ε."""
        match e:
            case Num(value):
                return value > 0
            case Ref(symbol):
                return symbol.kind == "dim" and self.model.sizes.get(e.key, 1) > 0
            case Apply("add", (a, b)):
                return any(self.positive(x) and self.from_zero(y) for x, y in ((a, b), (b, a)))
            case Apply("sqrt", (z,)):
                return self.positive(z)
        return False

    def from_zero(self, e: Expr) -> bool:
        """Whether a formula is known to be at least 0."""
        match e:
            case Apply("exp" | "abs"):
                return True
            case Apply("pow", (_, Num(value))):
                return value.denominator == 1 and value % 2 == 0
            case Apply("had" | "times", (a, b)):
                return a == b
            case Apply("sum" | "mean", (z,)) | Bind("sum" | "mean", body=z):
                return self.from_zero(z)
        return self.model.library_name(e) == "var" or self.positive(e)

    # -- names, entries, binders -------------------------------------------------------------------

    def put_in(self, e: Expr, definition: Expr, side: Side, env: TypeEnv | None) -> Expr:
        """A name or a call, or its definition if a part of that needs another operand."""
        body = self.into(definition, env)
        new = self.under(body, side, env)
        if new == body:
            return e
        self.names[definition] = e
        named = isinstance(e.value if isinstance(e, Pick) else e, Ref)
        return self.opened.of(new, e) if named else new

    def definition(self, e: Ref, env: TypeEnv) -> Expr | None:
        """The definition of a name here, or None.

        A block reads definitions of its own block and of values made before the loop.
        """
        made = self.definitions.get(e.key)
        if made is None or self.at is None:
            return None
        if made.loop is not None:
            own = Idx(made.loop.index)
            block = e.index[made.left.symbol.slots.index(own.name)]
            reads = [x for x in refs(made.right) if own in walk(x)]
            alone = all(own in x.index for x in reads)  # reads no other block
            if made.loop != self.at.loop and (self.at.loop is not None or not alone):
                return None
            if made.loop == self.at.loop and block != own:
                return None
        letters = dict(zip(made.left.symbol.slots, e.index, strict=True))
        return self.model.substitute(made.right, letters=letters, around=self.around(env))

    def around(self, env: TypeEnv | None) -> frozenset[str]:
        """The names that no binder of an inserted definition may use."""
        letters = frozenset[str]() if env is None else frozenset(env.ranges)
        return letters | self.model.loop_letters | self.model.plain_names

    def under_pick(self, e: Pick, side: Side, env: TypeEnv | None) -> Expr:
        """A pick; if the value is made entry by entry, the same formula of picked entries."""
        whole: Expr | None = e.value
        if isinstance(whole, Ref):
            whole = self.definition(whole, env) if side.names and env is not None else None
        if whole is not None and env is not None:
            entry = self.entry(whole, e.items, env)
            if entry is not None and entry != e:
                new = self.put_in(e, entry, side, env)
                if new != e:
                    return new
        return replace(e, value=self.under(e.value, side, env)) if side.number else e

    def entry(self, e: Expr, items: Sequence[Expr], env: TypeEnv) -> Expr | None:
        """The entry of a formula at some places; None if no formula of entries equals it."""
        shape = self.shapes.of(e, env).shape
        if not shape:
            return e
        if any(isinstance(i, Slice) for i in items):
            return None
        match e:
            case Table(ranges, body) if len(ranges) == len(items):
                letters = {letter: at for (letter, _), at in zip(ranges, items, strict=True)}
                return self.model.substitute(body, letters=letters, around=self.around(env))
            case Apply(args=args) if by_entry(e, self.model.function):
                shapes = [self.shapes.of(a, env).shape for a in args]
                if any(s and not self.shapes.same_shape(s, shape) for s in shapes):
                    return None
                found = [x for a in args if (x := self.entry(a, items, env)) is not None]
                return replace(e, args=tuple(found)) if len(found) == len(args) else None
            case Pick(value, before) if (places := self.places(before, items, env)) is not None:
                return Pick(value, places)
        return Pick(e, tuple(items))

    def places(
        self, before: Sequence[Expr], items: Sequence[Expr], env: TypeEnv
    ) -> tuple[Expr, ...] | None:
        """The places in x of ``x[before]_{items}``: ``E[t]_{1,k}`` is ``E_{t_1,k}``.

        None where that needs a slice.
        """
        found, rest = list[Expr](), list(items)
        for at in before:
            if isinstance(at, Slice):
                return None
            rank = len(self.shapes.of(at, env).shape)  # a gather's places are an axis
            entry = self.entry(at, rest[:rank], env) if len(rest) >= rank else None
            if entry is None:
                return None
            found.append(entry)
            rest = rest[rank:]
        return (*found, *rest)

    def under_binder(self, e: Bind | Table, side: Side, env: TypeEnv) -> Expr:
        """A sum or a table under one condition, or a table with a condition for each entry."""
        new = self.model.substitute(e, around=self.around(env) | free_names(side.test))
        assert isinstance(new, Bind | Table)
        if new.binders & free_names(side.test):
            return e  # a sum over all of a declared range keeps its letter
        if not side.number:
            test, value = (self.shapes.of(x, env).shape for x in (side.test, e))
            if not isinstance(new, Table) or not self.shapes.same_shape(test, value):
                return e
            own = self.entry(side.test, [Idx(i) for i, _ in new.ranges], env)
            if own is None:
                return e
            side = replace(side, test=own, number=True)
        body = self.under(new.body, side, self.shapes.inside(new, env))
        return e if body == new.body else replace(new, body=body)


def is_logsumexp(e: Expr) -> bool:
    """Whether a formula is ``log(sum(exp(z)))``, which every meaning computes without overflow."""
    match row_sum(e):
        case Apply("log", (Apply("sum", (Apply("exp"),)),)):
            return True
    return False


def natural(e: Expr) -> bool:
    """Whether an exponent is 0, 1, 2, …"""
    return isinstance(e, Num) and e.value >= 0 and e.value.denominator == 1
