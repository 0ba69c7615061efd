"""Arrays of exact numbers, with the operations that the evaluator needs from an array library.

The arrays are NumPy's, of objects: `Number`; the floats ±∞, which only a mask introduces; and
`Undefined`, which may only occur on the side of a `where` that is not chosen. A number that grows
too long gets a name, so the work is bounded by the number of operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from viete.errors import VieteError
from viete.evaluate.scalars import scalar
from viete.graph.card import CardData
from viete.meanings.entries import Namespace
from viete.meanings.exact.atoms import Atom
from viete.meanings.exact.deciding import Undecided
from viete.meanings.exact.numbers import FUNCTIONS, Number, total, total_over
from viete.meanings.exact.polynomials import ONE, Pair, by_denominator, multiplied
from viete.notation.tree import Expr, Ref, Slot, Symbol

MOST_TERMS = 40  # of a number within an equation; a longer one is carried on as a name
MOST_BITS = 7_000  # of a coefficient: a fraction may double its digits in every block
MOST_WORK = 400  # products of terms in one operation, before its operands are named
LETTERS = ("u", "w", "q", "c", "g", "z", "name")  # for names made within an equation
Entry = Any  # a Number, or ±∞ as a float


class Placed(VieteError):
    """An error that names the entry of an array where it occurred."""

    def __init__(self, message: str, place: tuple[int, ...]) -> None:
        super().__init__(message + (f" (at {list(place)})" if place else ""))


class Undefined:
    """An entry without a value, and the reason: using the entry raises the error.

    ``1 / x`` has no value at 0, and ``where(x > 0, 1 / x, 0)`` does not use it there.
    """

    def __init__(self, error: VieteError) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("shape", "ndim", "dtype"):  # NumPy looks for these
            raise AttributeError(name)
        raise self.error

    def __float__(self) -> float:
        raise self.error


class Numbers(Namespace):
    """Arrays of exact numbers, computed entry by entry.

    ``letter`` is one that the card does not use: ``u_7`` is the seventh name made within an
    equation. ``ties`` lists the entries that were proven equal.
    """

    __name__ = "exact"
    dtype = object
    read = staticmethod(Number.of)

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.names: dict[Any, Atom] = {}
        self.inner = 0
        self.ties: list[str] = []

    @classmethod
    def of(cls, card: CardData) -> Self:
        return cls(next(x for x in LETTERS if x not in card.scope.symbols))

    # -- entries -----------------------------------------------------------------------------------

    def operand(self, x: Any) -> Any:
        """A plain number as an entry. Raises VieteError if it has no value."""
        return entry(x)

    def lifted(self, x: Any) -> Any:
        if isinstance(x, Undefined) or getattr(x, "dtype", type(x)) in (bool, object):
            return x
        return each(self.operand, x) if isinstance(x, np.ndarray) else self.operand(x)

    def alone(self, x: Any) -> Any:
        x = x.item() if isinstance(x, np.ndarray) else x
        q = x.rational if isinstance(x, Number) else None
        return x if q is None else q

    def places(self, x: np.ndarray) -> np.ndarray:
        return each(place, x).astype(np.int64)

    def pi(self) -> Number:
        return Number.pi()

    # -- names -------------------------------------------------------------------------------------

    def named(self, x: Number, label: Expr | None = None) -> Number:
        """The number under a name; equal definitions get the same name."""
        if x.key not in self.names:
            if label is None:
                self.inner += 1
                label = Ref(Symbol("value", self.letter, (Slot(str(self.inner)),)))
            self.names[x.key] = Atom("name", x, x.atoms(), label)
        return Number.atom(self.names[x.key])

    def short(self, x: Entry) -> Entry:
        """The entry, or a name for it if it has grown long."""
        if isinstance(x, float) or (x.size <= MOST_TERMS and x.bits <= MOST_BITS):
            return x
        return self.named(x)

    def factors(self, x: Number, y: Number) -> tuple[Number, Number]:
        """Two operands, named if their product would be too long to write out."""
        if x.size * y.size > MOST_WORK:
            x, y = (self.named(z) if z.size > 12 else z for z in (x, y))
        return x, y

    def total(self, terms: Sequence[Entry]) -> Entry:
        """A sum. Many fractions over different denominators are named before they are added."""
        infinite = [t for t in terms if isinstance(t, float)]
        if infinite:
            found = math.fsum(infinite) if len(set(infinite)) == 1 else math.nan
            return defined(found)
        groups = by_denominator((t.num, t.den) for t in terms)
        if len(groups) < 2:
            return self.short(total(terms))
        parts = [total_over(den, nums) for den, nums in groups]
        if math.prod(len(p.den) for p in parts) * sum(len(p.num) for p in parts) > MOST_WORK:
            parts = [p if p.den is ONE else self.named(p) for p in parts]
        return self.short(total(parts))

    # -- whole arrays ------------------------------------------------------------------------------

    def matmul(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        for array in (x, y):
            check_defined(array)
        out = np.empty((*x.shape[:-1], y.shape[-1]), dtype=object)
        for lead in np.ndindex(x.shape[:-2]):
            columns = [list(column) for column in y[lead].T]
            for j, row in enumerate(x[lead]):
                for k, column in enumerate(columns):
                    out[(*lead, j, k)] = self.dot(row, column)
        return out

    def dot(self, row: Sequence[Entry], column: Sequence[Entry]) -> Entry:
        """Σ a b, reduced to lowest terms once."""
        terms: list[Entry] = []
        products: list[Pair] = []
        for a, b in zip(row, column, strict=True):
            if isinstance(a, float) or isinstance(b, float):
                terms.append(self.apply("times", a, b))
            elif not a.num or not b.num:
                continue
            elif a.den is not ONE and b.den is not ONE:
                terms.append(self.apply("times", a, b))
            else:
                a, b = self.factors(a, b)
                products.append((multiplied(a.num, b.num), b.den if a.den is ONE else a.den))
        sums = [total_over(den, nums) for den, nums in by_denominator(products)]
        if len(sums) == 1 and not terms:
            return self.short(sums[0])
        return self.total(sums + terms)

    def fold(self, op: str, array: np.ndarray, axis: int) -> Any:
        rows = np.moveaxis(array, axis, -1)
        out = np.empty(rows.shape[:-1], dtype=object)
        for k, place in enumerate(np.ndindex(out.shape)):
            try:
                row = [self.operand(x) for x in rows[place]]
                out[place] = self.folded(op, row)
                if op == "argmax":
                    self.note_ties(row, int(out[place]), k)
            except VieteError as error:
                raise error if isinstance(error, Placed) else Placed(error.message, place) from None
        found = out.astype(np.int64) if op == "argmax" else out
        return found if out.shape else found.item()

    def folded(self, op: str, row: Sequence[Entry]) -> Any:
        """A row reduced to one number."""
        match op:
            case "sum":
                return self.total(row)
            case "mean":
                return self.apply("div", self.total(row), Number.of(len(row)))
            case "argmax":
                return self.best(row, 1)
        return row[self.best(row, 1 if op == "max" else -1)]

    def note_ties(self, row: Sequence[Entry], found: int, k: int) -> None:
        same = [j for j in range(found + 1, len(row)) if not self.compared(row[j], row[found])]
        if same:
            tied = ", ".join(map(str, [found, *same[:-1]])) + f" and {same[-1]}"
            self.ties.append(f"entries {tied} of row {k} are proven equal, so the first counts")

    def best(self, row: Sequence[Entry], way: int) -> int:
        """The first index of the greatest (or, with −1, smallest) entry."""
        found, open_ = 0, []
        for k in range(1, len(row)):
            try:
                if self.compared(row[k], row[found]) * way > 0:
                    found = k
            except Undecided:  # it may not matter: a later entry may be above both
                open_.append(k)
        for k in open_:
            try:
                order = self.compared(row[k], row[found]) * way
            except Undecided as error:
                raise VieteError(
                    f"it is undecided which of the entries {found} and {k} is greater: {error}"
                ) from None
            if order > 0 or (order == 0 and k < found):
                found = k
        return found

    # -- entry by entry ----------------------------------------------------------------------------

    def entrywise(self, op: str, arrays: list[Any]) -> Any:
        if op == "where":
            return np.where(*arrays)
        if op in ("and", "or", "not"):
            return getattr(np, f"logical_{op}")(*arrays)
        if not any(getattr(a, "shape", ()) for a in arrays):
            items = [a.item() if hasattr(a, "shape") else a for a in arrays]
            return self.operation(op, items, ())
        lined: Any = np.broadcast_arrays(*(np.asarray(a, dtype=object) for a in arrays))
        out = np.empty(lined[0].shape, dtype=np.bool_ if op in COMPARE else object)
        for at, *items in zip(np.ndindex(out.shape), *(a.flat for a in lined), strict=True):
            out[at] = self.operation(op, items, at)
        return out

    def operation(self, op: str, items: Sequence[Any], at: tuple[int, ...]) -> Any:
        """One primitive at one place; `Undefined` if it has no value there.

        Raises VieteError for a comparison without a value.
        """
        try:
            missing = [x for x in items if isinstance(x, Undefined)]
            if missing and op not in COMPARE:
                return missing[0]
            return self.apply(op, *map(entry, items))
        except VieteError as error:
            found = error if isinstance(error, Placed) else Placed(error.message, at)
            if op in COMPARE:
                raise found from None
            return Undefined(found)

    def apply(self, op: str, *args: Entry) -> Any:
        """One primitive on numbers. Raises VieteError if it has no value or is undecided."""
        try:
            if op in COMPARE:
                return COMPARE[op](self.compared(*args))
            if op in ("max", "min"):
                return args[self.best(args, 1 if op == "max" else -1)]
            if any(isinstance(a, float) for a in args):
                if op == "arctan":
                    return Number.pi() * (1 if args[0] > 0 else -1) / 2
                return defined(infinite(op, args))
            return RULES[op](self, *args)
        except ZeroDivisionError:
            raise VieteError("this divides by exactly zero") from None
        except VieteError:
            raise
        except ArithmeticError as error:
            raise VieteError(f"this is {error}") from None

    def product(self, x: Number, y: Number) -> Entry:
        x, y = self.factors(x, y)
        return self.short(x * y)

    def quotient(self, x: Number, y: Number) -> Entry:
        x, y = self.factors(x, y)
        return self.short(x / y)

    def power(self, x: Number, p: Number) -> Number:
        n = p.rational
        if n is not None and n.denominator == 1 and x.size > 1 and x.size ** abs(n) > MOST_WORK:
            x = self.named(x)
        found: Number = self.short(x**p)
        return found

    def compared(self, x: Entry, y: Entry) -> int:
        """−1, 0 or 1, as x is less than, equal to or greater than y."""
        if isinstance(x, float) or isinstance(y, float):
            a, b = (z if isinstance(z, float) else 0.0 for z in (x, y))
            return (a > b) - (a < b)
        return total([x, -y]).sign()


RULES: dict[str, Callable[..., Entry]] = {
    "neg": lambda space, x: -x, "add": lambda space, x, y: space.total([x, y]),
    "sub": lambda space, x, y: space.total([x, -y]), "mod": lambda space, x, y: x % y,
    "had": Numbers.product, "times": Numbers.product, "prod": Numbers.product,
    "div": Numbers.quotient, "pow": Numbers.power,
    **{name: lambda space, x, f=f: space.short(f(x)) for name, f in FUNCTIONS.items()},
}  # fmt: skip
COMPARE: dict[str, Callable[[int], bool]] = {
    "lt": lambda s: s < 0, "le": lambda s: s <= 0, "gt": lambda s: s > 0,
    "ge": lambda s: s >= 0, "eq": lambda s: s == 0, "ne": lambda s: s != 0,
}  # fmt: skip


def each(rule: Callable[[Any], Any], array: np.ndarray) -> np.ndarray:
    """The array of results of a rule on every entry."""
    found: np.ndarray = np.asarray(np.frompyfunc(rule, 1, 1)(array), dtype=object)
    return found


def check_defined(x: Any) -> None:
    """Raise the error of the first entry without a value, if any."""
    for one in x.flat if isinstance(x, np.ndarray) and x.dtype == object else [x]:
        if isinstance(one, Undefined):
            raise one.error


def place(x: Number | int) -> int:
    """An index; one that is not whole becomes an invalid one, which is refused later."""
    check_defined(x)
    q = entry(x).rational
    return int(q) if q is not None and q.denominator == 1 else -(2**62)


def entry(x: Any) -> Entry:
    """A plain number as an exact one; ±∞ stays a float. Raises VieteError for `Undefined`."""
    if isinstance(x, Undefined):
        raise x.error
    if isinstance(x, Number) or (isinstance(x, float) and math.isinf(x)):
        return x
    if isinstance(x, np.ndarray):
        return entry(x.item())
    return Number.of(x)


LIMITS = frozenset("add sub times had prod div neg exp tanh erf sqrt log".split())


def infinite(op: str, args: tuple[Entry, ...]) -> float:
    """An operation with ±∞; of a finite operand only the sign counts."""
    values = [a if isinstance(a, float) else float(a.sign()) for a in args]
    if op not in LIMITS or (op == "div" and not values[1]):
        return math.nan
    return float(scalar(op, values))


def defined(x: float) -> Entry:
    """±∞, or the finite result of an operation with ∞. Raises VieteError for NaN, as of ∞ − ∞."""
    if math.isnan(x):
        raise VieteError("an operation with ∞ here has no value")
    return x if math.isinf(x) else Number.of(x)
