"""The shape of every expression, in the card's own symbols; the first of the meanings.

A value is a scalar, a vector or a matrix over a family of indices: ``A^{i,h}`` is an n × n matrix
for every head h. Block loops do not show in a type, head and position indices do. A mismatch is an
error that points at the sub-expression and names both shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from viete.analysis.kinds import (
    BIT,
    COMPARISONS,
    LOGICAL,
    MOST,
    REAL,
    TRUTH,
    WHOLE,
    Interval,
    interval_of,
    kind_of,
    quotient,
)
from viete.analysis.whole import MEANT, check_sizes, number_of, possible, shown
from viete.analysis.written_out import check_written_out
from viete.errors import Text
from viete.graph.card import CardData, Claim, Equation, memoised
from viete.graph.dependence import reaching_definitions
from viete.graph.sizes import Size, size_of
from viete.notation.printer import show
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    Table,
    walk,
)  # fmt: skip

Shape = tuple[Size, ...]
Places = tuple[Size, Size]  # of an index letter: its first value, and how many it has
ONE = Size.of(1)
ENTRYWISE = frozenset(
    "neg exp log sqrt erf tanh sin cos abs floor add sub had times div pow mod".split()
)
REDUCE = frozenset("sum mean max min argmax".split())


@dataclass(frozen=True)
class Type:
    """``shape`` on paper (at most two sizes), the index letters it varies over, and its kind.

    ``kind`` is 'real', 'int' (a whole number) or 'bool'; ``interval`` what a whole number lies in,
    None where it may be greater than 64 bits hold. ``size`` is the symbolic value of a scalar made
    of dimensions alone.
    """

    shape: Shape = ()
    family: frozenset[str] = frozenset()
    kind: str = REAL
    size: Size | None = None
    interval: Interval | None = None

    @property
    def whole(self) -> Interval | None:
        """The interval of what is computed in whole numbers; truth values count as 0 and 1."""
        return BIT if self.kind == TRUTH else self.interval

    @property
    def may_be_negative(self) -> bool:
        """Whether it is not known to be whole and from 0, as targets are not that may be -100."""
        return self.whole is None or self.whole[0] < 0


class Mismatch(Exception):
    """A shape error at a node of one formula; `Shapes` turns it into a VieteError."""

    def __init__(self, message: str, at: Expr | None) -> None:
        super().__init__(message)
        self.message, self.node = message, at


@dataclass(frozen=True)
class Env:
    """The names in force inside a function's body or a binder."""

    arguments: Mapping[str, Type] | None = None  # None outside of functions
    sizes: Mapping[str, Size] = field(default_factory=dict)
    ranges: Mapping[str, Size | None] = field(default_factory=dict)  # index letter → how many
    places: dict[str, Places] | None = None  # of a claim: what it counts in letters of its own
    first: Mapping[str, Size] = field(default_factory=dict)  # index letter → its first value


@memoised
def shapes_of(card: CardData) -> Shapes:
    """The type of every value, found and checked once; raises VieteError where one is wrong."""
    return Shapes(card)


