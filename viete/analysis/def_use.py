"""Def-use: every reference of an equation, traced to the equations that define the value.

This is the forward pass as a graph, for drawing, describing and scheduling it. Loops stay loops: a
reference to an earlier turn goes *around* the loop; every other reference goes down the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from viete.analysis.shapes import shapes_of
from viete.graph.card import CardData, memoised
from viete.graph.dependence import functions_called, reachable, reaching_definitions
from viete.graph.sizes import Size
from viete.library.functions import Function
from viete.notation.tree import Apply, Bind, Expr, Num, Ref, walk

LOSSES = ("cross_entropy", "weighted_loss")
OF_TARGETS = (*LOSSES, "has_target", "onehot")


@dataclass(frozen=True)
class Use:
    """Equation ``reader`` refers to ``ref``, which equation ``maker`` makes (None: an input).

    ``around``: the value is of an earlier turn of the loop around both. ``added``: the reader adds
    it to something computed from it, as in x + f(x): a residual connection.
    """

    reader: int
    ref: Ref
    maker: int | None
    around: bool = False
    added: bool = False


@memoised
def def_use(card: CardData) -> DefUse:
    """The card's `DefUse`."""
    return DefUse(card)


class DefUse:
    """The graph of a card's forward pass; equations are named by their positions."""

    def __init__(self, card: CardData) -> None:
        self.model, self.shapes = card, shapes_of(card)
        self.definitions = reaching_definitions(card)
        self.by_name = self.definitions.by_name
        self.slices: dict[int, frozenset[int]] = {}
        self.references = [tuple(references(e.right)) for e in card.equations]
        # What each equation adds to something computed from it.
        self.residuals = [self.residual_terms(k) for k in range(len(card.equations))]
        self.all: list[Use] = []
        for k, equation in enumerate(card.equations):
            added = self.residuals[k]
            named = [ref for ref, _ in self.references[k]]
            terms = [lone(term) for total in sums(equation.right) for term in total]
            seen: set[tuple[Ref, int | None, bool]] = set()
            for ref, bound in self.references[k]:
                makers: list[tuple[int | None, bool]] = [*self.definitions.of(k, ref, bound)]
                for maker, around in [(None, False)] if ref.symbol.kind == "input" else makers:
                    if (ref, maker, around) not in seen:
                        seen.add((ref, maker, around))
                        if ref not in added or named.count(ref) > terms.count(ref):
                            self.all.append(Use(k, ref, maker, around))
                        if ref in added:  # in x + f(x) it is both
                            self.all.append(Use(k, ref, maker, around, True))

    # -- residual connections ----------------------------------------------------------------------

    def residual_terms(self, k: int) -> frozenset[Ref]:
        """The values that equation k adds to something computed from them."""
        found = set[Ref]()
        for terms in sums(self.model.equations[k].right):
            for term in terms:
                ref = lone(term)
                others = [t for t in terms if t is not term and t != ref]
                if ref is not None and any(self.comes_from(k, t, ref) for t in others):
                    found.add(ref)
        return frozenset(found)

    def comes_from(self, k: int, e: Expr, target: Ref) -> bool:
        """Whether ``e``, a formula of equation k, needs ``target`` of the same turn of the loop."""
        equations = self.model.equations
        home, lettered = equations[k].loop, not target.free.isdisjoint(self.model.loop_letters)

        def read(use: tuple[int, Ref, frozenset[str]]) -> Iterator[tuple[int, Ref, frozenset[str]]]:
            for j, around in self.definitions.of(*use):
                if not (around and home is not None and equations[j].loop == home):
                    yield from ((j, *found) for found in self.references[j])

        uses = reachable(((k, *found) for found in references(e)), read)
        return any(ref == target and (not lettered or equations[j].loop == home)
                   for j, ref, _ in uses)  # fmt: skip

    # -- the graph ---------------------------------------------------------------------------------

    def backward_slice(self, k: int) -> frozenset[int]:
        """The equations that equation k needs, directly or not, including itself."""
        if k not in self.slices:
            self.slices[k] = frozenset(reachable([k], lambda j: self.makers[j]))
        return self.slices[k]

    def inputs_of(self, k: int) -> set[str]:
        """The inputs that equation k depends on, directly or not."""
        needed = self.backward_slice(k)
        return {u.ref.key for u in self.all if u.maker is None and u.reader in needed}

    @cached_property
    def makers(self) -> dict[int, set[int]]:
        """For each equation, those that make the values it uses."""
        out: dict[int, set[int]] = {k: set() for k in range(len(self.model.equations))}
        for use in self.all:
            if use.maker is not None:
                out[use.reader].add(use.maker)
        return out

    @cached_property
    def readers(self) -> dict[int, set[int]]:
        """For each equation, those that use its value."""
        out: dict[int, set[int]] = {k: set() for k in range(len(self.model.equations))}
        for use in self.all:
            if use.maker is not None:
                out[use.maker].add(use.reader)
        return out

    def is_end(self, k: int) -> bool:
        """Whether nothing uses the value of equation k."""
        return not self.readers[k] - {k}

    def is_verdict(self, k: int) -> bool:
        """Whether equation k is an end with one number or integers: a loss, a prediction."""
        t = self.shapes.types[self.model.equations[k].name]
        return self.is_end(k) and (t.kind == "int" or not (t.shape or t.family))

    def is_output(self, k: int) -> bool:
        """Whether only verdicts read the value of equation k."""
        return all(self.is_verdict(j) for j in self.readers[k] - {k})

    @cached_property
    def parameters(self) -> dict[str, list[int]]:
        """For each parameter, the equations that use it."""
        out: dict[str, list[int]] = {p.name: [] for p in self.model.parameters}
        for k, equation in enumerate(self.model.equations):
            for key in dict.fromkeys(r.key for r, _ in references(equation.right)):
                if key in out:
                    out[key].append(k)
        return out

    @cached_property
    def parts(self) -> list[list[int]]:
        """Equations under one title in one loop; an equation without a title is a single part."""
        out: list[list[int]] = []
        for k, equation in enumerate(self.model.equations):
            last = self.model.equations[k - 1] if k else None
            if last and equation.part and (last.part, last.loop) == (equation.part, equation.loop):
                out[-1].append(k)
            else:
                out.append([k])
        return out


