"""The cost of a model: parameters, floating-point operations and bytes.

Every quantity is a formula in the card's own dimensions and, where those have values, an exact
whole number. Blocks are multiplied, never unrolled. The conventions:

- a matrix product of m × k and k × n is 2 m n k operations, for every member of its index family;
  causal attention counts the full n × n (as nanoGPT and Chinchilla, app. F, do);
- every other operation counts 1 per entry: an entrywise operation per entry that it makes, a sum,
  mean or maximum per entry that it reads. Named functions count as their definitions (softmax: 3
  per entry). Moving entries (lookup, slice, transpose, concat) is free, and so is every value that
  depends on no weight and no input;
- backward costs as much as forward again for every argument that depends on a parameter: twice
  for the product of two activations, once where the other factor is given data;
- of a sum of which each position keeps a few terms, as of experts, these few count: so a run
  computes it. ``whole`` counts all of them, and so do weights, activations and parameters, except
  for ``parameters.active``, those that one position uses;
- activations are all named values, kept.

``without_embeddings`` leaves out the token, position and unembedding parameters (Kaplan et al.
2020; Pythia). A bias added to the logits counts as unembedding. Each kind is also counted
separately, so that other conventions can be computed: nanoGPT leaves out the position embedding
only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING

from viete.analysis.flow import Flow, Read
from viete.analysis.flows import BATCH, Flows, Tally, reads_later
from viete.analysis.sparsity import kept_count, sparse_sums
from viete.document.displayed import Displayed
from viete.errors import VieteError
from viete.graph.card import CardData, Equation, Loop, Parameter
from viete.graph.dependence import forward_slice
from viete.graph.sizes import ONE, ZERO, Size
from viete.notation.printer import show_symbol
from viete.notation.tree import Ref

if TYPE_CHECKING:
    from viete.document.tree import Block

MOST_SETS = 100  # of values that a cache might keep instead, that are looked at
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}


@dataclass(frozen=True)
class Quantity:
    """A formula, and its number if every dimension in it has a value.

    The number is exact. Only a rate (``per``) that does not come out whole is rounded.
    """

    symbolic: Size
    number: int | None

    def __add__(self, other: Quantity) -> Quantity:
        known = self.number is not None and other.number is not None
        number = self.number + other.number if known else None  # type: ignore[operator]
        return Quantity(self.symbolic + other.symbolic, number)

    def times(self, factor: int) -> Quantity:
        number = None if self.number is None else self.number * factor
        return Quantity(self.symbolic * Size.of(factor), number)

    def per(self, other: Quantity) -> Quantity:
        """A rate: this for each of ``other``, which must be a single term such as n or 64 n."""
        inverse = other.symbolic.inverse()
        assert inverse is not None
        number = None
        if self.number is not None and other.number:
            number = round(Fraction(self.number, other.number))
        return Quantity(self.symbolic * inverse, number)

    def bytes(self, dtype: str) -> Quantity:
        """The bytes of this many entries; raises VieteError for a dtype not in `BYTES`."""
        if dtype not in BYTES:
            raise VieteError(f"unknown dtype {dtype!r}; use one of {', '.join(BYTES)}")
        return self.times(BYTES[dtype])

    def __str__(self) -> str:
        return str(self.symbolic) + ("" if self.number is None else f" = {self.number:,}")


NOTHING = Quantity(ZERO, 0)


@dataclass(frozen=True)
class ParameterCost:
    """One symbol of the parameter table: the entries of ``each`` array, and of ``all`` arrays.

    ``embeds`` holds 'token', 'position', 'unembedding' (tied weights: two of them) or nothing.
    """

    parameter: Parameter
    each: Quantity
    all: Quantity
    embeds: frozenset[str]


@dataclass(frozen=True)
class ParameterCosts:
    """All symbols; the totals of each kind of embedding count a tied parameter in each.

    ``active`` are those that one position uses: of experts those that it keeps.
    """

    rows: tuple[ParameterCost, ...]
    total: Quantity
    without_embeddings: Quantity
    token: Quantity
    position: Quantity
    unembedding: Quantity
    active: Quantity


@dataclass(frozen=True)
class Operations:
    """The number of operations: of matrix products, and all others at one per entry."""

    products: Quantity
    operations: Quantity

    @property
    def total(self) -> Quantity:
        return self.products + self.operations

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.products + other.products, self.operations + other.operations)

    def per(self, other: Quantity) -> Operations:
        return Operations(self.products.per(other), self.operations.per(other))


@dataclass(frozen=True)
class EquationCost:
    """One equation in all its blocks; ``number`` counts from 1 as the card does.

    ``entries`` are those of the value it names; ``whole`` is the forward pass of all experts, also
    of those that a position does not keep.
    """

    number: int
    equation: Equation
    forward: Operations
    backward: Operations
    whole: Operations
    entries: Quantity


@dataclass(frozen=True)
class CachedValue:
    """A named value that later positions read: K and V.

    ``each`` entries for one position, in all blocks; ``positions`` of the length ``along`` are
    kept (fewer than all where a window says so).
    """

    left: Ref
    along: Size
    each: Quantity
    positions: Quantity
    all: Quantity


@dataclass(frozen=True)
class CacheCost:
    """The values kept per sequence while generating; ``why`` says why no cache exists, or is empty.

    ``per_token`` grows with every token; a decoder's keys of its source do not. ``rows`` are what
    the card names. They may be made again, position by position, from fewer numbers, such as the
    latent vector of keys and values: ``least`` of each token, of the values ``source``.
    """

    rows: tuple[CachedValue, ...]
    per_token: Quantity
    full: Quantity
    why: str
    least: Quantity = NOTHING
    source: tuple[Ref, ...] = ()


@dataclass(frozen=True)
class Costs(Displayed):
    """The costs of running ``batch`` sequences; the module says how each is counted.

    The formulas are for this batch: 64 is in them as a number.

    ``weights``, ``activations`` and the cache count entries: ``.bytes("bfloat16")`` of any gives
    bytes. ``tokens`` are those of one pass, of the card's first input.
    """

    model: CardData
    lengths: Mapping[str, int]
    batch: int
    parameters: ParameterCosts
    equations: tuple[EquationCost, ...]
    forward: Operations
    backward: Operations
    whole: Operations
    tokens: Quantity
    weights: Quantity
    activations: Quantity
    cache: CacheCost

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The precisions with known sizes in bytes."""
        return tuple(BYTES)

    def page(self, style: str = "unicode") -> list[Block]:
        """The costs as tables."""
        from viete.analysis.cost_page import CostPage

        return CostPage(self, style).blocks()

    @property
    def step(self) -> Operations:
        """Forward and backward together."""
        return self.forward + self.backward

    @property
    def forward_per_token(self) -> Operations:
        return self.forward.per(self.tokens)

    @property
    def backward_per_token(self) -> Operations:
        return self.backward.per(self.tokens)


