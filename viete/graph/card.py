"""A card as plain data: everything it declares, with every name resolved and nothing computed.

Two cards are equal if they say the same, however they are spelled or laid out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from viete.errors import Text, VieteError
from viete.graph.claim import Claim as Claim
from viete.graph.operator import Operator
from viete.graph.sizes import Size, size_of
from viete.library.functions import Function, behind, in_force, library
from viete.notation.cursor import parse_name
from viete.notation.parser import parse
from viete.notation.printer import show_equation
from viete.notation.substitution import apart, fresh, substitute
from viete.notation.symbols import Scope
from viete.notation.tree import Apply, Bind, Expr, Ref, Symbol
from viete.notation.words import Words

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Dimension:
    """A named number: a size (``d = 512``), a length (``n ≤ 2048``) or a constant (``ε = 1e-5``).

    A length has ``at_most`` and no ``value``, because the input sets it. ``config`` is its key in a
    Hugging Face ``config.json``.
    """

    symbol: Symbol
    value: Expr | None = None
    at_most: Expr | None = None
    config: str = ""
    meaning: str = ""
    text: Text = field(default=Text(""), compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.symbol.key


@dataclass(frozen=True)
class Index:
    """An index letter's range, both ends included: ``h = 1, …, H``."""

    name: str
    lower: Expr
    upper: Expr
    meaning: str = ""
    text: Text = field(default=Text(""), compare=False, repr=False)


