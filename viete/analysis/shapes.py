"""The shape of every value, in the card's own symbols.

A value is a scalar, a vector or a matrix over a family of indices: ``A^{i,h}`` is an n × n matrix
for every head h. Block letters do not appear in a type; head and position letters do.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import lru_cache

from viete.analysis.card_sizes import check_sizes
from viete.analysis.kinds import REAL, TRUTH, WHOLE
from viete.analysis.types import Letters, Mismatch, Shape, Type, TypeEnv, text
from viete.analysis.typing_rules import TypingRules
from viete.errors import Text
from viete.graph.card import CardData, Claim, Equation, memoised
from viete.graph.dependence import reaching_definitions
from viete.graph.opening import repeated
from viete.graph.operator import Operator
from viete.graph.sizes import ONE, Size
from viete.notation.printer import show
from viete.notation.tree import CALL, WITH, Apply, Expr, Idx, Ref, walk

MOST_OPERATIONS = 4_000  # of an equation written out, and of a function, whose calls nest
MOST_OF_FUNCTION = 1_000
MOST_TYPED = 2_000  # formulas of which the types are kept, for each of a few declarations


@memoised
def shapes_of(card: CardData) -> Shapes:
    """The type of every value, checked once; raises VieteError where one is wrong."""
    return Shapes(card)


@lru_cache(maxsize=128)
def typed(*declared: Hashable) -> dict[tuple[Hashable, ...], Type]:
    """The known types of equations and functions, by their declarations.

    Each is stored by the types of its parts: a rewriting leaves most of a card unchanged.
    """
    return {}


class Shapes(TypingRules):
    """Types of all equations of a model, checked on construction.

    ``types`` maps a value's key to its `Type`; ``of`` gives the type of any expression.
    """

    def __init__(self, card: CardData) -> None:
        super().__init__(card)
        check_sizes(card)
        check_inlined(card)
        self.computed: dict[int, Shape] = {}  # shape of each equation by its position
        ranges: dict[str, Size | None] = {
            i.name: self.count(i.lower, i.upper, i.text) for i in card.indices
        }
        first = {i.name: card.size(i.lower) for i in card.indices}
        for loop in card.loops:
            ranges.setdefault(loop.index, None)
            first.setdefault(loop.index, None)
        self.env = TypeEnv(ranges=ranges, first={k: v for k, v in first.items() if v is not None})
        loops = ((loop.index, loop.lower, loop.upper) for loop in card.loops)
        self.typed = typed(type(self).__name__, card.dims, card.indices, *loops, card.functions)
        for item in card.inputs:
            family = self.axis_letters(item.symbol.slots)
            found = Type(self.shape(item.shape, item.text), family)
            if item.low is not None and item.high is not None:
                low, high = (self.of(e).interval for e in (item.low, item.high))
                both = None if low is None or high is None else (low[0], high[1])
                found = replace(found, kind=WHOLE, interval=both)
            self.types[item.name] = found
        for parameter in card.parameters:
            shape = self.shape(parameter.shape, parameter.text)
            for size in shape:
                if lengths := size.names() & card.lengths.keys():
                    length = next(iter(lengths))
                    raise parameter.text.error(
                        f"{parameter.name} cannot have the size {length}, which is as long as the "
                        f"input; give it the greatest length as a dimension of its own and use its "
                        f"first rows, as in {parameter.symbol.base}[:{length}]"
                    )
            self.types[parameter.name] = Type(shape, self.axis_letters(parameter.symbol.slots))
        reaching_definitions(card).check()
        self.several: dict[str, Type] = {}  # what the equations that make one value have in common
        given, before = dict(self.types), None
        while before != (before := dict(self.several)):
            self.types = dict(given)
            for k, equation in enumerate(card.equations):
                self.equation(k, equation)
        self.settled = True
        self.derived: dict[str, Type] = {}
        for equation in card.derived:
            self.derived_equation(equation)
        for operator in card.operators:
            self.defined(operator)
        for claim in card.claims:
            if self.claimed(claim)[0].kind != TRUTH:
                raise claim.text.error("a claim needs a relation, such as = or ≤")

    # -- equations ---------------------------------------------------------------------------------

    def equation(self, k: int, equation: Equation) -> None:
        calls = (x for x in walk(equation.right) if isinstance(x, Apply) and x.op == CALL)
        if self.model.operators and (call := next(calls, None)):
            raise equation.text.error(
                f"{show(call)} applies a derived function; derived functions are for derived "
                "names, claims and questions, so write out its definition in this equation",
                *equation.text.place(call),
            )
        found = self.right_side(equation)
        declared = self.axis_letters(equation.left.symbol.slots)
        if extra := found.family - declared:
            letter = sorted(extra)[0]
            raise equation.text.error(
                f"the right side differs for every {letter}, so the left side needs the index "
                f"{letter} too, or the right side a sum or concat over {letter}",
                *equation.text.place(equation.right),
            )
        shape = tuple(map(self.simplest, found.shape))
        found = replace(found, shape=shape, family=declared, size=None)
        if equation.stated is not None:
            found = replace(found, shape=self.stated(equation, found.shape))
        self.computed[k] = found.shape
        earlier = self.types.get(equation.name)
        if earlier is not None:
            if not self.same_shape(earlier.shape, found.shape):
                raise equation.text.error(
                    f"{equation.name} has shape {text(found.shape)} here but "
                    f"{text(earlier.shape)} where it was first defined"
                )
            found = replace(found, shape=earlier.shape)
        self.types[equation.name] = self.in_common(equation, found, earlier)

    def right_side(self, equation: Equation) -> Type:
        """The type of a right side, from the types of the names in it."""
        e, letters = equation.right, frozenset(equation.left.symbol.slots)
        key = (e, letters, *map(self.types.get, e.keys))
        if key not in self.typed:
            if len(self.typed) > MOST_TYPED:
                self.typed.clear()
            self.typed[key] = self.located(equation.text, e, letters)
        return self.typed[key]

    def in_common(self, equation: Equation, found: Type, earlier: Type | None) -> Type:
        """The type of a value of several equations; a derivative is a real number."""
        if equation.left.symbol.base.startswith("partial{"):
            return replace(found, kind=REAL, interval=None)
        earlier = self.several.get(equation.name, earlier)
        if earlier is None or (found.kind, found.interval) == (earlier.kind, earlier.interval):
            return found if earlier is None else replace(found, interval=earlier.interval)
        kind = found.kind if found.kind == earlier.kind else REAL
        found = replace(found, kind=kind, interval=None)
        self.several[equation.name] = found
        return found

    def stated(self, equation: Equation, found: Shape) -> Shape:
        assert equation.stated is not None
        shape = self.shape(equation.stated, equation.stated_text)
        if len(shape) != len(found) or not all(map(self.same_number, shape, found)):
            raise equation.stated_text.error(
                f"the shape stated for {equation.name} is {text(shape)}, but its equation gives "
                f"{text(found)}"
            )
        return tuple(s if self.same(s, f) else f for s, f in zip(shape, found, strict=True))

    def derived_equation(self, equation: Equation) -> None:
        found = self.located(
            equation.text, equation.right, frozenset(equation.left.symbol.slots), loops=True
        )
        family = self.axis_letters(equation.left.symbol.slots) | found.family
        self.types[equation.name] = replace(found, family=family)

    def defined(self, operator: Operator) -> None:
        """Check that a function replaces a value of the card."""
        e = operator.definition
        if not (isinstance(e, Apply) and e.op == WITH):
            return
        source = operator.text
        for target in e.args[1::2]:
            if not isinstance(target, Ref) or target.key not in self.types:
                raise source.error(f"{show(target)} is not a value of the card, so nothing can "
                                   f"take its place", *source.place(target))  # fmt: skip

    def claimed(self, claim: Claim) -> tuple[Type, Letters]:
        """The type of a claim, and the ranges of its letters that the card does not declare."""
        env, own = self.asking(claim.implication)
        found = self.located(
            claim.text, claim.implication, claim.free & env.ranges.keys(), True, env
        )
        for letter, first, last in claim.ranges:
            if letter not in env.ranges and (start := self.model.size(first)) is not None:
                own.places.setdefault(letter, (start, self.count(first, last, claim.text)))
        self.check_letters(claim.text, claim.free - env.ranges.keys(), own)
        return found, own

    def asked(self, source: Text, e: Expr) -> tuple[Type, Letters]:
        """The type of a question, and the ranges of its undeclared letters.

        Raises VieteError where it has no type, or a letter has no range.
        """
        env, own = self.asking(e)
        found = self.located(source, e, e.free & env.ranges.keys(), True, env)
        self.check_letters(source, e.free - env.ranges.keys(), own)
        return found, own

    def asking(self, e: Expr) -> tuple[TypeEnv, Letters]:
        """The environment of a question or a claim, and its letters, whose ranges are filled in."""
        own = Letters()
        ranges = {**self.env.ranges, **dict.fromkeys(self.model.block_letters(e))}
        shared = dict.fromkeys(repeated(e, frozenset()))
        return replace(self.env, letters=own, ranges=ranges, shared=shared), own

    def check_letters(self, source: Text, letters: frozenset[str], own: Letters) -> None:
        """Check that every letter has a range."""
        if loose := sorted(letters - own.places.keys()):
            raise source.error(
                f"the letter {loose[0]} counts no rows, columns, heads or blocks here",
                *source.place(Idx(loose[0])),
            )

    def located(
        self, source: Text, e: Expr, letters: frozenset[str], loops: bool = False,
        env: TypeEnv | None = None,
    ) -> Type:  # fmt: skip
        """The type of ``e``, with any mismatch placed in ``source``."""
        env = self.env if env is None else env
        for letter in letters:
            if letter not in env.ranges:
                raise source.error(
                    f"the index {letter} has no range; declare it under Dimensions "
                    f"({letter} = 1, …, H) or open a loop (For {letter} = 1, …, N)"
                )
        try:
            if not loops:
                bound = letters | (env.ranges.keys() - self.model.loop_letters)
                for name in e.free - bound:
                    node = next(x for x in walk(e) if isinstance(x, Idx) and x.name == name)
                    raise Mismatch(f"the index {name} is bound to nothing here", node)
            return self.of(e, env)
        except RecursionError:
            raise source.error("the functions in this formula are nested too deeply") from None
        except Mismatch as error:
            raise source.error(error.message, *source.place(error.node)) from None

    def axis_letters(self, letters: tuple[str, ...]) -> frozenset[str]:
        """The index letters that become array axes: all but those of block loops."""
        return frozenset(letters) - self.model.loop_letters

    # -- sizes -------------------------------------------------------------------------------------

    def count(self, lower: Expr, upper: Expr, where: Text) -> Size:
        a, b = self.model.size(lower), self.model.size(upper)
        if a is None or b is None:
            raise where.error("a range's bounds must be made of dimensions and numbers")
        return b - a + ONE

    def shape(self, dims: tuple[Expr, ...], where: Text) -> Shape:
        out = []
        for e in dims:
            size = self.model.size(e)
            if size is None:
                raise where.error(f"{show(e)} is not made of dimensions, so it is not a size")
            out.append(size)
        return tuple(out)


def check_inlined(card: CardData) -> None:
    """Raise VieteError at a definition or equation with too many operations after inlining.

    Functions that call each other twice double at every step: twenty short lines would be a million
    operations, which no card means and no run survives.
    """
    counts: dict[str, int] = {}

    def operations(e: Expr) -> int:
        nodes = list(walk(e))
        called = [x.op for x in nodes if isinstance(x, Apply) and x.op in card.function]
        for name in called:
            if name not in counts:
                counts[name] = 0  # against a circle, which is refused elsewhere
                counts[name] = operations(card.function[name].body)
        return len(nodes) + sum(counts[name] for name in called)

    def check(source: Text, name: str, e: Expr, most: int = MOST_OPERATIONS) -> int:
        if (count := operations(e)) > most:
            raise source.error(
                f"with its functions written out, {name} has {count:,} operations; the most is "
                f"{most:,}: give a part of it an equation of its own"
            )
        return count

    for function in card.functions:  # in order, so that a long chain of calls is no deep one
        counts[function.name] = check(function.text, function.name, function.body, MOST_OF_FUNCTION)
    for equation in (*card.equations, *card.derived):
        check(equation.text, equation.name, equation.right)
    for claim in card.claims:
        check(claim.text, "this claim", claim.implication)