def costs(card: CardData, lengths: Mapping[str, int] | None = None, batch: int = 1) -> Costs:
    """Count what a model needs, for texts of the given ``lengths``, else of the greatest ones.

    Raises VieteError for a name that is not a length of the card, for a length or batch out of
    range, and where dimensions give something that is not a whole number (``d_k = 5/2``).
    """
    return Counter(card, dict(lengths or {}), batch).costs()


def lengths_of(card: CardData, given: Mapping[str, int]) -> dict[str, int]:
    """All lengths of a card with a value: the given ones, checked, else the greatest allowed.

    Raises VieteError for a name that is not a length of the card, and for a length out of range.
    """
    out: dict[str, int] = {}
    for name in given:
        if name not in card.lengths:
            known = ", ".join(card.lengths) or "none"
            raise VieteError(f"{card.title} has no length {name}; its lengths are {known}")
    for name, at_most in card.lengths.items():
        size = card.size(at_most)
        most = None if size is None else evaluated(size, card.sizes)
        if name not in given:
            out |= {} if most is None else {name: math.floor(most)}
            continue
        n = given[name]
        if not whole(n) or (most is not None and n > most):
            limit = "up" if most is None else f"to {most}"
            raise VieteError(f"{name} must be a whole number from 1 {limit}, not {n!r}")
        out[name] = int(n)
    return out


def evaluated(size: Size, numbers: Mapping[str, Fraction]) -> Fraction | None:
    """The number of a size; None if a dimension has no value."""
    try:
        return size.evaluate(numbers)
    except KeyError:
        return None
    except ZeroDivisionError:
        raise VieteError(f"{size} divides by zero") from None


