"""Normal forms: sums of products, the same form for all formulas that algebra makes equal.

A form adds up terms, each a rational number times powers of factors that are multiplied entrywise.
A product of matrices is one factor, with brackets, sums and numbers taken out of it. So is an
operation that algebra does not see into, such as a softmax, whose arguments have their own forms.
Two formulas with one form are equal wherever both have a finite value.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial, reduce

from viete.analysis.shapes import Shapes, shapes_of
from viete.analysis.types import Mismatch, Shape, TypeEnv
from viete.graph.card import CardData
from viete.graph.sizes import Size
from viete.notation.substitution import substitute
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
    rebuilt,
    transform,
)
from viete.rewrite.angle_forms import MOST_ANGLES, of_sum, squared_sine
from viete.rewrite.forms import (
    ONE,
    Form,
    Term,
    added,
    content,
    entrywise,
    entrywise_product,
    matrix_product,
    ordered,
    rational_power,
    scaled,
    spelled,
)
from viete.rewrite.index_forms import canonical, greatest_offset, indexed, moved, replaced_letter
from viete.rewrite.proof_rules import ProofRule, averages, compared

MOST_TERMS = 100
ALL = Slice(None, None)


class TooLarge(Exception):
    """A form has more terms than the limit."""


class NormalForms:
    """Computes the forms of one card's formulas."""

    def __init__(self, card: CardData) -> None:
        self.card = card
        self.types: Shapes = shapes_of(card)
        self.shapes: dict[Expr, Shape | None] = {}  # of factors
        # The forms, by whether a formula's letters are in force, and the facts that made them.
        self.forms: dict[tuple[Expr, bool], tuple[Form, frozenset[str]]] = {}
        self.known: dict[tuple[Expr, bool], Shape | None] = {}  # shapes of formulas
        self.originals: dict[Expr, Expr] = {}  # factors with the letters that they were read with
        self.used: set[str] = set()  # rules, and definitions

    # -- forms -------------------------------------------------------------------------------------

    def of(self, e: Expr, env: TypeEnv | None = None) -> Form:
        """The form of a formula. Raises TooLarge."""
        env = self.types.env if env is None else env
        key = e, e.free <= env.ranges.keys()
        if key not in self.forms:
            before, self.used = self.used, {ProofRule.ALGEBRA}
            try:
                self.forms[key] = self.made(e, env), frozenset(self.used)
            finally:
                self.used = before
        form, facts = self.forms[key]
        self.used |= facts
        return form

    def by(self, fact: str, form: Form) -> Form:
        """A form, with a note of the fact that was used for it."""
        self.used.add(fact)
        return form

    def made(self, e: Expr, env: TypeEnv) -> Form:
        """The form of a formula, without the cache of `of`."""
        match e:
            case Num(value):
                return {(): value} if value else {}
            case Apply("add", (a, b)):
                return added(self.of(a, env), self.of(b, env))
            case Apply("sub", (a, b)):
                return added(self.of(a, env), scaled(self.of(b, env), -ONE))
            case Apply("neg", (a,)):
                return scaled(self.of(a, env), -ONE)
            case Apply("times" | "had", (a, b)):
                return self.times(self.of(a, env), self.of(b, env), env)
            case Apply("prod", (a, b)):
                if () in (self.shape(a, env), self.shape(b, env)):
                    return self.times(self.of(a, env), self.of(b, env), env)
                return self.by(ProofRule.MATRICES, self.bilinear(self.chain, a, b, env))
            case Apply("inner", (a, b)) if (shape := self.shape(a, env)) and self.alike(
                shape, self.shape(b, env)
            ):
                return self.inner(shape[0], a, b, env)
            case Apply("div", (a, b)):
                return self.times(self.of(a, env), self.power(self.of(b, env), -ONE, env), env)
            case Apply("pow", (a, Num(k))) if k.denominator <= 2 and abs(k) <= 4:
                return self.power(self.of(a, env), k, env)
            case Apply("sqrt", (a,)):
                return self.power(self.of(a, env), Fraction(1, 2), env)
            case Apply("cos" | "sin" as op, (a,)) if len(angle := self.of(a, env)) <= MOST_ANGLES:
                made = of_sum(op, angle, partial(self.times, env=env), partial(self.circular, env))
                return self.by(ProofRule.ANGLES, made)
            case Apply("T", (a,)):
                return self.by(ProofRule.TRANSPOSES, self.linear(self.transposed, a, env))
            case Apply("sum", (a,)) if averages(self.card, a):
                return self.row_sum(a, env)
            case Apply("sum", (a,)) if len(shape := self.shape(a, env) or ()) == 1:
                return self.inner(shape[0], a, num(1), env)
            case Apply("sum", (a,)):
                return self.linear(self.row_sum, a, env)
            case Apply("mean", (a,)) if shape := self.shape(a, env):
                size = self.of(self.card.size_expr(shape[-1]), env)
                whole = self.of(Apply("sum", (a,)), env)
                return self.by(ProofRule.MEANS, self.times(whole, self.power(size, -ONE, env), env))
            case Pick(value, items):
                at = tuple(indexed(x) for x in items)
                made = self.linear(lambda x, env: self.picked(x, at, env), value, env)
                return self.by(ProofRule.ENTRIES, made)
            case Apply(op) if op in MEASURES and (known := self.measured(e, env)) != e:
                return self.of(known, env)
            case Bind("sum"):
                return self.by(ProofRule.SUMS, self.summed(e, env))
        return self.factor(self.opaque(e, env), env)

    def opaque(self, e: Expr, env: TypeEnv) -> Expr:
        """A formula that is not a sum or product, with its parts in their forms."""
        if isinstance(e, Ref):
            return rebuilt(e, [indexed(x) for x in e.index])
        if not isinstance(e, Apply):
            return e
        blind = compared(self.card, e)
        return rebuilt(e, [x if k in blind else self.settled(x, env) for k, x in enumerate(e.args)])

    def settled(self, e: Expr, env: TypeEnv) -> Expr:
        """A formula in its form, where that has as many rows and columns: ``M - M`` has not."""
        made = self.formula(self.of(e, env))
        return made if self.alike(self.shape(made, env), self.shape(e, env)) else e

    def alike(self, a: Shape | None, b: Shape | None) -> bool:
        """Whether two shapes are known, and the same."""
        return a is not None and b is not None and self.types.same_shape(a, b)

    def factor(self, e: Expr, env: TypeEnv) -> Form:
        """The form of a single factor."""
        key = canonical(e)
        self.originals.setdefault(key, e)
        self.shapes.setdefault(key, self.shape(e, env))
        return {((key, ONE),): ONE}

    def shape(self, e: Expr, env: TypeEnv) -> Shape | None:
        """The shape of a formula; None if its letters are out of place."""
        key = e, e.free <= env.ranges.keys()
        if key not in self.known:
            try:
                self.known[key] = self.types.of(e, env).shape
            except Mismatch:
                self.known[key] = None
        return self.known[key]

    def formula(self, form: Form) -> Expr:
        """A form as a formula, with its terms in a fixed order."""
        terms = sorted(form, key=lambda t: [(spelled(x), p) for x, p in t])
        parts = [self.product(((num(form[t]), ONE), *t) if form[t] != 1 or not t else t)
                 for t in terms]  # fmt: skip
        return reduce(lambda a, b: Apply("add", (a, b)), parts) if parts else num(0)

    def product(self, term: Term) -> Expr:
        """The factors of a term, multiplied entry by entry."""
        made = [self.originals.get(x, x) for x, p in term]
        parts = [x if p == 1 else Apply("pow", (x, Num(p)))
                 for x, (_, p) in zip(made, term, strict=True)]  # fmt: skip
        return entrywise_product(parts) if parts else num(1)

    # -- products ----------------------------------------------------------------------------------

    def times(self, a: Form, b: Form, env: TypeEnv) -> Form:
        """The entrywise product of two forms."""
        if len(a) * len(b) > MOST_TERMS:
            raise TooLarge
        out: Form = {}
        for x, m in a.items():
            for y, n in b.items():
                out = added(out, scaled(self.joined(x, y, env), m * n))
        return out

    def joined(self, x: Term, y: Term, env: TypeEnv) -> Form:
        """The product of two terms: a squared root is its radicand, sin² is 1 − cos²."""
        powers = dict(x)
        for factor, p in y:
            powers[factor] = powers.get(factor, Fraction(0)) + p
        roots = [f for f, p in powers.items() if p == 1 and isinstance(f, Apply)
                 and f.op in ("add", "sub")]  # fmt: skip
        for f in roots:
            del powers[f]
        sines = [f for f, p in powers.items() if squared_sine(f, p)]
        for sine in sines:
            self.used.add(ProofRule.CIRCLE)
            powers[sine] -= 2
        plain: Form = {ordered((f, p) for f, p in powers.items() if p): ONE}
        for sine in sines:
            cos = self.factor(Apply("cos", self.originals.get(sine, sine).children), env)
            square = self.times(cos, cos, env)
            plain = self.times(plain, added({(): ONE}, scaled(square, -ONE)), env)
        for f in roots:
            plain = self.times(plain, self.of(self.originals.get(f, f), env), env)
        return plain

    def power(self, form: Form, p: Fraction, env: TypeEnv) -> Form:
        """A form to a power; for a single term factor by factor, if none of them has a sign."""
        self.used.add(ProofRule.POWERS)
        if p.denominator == 1 and p > 0 and len(form) <= 6:
            return reduce(lambda a, b: self.times(a, b, env), [form] * int(p))
        common, rest = content(form)
        ((term, c),) = common.items()
        root = rational_power(c, p)
        if root is None:
            term, root, rest = (), ONE, form
        if len(rest) == 1:
            ((inner, k),) = rest.items()
            scale = rational_power(k, p)
            if scale is not None and (p.denominator == 1 or not inner):
                both = (*term, *inner)
                return {ordered((x, q * p) for x, q in both): root * scale}
        made = self.factor(self.formula(rest), env)
        whole = {ordered((x, q * p) for x, q in t): k for t, k in made.items()}
        return self.times({ordered((x, q * p) for x, q in term): root}, whole, env)

    def circular(self, env: TypeEnv, op: str, angle: Form) -> Form:
        """The form of ``cos`` or ``sin`` of one term."""
        return self.factor(Apply(op, (self.formula(angle),)), env)

    def inner(self, size: Size, a: Expr, b: Expr, env: TypeEnv) -> Form:
        """The sum of all entries of the product of two vectors of this size."""
        return self.by(
            ProofRule.INNER, self.bilinear(partial(self.total, size), a, b, env, spread=True)
        )

    def bilinear(
        self, rule: Callable[[Expr, Expr, TypeEnv], Form], a: Expr, b: Expr, env: TypeEnv,
        spread: bool = False,
    ) -> Form:  # fmt: skip
        """A product of sums, term by term; ``spread`` where a number may stand for a vector."""
        out: Form = {}
        left = self.split(a, env, 0 if spread else 1)
        for outside, x in left:
            facts = averages(self.card, x)
            rows = 0 if spread or facts else 2
            right = self.split(b, env, rows)
            if len(left) * len(right) > MOST_TERMS:
                raise TooLarge
            for other, y in right:
                row = facts and len(self.shape(y, env) or ()) < len(self.shape(b, env) or ())
                scalars = self.times(outside, other, env)
                if row:  # the average of equal rows
                    self.used.update(facts)
                made = self.of(y, env) if row else rule(x, y, env)
                out = added(out, self.times(scalars, made, env))
        return out

    def linear(
        self, rule: Callable[[Expr, TypeEnv], Form], a: Expr, env: TypeEnv
    ) -> Form:  # fmt: skip
        """A linear operation on a sum, term by term."""
        out: Form = {}
        for outside, x in self.split(a, env):
            out = added(out, self.times(outside, rule(x, env), env))
        return out

    def split(self, e: Expr, env: TypeEnv, least: int = 2) -> list[tuple[Form, Expr]]:
        """A formula's terms: the numbers in each, and the rest; one term where shapes differ.

        A term may have fewer axes than the formula, if it has at least ``least``, and these are the
        formula's last. A column that stands for a whole matrix, or one number for a vector, is not
        a term: its sum is another.
        """
        form, shape = self.of(e, env), self.shape(e, env)
        out: list[tuple[Form, Expr]] = []
        for term, c in form.items():
            numbers = tuple((x, p) for x, p in term if self.shapes.get(x, ()) == ())
            body = self.product(tuple((x, p) for x, p in term if self.shapes.get(x, ()) != ()))
            own = self.shape(body, env)
            if (
                own is None
                or shape is None
                or not (
                    self.alike(own, shape)
                    or (len(own) >= least and self.alike(own, shape[len(shape) - len(own) :]))
                )
            ):
                return [({(): ONE}, self.settled(e, env))]
            out.append(({numbers: c}, body))
        return out

    def row_sum(self, e: Expr, env: TypeEnv) -> Form:
        """The sum of each row."""
        if facts := averages(self.card, e):
            self.used.update(facts)
            return {(): ONE}
        return self.factor(Apply("sum", (e,)), env)

    def chain(self, a: Expr, b: Expr, env: TypeEnv) -> Form:
        """A product of matrices without brackets, distributed over the sums in it."""
        factors = [*self.factors(a, -1, env), *self.factors(b, 0, env)]
        for k, x in enumerate(factors):
            others = factors[:k] + factors[k + 1 :]
            if isinstance(x, Bind) and x.op == "sum" and all(x.index not in y.free for y in others):
                factors[k] = x.body
                return self.of(x.over([*(x.ranges or ()), matrix_product(factors)]), env)
        return self.factor(matrix_product(factors), env)

    def factors(self, e: Expr, side: int, env: TypeEnv) -> list[Expr]:
        """The factors of a product, if the one at ``side`` is a matrix; else the product."""
        if isinstance(e, Apply) and e.op == "prod":
            inner = [*self.factors(e.args[0], -1, env), *self.factors(e.args[1], 0, env)]
            if len(self.shape(inner[side], env) or ()) == 2:
                return inner
        return [e]

    def total(self, size: Size, u: Expr, v: Expr, env: TypeEnv) -> Form:
        """The sum of all entries of a product of vectors: ``<u, M v>`` is ``<u M, v>``."""
        parts = sorted((*entrywise(u), *entrywise(v)), key=spelled)
        if not parts:
            return self.of(self.card.size_expr(size), env)
        for k, x in enumerate(parts):
            found = self.factors(x, 0, env)
            if len(parts) == 2 and len(found) > 1 and self.is_vector(found[-1], env):
                left = matrix_product([parts[1 - k], *found[:-1]])
                return self.of(Apply("inner", (left, found[-1])), env)
        *others, last = parts
        if not others:
            return self.row_sum(last, env)
        return self.factor(Apply("inner", (entrywise_product(others), last)), env)

    def is_vector(self, e: Expr, env: TypeEnv) -> bool:
        """Whether a formula has one axis."""
        return len(self.shape(e, env) or ()) == 1

    def transposed(self, e: Expr, env: TypeEnv) -> Form:
        """The transpose of a product: that of its factors in reverse order."""
        if isinstance(e, Apply) and e.op == "T":
            return self.of(e.args[0], env)
        if isinstance(e, Apply) and e.op == "prod" and len(self.shape(e, env) or ()) == 2:
            a, b = e.args
            if all(len(self.shape(x, env) or ()) == 2 for x in e.args):
                return self.of(Apply("prod", (Apply("T", (b,)), Apply("T", (a,)))), env)
        if isinstance(e, Bind) and e.op == "sum":
            return self.of(e.over([*(e.ranges or ()), Apply("T", (e.body,))]), env)
        return self.factor(Apply("T", (e,)), env)

    def picked(self, e: Expr, items: tuple[Expr, ...], env: TypeEnv) -> Form:
        """A row of a product, by the row of its first factor; an entry, as an inner product."""
        free = frozenset[str]().union(*(x.free for x in items))
        slices = any(isinstance(x, Slice) for x in items)
        entries = not slices and all(self.shape(x, env) == () for x in items)
        match e:
            case Table(ranges, body) if len(ranges) == len(items) and entries:
                letters = dict(zip(e.bound, items, strict=True))
                return self.of(substitute(body, letters=letters), env)
            case Apply("T", (a,)) if not slices:
                return self.of(Pick(a, items[::-1] if len(items) == 2 else (ALL, *items)), env)
            case Apply("prod"):
                first, *rest = self.factors(e, 0, env)
                axes = len(self.shape(e, env) or ())
                if (rest and axes == 2 and len(self.shape(first, env) or ()) == 2
                        and items[0] != ALL and (entries or len(items) == 1)):  # fmt: skip
                    row = Pick(first, items[:1])
                    if len(items) == 1:
                        return self.of(matrix_product([row, *rest]), env)
                    left = matrix_product([row, *rest[:-1]])
                    return self.of(Apply("inner", (left, Pick(rest[-1], (ALL, items[1])))), env)
            case Pick(a, (at,)) if len(items) == 1 and self.is_vector(at, env):
                return self.of(Pick(a, (Pick(at, items),)), env)
            case Apply("had", (a, b)):
                if all(self.alike(self.shape(x, env), self.shape(e, env)) for x in (a, b)):
                    x, y = (self.of(Pick(s, items), env) for s in (a, b))
                    return self.times(x, y, env)
            case Bind("sum") if e.index not in free:
                return self.of(e.over([*(e.ranges or ()), Pick(e.body, items)]), env)
        return self.factor(Pick(e, items), env)

    def measured(self, e: Expr, env: TypeEnv) -> Expr:
        """A formula with sizes for ``rows(x)`` and the like, which functions written out have."""

        def rule(x: Expr) -> Expr | None:
            if not (isinstance(x, Apply) and x.op in MEASURES):
                return None
            shape = self.shape(x.args[0], env)
            return self.card.size_expr(shape[-1 if x.op == "cols" else 0]) if shape else None

        return transform(e, rule)

    # -- sums over letters -------------------------------------------------------------------------

    def summed(self, e: Bind, env: TypeEnv) -> Form:
        """A sum term by term, with constant factors outside, and telescoped."""
        bounds = e.ranges or self.card.ranges.get(e.index)
        if bounds is None:
            return self.factor(e, env)
        lower, upper = (self.measured(x, env) for x in bounds)
        e = Bind("sum", e.index, lower, upper, e.body)
        try:
            inner = self.types.inside(e, env)
        except Mismatch:  # its range is no size here
            return self.factor(e, env)
        out: Form = {}
        for term, c in self.of(e.body, inner).items():
            fixed = tuple((x, p) for x, p in term if e.index not in x.free)
            rest = tuple((x, p) for x, p in term if e.index in x.free)
            if rest:
                body = self.product(rest)
                made = self.shifted(Bind("sum", e.index, lower, upper, body), env)
            else:
                made = self.of(Apply("add", (Apply("sub", (upper, lower)), num(1))), env)
            out = added(out, self.times({fixed: c}, made, env))
        return out

    def shifted(self, e: Bind, env: TypeEnv) -> Form:
        """``sum_{i=1}^N x^{i-1}`` as ``x^0 + sum_{i=1}^N x^i - x^N``."""
        assert e.lower is not None and e.upper is not None
        by = greatest_offset(e.body, e.index)
        if not by or abs(by) > 3:
            return self.factor(e, env)

        def at(place: Expr) -> Form:
            return self.of(replaced_letter(e.body, e.index, place), env)

        self.used.add(ProofRule.TELESCOPE)
        body = replaced_letter(e.body, e.index, moved(Idx(e.index), -by))
        out = self.factor(Bind("sum", e.index, e.lower, e.upper, body), env)
        for k in range(abs(by)):  # what comes in at one end, and goes out at the other
            start = k if by < 0 else k - by
            out = added(out, scaled(at(moved(e.lower, start)), ONE if by < 0 else -ONE))
            out = added(out, scaled(at(moved(e.upper, start + 1)), -ONE if by < 0 else ONE))
        return out


__all__ = ["NormalForms", "TooLarge"]
