"""A schedule: every equation once for each block, in order, with the weights that it takes.

It is made from a card once. It shows which equations a wanted value needs, and when an array was
used for the last time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from viete.analysis.card_sizes import check_sizes
from viete.analysis.conventions import Convention
from viete.analysis.def_use import targets
from viete.analysis.shapes import Shapes, shapes_of
from viete.analysis.token_vectors import question_scope
from viete.errors import VieteError
from viete.evaluate.array import MOST_BLOCKS
from viete.evaluate.memos import recent
from viete.evaluate.scalars import exact_scalar
from viete.graph.card import CardData, Equation, Input, Parameter
from viete.graph.conditions import settled
from viete.graph.opening import body_of
from viete.graph.sizes import Size
from viete.notation.printer import show
from viete.notation.substitution import LETTERS
from viete.notation.symbols import Scope, Signature
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Symbol,
    Table,
    transform,
    walk,
)  # fmt: skip

OF_BLOCKS = frozenset("add sub prod times div max min neg floor mod".split())
MOST_LENGTHS = 8  # of texts, whose programs are kept
Found = TypeVar("Found")
Member = tuple[str, tuple[int, ...]]  # a symbol's key and its block numbers


def member_name(symbol: Symbol, loops: Mapping[str, int]) -> str:
    """The name of one block's member of a family: ``W_Q^{i,h}`` at i = 3 is ``W_Q^{3,h}``."""
    return indexed_name(symbol, tuple(loops.get(s) for s in symbol.slots))


@lru_cache(maxsize=2**16)
def indexed_name(symbol: Symbol, places: tuple[int | None, ...]) -> str:
    """As `member_name`, cached by the block numbers."""
    index = (Idx(s) if k is None else Num(Fraction(k))
             for s, k in zip(symbol.slots, places, strict=True))  # fmt: skip
    return show(Ref(symbol, tuple(index)))


@dataclass(frozen=True)
class Step:
    """One equation at one turn of its loop, with the value it makes and those it needs."""

    equation: Equation
    loops: Mapping[str, int]
    makes: Member
    needs: frozenset[Member]


