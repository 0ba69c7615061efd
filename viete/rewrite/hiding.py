"""Hides padding from every position that reads another one: rewrites the formulas of `padding`.

A position reads others where an axis of the text's positions is reduced (a normaliser, a mean, a
maximum), contracted (``A V``), or indexed. Each reduction gets a mask, unless what it reduces is 0
at padding already; an index is refused that may be that of padding.
"""

from __future__ import annotations

from viete.analysis.row_counts import Measuring
from viete.analysis.types import TypeEnv
from viete.errors import Text, VieteError
from viete.graph.card import CardData, Equation, with_right
from viete.graph.evaluator import REDUCTIONS
from viete.graph.sizes import ZERO, Size
from viete.library.functions import inlined
from viete.notation.printer import show
from viete.notation.substitution import fresh
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
    Table,
    num,
)  # fmt: skip
from viete.rewrite.simplify import simplified

BELOW, ABOVE = Apply("neg", (Apply("inf", ()),)), Apply("inf", ())
NEUTRAL: dict[str, Expr] = {"sum": num(0), "max": BELOW, "min": ABOVE}  # of a reduction
NORMALISERS = ("softmax", "logsumexp", "logsoftmax")  # to which −∞ adds nothing
LOSSES = ("cross_entropy", "weighted_loss")  # which pass over a target of −100
COMPARED = frozenset("lt le gt ge eq ne and or not".split())