class Counter:
    """Computes `Costs` from the flow of every equation."""

    def __init__(self, card: CardData, lengths: dict[str, int], batch: int) -> None:
        if not whole(batch):
            raise VieteError(f"the batch must be a whole number from 1 up, not {batch!r}")
        self.model, self.batch = card, int(batch)
        self.numbers = dict(card.sizes)
        self.lengths = lengths_of(card, lengths)
        self.numbers |= {name: Fraction(n) for name, n in self.lengths.items()}
        self.flows = Flows(card, self.batch)
        self.shares: dict[str, tuple[str, Size]] = {}  # of equations, by letter: what is computed
        for s in sparse_sums(card).values():
            few, inverse = kept_count(card, s.factor), self.flows.ranges[s.letter].inverse()
            if few is not None and inverse is not None:
                share = s.letter, self.flows.size(few, self.flows.env) * inverse
                self.shares |= dict.fromkeys((e.name for e in (*s.inside, s.equation)), share)

    def quantity(self, size: Size) -> Quantity:
        value = evaluated(size, self.numbers)
        if value is not None and value.denominator != 1:
            raise VieteError(
                f"{size} is {value} here, not a whole number; choose dimensions that divide"
            )
        return Quantity(size, None if value is None else int(value))

    def blocks(self, loop: Loop | None) -> Size:
        return ONE if loop is None else self.flows.count(loop.lower, loop.upper)

    def costs(self) -> Costs:
        rows, reads = [], []
        each: dict[str, Size] = {}  # entries of a named value at one position, in all blocks
        for k, e in enumerate(self.model.equations):
            self.flows.tally = Tally()
            v, found = self.flows.equation(e)
            blocks = self.blocks(e.loop)
            reads.append((e, self.flows.known[e.name], found))
            others = (a.size for label, a in v.axes.items() if label not in (v.own, BATCH))
            one = math.prod(others, start=blocks)
            each[e.name] = each.get(e.name, ZERO) + one
            rows.append(self.equation(k + 1, e, v, blocks))
        tokens = Size.of(self.batch)
        if self.model.inputs and self.model.inputs[0].shape:
            tokens *= self.flows.size(self.model.inputs[0].shape[0], self.flows.env)
        parameters = self.parameters()
        return Costs(
            self.model, self.lengths, self.batch, parameters, tuple(rows),
            total(r.forward for r in rows), total(r.backward for r in rows),
            total(r.whole for r in rows), self.quantity(tokens), parameters.total,
            sum((r.entries for r in rows), NOTHING), self.cache(reads, each),
        )  # fmt: skip

    def equation(self, number: int, e: Equation, v: Flow, blocks: Size) -> EquationCost:
        t = self.flows.tally
        share = blocks * self.shares.get(e.name, ("", ONE))[1]
        forward, backward, whole = (
            Operations(self.quantity(a * many), self.quantity(b * many))
            for a, b, many in (
                (t.products, t.operations, share),
                (t.products_back, t.operations_back, share),
                (t.products, t.operations, blocks),
            )
        )
        return EquationCost(number, e, forward, backward, whole, self.quantity(v.entries * blocks))

    def parameters(self) -> ParameterCosts:
        embeddings = self.flows.embeddings.kinds()
        rows, active = [], NOTHING
        for p in self.model.parameters:
            if p.from_config:
                continue
            each = math.prod((self.flows.size(e, self.flows.env) for e in p.shape), start=ONE)
            count = ONE
            for letter in p.symbol.slots:
                loop = next((x for x in self.model.loops if x.index == letter), None)
                count *= self.blocks(loop) if loop else self.flows.ranges[letter]
            embeds = embeddings[p.name]
            rows.append(ParameterCost(p, self.quantity(each), self.quantity(each * count), embeds))
            readers = [e.name for e in self.model.equations if p.name in e.reads]
            shares = {self.shares.get(name, ("", ONE)) for name in readers}
            alike = len(shares) == 1 and {s for s, _ in shares} <= {*p.symbol.slots}
            share = next(iter(shares))[1] if alike else ONE
            active += self.quantity(each * count * share)
        total = sum((r.all for r in rows), NOTHING)
        token, position, unembedding = (
            sum((r.all for r in rows if kind in r.embeds), NOTHING)
            for kind in ("token", "position", "unembedding")
        )
        plain = sum((r.all for r in rows if not r.embeds), NOTHING)
        return ParameterCosts(tuple(rows), total, plain, token, position, unembedding, active)

    # -- the cache ---------------------------------------------------------------------------------

    def cache(
        self, found: list[tuple[Equation, Flow, frozenset[Read]]], each: Mapping[str, Size]
    ) -> CacheCost:
        """The values that positions read of each other, for lengths whose tokens see none later."""
        ahead: dict[Size, str] = {}  # length → why its tokens cannot come one by one
        kept: dict[tuple[str, Size], list[Size | None]] = {}
        mine: dict[tuple[str, Size], bool] = {}  # whether it grows with the tokens that read it
        for e, v, reads in found:
            if v.place is not None and any(r.place == v.place and not r.past for r in reads):
                ahead.setdefault(v.place, self.why_ahead(e))
        for n in self.model.lengths:  # and what is made of a value that reads later ones
            later = [e for e, v, reads in found if reads_later(self.model, v, reads, n)]
            changed = forward_slice(self.model, {e.name for e in later})
            if any(str(v.place) == n and e.name in changed for e, v, _ in found):
                ahead.setdefault(Size.of(n), self.why_ahead(later[0]))
        for _, v, reads in found:
            for r in reads if v.place is not None and v.place not in ahead else ():
                if r.name in each:
                    kept.setdefault((r.name, r.place), []).extend([r.width] if r.summed else [])
                    mine[r.name, r.place] = mine.get((r.name, r.place), False) or r.place == v.place
        rows = tuple(
            self.cached(name, place, widths, each[name]) for (name, place), widths in kept.items()
        )
        growing = [r.each for r in rows if mine[r.left.key, r.along]]
        why = ""
        if not rows:
            why = next(iter(ahead.values()), "no position reads a named value of another one")
        names = frozenset(r.left.key for r in rows if mine[r.left.key, r.along])
        source = self.fewest(names, found, each) if growing else names
        lefts = {e.name: e.left for e in reversed(self.model.equations)}
        per_token = sum(growing, NOTHING)
        least = per_token if source == names else sum(
            (self.quantity(each[x]) for x in sorted(source)), NOTHING)  # fmt: skip
        full = sum((r.all for r in rows), NOTHING)
        return CacheCost(rows, per_token, full, why, least, tuple(lefts[x] for x in sorted(source)))

    def fewest(
        self, names: frozenset[str], found: list[tuple[Equation, Flow, frozenset[Read]]],
        each: Mapping[str, Size],
    ) -> frozenset[str]:  # fmt: skip
        """The named values with the fewest entries of which kept values can be made again.

        Each row of these is made of its own row of those.
        """
        made: dict[str, frozenset[str]] = {}
        for e, v, reads in found:
            alone = v.place is not None and not reads
            made[e.name] = (
                made.get(e.name, e.reads) & e.reads & each.keys() if alone else frozenset()
            )

        def entries(some: frozenset[str]) -> Fraction | None:
            return evaluated(sum((each[x] for x in some), ZERO), self.numbers)

        best, least = names, entries(names)
        seen, queue = {names}, [names]
        while queue and least is not None and len(seen) < MOST_SETS:
            some = queue.pop()
            for x in some:
                other = (some - {x}) | made[x]
                many = entries(other)
                if made[x] and other not in seen and many is not None and many <= least:
                    seen.add(other)
                    queue.append(other)
                    if many < least:
                        best, least = other, many
        return best

    def why_ahead(self, e: Equation) -> str:
        name = show_symbol(e.left.symbol, "unicode")
        return f"{name} reads later positions, so a new token changes every earlier value"

    def cached(self, name: str, place: Size, widths: list[Size | None], each: Size) -> CachedValue:
        e = next(e for e in self.model.equations if e.name == name)
        positions = place
        # A window counts only if every sum over these positions is through it.
        width = widths[0] if len(set(widths)) == 1 else None
        if width is not None:
            n, w = evaluated(place, self.numbers), evaluated(width, self.numbers)
            positions = width if n is None or w is None or w < n else place
        return CachedValue(
            e.left, place, self.quantity(each), self.quantity(positions),
            self.quantity(each * positions),
        )  # fmt: skip


def whole(value: object) -> bool:
    """Whether a value is a positive integer."""
    return isinstance(value, Integral) and int(value) > 0


def total(parts: Iterable[Operations]) -> Operations:
    """The sum of several."""
    return sum(parts, Operations(NOTHING, NOTHING))