class Shapes:
    """Types of all equations of a model, checked on construction.

    ``types`` maps a value's key to its `Type`; ``of`` gives the type of any expression.
    """

    def __init__(self, card: CardData) -> None:
        self.model = card
        self.numbers = card.sizes
        check_sizes(card)
        check_written_out(card)
        self.types: dict[str, Type] = {}
        self.named = [Size.of(d.name) for d in card.dims]
        self.computed: dict[int, Shape] = {}  # shape of each equation by its position
        self.calls: dict[tuple[object, ...], Type] = {}
        self.as_numbers: dict[Size, Type] = {}
        self.kept: dict[int, tuple[Expr, Type]] = {}  # types at the top level, by id
        self.settled = False  # whether the types of all values are known
        ranges: dict[str, Size | None] = {
            i.name: self.count(i.lower, i.upper, i.text) for i in card.indices
        }
        first = {i.name: card.size(i.lower) for i in card.indices}
        for loop in card.loops:
            ranges.setdefault(loop.index, None)
            first.setdefault(loop.index, None)
        self.env = Env(ranges=ranges, first={k: v for k, v in first.items() if v is not None})
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
                    length = lengths.pop()
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
        for claim in card.claims:
            if self.claimed(claim)[0].kind != TRUTH:
                raise claim.text.error(
                    "a claim says that something holds: it needs =, ≤ or the like"
                )

    # -- equations ---------------------------------------------------------------------------------

    def equation(self, k: int, equation: Equation) -> None:
        found = self.located(equation.text, equation.right, frozenset(equation.left.symbol.slots))
        declared = self.axis_letters(equation.left.symbol.slots)
        if extra := found.family - declared:
            letter = sorted(extra)[0]
            raise equation.text.error(
                f"the right side differs for every {letter}, so the left side needs the index "
                f"{letter} too, or the right side a sum or concat over {letter}",
                *(equation.right.at or (0, None)),
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

    def in_common(self, equation: Equation, found: Type, earlier: Type | None) -> Type:
        """The type of a value that several equations make; a derivative is a real number."""
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

    def claimed(self, claim: Claim) -> tuple[Type, dict[str, Places]]:
        """A claim's type, and what those of its letters count that the card declares nowhere."""
        letters = claim.statement.free
        places = dict[str, Places]()
        env = replace(self.env, places=places)
        found = self.located(claim.text, claim.statement, letters & env.ranges.keys(), True, env)
        if loose := sorted(letters - env.ranges.keys() - places.keys()):
            raise claim.text.error(f"the index {loose[0]} counts no rows, columns or heads here")
        return found, places

    def located(
        self, source: Text, e: Expr, letters: frozenset[str], loops: bool = False,
        env: Env | None = None,
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
            raise source.error("the functions in this are nested too deep in each other") from None
        except Mismatch as error:
            span = (error.node.at if error.node is not None else None) or (0, None)
            raise source.error(error.message, *span) from None

    def axis_letters(self, letters: tuple[str, ...]) -> frozenset[str]:
        """Index letters that become array axes: all but those of block loops."""
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
                raise where.error(f"{show(e)} is not made of dimensions, so it is no size")
            out.append(size)
        return tuple(out)

    def normal(self, size: Size) -> Size:
        return size.substitute(self.model.definitions)

    def said(self, size: Size) -> str:
        """``d = 6`` or ``6``."""
        value = self.number(size)
        return str(size) if value is None or str(value) == str(size) else f"{size} = {value}"

    def number(self, size: Size) -> Fraction | None:
        try:
            return size.evaluate(self.numbers)
        except (KeyError, ZeroDivisionError):
            return None

    def same(self, a: Size, b: Size) -> bool:
        """Equal as formulas; a number that a card writes also equals the symbol it stands for.

        So a 4 beside H in ``H d / 4`` may be what H is; d and V are two sizes even if both are 8.
        """
        if a == b or (one := self.normal(a)) == (other := self.normal(b)):
            return True
        bare = a.number() is not None or b.number() is not None
        if bare or {c for _, c in one.terms} != {c for _, c in other.terms}:
            return (value := self.number(a)) is not None and value == self.number(b)
        return False

    def same_number(self, a: Size, b: Size) -> bool:
        """As `same`; a shape that a card states may also use another name of equal value."""
        return self.same(a, b) or (
            (value := self.number(a)) is not None and value == self.number(b)
        )

    def same_shape(self, a: Shape, b: Shape) -> bool:
        return len(a) == len(b) and all(map(self.same, a, b))

    def better(self, a: Size, b: Size) -> Size:
        """Of two equal sizes the one to show: symbols before numbers, then the shorter."""
        if a.number() is not None:
            return b
        return a if b.number() is not None or len(str(a)) <= len(str(b)) else b

    def simplest(self, size: Size) -> Size:
        """A composite size by the name of a dimension that equals it: H d_k is d."""
        if len(size.names()) < 2 and len(size.terms) < 2:
            return size
        normal = self.normal(size)
        return next((d for d in self.named if self.normal(d) == normal), size)

    def fits(self, a: Size, b: Size) -> Size | None:
        """The size of a pair of axes combined entry by entry, or None."""
        if self.same(a, b):
            return self.better(a, b)
        if a == ONE:
            return b
        return a if b == ONE else None

    def align(self, types: list[Type], node: Expr, what: str) -> Shape:
        """The shape of an entry-by-entry combination: a vector goes along every row."""
        out: Shape = ()
        for t in types:
            a, b = (out, t.shape) if len(out) >= len(t.shape) else (t.shape, out)
            tail = a[len(a) - len(b) :]
            merged = [self.fits(x, y) for x, y in zip(tail, b, strict=True)]
            if any(m is None for m in merged):
                raise Mismatch(f"{what}: {text(out)} and {text(t.shape)} do not match", node)
            out = a[: len(a) - len(b)] + tuple(m for m in merged if m is not None)
        return out

    # -- expressions -------------------------------------------------------------------------------

    def of(self, e: Expr, env: Env | None = None) -> Type:
        """The type of an expression; raises Mismatch."""
        if env is not None and env is not self.env:
            return self.found(e, env)
        kept = self.kept.get(id(e))
        if kept is None:  # an expression is kept with its type, so that no other has its id
            kept = e, self.found(e, self.env)
            if self.settled:
                self.kept[id(e)] = kept
        return kept[1]

    def found(self, e: Expr, env: Env) -> Type:
        match e:
            case Num():
                return self.as_number(Size.of(e.value))
            case Idx():
                return self.letter(e, env)
            case Ref():
                return self.ref(e, env)
            case Pick():
                return self.picked(e, env)
            case Bind():
                return self.bind(e, env)
            case Table():
                return self.table(e, env)
            case Slice():
                raise Mismatch("a slice stands only inside brackets", e)
            case Apply():
                return self.apply(e, env)
        raise TypeError(e)

    def size(self, e: Expr, env: Env) -> Size | None:
        """An expression as a symbolic size, seen from inside ``env``."""

        def lookup(r: Ref) -> Size | None:
            if env.arguments is not None:
                found = env.sizes.get(r.key)
                argument = env.arguments.get(r.key)
                return found or (argument.size if argument else None)
            return Size.of(r.key) if r.symbol.kind == "dim" else None

        return size_of(e, lookup, self.measure(env))

    def measure(self, env: Env) -> Callable[[Apply], Size | None] | None:
        """What ``cols(x)`` is as a size: none, since not every meaning could take it for one."""
        return None

    def as_number(self, size: Size) -> Type:
        """A size as a number: whole if its value is, or, while it has none, if it looks so."""
        if size not in self.as_numbers:
            self.as_numbers[size] = self.to_number(size)
        return self.as_numbers[size]

    def to_number(self, size: Size) -> Type:
        value = self.number(size)
        if value is not None:
            whole = (int(value), int(value)) if value.denominator == 1 else None
            return Type(kind=REAL if whole is None else WHOLE, size=size,
                        interval=interval_of("floor", [whole]))  # fmt: skip
        total: Interval | None = (0, 0)
        for monomial, c in size.terms:
            if c.denominator != 1 or any(p < 0 for _, p in monomial):
                return Type(size=size)
            term: Interval | None = (int(c), int(c))
            for name, power in monomial:
                known = self.model.greatest.get(name)
                if known is not None and known.denominator != 1:
                    return Type(size=size)
                least = int(self.numbers.get(name, 1))
                for _ in range(power):
                    term = interval_of("times", [term, (least, int(known or MOST))])
            total = interval_of("add", [total, term])
        return Type(kind=WHOLE, size=size, interval=total)

    def most(self, size: Size) -> int:
        """The greatest number that a size may be."""
        interval = self.as_number(size).interval
        return MOST if interval is None else max(interval[1], 0)

    def letter(self, e: Idx, env: Env) -> Type:
        """An index letter, which is a whole number from its first value on."""
        count, first = env.ranges.get(e.name), env.first.get(e.name)
        start = None if first is None else self.as_number(first).interval
        interval = (start or (-MOST, MOST))[0], (start or BIT)[1] + MOST
        if start is not None and count is not None:
            interval = start[0], max(start[1] + self.most(count) - 1, start[0])
        family = frozenset((e.name,)) - self.model.loop_letters
        return Type(family=family, kind=WHOLE, interval=interval)

    def needed_size(self, e: Expr, env: Env) -> Size:
        size = self.size(e, env)
        if size is None:
            raise Mismatch(f"{show(e)} is not made of dimensions, so it is no size", e)
        return size

    def ref(self, e: Ref, env: Env) -> Type:
        if env.arguments is not None:
            if e.key in env.sizes:
                return self.as_number(env.sizes[e.key])
            return env.arguments[e.key]
        if e.symbol.kind == "dim":
            return self.as_number(Size.of(e.key))
        found = self.types.get(e.key)
        if found is None:
            raise Mismatch(f"{e.key} is not defined before this", e)
        family = set(found.family)
        for letter, index in zip(e.symbol.slots, e.index, strict=True):
            t = self.of(index, env)
            if t.shape:
                raise Mismatch(f"an index is one number, and {show(index)} is {text(t.shape)}", e)
            self.check_index(index, t)
            if letter in found.family:
                family.discard(letter)
                if isinstance(index, Idx):
                    self.check_range(letter, index, env)
                    self.count_places(index, *self.places_of(letter), env)
                family |= t.family
            elif t.family:
                raise Mismatch(
                    f"{show(index)} cannot stand for the block index {letter} of {e.key}", e
                )
        return found if family == found.family else replace(found, family=frozenset(family))

    def check_index(self, index: Expr, t: Type) -> None:
        """That an index is a whole number; one of dimensions without a value may become one."""
        known = None if t.size is None else self.number(t.size)
        if t.kind == TRUTH:
            raise Mismatch(f"{show(index)} cannot be an index: it is a condition", index)
        if t.kind == REAL and (t.size is None or known is not None):
            said = "need not be one" if known is None else "is not a whole number"
            raise Mismatch(
                f"an index is a whole number, and {show(index)} {said}; floor({show(index)}) is",
                index,
            )

    def check_range(self, letter: str, index: Idx, env: Env) -> None:
        declared, used = self.env.ranges.get(letter), env.ranges.get(index.name)
        if declared is not None and used is not None and not self.same(declared, used):
            raise Mismatch(
                f"{index.name} takes {used} values here, and {letter} has {declared}: it must take "
                f"them all; those of some are written out, with a number for {letter}",
                index,
            )

    def places_of(self, letter: str) -> Places:
        """The first value of a declared letter, and how many it has."""
        declared = next((i for i in self.model.indices if i.name == letter), None)
        first = None if declared is None else self.model.size(declared.lower)
        return first or Size.of(0), self.env.ranges.get(letter) or ONE

    def count_places(self, index: Idx, first: Size, count: Size, env: Env) -> None:
        """Notes what a claim's own letter counts: of each the same, wherever it stands."""
        if env.places is None or index.name in env.ranges:
            return
        start, known = env.places.setdefault(index.name, (first, count))
        if self.same(start, first) and self.is_limit(count, known):
            return  # the text's positions, in a table of as many rows as it may have
        if self.same(start, first) and self.is_limit(known, count):
            env.places[index.name] = first, count
        elif not (self.same(start, first) and self.same(known, count)):
            raise Mismatch(
                f"{index.name} counts {known} places from {start} elsewhere and {count} from "
                f"{first} here", index,
            )  # fmt: skip

    def is_limit(self, most: Size, length: Size) -> bool:
        """Whether a size is the greatest that a text's length may be."""
        limit = next((e for n, e in self.model.lengths.items() if Size.of(n) == length), None)
        size = None if limit is None else self.model.size(limit)
        return size is not None and self.same(size, most)

    def picked(self, e: Pick, env: Env) -> Type:
        value = self.of(e.value, env)
        if len(e.items) > len(value.shape):
            what = f"{len(e.items)} indices" if len(e.items) > 1 else "an index"
            raise Mismatch(
                f"{what} on {show(e.value)}, which is "
                + (f"of shape {text(value.shape)}" if value.shape else "one number"), e,
            )  # fmt: skip
        shape: list[Size] = []
        family = set(value.family)
        for size, item in zip(value.shape, e.items, strict=False):
            if isinstance(item, Slice):
                start = self.needed_size(item.start, env) if item.start else Size.of(0)
                stop = self.needed_size(item.stop, env) if item.stop else size
                self.check_slice(start, stop, size, item)
                shape.append(stop - start)
                continue
            if isinstance(item, Idx):
                self.count_places(item, Size.of(0), size, env)
            t = self.of(item, env)
            if len(t.shape) > 1:
                raise Mismatch(f"{show(item)} cannot be an index", item)
            if isinstance(item, Num) and (
                item.value < 0 or item.value.denominator != 1
                or ((n := number_of(self.model, size)) is not None and item.value >= n)
            ):  # fmt: skip
                raise Mismatch(
                    f"{item.value} is no index here: there are {self.said(size)} places, counted "
                    f"from 0", item,
                )  # fmt: skip
            self.check_index(item, t)
            family |= t.family
            shape += t.shape
        return replace(
            value, shape=(*shape, *value.shape[len(e.items) :]), family=frozenset(family), size=None
        )

    def check_slice(self, start: Size, stop: Size, size: Size, item: Expr) -> None:
        a, b, n = (number_of(self.model, x) for x in (start, stop, size))
        if len(stop.names() & self.model.lengths.keys()) > 1:
            b = None  # m + n: both are not at their greatest at once
        for end, x in ((start, a), (stop, b)):
            if x is not None and x.denominator != 1:
                raise Mismatch(
                    f"{show(item)} ends between two places: {self.said(end)} is no whole number",
                    item,
                )
        if (a is not None and a < 0) or (b is not None and n is not None and b > n):
            raise Mismatch(
                f"{show(item)} {self.ends(stop + size)}goes beyond what there is: "
                f"{self.said(size)} places",
                item,
            )
        if a is not None and b is not None and a > b:
            raise Mismatch(f"{show(item)} ends before it starts", item)

    def ends(self, stop: Size) -> str:
        """``with n ≤ 2000 `` for a slice that is as long as the input."""
        known = sorted(stop.names() & self.model.lengths.keys() & self.model.greatest.keys())
        said = ", ".join(f"{n} ≤ {self.model.greatest[n]}" for n in known)
        return f"with {said} " if said else ""

    def whole(self, size: Size, what: str, node: Expr) -> None:
        if not possible(number_of(self.model, size), 0):
            raise Mismatch(f"{what} is {shown(self.model, size)}, but it {MEANT} 0", node)

    def inside(self, e: Bind | Table, env: Env) -> Env:
        """The names in force in the body of a binder."""
        if isinstance(e, Table):
            sizes = {i: self.needed_size(s, env) for i, s in e.ranges}
            first = {**env.first, **dict.fromkeys(sizes, Size.of(0))}
            return replace(env, ranges={**env.ranges, **sizes}, first=first)
        first, count = dict(env.first), env.ranges.get(e.index)
        if e.lower is not None and e.upper is not None:
            if e.index in self.model.loop_letters and env.arguments is None:
                count = None
            else:
                lower, upper = self.needed_size(e.lower, env), self.needed_size(e.upper, env)
                count = upper - lower + ONE
        if e.lower is not None and (start := self.size(e.lower, env)) is not None:
            first[e.index] = start
        return replace(env, ranges={**env.ranges, e.index: count}, first=first)

    def bind(self, e: Bind, env: Env) -> Type:
        bounded = e.lower is not None and e.upper is not None
        if not bounded and e.index not in env.ranges:
            raise Mismatch(
                f"the index {e.index} has no range; write {e.op}_{{{e.index}=1}}^{{…}} or declare "
                f"it under Dimensions", e,
            )  # fmt: skip
        inner = self.inside(e, env)
        count = inner.ranges[e.index]
        if bounded and count is not None:
            self.whole(count, f"the number of values of {e.index}", e)
        body = self.of(e.body, inner)
        varies = e.body.free if e.index in self.model.loop_letters else body.family
        if e.index not in varies:
            raise Mismatch(f"nothing under this {e.op} depends on {e.index}", e)
        family = body.family - {e.index}
        if e.op == "concat":
            if count is None:
                raise Mismatch("blocks cannot be concatenated, only heads and the like", e)
            if not body.shape:
                return replace(body, shape=(count,), family=family, size=None)
            *rows, columns = body.shape
            return replace(body, shape=(*rows, count * columns), family=family, size=None)
        kind = kind_of(e.op if e.op == "mean" else "sum", [body.kind])
        interval = body.whole if kind == WHOLE else None
        if e.op == "sum":
            many = MOST if count is None else self.most(count)
            interval = interval_of("sum", [interval], count=many)
        return replace(body, family=family, size=None, kind=kind, interval=interval)

    def table(self, e: Table, env: Env) -> Type:
        sizes = {i: self.needed_size(s, env) for i, s in e.ranges}
        if taken := sizes.keys() & env.ranges.keys():
            raise Mismatch(f"the index {min(taken)} is in use already; take another letter", e)
        for letter, size in sizes.items():
            self.whole(size, f"the number of values of {letter}", e)
        body = self.of(e.body, self.inside(e, env))
        if body.shape:
            raise Mismatch(
                f"a table's entry must be one number, and this one has shape {text(body.shape)}",
                e.body,
            )
        shape, family = tuple(sizes.values()), body.family.difference(sizes)
        return Type(shape, family, body.kind, interval=body.interval)

    def apply(self, e: Apply, env: Env) -> Type:
        op = e.op
        if op in ("inf", "pi"):
            return Type()
        args = [self.of(a, env) for a in e.args]
        family = frozenset[str]().union(*(t.family for t in args))
        if op in self.model.function:
            return self.call(e, args)
        for t, a in zip(args, e.args, strict=True):
            logical = op in LOGICAL or (op == "where" and a is e.args[0])
            if logical and t.kind != TRUTH:
                raise Mismatch(f"{show(a)} is not a condition, which is needed here", a)
        found = self.operation(e, args, family, env)
        return found if found.size is not None else self.with_kind(e, args, found, env)

    def with_kind(self, e: Apply, args: list[Type], found: Type, env: Env) -> Type:
        """The type of an operation with its kind and, of a whole number, its interval."""
        if e.op in ("T", "concat"):
            kind = kind_of("where", [t.kind for t in args])
            hull = interval_of("concat", [t.whole for t in args])
            return replace(found, kind=kind, interval=hull if kind == WHOLE else None)
        if e.op == "argmax":
            return replace(found, kind=WHOLE, interval=(0, self.most(args[0].shape[-1])))
        of = args[1:] if e.op == "where" else args
        whole, count, op = [t.whole for t in of], 1, e.op
        kind = kind_of(op, [t.kind for t in of])
        if op == "pow" and args[0].kind != REAL and natural(args[1]):
            kind = WHOLE
        if op in ("sum", "prod", "inner") and args[0].shape:
            both = op == "sum" or args[1].shape
            count = self.most(args[0].shape[-1]) if both else 1
        if (parts := quotient(e)) is not None:
            op, whole = "quotient", [self.of(x, env).whole for x in parts]
        interval = interval_of(op, whole, count=count) if kind == WHOLE else None
        if (kind, interval) == (found.kind, found.interval):
            return found
        return replace(found, kind=kind, interval=interval)

    def operation(
        self, e: Apply, args: list[Type], family: frozenset[str], env: Env
    ) -> Type:  # fmt: skip
        """The shape of an operation, and its size if it is a number made of dimensions."""
        op = e.op
        if op == "prod":
            return self.product(e, args, family)
        if op == "T":
            if len(args[0].shape) != 2:
                raise Mismatch(
                    f"only a matrix has a transpose, and this has shape {text(args[0].shape)}", e
                )
            return Type((args[0].shape[1], args[0].shape[0]), family)
        if op in REDUCE and len(args) == 1:
            return self.reduced(e, args[0])
        if op in ("rows", "cols"):
            shape = args[0].shape
            if len(shape) < (2 if op == "rows" else 1):
                raise Mismatch(f"{show(e.args[0])} has no {op}: its shape is {text(shape)}", e)
            return self.as_number(shape[0] if op == "rows" else shape[-1])
        if op == "inner":
            u, v = (t.shape for t in args)
            if len(u) != 1 or len(v) != 1 or not self.same(u[0], v[0]):
                raise Mismatch(
                    "an inner product needs two vectors of one length, "
                    f"not {text(u)} and {text(v)}",
                    e,
                )
            return Type((), family)
        if op == "concat":
            return self.concat(e, args, family)
        if op == "times" and all(t.shape for t in args):
            raise Mismatch(
                f"* is for numbers; between {text(args[0].shape)} and {text(args[1].shape)} write "
                f"⊙ (entry by entry) or a space (matrix product)", e,
            )  # fmt: skip
        names = {"had": "entry-by-entry product", "add": "sum", "sub": "difference",
                 "div": "quotient"}  # fmt: skip
        shape = self.align(args, e, names.get(op, op))
        if op in COMPARISONS or op in LOGICAL or op == "where":
            return Type(shape, family)
        if op in ENTRYWISE or op in ("max", "min"):
            size = None if shape else self.size(e, env)
            return Type(shape, family) if size is None else self.as_number(size)
        raise Mismatch(f"{op} has no meaning here", e)

    def product(self, e: Apply, args: list[Type], family: frozenset[str]) -> Type:
        a, b = (t.shape for t in args)
        if not a or not b:
            if not a and not b and args[0].size and args[1].size:
                return self.as_number(args[0].size * args[1].size)
            return Type(a or b, family)
        if len(a) == 1 and len(b) == 1:
            raise Mismatch(
                f"two vectors {text(a)} and {text(b)} side by side: write <u, v> for the inner "
                f"product or ⊙ for entry by entry", e,
            )  # fmt: skip
        left, right = a[-1], b[0]
        if not self.same(left, right):
            x, y = e.args
            raise Mismatch(
                f"{show(x)} has shape {text(a)} and {show(y)} has shape {text(b)}: the inner "
                f"sizes {left} and {right} differ", e,
            )  # fmt: skip
        return Type(a[:-1] + b[1:], family)

    def reduced(self, e: Apply, t: Type) -> Type:
        if not t.shape:
            raise Mismatch(f"{e.op} of one number", e)
        if e.op == "argmax":
            return Type(t.shape[:-1], t.family)
        return Type((t.shape[0], ONE) if len(t.shape) == 2 else (), t.family)

    def concat(self, e: Apply, args: list[Type], family: frozenset[str]) -> Type:
        first = args[0].shape
        if not first or any(len(t.shape) != len(first) for t in args):
            raise Mismatch("only vectors, or matrices of equally many rows, can be concatenated", e)
        if len(first) == 2 and not all(self.same(t.shape[0], first[0]) for t in args):
            shapes = ", ".join(text(t.shape) for t in args)
            raise Mismatch(f"these have different numbers of rows: {shapes}", e)
        total = Size(())
        for t in args:
            total = total + t.shape[-1]
        return Type((*first[:-1], total), family)

    def call(self, e: Apply, args: list[Type]) -> Type:
        """A named function: its body, with the arguments' types in place of its letters."""
        key = (e.op, *args)
        if key not in self.calls:
            env = self.applied(e, args)
            try:
                found = self.of(self.model.function[e.op].body, env)
            except Mismatch as error:
                raise Mismatch(f"in {e.op}({', '.join(text(t.shape) for t in args)}): "
                               f"{error.message}", e) from None  # fmt: skip
            self.calls[key] = replace(found, family=frozenset(f[:-1] for f in found.family))
        return self.calls[key]

    def applied(self, e: Apply, args: Sequence[Type]) -> Env:
        """What the letters of a function's definition stand for where it is applied."""
        function = self.model.function[e.op]
        # A definition's own index letters must not meet its caller's: primes keep them apart.
        types = [replace(t, family=frozenset(f + "'" for f in t.family)) for t in args]
        types += [self.of(a.default, Env()) for a in function.arguments[len(args) :] if a.default]
        sizes: dict[str, Size] = {}
        for k, (argument, t) in enumerate(zip(function.arguments, types, strict=True)):
            if argument.pattern and len(t.shape) != len(argument.pattern):
                wanted = " × ".join(s.key for s in argument.pattern)
                raise Mismatch(
                    f"{e.op} takes {argument.symbol.key}: {wanted}, not {text(t.shape)}",
                    e.args[k],
                )
            for symbol, size in zip(argument.pattern, t.shape, strict=False):
                if not self.same(sizes.setdefault(symbol.key, size), size):
                    raise Mismatch(
                        f"{e.op} needs the same {symbol.key} everywhere, and gets "
                        f"{sizes[symbol.key]} and {size}", e.args[k],
                    )  # fmt: skip
        keys = (a.symbol.key for a in function.arguments)
        return Env(dict(zip(keys, types, strict=True)), sizes)


def natural(t: Type) -> bool:
    """Whether an exponent is a number like 2, so that powers of whole numbers are whole."""
    return t.size is not None and t.interval is not None and t.interval[0] == t.interval[1] >= 0


def text(shape: Shape) -> str:
    """``(n, d)``."""
    return "(" + ", ".join(map(str, shape)) + ")"
