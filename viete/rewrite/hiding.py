"""Hides padding from every position that reads another one: rewrites the formulas of `padding`.

A position reads others where an axis of the text's positions is reduced (a normaliser, a mean, a
maximum), contracted (``A V``), or indexed. Each reduction gets a mask, unless what it reduces is 0
at padding already; an index is refused that may be that of padding.
"""

from __future__ import annotations

from fractions import Fraction

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
from viete.rewrite.rotations import Rotations
from viete.rewrite.simplify import simplified

BELOW, ABOVE = Apply("neg", (Apply("inf", ()),)), Apply("inf", ())
NEUTRAL: dict[str, Expr] = {"sum": num(0), "max": BELOW, "min": ABOVE}  # of a reduction
NORMALISERS = ("softmax", "logsumexp", "logsoftmax")  # to which −∞ adds nothing
TABLES = ("sinusoidal", "angles", "pair_angles")  # of which each position takes its row
LOSSES = ("cross_entropy", "weighted_loss")  # which pass over a target of −100
STEPS: dict[str, tuple[int, ...]] = {"add": (1, 1), "neg": (-1,)}  # how a sum counts its terms
STEPS |= dict.fromkeys("sub lt le gt ge eq ne".split(), (1, -1))  # and differences, also compared


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
        self.rotations = Rotations(card, self.shapes)
        self.text = Text("")
        self.done: set[tuple[Expr, bool]] = set()  # arguments with masks, in opened definitions
        self.own = not counts  # whether a letter is a position's number; no library function's

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

    def hidden(self, e: Expr, env: TypeEnv, apart: bool = False) -> Expr:
        """The formula with masks; ``apart`` is whether it has letters for a distance only."""
        if (e, self.own) in self.done:
            return e
        match e:
            case Ref() if e == self.n and not self.counts and not apart:
                return Apply("sum", (self.mask,))
            case Idx() if self.own and not apart and self.letter(e, env):
                counted = Pick(self.card.library("counted", self.mask), (e,))
                return Apply("max", (Apply("sub", (counted, num(1))), num(0)))
            case Pick():
                return self.pick(e, env)
            case Bind():
                return self.bind(e, env)
            case Table():
                return e.over([*e.children[:-1], self.hidden(e.body, self.inside(e, env))])
            case Apply(op, args):
                if op in MEASURES:
                    return self.measured(e, env)
                if not self.counts and self.card.library_name(e) in TABLES and args[0] == self.n:
                    return Pick(e, (self.row(Fraction(0)),))
                if not self.counts and e in self.rotations.absolute:
                    return self.opened(e, env, True, False)
                apart = apart or self.distance(e, env)
                parts = [a if self.is_length(a) and op in self.card.function
                         else self.hidden(a, env, apart and op in STEPS) for a in args]  # fmt: skip
                return self.applied(e.over(parts), env)
        return e

    def distance(self, e: Apply, env: TypeEnv) -> bool:
        """Whether positions' numbers are in a formula for their distance, as in ``j ≤ k + 2``.

        Padding before a text moves all of them alike.
        """
        steps = (self.steps(e, env) if e.op in STEPS else None) or {self.n.key: 1}
        return not steps.pop(self.n.key, 0) and not sum(steps.values())

    def steps(self, e: Expr, env: TypeEnv) -> dict[str, int] | None:
        """How often a formula adds n and each letter of positions; None if it does more."""
        if e == self.n or (isinstance(e, Idx) and self.letter(e, env)):
            return {e.key if isinstance(e, Ref) else e.name: 1}
        if isinstance(e, Apply) and e.op in STEPS:
            out = dict[str, int]()
            for sign, x in zip(STEPS[e.op], e.args, strict=True):
                found = self.steps(x, env)
                if found is None:
                    return None
                out |= {k: out.get(k, 0) + sign * n for k, n in found.items()}
            return out
        return None if any(self.letter(Idx(x), env) for x in e.free) else {}

    def is_length(self, e: Expr) -> bool:
        return e == self.n or (isinstance(e, Apply) and e.op in MEASURES)

    def inside(self, e: Bind | Table, env: TypeEnv) -> TypeEnv:
        return self.shapes.inside(e, env)

    def measured(self, e: Apply, env: TypeEnv) -> Expr:
        """``cols(z)`` as the number of positions that are real, where that is what it counts."""
        if self.counts or not self.whole(self.shapes.of(e, env).size):
            return e
        return Apply("sum", (self.mask,))

    def pick(self, e: Pick, env: TypeEnv) -> Expr:
        value = self.hidden(e.value, env)
        items = list(e.items)
        for k, (item, size) in enumerate(zip(items, self.shape(value, env), strict=False)):
            whole = isinstance(item, Slice) and item.start is None and item.stop in (None, self.n)
            if not self.of_text(size):
                items[k] = self.place(e, item, env)
            elif not whole and not self.letter(item, env):
                raise self.refused(e, "picks positions, which may be padding")
        return Pick(value, tuple(items))

    def place(self, e: Pick, item: Expr, env: TypeEnv) -> Expr:
        """A place of an axis that does not count positions, such as that of a table of them.

        A slice ``k:n + k`` is a row for each position: those of the text's own count.
        """
        if not isinstance(item, Slice):
            return self.hidden(item, env)
        ends = [x for x in (item.start, item.stop) if x is not None]
        if self.counts or not any(self.of_text(self.card.size(x)) for x in ends):
            return item
        first = item.start or num(0)
        ends = [self.n, Apply("add", (self.n, first)), Apply("add", (first, self.n))]
        if not isinstance(first, Num) or item.stop not in ends[(first != num(0)) :]:
            raise self.refused(e, "picks as many rows as the text has positions with padding")
        return self.row(first.value)

    def row(self, first: Fraction) -> Expr:
        """The rows from ``first`` on for the positions; padding takes the first, whatever it is."""
        counted = self.card.library("counted", self.mask)
        if first > 0:
            return counted if first == 1 else Apply("add", (counted, num(first - 1)))
        return Apply("max", (Apply("sub", (counted, num(1))), num(0)))

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

    def applied(self, e: Apply, env: TypeEnv) -> Expr:
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
        return self.opened(e, env, self.own and not name, True)

    def opened(self, e: Apply, env: TypeEnv, own: bool, hidden: bool) -> Expr:
        """A call through its definition, if a part of that reads padding.

        ``own`` is whether a letter in it is a position's own number, and ``hidden`` whether the
        arguments have masks already.
        """
        around = self.card.loop_letters.union(env.ranges, self.card.plain_names)
        body = inlined(e, self.card.function, around, self.card.names)
        body = self.shapes.spelled(body, env)
        self.done |= {(x, own) for x in e.args if hidden and not self.is_length(x)}
        before, self.own = self.own, own
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
