"""The numbers put in: every value as it came about, before anything cancels.

One more meaning of the same graph. An entry is a `Shown`: an operation on entries that has not been
carried out, down to the numbers that the equation was given. From it come both what is written
(`spelled_out`) and, by carrying it out in exact numbers, what it is (`Shown.number`).

What is written follows four rules, the same for every card:

- a mean, a sum, a product or a function within a formula is written as its number where that is a
  fraction, and else as it came about if that is short, or as its number; a matrix product that is
  itself added to something stays open;
- what the formula itself leaves out is not written: a term that a mask has hidden (e^{−∞}), and
  the γ = 1, β = 0, ε = 0 that a function's definition gives where a card gives none. A 0 or 1 of
  the data is written;
- a sum of more than `MOST` terms is written as its first ones, … and its last;
- a number too long to read is written by its first digits and …
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.array import Lookup, check_places
from viete.evaluate.labelled import Array, Value
from viete.graph.card import CardData
from viete.graph.evaluator import Env, Letter
from viete.meanings.exact.deciding import Undecided
from viete.meanings.exact.meaning import Exact, place
from viete.meanings.exact.namespace import COMPARE, Entry, Namespace, entry
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.spelling import E, short, spelled
from viete.notation.printer import show
from viete.notation.tree import Apply, Bind, Expr, Idx, Num, Pick, Ref, Symbol, Table, transform

MOST, FIRST = 8, 3  # terms that are written, and of a longer sum those before the dots
SHORT = 12  # numbers in a formula that is written inside another as it came about
LONG = 28  # letters of a number that is written by its first digits
DOTS = Ref(Symbol("value", "…"))
FOLDS = ("sum", "mean", "max", "min", "argmax")
UNARY = ("exp", "log", "sqrt", "erf", "tanh", "sin", "cos", "abs", "floor")
ARITHMETIC = ("add", "sub", "neg", "div", "times", "had", "prod")
OPEN = ("leaf", *ARITHMETIC, "pow", "pi", "mod")  # written as they came about, unless long


class Shown:
    """An operation that has not been carried out; a leaf holds a number.

    ``silent`` marks a number that is not written where it makes no difference, ``part`` an entry of
    a part, which is shown by itself.
    """

    __slots__ = ("_found", "args", "op", "part", "silent", "space")

    def __init__(
        self, space: Namespace, op: str, args: Sequence[Shown] = (), found: Entry = None,
        silent: bool = False,
    ) -> None:  # fmt: skip
        self.space, self.op, self.args, self._found = space, op, tuple(args), found
        self.silent, self.part = silent, False

    @property
    def number(self) -> Entry:
        """The operation carried out. Raises VieteError where it has no value or is undecided."""
        if self._found is None:
            self._found = carried_out(self.space, self.op, [a.number for a in self.args])
        return self._found

    @property
    def rational(self) -> Fraction | None:
        x = self.number
        return x.rational if isinstance(x, Number) else None

    @property
    def gone(self) -> bool:
        """Whether a mask has made this a zero that the formula leaves out."""
        if self.op == "exp":
            return self.args[0].hidden
        if self.op in ("had", "times", "prod"):
            return any(a.gone for a in self.args)
        if self.op == "div":
            return self.args[0].gone
        return self.silent and self._found is not None and self.rational == 0

    @property
    def hidden(self) -> bool:
        """Whether this is −∞, which only a mask brings in."""
        if self.op == "neg":
            inner = self.args[0]._found
            return isinstance(inner, float) and inner == math.inf
        if self.op == "leaf":
            return isinstance(self._found, float) and self._found == -math.inf
        return self.op in ("add", "sub", "div", "times", "had") and self.args[0].hidden


def carried_out(space: Namespace, op: str, numbers: list[Entry]) -> Entry:
    if op == "sum":
        return space.total(numbers)
    if op == "dot":
        half = len(numbers) // 2
        return space.dot(numbers[:half], numbers[half:])
    if op == "mean":
        return space.apply("div", space.total(numbers), Number.of(len(numbers)))
    if op == "argmax":
        return Number.of(space.best(numbers, 1))
    if op in ("max", "min"):
        return numbers[space.best(numbers, 1 if op == "max" else -1)]
    return space.apply(op, *numbers)


# -- evaluating ------------------------------------------------------------------------------------


class Open(Namespace):
    """Operations on arrays of `Shown`; numbers are computed by ``space``, when they are wanted."""

    def __init__(self, space: Namespace) -> None:
        super().__init__(space.label)
        self.space = space

    def entry(self, x: Any) -> Shown:
        if isinstance(x, Shown):
            return x
        if isinstance(x, np.ndarray):
            return self.entry(x.item())
        return Shown(self.space, "leaf", found=entry(x))

    def whole(self, array: Any) -> Any:
        """An array (or number) with `Shown` for entries; conditions stay what they are."""
        if not hasattr(array, "shape"):
            return self.entry(array)
        if array.dtype == np.bool_:
            return array
        out = np.empty(array.shape, dtype=object)
        for at in np.ndindex(array.shape):
            out[at] = self.entry(array[at])
        return out

    def total(self, terms: Sequence[Entry]) -> Entry:
        return Shown(self.space, "sum", [self.entry(x) for x in terms])

    def dot(self, row: Sequence[Entry], column: Sequence[Entry]) -> Entry:
        return Shown(self.space, "dot", [self.entry(x) for x in (*row, *column)])

    def fold(self, op: str, array: np.ndarray, axis: int) -> Any:
        rows = np.moveaxis(array, axis, -1)
        out = np.empty(rows.shape[:-1], dtype=object)
        for at in np.ndindex(out.shape):
            out[at] = Shown(self.space, op, [self.entry(x) for x in rows[at]])
        return out if out.shape else out.item()

    def sum(self, array: np.ndarray, axis: int) -> Any:
        return self.fold("sum", array, axis)

    def mean(self, array: np.ndarray, axis: int) -> Any:
        return self.fold("mean", array, axis)

    def max(self, array: np.ndarray, axis: int) -> Any:
        return self.fold("max", array, axis)

    def min(self, array: np.ndarray, axis: int) -> Any:
        return self.fold("min", array, axis)

    def argmax(self, array: np.ndarray, axis: int) -> Any:
        return self.fold("argmax", array, axis)

    def entrywise(self, op: str, arrays: list[Any]) -> Any:
        if op == "where":
            return np.where(arrays[0], *(self.whole(a) for a in arrays[1:]))
        if op in ("and", "or", "not"):
            return getattr(np, f"logical_{op}")(*arrays)
        if not any(hasattr(a, "shape") and a.shape != () for a in arrays):
            return self.apply(op, *(self.entry(a) for a in arrays))
        lined: Any = np.broadcast_arrays(*(np.asarray(self.whole(a), object) for a in arrays))
        out = np.empty(lined[0].shape, dtype=np.bool_ if op in COMPARE else object)
        for at in np.ndindex(out.shape):
            out[at] = self.apply(op, *(a[at] for a in lined))
        return out

    def apply(self, op: str, *args: Shown) -> Any:
        if op in COMPARE:
            return self.space.apply(op, *(a.number for a in args))
        return Shown(self.space, op, args)


@dataclass(frozen=True)
class Part:
    """A stage on the way to an equation's value: how it is called, what it is, and its entries.

    ``function`` is the named function whose definition it is a part of, if it is one.
    """

    label: Expr
    formula: Expr
    value: Value
    function: str = ""


class PutIn(Exact):
    """Evaluates expressions on arrays of `Shown`, and notes the parts that it meets.

    ``space`` is the exact namespace of the run that is shown. A part is a reduction, a function of
    one number, a matrix product, a named function within a formula, an argument that is a formula,
    and a sum that occurs twice.
    """

    def __init__(
        self, card: CardData, sizes: Mapping[str, Fraction], like: Array, lookup: Lookup,
        space: Namespace,
    ) -> None:  # fmt: skip
        super().__init__(card, sizes, like, lookup)
        self.open = Open(space)
        self.space = self.xp = self.open
        self.seen: dict[Expr, Part] = {}
        self.twice: set[Expr] = set()
        self.calls: list[tuple[str, dict[str, Expr]]] = []
        self.quiet = 0
        self.opened: set[int] = set()  # formulas that are not parts, since they stand open
        self.terms: set[int] = set()  # arithmetic within those
        self.loops: dict[str, int] = {}

    def put_in(self, e: Expr, loops: Mapping[str, int]) -> tuple[Value, list[Part]]:
        """The value of an equation's right side, and its parts in the order of computing."""
        env = replace(self.env, index={**self.env.index, **loops})
        self.seen, self.twice, self.loops = {}, set(), dict(loops)
        self.opened.add(id(e))
        value = self.of(e, env)
        value = Value(self.open.whole(self.lift(value)), value.axes)
        parts = [p for formula, p in self.seen.items()
                 if formula in self.twice or not is_arithmetic(p.formula)]  # fmt: skip
        for part in parts:
            if is_arithmetic(part.formula) and part.label == part.formula:
                continue  # short enough to be written out again
            for x in np.asarray(part.value.array, dtype=object).flat:
                if isinstance(x, Shown):
                    x.part = True
        return value, [replace(p, label=self.shortened(p.label)) for p in parts]

    def shortened(self, e: Expr) -> Expr:
        """A formula with the letters that its parts were given."""

        def rule(x: Expr) -> Expr | None:
            part = self.seen.get(x)
            return None if part is None or part.label == x else part.label

        return transform(e, rule)

    # -- values ------------------------------------------------------------------------------------

    def lift(self, v: Value) -> Array:
        return v.array if hasattr(v.array, "shape") else self.open.entry(v.array)

    def number_of(self, v: Value) -> Value:
        """A scalar as the plain fraction that sizes, bounds and places are."""
        if isinstance(v.array, Shown):
            q = v.array.rational
            return Value(v.array.number if q is None else q, v.axes, v.const)
        return v

    def size(self, e: Expr, env: Env) -> int:
        if isinstance(e, Idx) and isinstance(k := env.index[e.name], int):
            return k
        found = self.number_of(self.quietly(e, env)).array
        if not isinstance(found, Fraction | int) or Fraction(found).denominator != 1:
            raise VieteError(f"{show(e)} is not a whole number")
        return int(found)

    def along(self, v: Value, label: str, index: Expr, among: Letter, env: Env) -> Value:
        if not isinstance(index, Idx | Num):
            at = self.number_of(self.quietly(index, env))
            if not at.axes and isinstance(at.array, Fraction):
                index = Num(at.array)
        return super().along(v, label, index, among, env)

    def gather(
        self, v: Value, label: str, at: Value, index: Expr, among: Letter, env: Env
    ) -> Value:  # fmt: skip
        return super().gather(v, label, self.number_of(at), index, among, env)

    def gathered(self, v: Value, label: str, at: Value, first: int) -> Value:
        if at.array.dtype == object:
            whole = [place(self.open.entry(x).number) for x in at.array.flat]
            at = Value(np.array(whole, np.int64).reshape(at.array.shape), at.axes, at.const)
        check_places(at, first, v.size(label))
        return super().gathered(v, label, at, first)

    def entrywise(self, op: str, args: list[Value]) -> Value:
        if any(v.axes for v in args):
            return super().entrywise(op, args)
        arrays = [self.lift(v) if not isinstance(v.array, bool) else v.array for v in args]
        return Value(self.open.entrywise(op, arrays), (), all(v.const for v in args))

    def quietly(self, e: Expr, env: Env) -> Value:
        """A size or a place: nothing of it is a part."""
        self.quiet += 1
        try:
            return self.of(e, env)
        finally:
            self.quiet -= 1

    # -- parts -------------------------------------------------------------------------------------

    def of(self, e: Expr, env: Env | None = None) -> Value:
        env = self.env if env is None else env
        noted = not self.quiet and id(e) not in self.opened and is_part(self.card, e)
        formula = self.told(e, env) if noted else None
        if formula in self.seen:
            self.twice.add(formula)
            return self.seen[formula].value
        if is_arithmetic(e) and (id(e) in self.opened or id(e) in self.terms):
            assert isinstance(e, Apply)
            for child in e.args:
                if is_arithmetic(child):
                    self.terms.add(id(child))
                elif is_product(child):
                    self.opened.add(id(child))
        hush = isinstance(e, Table) or (isinstance(e, Bind) and e.lower is not None)
        self.quiet += hush
        try:
            v = super().of(e, env)
        finally:
            self.quiet -= hush
        if formula is not None and formula not in self.seen and (v.axes or not v.const):
            self.seen[formula] = Part(formula, formula, self.lettered(v, env), self.function)
        return v

    @property
    def function(self) -> str:
        """The function whose definition is being followed."""
        return self.calls[-1][0] if self.calls else ""

    def lettered(self, v: Value, env: Env) -> Value:
        """With the axes that a sum or concat runs over called by their letters."""
        for letter, meaning in env.index.items():
            if isinstance(meaning, Letter) and meaning.label in v.axes and letter not in v.axes:
                v = v.relabel(meaning.label, letter)
        return v

    def told(self, e: Expr, env: Env) -> Expr:
        """A formula as a reader of the equation would write it, arguments put in."""
        if not self.calls:
            return told(e, {}, {}, self.loops, self.env.sizes)
        return told(e, self.calls[-1][1], env.sizes, {}, {})

    def apply(self, e: Apply, env: Env) -> Value:
        function = self.card.function.get(e.op)
        if function is None:
            return super().apply(e, env)
        args, names = [], {}
        for argument, a in zip(function.arguments, e.args, strict=False):
            formula, key = self.told(a, env), argument.symbol.key
            if simple(formula) or self.quiet:
                args.append(self.of(a, env))
                names[key] = formula
                continue
            self.opened.add(id(a))
            v = self.of(a, env)
            if v.const and not v.axes:  # a size or the like
                v = self.number_of(v)
                if isinstance(v.array, Fraction):
                    args.append(v)
                    names[key] = Num(v.array)
                    continue
            args.append(v)
            if formula not in self.seen:
                letter = self.letter_for(argument.symbol.base)
                self.seen[formula] = Part(letter, formula, self.lettered(v, env), self.function)
            self.twice.add(formula)
            names[key] = self.seen[formula].label
        for argument in function.arguments[len(args) :]:
            assert argument.default is not None
            names[argument.symbol.key] = argument.default
        self.calls.append((e.op, names))
        self.opened.add(id(function.body))  # the call itself is the part, if one is wanted
        try:
            return self.call(e.op, args, env.level + 1)
        finally:
            self.calls.pop()

    def letter_for(self, base: str) -> Expr:
        """A letter for an argument that is a formula: its own, unless that is taken."""
        taken = {p.label for p in self.seen.values()}
        bases = [base, *(x for x in "zwqfgabcdehijklmnoprstuvxy" if x != base)]
        for mark in ("", "'", "''", *(f"'{k}" for k in range(3, 100))):
            for b in bases:
                letter = Ref(Symbol("value", b + mark))
                if letter not in taken and b not in self.card.scope.symbols:
                    return letter
        raise VieteError("an equation has more formulas for arguments than there are letters")

    def call(self, name: str, args: list[Value], level: int = 1) -> Value:
        for argument in self.card.function[name].arguments[len(args) :]:
            assert argument.default is not None
            v = self.of(argument.default, self.env)
            shown = self.open.entry(v.array)
            shown.silent = True
            args = [*args, Value(shown, (), True)]
        return super().call(name, args, level)