class Program:
    """A model for given dimensions, ready to run on arrays.

    ``sizes`` gives the numbers of all dimensions but lengths. If a loop runs to the length of the
    text, this program has the turns of the longest text, and `at` gives the program of another.
    Raises VieteError for a dimension without a value.
    """

    def __init__(self, card: CardData) -> None:
        self.model = card
        self.sizes = dict(card.sizes)
        for d in card.dims:
            if d.name not in self.sizes and d.at_most is None:
                raise VieteError(
                    f"the dimension {d.name} of {card.title} has no value; give one with "
                    f"--set {d.name}=… or model.bind({d.name}=…)"
                )
        self.numbers = self.sizes | {n: card.greatest[n] for n in self.counted
                                     if n in card.greatest}  # fmt: skip
        self.programs: dict[tuple[Fraction, ...], Program] = {}
        self.memo: dict[Any, Any] = {}
        self.recordings: dict[Any, Any] = {}  # of runs, see `viete.evaluate.plan.replay`
        self.weights: Any = None  # those of the last run, see `viete.evaluate.inputs`
        self.reads: dict[Expr, tuple[list[Bind], list[Ref], list[Ref]]] = {}
        self.ranges: dict[str, range] = {}
        # Names and formulas, read once.
        self.asked: dict[str, tuple[Expr, tuple[Convention, ...]]] = {}
        self.queries: dict[Expr, Any] = {}  # their queries, see `viete.evaluate.queries`
        self.questions: dict[Any, Any] = {}  # cards of questions, see `viete.ask.asking`
        self.leaves: frozenset[str] = frozenset()  # values that are summed over a batch
        self.parameters = self.members()
        check_sizes(card)
        self.steps = [self.step(e, loops) for e, loops in self.unrolled()]
        self.computed = {e.name for e in card.equations}
        self.check_members()
        self.names = {
            member_name(s.equation.left.symbol, self.loops_of(s.equation.left.symbol, s.makes[1])):
            s.makes for s in self.steps
        }  # fmt: skip

    def __reduce__(self) -> Any:
        return prepared, (self.model, self.leaves)

    @cached_property
    def scope(self) -> Scope:
        """The names that a question may use, and ∂."""
        own = question_scope(self.model)
        functions = {**own.functions, "partial": Signature("partial", 1, 1)}
        return replace(own, functions=functions)

    @cached_property
    def members_made(self) -> frozenset[Member]:
        """All members with a value: results of equations, weights and inputs."""
        weights = {(p.name, loops) for p, loops, _ in self.parameters.values()}
        return frozenset({s.makes for s in self.steps} | weights
                         | {(i.name, ()) for i in self.model.inputs})  # fmt: skip

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """The text lengths that determine the number of turns of a loop."""
        names = {n for loop in self.model.loops for n in self.model.lengths_of(loop)}
        return tuple(n for n in self.model.lengths if n in names)

    def at(self, sizes: Mapping[str, Fraction]) -> Program:
        """The program for texts of these lengths: itself if no loop runs over a text.

        Nor is there a text where only weights are computed.
        """
        if not self.counted or not sizes.keys() >= set(self.counted):
            return self
        known = {n: sizes[n] for n in self.counted}

        def made() -> Program:
            dims = tuple(replace(d, value=Num(known[d.name]), at_most=None) if d.name in known
                         else d for d in self.model.dims)  # fmt: skip
            found = Program(replace(self.model, dims=dims))
            found.leaves = self.leaves
            return found

        return recent(self.programs, tuple(known.values()), made, MOST_LENGTHS)

    @cached_property
    def inputs(self) -> dict[str, tuple[Input, tuple[int, ...]]]:
        """Name of each input array → (input, its block numbers); of a family, only those in use."""
        used = sorted({m for step in self.steps for m in step.needs})
        out: dict[str, tuple[Input, tuple[int, ...]]] = {}
        for item in self.model.inputs:
            blocks = [b for key, b in used if key == item.name]
            for loops in blocks if self.model.blocks_of(item.symbol) else [()]:
                out[member_name(item.symbol, self.loops_of(item.symbol, loops))] = item, loops
        return out

    @cached_property
    def targets(self) -> frozenset[str]:
        """The inputs that may hold -100, which marks a position without a target."""
        return targets(self.model)

    def step(self, e: Equation, loops: Mapping[str, int]) -> Step:
        try:
            return Step(e, loops, self.made(e.left, loops), self.needed(e.right, loops))
        except VieteError as error:
            if error.where is None:
                raise e.text.error(error.message) from None
            raise

    def check_members(self) -> None:
        """Check that every member that an equation needs is a parameter's or is computed before."""
        there = {(p.name, blocks) for p, blocks, _ in self.parameters.values()}
        checked = self.computed | {p.name for p in self.model.parameters}
        for step in self.steps:
            for key, blocks in sorted(step.needs - there):
                if key in checked:
                    symbol = next(
                        x.symbol for x in walk(step.equation.right)
                        if isinstance(x, Ref) and x.key == key
                    )  # fmt: skip
                    name = member_name(symbol, self.loops_of(symbol, blocks))
                    turn = ", ".join(f"{i} = {k}" for i, k in step.loops.items())
                    known = sorted(b for k, b in there if k == key)
                    raise step.equation.text.error(
                        f"there is no {name}{turn and f', which this needs for {turn}'}; "
                        f"{self.range_said(symbol, known)}"
                    )
            there.add(step.makes)

    def range_said(self, symbol: Symbol, known: list[tuple[int, ...]]) -> str:
        """The blocks that exist, in words: ``x^i is there for i = 0, …, 2``."""
        if not known:
            return "none comes before it"
        ranges = []
        slots = self.model.blocks_of(symbol)
        for slot, numbers in zip(slots, zip(*known, strict=True), strict=True):
            first, last = min(numbers), max(numbers)
            ranges.append(f"{slot} = {first}" + (f", …, {last}" if last > first else ""))
        return f"{symbol.key} is there for {' and '.join(ranges)}"

    # -- what there is -----------------------------------------------------------------------------

    @cached_property
    def shapes(self) -> Shapes:
        """The shapes for questions; sizes that the card states need not hold here."""
        return shapes_of(self.model.unstated)

    def bounds(self, lower: Expr, upper: Expr, what: str) -> range:
        values = []
        for e in (lower, upper):
            size = self.model.size(e)
            value = None if size is None else self.evaluate(size, what)
            if value is None or value.denominator != 1:
                raise VieteError(f"{what} runs to {show(e)} = {value}, which is not a whole number")
            values.append(int(value))
        if values[1] < values[0] - 1:
            raise VieteError(f"{what} runs from {values[0]} down to {values[1]}; it must run up")
        return range(values[0], values[1] + 1)

    def evaluate(self, size: Size, what: str) -> Fraction:
        try:
            return size.evaluate(self.numbers)
        except KeyError as missing:
            raise VieteError(
                f"{what} needs the dimension {missing.args[0]}, which has no value"
            ) from None
        except ZeroDivisionError:
            raise VieteError(f"{what} = {size} divides by zero") from None

    def range_of(self, letter: str) -> range:
        """The values of an index letter."""
        if letter in self.ranges:
            return self.ranges[letter]
        ranges = {loop.index: (loop.lower, loop.upper) for loop in self.model.loops}
        ranges |= {i.name: (i.lower, i.upper) for i in self.model.indices}
        if letter not in ranges:
            raise VieteError(f"the index {letter} has no range")
        found = self.bounds(*ranges[letter], f"the index {letter}")
        loop = letter in self.model.loop_letters
        count = found.stop - found.start  # its len() would have to fit into 64 bits
        if loop and count > MOST_BLOCKS:
            raise VieteError(
                f"the index {letter} runs over {count:,} blocks; at most {MOST_BLOCKS:,}"
            )
        if not loop and not found:
            raise VieteError(
                f"the index {letter} has no values: it runs from {found.start} to {found.stop - 1}"
            )
        self.ranges[letter] = found
        return found

    def unrolled(self) -> Iterator[tuple[Equation, Mapping[str, int]]]:
        """Every equation in execution order, with loops unrolled."""
        equations, k = self.model.equations, 0
        while k < len(equations):
            loop = equations[k].loop
            if loop is None:
                yield equations[k], {}
                k += 1
                continue
            end = k
            while end < len(equations) and equations[end].loop == loop:
                end += 1
            turns = self.range_of(loop.index)
            for i in reversed(turns) if loop.down else turns:
                for equation in equations[k:end]:
                    yield self.decided(equation, {loop.index: i}), {loop.index: i}
            k = end

    def decided(self, e: Equation, loops: Mapping[str, int]) -> Equation:
        """An equation as it is in one block, with one branch of ``where(i mod 2 = 1, …, …)``.

        The other branch is neither computed nor needs a meaning in this block. In a condition such
        as ``i = 2 and h = 1`` the part about the block is left out.
        """
        if not any(isinstance(x, Apply) and x.op == "where" for x in walk(e.right)):
            return e

        def number(x: Expr) -> Fraction | None:
            try:
                return self.index_size(x, loops)
            except VieteError:  # it is about entries, not about blocks
                return None

        folded = {x.index for x in walk(e.right) if isinstance(x, Bind)}

        def rule(x: Expr) -> Expr | None:
            entry = isinstance(x, Pick)
            x = x.value if isinstance(x, Pick) else x
            if not isinstance(x, Apply) or x.op != "where":
                return None
            test = settled(x.args[0], number)
            if not isinstance(test, bool):
                return None if entry or test is x.args[0] else replace(x, args=(test, *x.args[1:]))
            left, other = x.args[1:] if test else x.args[:0:-1]
            if (x.free & folded) - left.free:  # a sum must depend on its letter
                return None
            # A number or a row would lose the shape that the other branch gives it.
            axes = self.rank(left)
            bare = axes < self.rank(other)
            return left if bare == entry and not (bare and axes) else None

        right = transform(e.right, rule)
        match right:
            case Apply("where", (test, *sides)) if isinstance(known := settled(test, number), bool):
                right = self.filled(e, sides[0 if known else 1])
        # Blocks with the same formula share the object, and what is cached for it.
        return e if right == e.right else self.memo.setdefault((e, right), replace(e, right=right))

    def rank(self, part: Expr) -> int:
        """The number of axes of a part of an equation, which may contain bound letters."""
        env = self.shapes.env
        return len(self.shapes.of(part, replace(
            env, ranges={**dict.fromkeys(part.free), **env.ranges}
        )).shape)  # fmt: skip

    def filled(self, e: Equation, value: Expr) -> Expr:
        """A number or a row as a table of the shape of the equation's value."""
        sizes = map(self.model.size_expr, self.shapes.types[e.name].shape)
        letters = (x for x in LETTERS if x not in self.model.names and x not in value.free)
        ranges = tuple(zip(letters, sizes, strict=False))
        if axes := self.rank(value):
            value = Pick(value, tuple(Idx(letter) for letter, _ in ranges[-axes:]))
        return Table(ranges, value) if ranges else value

    def loops_of(self, symbol: Symbol, values: tuple[int, ...]) -> dict[str, int]:
        return dict(zip(self.model.blocks_of(symbol), values, strict=True))

    def made(self, left: Ref, loops: Mapping[str, int]) -> Member:
        return left.key, self.places(left, loops)

    def places(self, ref: Ref, loops: Mapping[str, int]) -> tuple[int, ...]:
        """The block numbers of a reference."""
        out = []
        for index in self.model.block_index(ref):
            if isinstance(index, Idx) and index.name in loops:  # nearly always
                out.append(loops[index.name])
                continue
            size = self.index_size(index, loops)
            if size.denominator != 1:
                said = show(index) if isinstance(index, Num) else f"{show(index)} = {size}"
                raise VieteError(f"the block {said} is not a whole number")
            out.append(int(size))
        return tuple(out)

    def index_size(self, index: Expr, loops: Mapping[str, int]) -> Fraction:
        match index:
            case Idx(name) if name in loops:
                return Fraction(loops[name])
            case Num(value):
                return value
            case Ref() if index.symbol.kind == "dim" and index.key in self.numbers:
                return self.numbers[index.key]
            case Apply(op, args) if op in OF_BLOCKS:
                found = exact_scalar(op, [self.index_size(x, loops) for x in args])
                if found is None:
                    raise VieteError(f"the block {show(index)} divides by zero")
                return Fraction(found)
        raise VieteError(
            f"{show(index)} is not a block number; write a number, or give the index a value"
        )

    def needed(self, e: Expr, loops: Mapping[str, int]) -> frozenset[Member]:
        """The values, parameters and inputs that an expression refers to."""
        if isinstance(e, Bind) and self.model.over_blocks(e) and e.lower and e.upper:
            first, last = (int(self.index_size(x, loops)) for x in (e.lower, e.upper))
            if last - first >= MOST_BLOCKS:
                raise VieteError(
                    f"a {e.op} over {last - first + 1:,} blocks; at most {MOST_BLOCKS:,}"
                )
            parts = [self.needed(e.body, {**loops, e.index: k}) for k in range(first, last + 1)]
            return frozenset[Member]().union(*parts)
        binders, refs, functions = self.reads.get(e) or self.reading(e)
        own = {(x.key, self.places(x, loops)) for x in refs}
        parts = [self.needed(x, loops) for x in binders]
        for f in functions:
            operator = self.model.operator[f.symbol]
            at = dict(zip(self.model.blocks_of(f.symbol), self.places(f, loops), strict=True))
            parts.append(self.needed(body_of(self.model, operator).formula, at))
        return frozenset(own.union(*parts))

    def reading(self, e: Expr) -> tuple[list[Bind], list[Ref], list[Ref]]:
        """An expression's folds over blocks, and the references and functions outside them.

        The result is cached: the same equation is needed in every block.
        """

        def over_blocks(x: Expr) -> bool:
            return isinstance(x, Bind) and self.model.over_blocks(x) and bool(x.ranges)

        parts = list(walk(e, over_blocks))
        names = [x for x in parts if isinstance(x, Ref)]
        refs = [x for x in names if x.symbol.kind in ("value", "parameter", "input")]
        functions = [x for x in names if x.symbol.kind == "function"]
        binders = [x for x in parts if isinstance(x, Bind) and over_blocks(x)]
        found = self.reads[e] = binders, refs, functions
        return found

    def members(self) -> dict[str, tuple[Parameter, tuple[int, ...], tuple[int, ...]]]:
        """Name of each parameter array → (parameter, its block numbers, its array shape).

        Array axes are the index letters other than blocks, in the order of the name, then rows and
        columns.
        """
        out: dict[str, tuple[Parameter, tuple[int, ...], tuple[int, ...]]] = {}
        for p in self.model.parameters:
            shape = [len(self.range_of(s)) for s in self.model.heads_of(p.symbol)]
            for e in p.shape:
                size = self.model.size(e)
                assert size is not None  # shapes were checked
                value = self.evaluate(size, f"a size of {p.name}")
                if value.denominator != 1 or value < 0:
                    raise VieteError(
                        f"{p.name} has the size {size} = {value}, which is not a whole number"
                    )
                shape.append(int(value))
            combos: list[dict[str, int]] = [{}]
            for slot in self.model.blocks_of(p.symbol):
                combos = [{**c, slot: k} for c in combos for k in self.range_of(slot)]
            for loops in combos:
                out[member_name(p.symbol, loops)] = (p, tuple(loops.values()), tuple(shape))
        return out


def program(card: CardData) -> Program:
    """The model's program, cached on the model object."""
    kept = card.__dict__  # as functools.cached_property keeps its values
    if "_program" not in kept:
        kept["_program"] = Program(card)
    found = kept["_program"]
    assert isinstance(found, Program)
    return found


def prepared(card: CardData, leaves: frozenset[str]) -> Program:
    """A program as it is copied: that of the card, with values that are summed over a batch."""
    found = program(card)
    if found.leaves != leaves:
        found = Program(card)
        found.leaves = leaves
    return found


def parameter_shapes(card: CardData) -> dict[str, tuple[int, ...]]:
    """The name and array shape of every weight that `run` takes."""
    return {name: shape for name, (_, _, shape) in program(card).parameters.items()}
