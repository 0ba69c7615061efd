"""Small changes of one equation: how a card may differ from the model that it describes.

They are the changes in mistakes.md: another function, another ε, a norm, a bias, a residual
connection. `repairs` tries them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations

from viete.analysis.shapes import shapes_of
from viete.analysis.types import Mismatch, Type
from viete.errors import VieteError
from viete.graph.card import CardData, Equation
from viete.graph.matching import Admits, Match, put
from viete.graph.rules import Rule, rules, scope
from viete.graph.sizes import Size
from viete.library.functions import Function, behind, library, second_names
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Num,
    Pick,
    Ref,
    Slice,
    num,
    rebuilt,
    refs,
    transform,
    walk,
)

MASKS = ("causal", "window", "visible")
EPSILONS = ("1e-5", "1e-6", "1e-8", "1e-12", "0")
Path = tuple[int, ...]  # to a part of a formula: the children on the way
Tensor = tuple[Ref, tuple[int, ...]]  # of the file, and its shape


@dataclass(frozen=True)
class Change:
    """One change of one equation, to the part of its right side at ``site``.

    ``uses`` are the tensors of the file that it takes, ``small`` says that it is worth combining.
    """

    equation: int
    site: Path
    says: str
    make: Callable[[Expr], Expr]
    uses: frozenset[str] = frozenset()
    small: bool = True


class Changes:
    """The changes of a model's equations; ``extra`` are tensors that only the file has.

    ``sizes`` gives the numbers of all dimensions and lengths.
    """

    def __init__(
        self, card: CardData, sizes: Mapping[str, Fraction], extra: Sequence[Tensor]
    ) -> None:
        self.model, self.sizes, self.extra = card, sizes, extra
        self.shapes = shapes_of(card)
        self.rules = [rule.among(card.hidden) for rule in rules("model", "mistakes.md")]
        self.admits: Admits = {
            "s": lambda e: isinstance(e, Expr) and self.shape(e) == (),
            "v": lambda e: isinstance(e, Ref) and e.symbol.kind == "value",
            "W": lambda e: isinstance(e, Ref) and e.symbol.kind == "parameter" and self.square(e),
            "A": lambda e: isinstance(e, Expr) and len(self.shape(e) or ()) == 2,
            "z": lambda e: isinstance(e, Expr) and card.library_name(e) not in MASKS,
        }

    def of(self, k: int, right: Expr, equation: Equation) -> Iterator[Change]:
        """The possible changes of the k-th equation."""
        functions = self.model.function
        for site, e in parts(right):
            match e:
                case Apply(op) if op in functions or op == "tanh":
                    yield from self.other_functions(k, site, e)
                    if op in functions:
                        yield from self.other_epsilons(k, site, e, functions[op])
                case Apply("prod", (a, b)) if isinstance(b, Ref) and b.symbol.kind == "parameter":
                    yield from self.added(k, site, e, f"{show(e)}")
                    if isinstance(a, Ref) and a.symbol.kind == "value":
                        yield from self.normed(k, (*site, 0), a)
                case Bind("sum"):
                    yield from self.added(k, site, e, show(e))
            yield from self.by_rule(k, site, e)
        yield from self.normed(k, (), right)
        if not (isinstance(right, Apply) and right.op == "prod"):
            yield from self.added(k, (), right, "the right side")
        yield from self.residuals(k, right, equation)

    def type(self, e: Expr) -> Type | None:
        """The type of a sub-expression; None where it has no type by itself."""
        try:
            return self.shapes.of(e)
        except (Mismatch, VieteError, KeyError):
            return None

    def shape(self, e: Expr) -> tuple[int, ...] | None:
        """The shape of a sub-expression here, as numbers."""
        found = self.type(e)
        try:
            return found and tuple(int(s.evaluate(self.sizes)) for s in found.shape)  # type: ignore[return-value]
        except (KeyError, ZeroDivisionError):
            return None

    def by_rule(self, k: int, site: Path, e: Expr) -> Iterator[Change]:
        """The changes that the rules of mistakes.md give for one part of a formula."""
        for rule in self.rules:
            fit = rule.fits(e, self.model.function, self.admits)
            if fit is not None:
                yield self.ruled(k, site, rule, fit)

    def ruled(self, k: int, site: Path, rule: Rule, fit: Match) -> Change:
        """The change by a rule to a part that it fits; another change may have changed the part."""

        def put_in(formula: Expr, found: Match) -> Expr:
            return put(transform(formula, lambda x: self.width(x, fit)), found)

        def make(x: Expr) -> Expr:
            return put_in(rule.formulas[0][1], rule.fits(x, self.model.function, {}) or fit)

        def formula(m: re.Match[str]) -> str:
            return show(put_in(parse(m[1], scope()), fit))

        return Change(k, site, re.sub(r"\$(.+?)\$", formula, rule.meaning), make)

    def width(self, x: Expr, fit: Match) -> Expr | None:
        """The ``cols(A)`` of a rule, as the name of a dimension."""
        if not isinstance(x, Apply) or x.op != "cols":
            return None
        found = self.type(put(x.args[0], fit))
        return None if found is None else self.dimension(found.shape[-1])

    def square(self, e: Expr) -> bool:
        """Whether an expression is a square matrix."""
        found = self.shape(e) or ()
        return len(found) == 2 and found[0] == found[1]

    def dimension(self, size: Size) -> Expr:
        """A size as the name of a dimension that equals it, else as a number."""
        same = (d for d in self.model.dims if self.shapes.same(Size.of(d.name), size))
        found = next(same, None)
        return num(size.evaluate(self.sizes)) if found is None else Ref(found.symbol)

    def residuals(self, k: int, right: Expr, equation: Equation) -> Iterator[Change]:
        """Additions of a value of the same shape as the right side, from the equations nearby."""
        t = self.shape(right)
        near = (e for e in self.model.equations if t and e.loop == equation.loop)
        there = (x for e in near for x in refs(e.right))
        terms = {equation.left, *walk(right)}
        for ref in dict.fromkeys(r for r in there if r.symbol.kind == "value"):
            if len(t or ()) == 2 and ref not in terms and self.shape(ref) == t:
                add = lambda x, ref=ref: Apply("add", (ref, x))  # noqa: E731
                yield Change(k, (), f"{show(ref)} is added to the right side", add, small=False)

    def other_functions(self, k: int, site: Path, e: Apply) -> Iterator[Change]:
        """Each other function of the same signature instead of this one, and no function."""
        table = self.model.function
        twice = second_names().keys() - set(map(behind, self.model.hidden))  # those not hidden
        one = [(0, False)]
        forms = {n: [(len(a.pattern), a.default is not None) for a in f.arguments]
                 for n, f in table.items()}  # fmt: skip
        form = one if e.op == "tanh" else forms[e.op]
        others = [n for n, other in forms.items() if other == form and n not in twice]
        for name in (*others, *(["tanh"] if form == one else [])):
            if name != e.op:
                swap = lambda x, name=name: replace(x, op=name)  # noqa: E731
                yield Change(k, site, f"{e.op} is {name}", swap)
        if len(e.args) == 1:
            yield Change(k, site, f"without {e.op}", first)

    def other_epsilons(self, k: int, site: Path, e: Apply, f: Function) -> Iterator[Change]:
        """The norm with each other ε."""
        place = next((j for j, a in enumerate(f.arguments) if a.symbol.key == "epsilon"), None)
        if place is None:
            return
        for text in EPSILONS:
            args = list(e.args[:place])
            if any(a.default is None for a in f.arguments[len(args) : place]):
                return
            args += [a.default for a in f.arguments[len(args) : place] if a.default is not None]
            value = Num(Fraction(text))

            def set_it(x: Expr, rest: tuple[Expr, ...] = tuple(args[len(e.args) :]),
                       value: Num = value) -> Expr:  # fmt: skip
                assert isinstance(x, Apply)
                return replace(x, args=(*x.args[:place], *rest, value), semi=x.semi or 1)

            if e.args[place:] != (value,):
                yield Change(k, site, f"{e.op} has ε = {text}", set_it, small=False)

    def added(self, k: int, site: Path, e: Expr, what: str) -> Iterator[Change]:
        """Additions of a vector of the file to each row, or of a matrix's first rows."""
        t = self.shape(e)
        for ref, shape in self.extra if t else ():
            term: Expr = ref
            if len(shape) == 2 and len(t or ()) == 2 and shape[0] >= t[0]:  # type: ignore[index]
                term = Pick(ref, (Slice(None, Num(Fraction(t[0]))),))  # type: ignore[index]
                shape = (t[0], shape[1])  # type: ignore[index]
            if t is not None and shape == t[len(t) - len(shape) :]:
                add = lambda x, term=term: Apply("add", (x, term))  # noqa: E731
                says = f"{show(term)} is added to {what}"
                yield Change(k, site, says, add, frozenset((ref.key,)))

    def normed(self, k: int, site: Path, e: Expr) -> Iterator[Change]:
        """Norms around a value, with one or two vectors of the file that the card lacks."""
        t = self.shape(e)
        if not t:
            return
        fits = [ref for ref, shape in self.extra if shape == t[-1:]]
        for op, count in (("LN", 2), ("LN", 1), ("RMSNorm", 1)):
            f = library()[op]
            for vectors in permutations(fits, count):
                for text in ("1e-5", "1e-6", "0"):
                    fill = [a.default for a in f.arguments[1 + count : -1] if a.default is not None]
                    rest = (*vectors, *fill, Num(Fraction(text)))
                    what = show(e) if site else "the right side"
                    says = f"{what} goes through {op}(…; {', '.join(map(show, rest))})"
                    wrap = lambda x, op=op, rest=rest: self.model.library(op, x, *rest)  # noqa: E731
                    uses = frozenset(r.key for r in vectors)
                    yield Change(k, site, says, wrap, uses, small=False)


def first(e: Expr) -> Expr:
    """The first argument of a function call, without the call."""
    assert isinstance(e, Apply)
    return e.args[0]


def parts(e: Expr, site: Path = ()) -> Iterator[tuple[Path, Expr]]:
    """All parts of a formula, itself first, each with the path to it."""
    yield site, e
    for k, x in enumerate(e.children):
        yield from parts(x, (*site, k))


def apply(right_sides: Sequence[Expr], chosen: Sequence[Change]) -> dict[int, Expr]:
    """The right sides that the chosen changes affect, by the number of the equation."""
    out = {}
    for k in dict.fromkeys(c.equation for c in chosen):
        here = {c.site: c.make for c in chosen if c.equation == k}

        def changed(x: Expr, site: Path, here: dict[Path, Callable[[Expr], Expr]] = here) -> Expr:
            x = rebuilt(x, [changed(y, (*site, n), here) for n, y in enumerate(x.children)])
            return here[site](x) if site in here else x

        out[k] = changed(right_sides[k], ())
    return out