def is_part(card: CardData, e: Expr) -> bool:
    """Whether a sub-expression is a stage that a reader would want to see by itself."""
    match e:
        case Bind():
            return True
        case Apply(op, args):
            return (
                op in card.function or op in ("inner", "prod", "add", "sub")
                or (op in FOLDS and len(args) == 1) or op in UNARY
            )  # fmt: skip
    return False


def is_arithmetic(e: Expr) -> bool:
    return isinstance(e, Apply) and e.op in ("add", "sub", "neg", "div", "times", "had")


def is_product(e: Expr) -> bool:
    """A matrix product, or a sum over an index: what stays open where something is added to it."""
    return isinstance(e, Apply | Bind) and e.op in ("prod", "inner", "sum") and not (
        isinstance(e, Apply) and e.op == "sum"
    )  # fmt: skip


def simple(e: Expr) -> bool:
    """A name or a number, or a row of one: short enough to stand inside another formula."""
    if isinstance(e, Pick):
        return simple(e.value)
    if isinstance(e, Apply) and e.op == "neg":
        return simple(e.args[0])
    return isinstance(e, Ref | Num | Idx)


def told(
    e: Expr, names: Mapping[str, Expr], sizes: Mapping[str, Fraction], loops: Mapping[str, int],
    dims: Mapping[str, Fraction],
) -> Expr:  # fmt: skip
    """A formula with arguments, sizes and block numbers put in (``dims`` as block numbers only)."""

    def rule(x: Expr) -> Expr | None:
        match x:
            case Idx(name) if name in loops:
                return Num(Fraction(loops[name]))
            case Ref() if x.index and dims:
                index = (Num(dims[i.key]) if isinstance(i, Ref) and i.key in dims else i
                         for i in x.index)  # fmt: skip
                return replace(x, index=tuple(index))
            case Ref() if not x.index and x.key in names:
                return names[x.key]
            case Ref() if not x.index and x.key in sizes:
                return Num(sizes[x.key])
            case Apply("add" | "sub" as op, (Num(a), Num(b))) if loops or sizes:
                return Num(a + b if op == "add" else a - b)
            case Apply("add", (a, Num(value))) if names and value == 0:  # ε = 0 by default
                return a
            case Apply("had", (Num(value), a)) if names and value == 1:  # γ = 1 by default
                return a
            case Apply("prod" | "times", (Num(a), Num(b))) if sizes:
                return Num(a * b)
            case Apply("div", (Num(a), Num(b))) if sizes and b:
                return Num(a / b)
        return None

    return transform(e, rule)