@dataclass(frozen=True)
class Input:
    """An input of a run: ``t ∈ {low, …, high}^n`` (whole numbers) or ``∈ ℝ^{n × d}``.

    With index letters it is a family, as a parameter is: one array for every block.
    """

    symbol: Symbol
    shape: tuple[Expr, ...]
    low: Expr | None = None
    high: Expr | None = None
    default: Expr | None = None
    meaning: str = ""
    text: Text = field(default=Text(""), compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.symbol.key


@dataclass(frozen=True)
class Parameter:
    """A learned array, one for every value of its index letters; or numbers from a config."""

    symbol: Symbol
    shape: tuple[Expr, ...]
    dtype: str = ""
    value: str = ""
    init: str = ""
    checkpoint: str = ""
    meaning: str = ""
    text: Text = field(default=Text(""), compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.symbol.key

    @property
    def from_config(self) -> bool:
        """Whether the numbers are in a config (``config KEY`` as tensor) and are not trained."""
        return self.checkpoint.startswith("config ")


@dataclass(frozen=True)
class Loop:
    """``For i = lower, …, upper``: equations that run once for each i in turn.

    ``order`` counts a card's loops, so that an encoder's and a decoder's are two. A loop that runs
    ``down`` takes the upper block first.
    """

    index: str
    lower: Expr
    upper: Expr
    order: int = 0
    down: bool = False


@dataclass(frozen=True)
class Equation:
    """``left = right``, with its loop and the titled part of the card that contains it.

    ``stated`` is the shape that the card gives. It is checked; equal equations may
    state different shapes. ``changes`` are the conditions under which an intervention changes rows.
    """

    left: Ref
    right: Expr
    loop: Loop | None = None
    part: str = ""
    meaning: str = ""
    stated: tuple[Expr, ...] | None = field(default=None, compare=False)
    text: Text = field(default=Text(""), compare=False, repr=False)
    stated_text: Text = field(default=Text(""), compare=False, repr=False)
    changes: tuple[Expr, ...] = field(default=(), compare=False, repr=False)

    @property
    def name(self) -> str:
        return self.left.symbol.key

    @property
    def reads(self) -> frozenset[str]:
        """The names on its right side."""
        return self.right.keys


def with_right(e: Equation, right: Expr) -> Equation:
    """An equation with another right side; the same object if nothing changes."""
    return e if right == e.right else restated(e, e.left, right)


def restated(e: Equation, left: Ref, right: Expr) -> Equation:
    """An equation with other sides and a text that shows them."""
    text = Text(show_equation(left, right), e.text.file, e.text.line)
    return replace(e, left=left, right=right, text=text)


@dataclass(frozen=True, repr=False)
class CardData:
    """The content of a card, without the methods that `viete.nouns` adds.

    Two are equal if they say the same.
    """

    title: str
    about: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    vocabulary: tuple[str, ...] = ()
    notation: tuple[tuple[str, str], ...] = ()  # names with commas between them, and what they mean
    dims: tuple[Dimension, ...] = ()
    indices: tuple[Index, ...] = ()
    inputs: tuple[Input, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    functions: tuple[Function, ...] = ()
    equations: tuple[Equation, ...] = ()
    derived: tuple[Equation, ...] = ()
    operators: tuple[Operator, ...] = ()
    claims: tuple[Claim, ...] = ()

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, CardData):
            return self is other
        return all(getattr(self, f.name) == getattr(other, f.name) for f in fields(CardData))

    @classmethod
    def of(cls, card: CardData) -> Self:
        """A card as an instance of this class; always the same object.

        The two are one content, and share whatever is found out about it.
        """
        if type(card) is cls:
            return card
        found = card.rewritten
        found.setdefault((type(card),), card)
        if (cls,) not in found:
            found[(cls,)] = made = cls.__new__(cls)
            object.__setattr__(made, "__dict__", card.__dict__)
        made = found[(cls,)]
        return made

    def __getstate__(self) -> dict[str, Any]:
        """The content; what was found out about it is found again by the copy."""
        return {f.name: self.__dict__[f.name] for f in fields(self)}

    def __repr__(self) -> str:
        counts = f"{len(self.parameters)} parameters, {len(self.equations)} equations"
        return f"<model {self.title}: {counts}>"

    @cached_property
    def function(self) -> dict[str, Function]:
        """All functions in force by name; see `in_force`."""
        return in_force(self.functions)

    @cached_property
    def library_names(self) -> dict[str, str]:
        """The library's name for each library function, by this card's name for it.

        A card's own function is not among them, whatever its name.
        """
        own = {f.name for f in self.functions}
        plain = {name: name for name in library() if name not in own}
        return plain | {behind(name): name for name in library()}

    def library_name(self, e: Expr) -> str:
        """The library's name of the function or primitive applied here, or nothing."""
        if not isinstance(e, Apply):
            return ""
        return self.library_names.get(e.op, "" if e.op in self.function else e.op)

    def applies(self, e: Expr, name: str) -> bool:
        """Whether a node calls the library's function, or a function with the same definition."""
        found = self.function.get(e.op) if isinstance(e, Apply) else None
        return found is not None and found.body == library()[name].body

    def library(self, name: str, *args: Expr) -> Apply:
        """A call of the library's function, by a name that means this function in this card."""
        return library()[name].of(*args, name=behind(name) if name in self.hidden else name)

    @cached_property
    def hidden(self) -> frozenset[str]:
        """The library's functions whose names mean something else in this card."""
        own = (f.name for f in self.functions)
        return frozenset(library()) & {*own, *(s.base for s in self.symbols.values())}

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        found = {e.loop: None for e in self.equations if e.loop is not None}
        return tuple(found)

    @cached_property
    def loop_letters(self) -> frozenset[str]:
        return frozenset(loop.index for loop in self.loops)

    def block_letters(self, e: Expr) -> frozenset[str]:
        """The free letters of a formula that count blocks."""
        own = self.loop_letters
        return (e.free & own) | {letter for slot, letter in e.standing if slot in own}

    def over_blocks(self, e: Bind) -> bool:
        """Whether a binder's letter counts blocks."""
        return e.index in self.loop_letters or e.index in self.block_letters(e.body)

    def blocks_of(self, symbol: Symbol) -> tuple[str, ...]:
        """The index letters of a symbol that count blocks."""
        return tuple(s for s in symbol.slots if s in self.loop_letters)

    def heads_of(self, symbol: Symbol) -> tuple[str, ...]:
        """The other index letters of a symbol, such as those of heads: they become axes."""
        return tuple(s for s in symbol.slots if s not in self.loop_letters)

    def block_index(self, ref: Ref) -> tuple[Expr, ...]:
        """The blocks to which a reference points, as formulas."""
        pairs = zip(ref.symbol.slots, ref.index, strict=True)
        return tuple(x for s, x in pairs if s in self.loop_letters)

    @cached_property
    def symbols(self) -> dict[str, Symbol]:
        """Everything declared or defined, by its key; values hide dimensions."""
        declared: dict[str, Symbol] = {d.name: d.symbol for d in self.dims}
        declared |= {i.name: i.symbol for i in self.inputs}
        declared |= {p.name: p.symbol for p in self.parameters}
        for equation in (*self.equations, *self.derived):
            declared[equation.name] = equation.left.symbol
        return declared

    @cached_property
    def operator(self) -> dict[Symbol, Operator]:
        """The functions that the card derives from its values, by name."""
        return {o.symbol: o for o in self.operators}

    @cached_property
    def scope(self) -> Scope:
        """The names that an equation of this card may use."""
        scope = Scope(indices={i.name for i in self.indices} | set(self.loop_letters))
        scope.functions |= {f.name: f.signature for f in self.function.values()}
        scope.words = lambda: self.words
        for symbol in self.symbols.values():
            scope.declare(symbol)
        scope.operators = {o.symbol: o.signature for o in self.operators}
        return scope

    @cached_property
    def words(self) -> Words:
        """The vocabulary that the card lists; questions name tokens by its words."""
        return Words(self.vocabulary)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every word with a meaning in this card; a new name must differ from all of them."""
        own = (o.symbol.base for o in self.operators if not (o.symbol.sub or o.symbol.sup))
        return frozenset((*self.scope.symbols, *self.scope.functions, *self.scope.indices, *own))

    def fresh(self, *wishes: str) -> str:
        """The first of these words that has no meaning here, not even as a bound letter."""
        return fresh(self.names | self.bound_letters, wishes)

    @cached_property
    def bound_letters(self) -> frozenset[str]:
        """The letters of all binders in the card's formulas."""
        return frozenset[str]().union(*(e.binders for e in self.formulas))

    @cached_property
    def formulas(self) -> tuple[Expr, ...]:
        """The right sides of all equations and derived names, and the claims."""
        sides = (e.right for e in (*self.equations, *self.derived))
        functions = (o.definition for o in self.operators)
        return (*sides, *functions, *(e for c in self.claims for e in c.formulas))

    def with_formulas(self, rule: Callable[[Expr], Expr]) -> Self:
        """The card with a rule applied to its `formulas`; the same card if nothing changes."""
        equations, derived = (
            tuple(with_right(e, rule(e.right)) for e in of) for of in (self.equations, self.derived)
        )
        operators = tuple(replace(o, definition=rule(o.definition)) for o in self.operators)
        claims = tuple(c.over(rule) for c in self.claims)
        parts: dict[str, Any] = {"equations": equations, "derived": derived, "operators": operators,
                 "claims": claims}  # fmt: skip
        same = all(getattr(self, name) == part for name, part in parts.items())
        return self if same else replace(self, **parts)

    @cached_property
    def plain_names(self) -> frozenset[str]:
        """The names without scripts, and the functions: names that a bound letter would hide."""
        plain = (s.base for group in self.scope.symbols.values() for s in group
                 if not (s.sub or s.sup))  # fmt: skip
        return frozenset((*plain, *self.scope.functions))

    @cached_property
    def ranges(self) -> dict[str, tuple[Expr, Expr]]:
        """The bounds of every index letter that has them, and of the loops' letters."""
        found = {loop.index: (loop.lower, loop.upper) for loop in self.loops}
        return found | {i.name: (i.lower, i.upper) for i in self.indices}

    @cached_property
    def size_scope(self) -> Scope:
        """The names that a size may use: the dimensions only."""
        return Scope.of(d.symbol for d in self.dims)

    def size_expr(self, size: Size) -> Expr:
        """A symbolic size as an expression over the dimensions.

        In an equation it means that only where no value has a dimension's name; see
        `viete.graph.distinct`.
        """
        return parse(Text(str(size)), self.size_scope)

    def substitute(self, e: Expr, **put: Any) -> Expr:
        """`substitute` in a formula of this card, without capturing any of its names."""
        return substitute(e, **put, taken=self.names, ranges=self.ranges)

    def apart(self, e: Expr) -> Expr:
        """`apart` for a formula of this card, with the definitions of functions put in."""
        return apart(e, self.function, self.names, self.ranges)

    @cached_property
    def unstated(self) -> CardData:
        """The card without its stated shapes and claims, so that sizes may change."""
        plain = tuple(replace(e, stated=None) for e in self.equations)
        return replace(CardData.of(self), equations=plain, claims=())

    @cached_property
    def rewritten(self) -> dict[tuple[Any, ...], Any]:
        """The results of `memoised` rewritings of this card."""
        return {}

    # -- sizes -------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> dict[str, Fraction]:
        """The numbers of all dimensions that have one.

        Raises VieteError where a definition is circular or divides by zero.
        """
        values: dict[str, Fraction] = {}
        waiting: dict[str, tuple[Dimension, Size, frozenset[str]]] = {}
        for dim in self.dims:
            if dim.value is not None:
                try:
                    size = self.size(dim.value)
                except VieteError as error:
                    raise dim.text.error(error.message) from None
                if size is None:
                    raise dim.text.error(f"{dim.name} must be a number or a product of dimensions")
                waiting[dim.name] = dim, size, size.names()
        while waiting:
            before = len(waiting)
            for name, (dim, size, needs) in list(waiting.items()):
                if needs <= values.keys():
                    try:
                        values[name] = size.evaluate(values)
                    except ZeroDivisionError:
                        raise dim.text.error(f"{name} divides by zero") from None
                    except VieteError as error:
                        raise dim.text.error(error.message) from None
                    del waiting[name]
                elif not all(n in values or n in waiting for n in needs):
                    del waiting[name]  # over a dimension that is not bound yet
            if len(waiting) == before:
                dim, *_ = next(iter(waiting.values()))
                raise dim.text.error(f"{' and '.join(waiting)} define each other")
        return values

    @cached_property
    def lengths(self) -> dict[str, Expr]:
        """The dimensions that are as long as the input, with their maximum."""
        return {d.name: d.at_most for d in self.dims if d.at_most is not None}

    def lengths_of(self, loop: Loop) -> frozenset[str]:
        """The lengths of the text that set a loop's number of turns; none for a block loop."""
        ends = (self.size(e) for e in (loop.lower, loop.upper))
        names = {n for size in ends if size is not None
                 for n in size.substitute(self.definitions).names()}  # fmt: skip
        return frozenset(names & self.lengths.keys())

    @cached_property
    def greatest(self) -> dict[str, Fraction]:
        """`sizes`, with the maximum of every length added."""
        values = dict(self.sizes)
        for dim in self.dims:
            size = None if dim.at_most is None else self.size(dim.at_most)
            if size is not None and size.names() <= self.sizes.keys():
                try:
                    values[dim.name] = size.evaluate(self.sizes)
                except ZeroDivisionError:
                    raise dim.text.error(f"{dim.name} divides by zero") from None
                except VieteError as error:
                    raise dim.text.error(error.message) from None
        return values

    @cached_property
    def definitions(self) -> dict[str, Size]:
        """Dimensions defined by others (``d_k = d / H``), as sizes over the rest."""
        found: dict[str, Size] = {}
        for dim in self.dims:
            size = None if dim.value is None else self.size(dim.value)
            if size is not None and size.number() is None:
                found[dim.name] = size.substitute(found)
        return {name: size.substitute(found) for name, size in found.items()}

    def size(self, e: Expr, letter: Callable[[str], Size | None] | None = None) -> Size | None:
        """An expression over this card's dimensions as a symbolic size; see `size_of`."""
        return size_of(e, lambda r: Size.of(r.key) if r.symbol.kind == "dim" else None, letter)

    def bind(self, **values: int | float | str | Fraction) -> Self:
        """The same model with other dimensions: ``model.bind(d=768, N=12)``.

        Raises VieteError for a name that is not a dimension, and for a value that is not a number.
        """
        from viete.notation.tree import num

        known = {d.name: d for d in self.dims}
        changed = {}
        for name, value in values.items():
            if name not in known:  # but perhaps in another spelling
                with suppress(VieteError):
                    name = parse_name(Text(name), "dim", set()).key
            if name not in known:
                raise VieteError(
                    f"{self.title} has no dimension {name}; it has {', '.join(known) or 'none'}"
                )
            exact = exact_number(value)
            if exact is None:
                said = "this one" if type(value) is int else repr(value)
                raise VieteError(
                    f"{name} must be a number within the range of a float, not {said:.60}"
                )
            dim = known[name]
            if dim.at_most is not None:
                changed[name] = replace(dim, at_most=num(exact))
            else:
                changed[name] = replace(dim, value=num(exact))
        return replace(self, dims=tuple(changed.get(d.name, d) for d in self.dims))


def exact_number(value: int | float | str | Fraction) -> Fraction | None:
    """A number as a fraction, a float by the decimal it prints as; None for anything else.

    Numbers that no float could hold (1e999999999) are not written out.
    """
    if isinstance(value, bool) or (isinstance(value, int) and value.bit_length() > 1100):
        return None
    said = str(value).strip()
    exponent = re.search(r"[eE]([+-]?\d+)$", said[:700])
    if len(said) > 700 or (exponent and abs(int(exponent[1])) > 400):
        return None
    try:
        return Fraction(said)
    except (ValueError, ZeroDivisionError):
        return None


def memoised(
    rewriting: Callable[Concatenate[CardData, P], T],
) -> Callable[Concatenate[CardData, P], T]:
    """Caches a rewriting by the card and its other arguments; cards do not change.

    It is given the content alone, and its cards are given back as the noun that was asked about:
    what is made does not depend on which noun asked first.
    """

    @wraps(rewriting)
    def once(card: CardData, /, *args: P.args, **options: P.kwargs) -> T:
        key = (rewriting, args, *options.items())
        if key not in card.rewritten:
            card.rewritten[key] = rewriting(CardData.of(card), *args, **options)
        return as_noun(type(card), card.rewritten[key])

    return once


def as_noun(noun: type[CardData], made: Any) -> Any:
    """The result of a rewriting; a card in it, or in a tuple, becomes an instance of this class."""
    if isinstance(made, CardData):
        return noun.of(made)
    return tuple(as_noun(noun, x) for x in made) if type(made) is tuple else made