class Hiding:
    """Rewrites the equations of a card, in their order, with its ``mask`` of padding.

    With ``counts`` the length of the text is that with padding.
    """

    def __init__(self, card: CardData, n: Ref, mask: Ref, counts: bool) -> None:
        self.card, self.n, self.mask, self.counts = card, n, mask, counts
        self.shapes = Measuring(card)
        size = card.size(n)
        assert size is not None
        self.size = size
        self.real = Apply("eq", (mask, num(1)))
        self.made: set[Expr] = set()  # what a mask has made 0 at padding
        self.zeros: set[tuple[str, bool]] = set()  # values that are; whether along their last axis
        self.text = Text("")
        self.own = (
            not counts
        )  # whether a letter is the position's own number; no library function's

    def equation(self, e: Equation) -> Equation:
        """The equation with a right side in which no real position depends on padding."""
        self.text = e.text
        right = self.hidden(e.right, self.shapes.env)
        if sum(x.name == e.name for x in self.card.equations) == 1:
            self.zeros |= {(e.name, last) for last in (True, False)
                           if self.zero(right, self.shapes.env, last)}  # fmt: skip
        return with_right(e, right)

    # -- axes --------------------------------------------------------------------------------------

    def shape(self, e: Expr, env: TypeEnv) -> tuple[Size, ...]:
        return self.shapes.of(e, env).shape

    def of_text(self, size: Size | None) -> bool:
        """Whether an axis counts the text's positions, or only some of them, or more."""
        return size is not None and self.n.key in size.substitute(self.card.definitions).names()

    def whole(self, size: Size | None) -> bool:
        return size is not None and self.shapes.same(size, self.size)

    def columns(self, e: Expr, env: TypeEnv) -> bool:
        """Whether a value's last axis counts the text's positions."""
        shape = self.shape(e, env)
        if not shape or not self.of_text(shape[-1]):
            return False
        if not self.whole(shape[-1]):
            raise self.refused(e, f"goes along {shape[-1]} positions, some of which padding moves")
        return True

    def letter(self, e: Expr, env: TypeEnv) -> bool:
        """Whether an index is a letter that runs over all positions of the text."""
        return (
            isinstance(e, Idx) and self.whole(env.ranges.get(e.name))
            and env.first.get(e.name, ZERO) == ZERO
        )  # fmt: skip

    # -- formulas ----------------------------------------------------------------------------------

    def hidden(self, e: Expr, env: TypeEnv, number: bool = True) -> Expr:
        """The formula with masks; ``number`` is whether a length in it is meant as a number."""
        match e:
            case Ref() if e == self.n and number and not self.counts:
                return Apply("sum", (self.mask,))
            case Idx() if number and self.own and self.letter(e, env):
                counted = Pick(self.card.library("counted", self.mask), (e,))
                return Apply("max", (Apply("sub", (counted, num(1))), num(0)))
            case Pick():
                return self.pick(e, env)
            case Bind():
                return self.bind(e, env)
            case Table():
                return e.over([*e.children[:-1], self.hidden(e.body, self.inside(e, env), number)])
            case Apply(op, args):
                if op in MEASURES:
                    return self.measured(e, env, number)
                number = number if op not in COMPARED else len(self.letters(e, env)) == 1
                number = number and not (op == "sub" and len(self.letters(e, env)) == 2)
                parts = [a if self.is_length(a) and op in self.card.function
                         else self.hidden(a, env, number and not (op == "where" and k == 0))
                         for k, a in enumerate(args)]  # fmt: skip
                return self.applied(e.over(parts), env, number)
        return e

    def letters(self, e: Expr, env: TypeEnv) -> set[str]:
        """The letters of positions whose numbers a formula has; with two it may be a distance."""
        if isinstance(e, Pick | Ref | Bind | Table) or (isinstance(e, Apply) and e.op == "where"):
            return set()
        if isinstance(e, Idx):
            return {e.name} if self.letter(e, env) else set()
        return set[str]().union(*(self.letters(x, env) for x in e.children))

    def is_length(self, e: Expr) -> bool:
        return e == self.n or (isinstance(e, Apply) and e.op in MEASURES)

    def inside(self, e: Bind | Table, env: TypeEnv) -> TypeEnv:
        return self.shapes.inside(e, env)

    def measured(self, e: Apply, env: TypeEnv, number: bool) -> Expr:
        """``cols(z)`` as the number of positions that are real, where that is what it counts."""
        if not number or self.counts or not self.whole(self.shapes.of(e, env).size):
            return e
        return Apply("sum", (self.mask,))

    def pick(self, e: Pick, env: TypeEnv) -> Expr:
        value = self.hidden(e.value, env)
        for item, size in zip(e.items, self.shape(value, env), strict=False):
            if not self.of_text(size) or self.letter(item, env):
                continue
            if not (isinstance(item, Slice) and item.start is None and item.stop in (None, self.n)):
                raise self.refused(e, "picks positions, which may be padding")
        items = [x if isinstance(x, Slice) else self.hidden(x, env, False) for x in e.items]
        return Pick(value, tuple(items))

    def bind(self, e: Bind, env: TypeEnv) -> Expr:
        inner = self.inside(e, env)
        body = self.hidden(e.body, inner)
        count = inner.ranges.get(e.index)
        if not self.of_text(count) or e.op == "concat":
            return e.over([*e.children[:-1], body])
        if not self.letter(Idx(e.index), inner):
            raise self.refused(e, f"runs over {count} positions, some of which padding moves")
        seen = Apply("eq", (Pick(self.mask, (Idx(e.index),)), num(1)))
        if e.op == "mean":
            total = Bind("sum", e.index, e.lower, e.upper, Apply("where", (seen, body, num(0))))
            return Apply("div", (total, Apply("sum", (self.mask,))))
        fill = NEUTRAL[e.op]
        return e.over([*e.children[:-1], Apply("where", (seen, body, fill))])

    def applied(self, e: Apply, env: TypeEnv, number: bool) -> Expr:
        """An operation whose arguments are hidden already."""
        op, args = e.op, e.args
        if op in self.card.function:
            return self.called(e, env)
        if op in REDUCTIONS and len(args) == 1 and self.columns(args[0], env):
            if op == "argmax":
                raise self.refused(e, "is a position, which padding moves")
            if op == "mean":
                total = Apply("sum", (self.seen(args[0], env, num(0)),))
                return Apply("div", (total, Apply("sum", (self.mask,))))
            if op == "sum" and (args[0] == self.mask or self.zero(args[0], env, True)):
                return e
            return e.over([self.seen(args[0], env, NEUTRAL[op])])
        if op == "inner" and self.columns(args[0], env):
            return e.over([self.seen(args[0], env, num(0)), args[1]])
        if op == "prod" and all(self.shape(a, env) for a in args):
            a, b = args
            if self.columns(a, env) and not self.zero(a, env, True) and not (
                self.zero(b, env, len(self.shape(b, env)) == 1)
            ):  # fmt: skip
                return e.over([self.seen(a, env, num(0)), b])
        if op == "concat":
            for a in args:
                if self.shape(a, env) and self.of_text(self.shape(a, env)[-1]):
                    raise self.refused(e, "puts other entries beside the text's positions")
        return e

    def called(self, e: Apply, env: TypeEnv) -> Expr:
        """A function: with a mask in its argument, or through its definition if that reads."""
        name = self.card.library_name(e)
        if name in NORMALISERS and self.columns(e.args[0], env):
            z = e.args[0]
            row = isinstance(z, Pick) and len(z.items) == 1
            whole = z.value if isinstance(z, Pick) and row else z
            shape = self.shape(whole, env)
            if len(shape) == 2:
                mask = "unpadded" if self.whole(shape[0]) else "visible"
                whole = self.card.library(mask, whole, self.mask)
                z = Pick(whole, z.items) if isinstance(z, Pick) and row else whole
            else:
                z = Apply("where", (self.real, z, BELOW))
            return e.over([z, *e.args[1:]])
        if name in LOSSES and self.whole(self.shape(e.args[0], env)[0]):
            targets = Apply("where", (self.real, e.args[1], num(-100)))
            return e.over([e.args[0], targets, *e.args[2:]])
        around = self.card.loop_letters.union(env.ranges, self.card.plain_names)
        body = inlined(e, self.card.function, around, self.card.names)
        body = self.shapes.spelled(body, env)
        before, self.own = self.own, self.own and not name
        found = self.hidden(body, env)
        self.own = before
        return e if found == body else simplified(found)

    def seen(self, e: Expr, env: TypeEnv, fill: Expr) -> Expr:
        """A value with ``fill`` in the columns of padding; but each position sees itself.

        So the rows of padding, which nothing reads, are numbers too.
        """
        shape = self.shape(e, env)
        if len(shape) == 2 and self.whole(shape[0]):
            letters = self.card.names.union(env.ranges, e.free, e.binders)
            j = fresh(letters)
            k = fresh(letters | {j})
            shown = Apply("eq", (Pick(self.mask, (Idx(k),)), num(1)))
            itself = Apply("eq", (Idx(k), Idx(j)))
            entry = Pick(e, (Idx(j), Idx(k)))
            body = Apply("where", (Apply("or", (shown, itself)), entry, fill))
            out: Expr = Table(((j, self.n), (k, self.n)), body)
        else:
            out = Apply("where", (self.real, e, fill))
        if fill == num(0):
            self.made.add(out)
        return out

    def zero(self, e: Expr, env: TypeEnv, last: bool) -> bool:
        """Whether a value is 0 at padding, for real rows: along its last axis, or its rows."""
        rank = len(self.shape(e, env))
        if rank == 0 or (rank == 1 and not last):
            return False
        match e:
            case Num(value):
                return value == 0
            case Ref():
                return (e.key, last) in self.zeros
            case Bind(op="sum" | "mean", body=body):
                return self.zero(body, self.inside(e, env), last)
            case Pick(value, (item,)) if not isinstance(item, Slice):
                return last and not self.shape(item, env) and self.zero(value, env, True)
            case Apply("had" | "times", args):
                return any(self.zero(a, env, last) for a in args)
            case Apply("add" | "sub", args):
                return all(self.zero(a, env, last) for a in args)
            case Apply("where", (_, a, b)):
                return e in self.made or (self.zero(a, env, last) and self.zero(b, env, last))
            case Apply("div" | "neg", (a, *_)):
                return self.zero(a, env, last)
            case Apply("T", (a,)):
                return rank == 2 and self.zero(a, env, not last)
            case Apply("prod", (a, b)):
                return self.zero(b if last else a, env, last)
            case Apply() if last and self.card.applies(e, "softmax"):
                return True  # its argument is −∞ there, or it has no such columns
        return last and e in self.made

    def refused(self, e: Expr, why: str) -> VieteError:
        return self.text.error(
            f"{self.card.title} takes no padding: {show(e)} {why}", *self.text.place(e)
        )