# -- writing ---------------------------------------------------------------------------------------


def spelled_out(x: Shown, cut: bool = True) -> Expr:
    """The entry as it came about; without ``cut`` nothing is abbreviated."""
    return Writer(cut).whole(x)


class Writer:
    """Writes entries; ``cut`` allows dots for what is long."""

    def __init__(self, cut: bool = True) -> None:
        self.cut = cut

    def whole(self, x: Shown) -> Expr:
        """An entry with its outermost operation open."""
        if x.op in ARITHMETIC:
            return self.open(x, self.under)
        return self.open(x, self.inside)

    def under(self, x: Shown) -> Expr:
        """An operand of the outermost arithmetic."""
        arithmetic = x.op in (*ARITHMETIC, "dot") and not x.part
        return self.whole(x) if arithmetic else self.inside(x)

    def inside(self, x: Shown) -> Expr:
        """A part within a formula: its number, or how it came about."""
        if x.rational is not None and (x.part or x.op not in OPEN):
            return self.leaf(x)
        if x.op in OPEN and not x.part:
            return self.open(x, self.inside)
        if x.op in ("exp", "sum", "sqrt", *UNARY) and weight(x) <= SHORT:
            return self.open(x, self.inside)
        return self.leaf(x)

    def leaf(self, x: Shown) -> Expr:
        """A number; one that is too long to read, or has a name in it, by its first digits."""
        found = x.number
        if isinstance(found, float):
            return INFINITY if found > 0 else Apply("neg", (INFINITY,))
        if not self.cut:
            return spelled(found)
        named = any(a.kind == "name" for a in found.atoms())
        e = None if named else short(found, LONG)
        return digits(found) if e is None else e

    def open(self, x: Shown, inner: Callable[[Shown], Expr]) -> Expr:
        if x.op == "leaf":
            return self.leaf(x)
        if x.gone:
            return Num(Fraction(0))
        if x.op == "sum":
            return self.terms([inner(a) for a in x.args if not a.gone])
        if x.op == "mean":
            return Apply("div", (self.terms([inner(a) for a in x.args if not a.gone]),
                                 Num(Fraction(len(x.args)))))  # fmt: skip
        if x.op == "dot":
            half = len(x.args) // 2
            pairs = zip(x.args[:half], x.args[half:], strict=True)
            return self.terms([
                Apply("times", (self.inside(a), self.inside(b)))
                for a, b in pairs if not (a.gone or b.gone)
            ])  # fmt: skip
        if x.op == "exp":
            power = self.inside(x.args[0])
            return Apply("pow", (E, power)) if weight(x.args[0]) <= 3 else Apply("exp", (power,))
        if x.op in ("max", "min", "argmax") and len(x.args) > MOST and self.cut:
            args = [inner(a) for a in x.args]
            return Apply(x.op, (*args[:FIRST], DOTS, args[-1]))
        if (kept := unsilenced(x)) is not None:
            return inner(kept)
        op = "times" if x.op in ("had", "prod") else x.op
        return Apply(op, tuple(inner(a) for a in x.args))

    def terms(self, terms: list[Expr]) -> Expr:
        if not terms:
            return Num(Fraction(0))
        if self.cut and len(terms) > MOST:
            terms = [*terms[:FIRST], DOTS, terms[-1]]
        out = terms[0]
        for t in terms[1:]:
            out = Apply("add", (out, t))
        return out


