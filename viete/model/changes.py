"""Small changes of one equation: what a card may have otherwise than the model it describes.

Another function, another ε, no norm, no bias, a forgotten residual, scale or mask, a transposed
square matrix. `repairs` tries them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations

from viete.analysis.shapes import shapes_of
from viete.analysis.types import Mismatch, Type
from viete.errors import VieteError
from viete.graph.card import CardData, Equation
from viete.graph.sizes import Size
from viete.library.functions import Function, behind, library, second_names
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Num, Pick, Ref, Slice, num, transform, walk

EPSILONS = ("1e-5", "1e-6", "1e-8", "1e-12", "0")
Site = tuple[int, int]
Tensor = tuple[Ref, tuple[int, ...]]  # of the file, and its shape


@dataclass(frozen=True)
class Change:
    """One change of one equation, at the node that carries the mark ``site``.

    ``uses`` are tensors of the file that it takes, ``small`` says that it is worth combining.
    """

    equation: int
    site: Site
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

    def of(self, k: int, right: Expr, equation: Equation) -> Iterator[Change]:
        """What may be otherwise in the k-th of some equations, whose nodes are marked."""
        functions = self.model.function
        for e in walk(right):
            site = e.at or (0, 0)
            match e:
                case Apply(op, args) if op in functions or op == "tanh":
                    yield from self.other_functions(k, site, e)
                    if op in functions:
                        yield from self.other_epsilons(k, site, e, functions[op])
                    if self.model.library_name(e) == "softmax" and not self.hides(args[0]):
                        hide = lambda x: replace(  # noqa: E731
                            x, args=(self.model.library("causal", *x.args, semi=0),)
                        )
                        yield Change(k, site, "the scores are causal", hide)
                case Apply("prod", (a, b)) if isinstance(b, Ref) and b.symbol.kind == "parameter":
                    yield from self.added(k, site, e, f"{show(plain(e))}")
                    if isinstance(a, Ref) and a.symbol.kind == "value":
                        yield from self.normed(k, a.at or (0, 0), a)
                case Apply("prod", (a, Apply("T"))):
                    yield from self.scaled(k, site, e, a)
                case Bind("sum"):
                    yield from self.added(k, site, e, show(plain(e)))
                case Apply("div" | "times", (a, b)) if (t := self.shape(b)) is not None and not t:
                    sign = "/" if e.op == "div" else "*"
                    yield Change(k, site, f"without {sign} {show(plain(b))}", first)
                case Apply("add", (a, Ref() as b)) if b.symbol.kind == "value":
                    yield Change(k, site, f"without + {show(plain(b))}", first)
                case Ref() if e.symbol.kind == "parameter":
                    t = self.shape(e)
                    if t is not None and len(t) == 2 and t[0] == t[1]:
                        turn = lambda x: Apply("T", (x,))  # noqa: E731
                        yield Change(k, site, f"{show(plain(e))} is transposed", turn)
        if right.at is not None:
            yield from self.normed(k, right.at, right)
            if not (isinstance(right, Apply) and right.op == "prod"):
                yield from self.added(k, right.at, right, "the right side")
            yield from self.residuals(k, right.at, right, equation)

    def type(self, e: Expr) -> Type | None:
        """The type of a sub-expression, where it has one by itself."""
        try:
            return self.shapes.of(plain(e))
        except (Mismatch, VieteError, KeyError):
            return None

    def shape(self, e: Expr) -> tuple[int, ...] | None:
        """The shape of a sub-expression here, in numbers."""
        found = self.type(e)
        try:
            return found and tuple(int(s.evaluate(self.sizes)) for s in found.shape)  # type: ignore[return-value]
        except (KeyError, ZeroDivisionError):
            return None

    def scaled(self, k: int, site: Site, e: Expr, left: Expr) -> Iterator[Change]:
        """Scores divided by the root of what their product sums over."""
        found = self.type(left)
        if found is None or len(found.shape) != 2:
            return
        root = Apply("sqrt", (self.dimension(found.shape[-1]),))
        says = f"{show(plain(e))} is divided by {show(root)}"
        yield Change(k, site, says, lambda x: Apply("div", (x, root)))

    def dimension(self, size: Size) -> Expr:
        """A size by the name of a dimension that equals it, else as the number that it is."""
        same = (d for d in self.model.dims if self.shapes.same(Size.of(d.name), size))
        found = next(same, None)
        return num(size.evaluate(self.sizes)) if found is None else Ref(found.symbol)

    def residuals(self, k: int, site: Site, right: Expr, equation: Equation) -> Iterator[Change]:
        """A value of the same shape that the equations around this one read is added to it."""
        t = self.shape(right)
        near = (e for e in self.model.equations if t and e.loop == equation.loop)
        there = (x for e in near for x in walk(plain(e.right)) if isinstance(x, Ref))
        terms = {equation.left, *walk(plain(right))}
        for ref in dict.fromkeys(r for r in there if r.symbol.kind == "value"):
            if len(t or ()) == 2 and ref not in terms and self.shape(ref) == t:
                add = lambda x, ref=ref: Apply("add", (ref, x))  # noqa: E731
                yield Change(k, site, f"{show(ref)} is added to the right side", add, small=False)

    def other_functions(self, k: int, site: Site, e: Apply) -> Iterator[Change]:
        """Every other function of the same signature, and none at all."""
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

    def other_epsilons(self, k: int, site: Site, e: Apply, f: Function) -> Iterator[Change]:
        """The norm with another ε."""
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

    def added(self, k: int, site: Site, e: Expr, what: str) -> Iterator[Change]:
        """A vector of the file along the rows, or the first rows of a matrix (positions)."""
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

    def hides(self, e: Expr) -> bool:
        """Whether scores are masked already."""
        return self.model.library_name(e) in ("causal", "window", "visible")

    def normed(self, k: int, site: Site, e: Expr) -> Iterator[Change]:
        """A norm around a value, with one or two vectors of the file that the card lacks."""
        t = self.shape(e)
        if not t:
            return
        fits = [ref for ref, shape in self.extra if shape == t[-1:]]
        for op, count in (("LN", 2), ("LN", 1), ("RMSNorm", 1)):
            f = library()[op]
            for refs in permutations(fits, count):
                for text in ("1e-5", "1e-6", "0"):
                    fill = [a.default for a in f.arguments[1 + count : -1] if a.default is not None]
                    rest = (*refs, *fill, Num(Fraction(text)))
                    what = show(plain(e)) if e.at != (1, 1) else "the right side"
                    says = f"{what} goes through {op}(…; {', '.join(map(show, rest))})"
                    wrap = lambda x, op=op, rest=rest: self.model.library(op, x, *rest)  # noqa: E731
                    uses = frozenset(r.key for r in refs)
                    yield Change(k, site, says, wrap, uses, small=False)


def first(e: Expr) -> Expr:
    """The first argument in the place of the whole."""
    assert isinstance(e, Apply)
    return e.args[0]


def marked(e: Expr) -> Expr:
    """The expression with a mark of its own on every node, in place of where it was written."""
    count = [1]

    def mark(x: Expr) -> Expr:
        count[0] += 1
        return replace(x, at=(count[0], count[0]))

    return replace(transform(e, mark), at=(1, 1))


def plain(e: Expr) -> Expr:
    """The expression without marks."""
    return transform(e, lambda x: replace(x, at=None))


def apply(right_sides: Sequence[Expr], chosen: Sequence[Change]) -> dict[int, Expr]:
    """The changed ones among marked right sides, by their number."""
    out = {}
    for k in dict.fromkeys(c.equation for c in chosen):
        here = {c.site: c.make for c in chosen if c.equation == k}

        def rule(x: Expr, here: Mapping[Site, Callable[[Expr], Expr]] = here) -> Expr | None:
            return here[x.at](x) if x.at is not None and x.at in here else None

        out[k] = transform(right_sides[k], rule)
    return out


__all__ = ["Change", "Changes", "apply", "marked"]
