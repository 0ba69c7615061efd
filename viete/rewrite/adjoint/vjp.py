"""Vector–Jacobian products: the derivative of an operation's value, passed on to its operands."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from viete.errors import VieteError
from viete.graph.matching import Match, one_function, put
from viete.graph.rules import Rule, derivatives, head
from viete.graph.sizes import ONE, ZERO
from viete.library.functions import inlined, is_argument
from viete.notation.printer import INFIX, show
from viete.notation.substitution import Abstraction, Put
from viete.notation.tree import (
    MEASURES,
    Apply,
    Bind,
    Expr,
    Idx,
    Pick,
    Ref,
    Slice,
    Table,
    num,
    place_from_end,
    transform,
    walk,
)
from viete.rewrite.adjoint.activity import depends, held, reached
from viete.rewrite.adjoint.double_where import Doubled
from viete.rewrite.adjoint.scatter import picked_back, row_of
from viete.rewrite.adjoint.shares import Binder, Context, Reason, hatted, partial_of
from viete.rewrite.adjoint.single_where import by_entry, is_where
from viete.rewrite.adjoint.uses import Uses
from viete.rewrite.simplify import row_sum, simplified

UNNAMED = frozenset(INFIX) | {"neg", "T", "where", "inner"}  # said by the equation's number alone


class Passing(Uses):
    """Applies the rules to one model's operations.

    ``wanted`` are the names whose derivatives are wanted.
    """

    def __init__(self, double: Doubled, wanted: frozenset[str]) -> None:
        super().__init__(double.model, double.single)
        self.wanted, self.beside = wanted, double.opened
        self.rules = tuple(rule.among(self.model.hidden) for rule in derivatives())
        self.fitting: dict[str, list[Rule]] = {}
        self.doubled: set[Expr] = set()  # the conditions that stand below themselves once more
        self.active, self.stop = reached(self.model, wanted), held(self.model)

    def depends(self, e: Expr) -> bool:
        """Whether a derivative passes from ``e`` to a wanted name."""
        return depends(e, self.active, self.stop)

    # -- one operation -----------------------------------------------------------------------------

    def pass_on(self, e: Expr, back: Expr, c: Context, whole: Ref | None = None) -> None:
        """Pass the derivative ``back`` = ∂e to the parts of ``e``, which ``whole`` names."""
        if not self.depends(e):
            return
        match e:
            case Ref():
                self.share(e, back, c)
            case Pick():
                self.pass_pick(e, back, c)
            case Bind("concat"):
                self.pass_concat_over(e, back, c)
            case Apply("concat"):
                self.pass_concat(e, back, c)
            case Apply(self.beside, (definition, name)):
                back = self.simple(back, c, "back")
                self.shares, self.passed = self.passed, self.shares
                self.pass_on(name, back, c)
                self.shares, self.passed = self.passed, self.shares
                self.pass_on(definition, back, c)
            case Apply() | Bind() | Table():
                self.pass_by_rule(e, back, c, whole)

    def by_rows(self, e: Expr, c: Context) -> Expr:
        """A log-sum-exp over an index, written as the log-sum-exp of a row, which has a rule."""
        rows = row_sum(e)
        if rows == e:
            return e
        return transform(rows, lambda x: self.untabled(x, c) if isinstance(x, Table) else None)

    def pass_by_rule(self, e: Expr, back: Expr, c: Context, whole: Ref | None) -> None:
        """Pass ∂e on by the first rule that fits, or through the definition of a function."""
        e = self.by_rows(e, c)
        if isinstance(e, Table):
            back = self.simple(back, c, "back")
        if isinstance(e, Bind | Table):
            e = self.apart(e, back, c)
        inside = self.inside(e, c) if isinstance(e, Bind | Table) else c
        found = self.rule(e, c)
        if found is None:
            if not isinstance(e, Apply) or e.op not in self.model.function:
                raise VieteError(f"there is no rule of differentiation for {show(e)}")
            return self.pass_on(self.opened(e, c), back, c)
        rule, fit = found
        values = fit.formulas
        test = e.args[0] if isinstance(e, Apply) and e.op == "where" else None
        if test is not None and any(is_where(x, test) for a in e.children[1:] for x in walk(a)):
            self.doubled.add(test)
        outs = {k: f for k, f in rule.formulas if k.startswith("partial{")}
        wanted = [k for k in values if partial_of(k) in outs and self.depends(values[k])]
        below = c.sides
        if below and isinstance(e, Apply) and not by_entry(e, self.model.function):
            # Below an operation that mixes entries, only a condition that is one number holds.
            below = tuple(s for s in below if s[0] in self.single.numbers)
            c = replace(c, sides=())
        if len(wanted) > 1 or self.uses(rule, wanted, "partial{y}") > 1:
            named = self.simple(back, c, "back")
            if named != back:  # what led up to it is said where it is named
                back, c = named, replace(c, reason=Reason(c.reason.equation))
        letters: dict[str, Put] = {
            k: self.simple(v, c, "again")
            if isinstance(v, Expr) and self.uses(rule, wanted, k) > 1 and v not in self.doubled
            else v
            for k, v in fit.letters.items()
        } | {"partial{y}": back}
        own = isinstance(e, Apply) and e.op not in UNNAMED
        reason = c.reason.by(e.op) if own and isinstance(e, Apply) else c.reason
        if self.uses(rule, wanted, "y"):
            letters["y"] = whole if whole is not None else self.simple(e, c, "again")
        for part, formula in rule.formulas:
            if part in map(partial_of, values) or not self.uses(rule, wanted, part):
                continue
            made = self.sized(self.put(formula, Match(letters, fit.bound), c), c)
            kind = "back" if part.startswith("partial") else "again"
            inner = replace(c, reason=reason)
            letters[part] = self.simple(made, inner, kind, hatted(part, whole))
        for k in wanted:
            inner = replace(inside if isinstance(fit.letters[k], Abstraction) else c, reason=reason)
            formula = outs[partial_of(k)]
            made = self.sized(self.put(formula, Match(letters, fit.bound), inner), inner)
            made = self.fitted(made, values[k], inner)
            inner = replace(inner, sides=below)
            if test in self.doubled:
                inner = replace(inner, sides=(*below, (test, k == "a")))  # the side that it is
            self.pass_on(values[k], made, inner)

    def put(self, formula: Expr, found: Match, c: Context) -> Expr:
        """A rule's formula with its letters replaced by the matched formulas.

        A sum over blocks keeps its letter, which no other letter can replace.
        """
        free = frozenset[str]().union(*(v.free for v in found.letters.values()
                                        if isinstance(v, Expr)))  # fmt: skip
        blocks = self.model.loop_letters & {t for t, _ in found.bound.values()} - free
        return put(formula, found, self.around(c) - blocks, self.taken, self.model.ranges)

    def around(self, c: Context) -> frozenset[str]:
        """The names that no binder may use here: names that the formulas under it may need."""
        return self.model.loop_letters.union(c.env.ranges, self.model.plain_names)

    def sized(self, e: Expr, c: Context) -> Expr:
        """The simplified formula, with names of dimensions for ``rows(x)`` and ``cols(x)``."""

        def rule(x: Expr) -> Expr | None:
            if isinstance(x, Apply) and x.op in MEASURES and not x.free - set(
                c.env.ranges
            ):  # fmt: skip
                size = self.type(x, c).size
                return None if size is None else self.model.size_expr(size)
            if isinstance(x, Apply) and x.op == "had" and not x.free - set(c.env.ranges):
                numbers = [not self.type(a, c).shape for a in x.args]
                if any(numbers) and not all(numbers):  # 2 A, not A ⊙ 2
                    return Apply("times", x.args if numbers[0] else x.args[::-1])
            if x.free - set(c.env.ranges):
                return None
            match x:
                case Apply("sqrt", (Apply(args=z) as v,)) if self.model.library_name(v) == "var":
                    return self.model.library("std", *z)
            if isinstance(x, Apply) and x.op == "concat":
                args = tuple(a for a in x.args if self.type(a, c).shape[-1] != ZERO)
                return args[0] if len(args) == 1 else replace(x, args=args)
            if isinstance(x, Pick):
                return self.open_ended(self.counted_from_end(x, ends, c) if ends else x, c)
            if isinstance(x, Bind) and x.op == "sum" and x.body == num(1):
                return self.count(x.index, x.lower, x.upper)
            return None

        ends = {k for x in walk(e) if isinstance(x, Pick) for k in map(x.from_end, range(2)) if k}
        return simplified(transform(simplified(e), rule))

    def counted_from_end(self, e: Pick, ends: Collection[int], c: Context) -> Pick:
        """``x_{n-1}`` as ``x_{-1}`` if x has n rows, for each k in ``ends``."""
        items = list(e.items)
        for axis, (item, size) in enumerate(zip(items, self.type(e.value, c).shape, strict=False)):
            for k in ends:
                if item == Apply("sub", (self.model.size_expr(size), num(k))):
                    items[axis] = place_from_end(e.value, axis, k)
        return replace(e, items=tuple(items))

    def open_ended(self, e: Pick, c: Context) -> Expr:
        """``x[:, 2:d]`` as ``x[:, 2:]`` if x has d columns."""
        items = []
        for item, size in zip(e.items, self.type(e.value, c).shape, strict=False):
            stop = item.stop if isinstance(item, Slice) else None
            count = None if stop is None else self.shapes.size(stop, c.env)
            if isinstance(item, Slice) and count == size:
                item = replace(item, stop=None)
            items.append(item)
        return replace(e, items=tuple(items))

    def rule(self, e: Expr, c: Context) -> tuple[Rule, Match] | None:
        """The first rule that fits an operation, and the formulas for its letters."""
        plain, ranks = e, tuple[int, ...]()
        if isinstance(e, Apply) and e.op in ("times", "prod"):
            ranks = tuple(len(self.type(a, c).shape) for a in e.args)
            if e.op == "times" or 0 in ranks:
                plain = replace(e, op="had")
        for rule in self.rules_of(plain):
            if rule.ranks and (rule.ranks != ranks or e != plain):
                continue
            found = rule.fits(plain, self.model.function)
            if found is None:
                continue
            values = found.formulas
            if rule.complete and self.type(values["t"], c).may_be_negative:
                continue
            outs = {k for k, _ in rule.formulas}
            if all(partial_of(k) in outs for k, v in values.items() if self.depends(v)):
                return rule, found
        return None

    def rules_of(self, e: Expr) -> list[Rule]:
        """The rules for the operation of a formula, whatever the card calls it."""
        of = head(e)
        if of not in self.fitting:
            functions = self.model.function
            self.fitting[of] = [r for r in self.rules if is_argument(r.pattern)
                                or one_function(r.head, of, functions)]  # fmt: skip
        return self.fitting[of]

    def uses(self, rule: Rule, wanted: Sequence[str], letter: str) -> int:
        """How often a rule's wanted formulas use a letter, also through its other formulas."""
        formulas = dict(rule.formulas)
        needed = set(map(partial_of, wanted))
        todo, count = list(needed), 0
        while todo:
            formula = formulas[todo.pop()]
            for x in walk(formula, lambda x: isinstance(x, Apply) and x.op in MEASURES):
                if isinstance(x, Ref) and x.key == letter:
                    count += 1
                if isinstance(x, Ref) and x.key in formulas and x.key not in needed:
                    needed.add(x.key)
                    todo.append(x.key)
        return count

    def opened(self, e: Apply, c: Context) -> Expr:
        """A function's definition with the arguments put in."""
        body = inlined(e, self.model.function, self.around(c), self.taken)
        return body if self.model.library_name(e) == "std" else self.sized(body, c)

    # -- shapes ------------------------------------------------------------------------------------

    def fitted(self, back: Expr, e: Expr, c: Context) -> Expr:
        """``back`` in the shape of ``e``: summed over repeated axes, repeated along summed axes."""
        have, want = self.type(back, c).shape, self.type(e, c).shape
        if self.shapes.same_shape(have, want):
            return back
        if len(have) == len(want) == 2 and want[1] == ONE != have[1]:
            return self.fitted(Apply("sum", (back,)), e, c)
        if len(have) == 2 and len(want) < 2:
            letter = self.fresh(c, back)
            last = simplified(Apply("sub", (self.model.size_expr(have[0]), num(1))))
            if have[1] == ONE and not want:
                return Bind("sum", letter, num(0), last, Pick(back, (Idx(letter), num(0))))
            row = row_of(back, letter, lambda x: len(self.type(x, c).shape))
            of = row if want else Apply("sum", (row,))
            total = Bind("sum", letter, num(0), last, of)
            return self.fitted(total, e, c) if want else total
        if len(have) == 1 and want in ((), (ONE,)):
            return self.fitted(Apply("sum", (back,)), e, c)
        if len(have) == 2 and want[0] == ONE != have[0]:
            return Apply("T", (Apply("sum", (Apply("T", (back,)),)),))
        return self.model.library("spread", back, e)

    # -- binders, tables, places -------------------------------------------------------------------

    def inside(self, e: Bind | Table, c: Context) -> Context:
        """The context of the body of a sum or a table."""
        ranges = [self.sized(x, c) for x in e.children[:-1]]
        named = e.over([*ranges, e.children[-1]])
        assert isinstance(named, Bind | Table)
        binders: list[Binder]
        if isinstance(named, Table):
            binders = [(i, num(0), simplified(Apply("sub", (s, num(1))))) for i, s in named.ranges]
        else:
            binders = [(named.index, named.lower, named.upper)]
        env = self.shapes.inside(named, c.env)
        return replace(c, env=env, binders=(*c.binders, *binders))

    def pass_concat_over(self, e: Bind, back: Expr, c: Context) -> None:
        """Pass each member of a concatenation over an index its own columns of ``back``."""
        renamed = self.apart(e, back, c)
        assert isinstance(renamed, Bind)
        e = renamed
        inside = self.inside(e, c)
        lower, _ = self.bounds(*inside.binders[-1])
        at = simplified(Apply("sub", (Idx(e.index), lower)))
        shape = self.type(e.body, inside).shape
        if not shape:
            return self.pass_on(e.body, Pick(back, (at,)), inside)
        width = self.model.size_expr(shape[-1])
        if len(shape) == 2:
            return self.pass_on(e.body, self.model.library("part", back, at, width), inside)
        letter = self.fresh(inside, back, e.body)
        place = Apply("add", (Apply("times", (at, width)), Idx(letter)))
        self.pass_on(e.body, Table(((letter, width),), Pick(back, (place,))), inside)

    def pass_concat(self, e: Apply, back: Expr, c: Context) -> None:
        """Pass each part of a concatenation its own columns of ``back``."""
        back = self.simple(back, c, "back")
        start: Expr = num(0)
        for k, a in enumerate(e.args):
            size = self.type(a, c).shape[-1]
            width = self.model.size_expr(size)
            stop = simplified(Apply("add", (start, width)))
            cut = Slice(None if k == 0 else start, None if k == len(e.args) - 1 else stop)
            matrix = len(self.type(e, c).shape) == 2
            items = (Slice(None, None), cut) if matrix else (cut,)
            self.pass_on(a, Pick(back, items), c)
            start = stop

    def apart(self, e: Bind | Table, back: Expr, c: Context) -> Bind | Table:
        """The binder with letters that mean nothing else around it, nor in ``back``.

        ``back`` is put under it, and its letters are summed over later, each once.
        """
        clash = back.free.union(b[0] for b in c.binders) - self.model.loop_letters
        *ranges, body = e.children
        if ranges:
            clash |= back.binders - self.model.loop_letters
        new = dict[str, str]()
        for letter in clash.intersection(e.bound):
            new[letter] = self.fresh(c, e, back, *map(Idx, new.values()))
        if not new:
            return e
        if isinstance(e, Bind):
            ranges = list(self.bounds(e.index, e.lower, e.upper))
        body = self.model.substitute(body, letters={k: Idx(v) for k, v in new.items()})
        named = e.over([*ranges, body], tuple(new.get(x, x) for x in e.bound))
        assert isinstance(named, Bind | Table)
        return named

    def pass_pick(self, e: Pick, back: Expr, c: Context) -> None:
        rank = [len(self.type(x, c).shape) if not isinstance(x, Slice) else -1 for x in e.items]
        shape = self.type(e.value, c).shape
        letters = [self.fresh(c, e, back)]
        letters.append(self.fresh(c, e, back, Idx(letters[0])))
        sizes = list(map(self.model.size_expr, shape))
        bound = {
            (letter, axis) for letter, lower, upper in c.binders
            if lower == num(0) and upper and letter not in e.value.free
            for axis, size in enumerate(shape)
            if (last := self.shapes.size(upper, c.env)) is not None and last + last.of(1) == size
        }  # fmt: skip
        count = self.model.size_expr(self.type(e.items[0], c).shape[0]) if rank[0] == 1 else None
        back, used = picked_back(
            e, back, rank, sizes, letters, bound,
            lambda x: self.simple(x, c, "back"), self.model, count,
        )  # fmt: skip
        inside = replace(c, binders=tuple(b for b in c.binders if b[0] not in used))
        self.pass_on(e.value, self.untabled(back, inside), inside)

    def untabled(self, e: Expr, c: Context) -> Expr:
        """``table_{j<n,k<m}(x_{j,k})`` as x, and ``table_{k<m}(x_{j,k})`` as ``x_j``."""
        e = simplified(e)
        match e:
            case Table(ranges, Pick(value, items)):
                first = len(items) - len(ranges)
                sizes = tuple(self.shapes.size(s, c.env) for _, s in ranges)
                if (
                    items[first:] == tuple(Idx(i) for i, _ in ranges)
                    and not Pick(value, items[:first]).free & {i for i, _ in ranges}
                    and sizes == self.type(value, c).shape[first:]
                ):
                    return Pick(value, items[:first]) if first else value
        return e