def unsilenced(x: Shown) -> Shown | None:
    """The operand that remains where the other is 0 or 1 by default, or hidden by a mask."""
    if len(x.args) != 2:
        return None
    a, b = x.args
    if x.op in ("add", "sub"):
        if b.gone:
            return a
        return b if a.gone and x.op == "add" else None
    if x.op in ("had", "times", "prod") and a.silent and a.rational == 1:
        return b
    if x.op in ("had", "times", "prod", "div") and b.silent and b.rational == 1:
        return a
    return None


INFINITY = Apply("inf", ())


def weight(x: Shown, most: int = SHORT) -> int:
    """How many numbers a formula has, as far as ``most``."""
    if x.op == "leaf" or (x.op not in UNARY and x.rational is not None):
        return 1
    count = 0
    for a in x.args:
        if not a.gone:
            count += weight(a, most)
            if count > most:
                break
    return count


def digits(x: Number, places: int = 6) -> Expr:
    """The first digits, cut off and not rounded, with dots: ``0.333333…``.

    Where these cannot be told (is it 0.5, or just below?) an enclosure is written.
    """
    try:
        e: Expr = Ref(Symbol("value", first_digits(abs(x), places)))
        return Apply("neg", (e,)) if x.sign() < 0 else e
    except Undecided:
        return Ref(Symbol("value", f"({enclosure(x, places)})"))


def enclosure(x: Number, places: int = 6) -> str:
    """``0.5 ± 1e-30``: what is proven of a number whose digits are undecided."""
    middle, _, radius = x.ball(128).str(places).strip("[]").rpartition("+/-")
    return f"{middle.strip() or '0'} ± {radius.strip()}"


def first_digits(x: Number, places: int) -> str:
    """Of a positive number. More digits than are wanted say that none of these was rounded up."""
    more = places
    while True:
        more += 6
        _, found, exponent = Decimal(x.decimal(more)).as_tuple()
        assert isinstance(exponent, int)
        if set(found[places:]) - {0} or more > 60:
            break
    first = len(found) + exponent - 1  # the power of ten of the first digit
    text = "".join(map(str, found[:places])).ljust(places, "0")
    dots = "…" if set(found[places:]) - {0} else ""
    if 0 <= first < places - 1:
        return f"{text[: first + 1]}.{text[first + 1 :]}{dots}"
    if -6 < first < 0:
        return f"0.{'0' * (-first - 1)}{text}{dots}"
    return f"{text[0]}.{text[1:]}{dots}e{first}"


__all__ = ["Part", "PutIn", "Shown", "enclosure", "spelled_out"]