def references(
    e: Expr, bound: frozenset[str] = frozenset()
) -> Iterator[tuple[Ref, frozenset[str]]]:
    """All names in a formula, in reading order, with the letters bound around each."""
    if isinstance(e, Ref):
        yield e, bound
    inner = bound | {e.index} if isinstance(e, Bind) else bound
    for child in e.children:
        yield from references(child, inner)


def called(card: CardData, e: Expr) -> list[Function]:
    """The named functions that a formula calls, each once."""
    names = dict.fromkeys(x.op for x in walk(e) if isinstance(x, Apply) and x.op in card.function)
    return [card.function[name] for name in names]


def bodies(card: CardData, e: Expr) -> Iterator[Expr]:
    """A formula, and the definition of every function that it calls, directly or not."""
    yield e
    yield from (card.function[name].body for name in functions_called(card.function, [e]))


def sums(e: Expr) -> Iterator[list[Expr]]:
    """The terms of every sum in a formula."""
    if isinstance(e, Apply) and e.op == "add":
        terms, waiting = list[Expr](), [e.args[1], e.args[0]]
        while waiting:
            x = waiting.pop()
            if isinstance(x, Apply) and x.op == "add":
                waiting += [x.args[1], x.args[0]]
            else:
                terms.append(x)
        yield terms
        for term in terms:
            yield from sums(term)
        return
    for child in e.children:
        yield from sums(child)


def lone(term: Expr) -> Ref | None:
    """The value x of a term that is x or a multiple of x, as a residual connection adds it."""
    while True:
        match term:
            case Ref() if term.symbol.kind == "value":
                return term
            case Apply("neg", (x,)) | Apply("div", (x, Num())):
                term = x
            case Apply("times" | "prod" | "had", (a, b)) if a.constant or b.constant:
                term = b if a.constant else a
            case _:
                return None


def losses(card: CardData, e: Expr) -> list[Apply]:
    """The cross-entropies in an expression, unless the card defines that name differently."""
    return [x for x in walk(e) if isinstance(x, Apply) and card.library_name(x) in LOSSES]


def may_lack_targets(card: CardData) -> frozenset[str]:
    """The inputs that may be -100 by their range, whatever reads them."""
    return frozenset(
        i.name for i in card.inputs if i.low is not None and card.size(i.low) == Size.of(-100)
    )


def targets(card: CardData) -> frozenset[str]:
    """The inputs that are only targets of a loss, and may be -100 by their range.

    As in PyTorch, -100 means no target. With ``y ∈ {0, …, V - 1}^n`` every position has a target.
    """
    inputs = may_lack_targets(card)
    found, elsewhere = set[str](), set[str]()

    def go(e: Expr) -> None:
        if isinstance(e, Ref) and e.key in inputs:
            elsewhere.add(e.key)
        place, named = -1, card.library_name(e)
        if named in OF_TARGETS:
            place = 1 if named in LOSSES else 0
        for k, x in enumerate(e.children):
            if k == place and isinstance(x, Ref):
                found.add(x.key)
            else:
                go(x)

    for equation in card.equations:
        go(equation.right)
    return frozenset((found & inputs) - elsewhere)
