"""Unevaluated values: every entry of an exact run as the expression that computes it.

An `Unevaluated` entry is an operation on entries, down to the numbers that an equation received.
Its written form is `spelled_out`; carried out in exact numbers, it gives the entry's value.
`Derivation` evaluates an equation on such entries by the rules of every meaning, and records the
intermediate stages that a reader wants to see separately.

The written form follows four rules, the same for every card:

- a mean, a sum, a product or a function inside a formula is written as a number if it is a
  fraction; otherwise it is written out if that is short, and else as its number; a matrix product
  that is added to something stays written out;
- entries that a mask hides (e^{−∞}) are not written, nor are factors 1 and terms 0 that come from a
  function's definition (γ = 1, β = 0, ε = 0). A 0 or 1 of the data is written;
- a sum of more than `MOST` terms is written as its first terms, … and its last;
- a number too long to read is written by its first digits and …
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from viete.errors import VieteError
from viete.evaluate.labelled import Value
from viete.graph.card import CardData
from viete.graph.evaluator import REDUCTIONS, Env, Letter
from viete.library.functions import inlined
from viete.meanings.entries import Entries
from viete.meanings.exact.factoring import simplest
from viete.meanings.exact.namespace import COMPARE, Entry, Numbers, each, entry
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.run import ExactRun
from viete.meanings.exact.spelling import E, first_digits, short, spelled
from viete.notation.lexer import ELEMENTARY
from viete.notation.substitution import substitute
from viete.notation.tree import (
    MEASURES,
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
)
from viete.rewrite.simplify import evaluated, neutral

MOST, FIRST = 8, 3  # terms that are written, and of a longer sum those before the dots
MOST_PAIRS = 3  # products of a sum that is written with those that are 0
SHORT = 12  # numbers in a formula that is written out inside another
LONG = 28  # letters above which a number is written by its first digits
DOTS = Ref(Symbol("value", "…"))
UNARY = (*ELEMENTARY, "abs", "floor")
ARITHMETIC = ("add", "sub", "neg", "div", "times", "had", "prod")
OPEN = ("leaf", *ARITHMETIC, "pow", "mod")  # written out, unless long


class Unevaluated:
    """An operation that is not carried out; a leaf holds a number.

    ``part`` marks an entry of a part that is shown separately.
    """

    __slots__ = ("_number", "args", "op", "part", "space")

    def __init__(
        self, space: Numbers, op: str, args: Sequence[Unevaluated] = (), number: Entry = None
    ) -> None:
        self.space, self.op, self.args, self._number = space, op, tuple(args), number
        self.part = False

    @property
    def number(self) -> Entry:
        """The result of the operation. Raises VieteError if it has no value or is undecided."""
        if self._number is None:
            numbers = [a.number for a in self.args]
            if self.op == "dot":
                half = len(numbers) // 2
                self._number = self.space.dot(numbers[:half], numbers[half:])
            elif self.op in REDUCTIONS:
                self._number = entry(self.space.folded(self.op, numbers))
            else:
                self._number = self.space.apply(self.op, *numbers)
        return self._number

    @property
    def rational(self) -> Fraction | None:
        x = self.number
        return x.rational if isinstance(x, Number) else None

    @property
    def gone(self) -> bool:
        """Whether a mask makes this a zero, which the formula leaves out."""
        if self.op == "exp":
            return self.args[0].hidden
        if self.op in ("had", "times", "prod"):
            return any(a.gone for a in self.args)
        return self.op == "div" and self.args[0].gone

    @property
    def hidden(self) -> bool:
        """Whether this is −∞, which only a mask introduces."""
        if self.op == "neg":
            inner = self.args[0]._number
            return isinstance(inner, float) and inner == math.inf
        if self.op == "leaf":
            return isinstance(self._number, float) and self._number == -math.inf
        return self.op in ("add", "sub", "div", "times", "had") and self.args[0].hidden


class Formulas(Numbers):
    """Arrays of unevaluated entries; ``space`` computes their numbers when needed."""

    def __init__(self, space: Numbers) -> None:
        super().__init__(space.letter)
        self.space = space

    def operand(self, x: Any) -> Unevaluated:
        return x if isinstance(x, Unevaluated) else Unevaluated(self.space, "leaf", (), entry(x))

    def lifted(self, x: Any) -> Any:
        if getattr(x, "dtype", type(x)) in (bool,):
            return x
        return each(self.operand, x) if isinstance(x, np.ndarray) else self.operand(x)

    def alone(self, x: Any) -> Any:
        return x.item() if isinstance(x, np.ndarray) else x

    def places(self, x: np.ndarray) -> np.ndarray:
        return super().places(each(lambda one: self.operand(one).number, x))

    def dot(self, row: Sequence[Entry], column: Sequence[Entry]) -> Unevaluated:
        return Unevaluated(self.space, "dot", [self.operand(x) for x in (*row, *column)])

    def fold(self, op: str, array: np.ndarray, axis: int) -> Any:
        rows = np.moveaxis(array, axis, -1)
        out = np.empty(rows.shape[:-1], dtype=object)
        for at in np.ndindex(out.shape):
            out[at] = Unevaluated(self.space, op, [self.operand(x) for x in rows[at]])
        return out if out.shape else out.item()

    def operation(self, op: str, items: Sequence[Any], at: tuple[int, ...]) -> Any:
        args = [self.operand(x) for x in items]
        if op in COMPARE:
            return self.space.apply(op, *(a.number for a in args))
        return Unevaluated(self.space, op, args)


# -- evaluating ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """A stage on the way to an equation's value: its label, its formula, and its entries."""

    label: Expr
    formula: Expr
    value: Value


Key = tuple[Expr, tuple[Any, ...]]


class Derivation(Entries):
    """Evaluates the formulas of an exact run on unevaluated entries, and records the stages.

    A stage is a reduction, a function of one number, a matrix product, a named function within a
    formula, an argument that is a formula, and a sum that occurs twice. A named function is its
    definition with the arguments inserted, where an argument that is a formula gets a letter.
    """

    def __init__(self, run: ExactRun) -> None:
        super().__init__(run.program.model, run.sizes, run.arrays.like, run.lookup,
                         space=Formulas(run.space))  # fmt: skip
        self.exact = run.arrays
        self.stages: dict[Expr, Stage] = {}
        self.known: dict[Key, Value] = {}  # evaluated formulas, by the meanings of their letters
        self.twice: set[Expr] = set()
        self.open: set[Expr] = set()  # formulas that are written out, so they are no stages
        self.quiet = 0

    def derived(self, e: Expr, loops: Mapping[str, int]) -> tuple[Value, list[Stage]]:
        """The value of an equation's right side, and its stages in order of computation."""
        self.stages, self.known, self.twice, self.open = {}, {}, set(), set()
        e = at_block(e, loops, self.env.sizes)
        self.leave_open(e)
        value = self.of(e)
        stages = [s for formula, s in self.stages.items()
                  if formula in self.twice or not is_arithmetic(formula)]  # fmt: skip
        for stage in stages:
            if is_arithmetic(stage.formula) and stage.label == stage.formula:
                continue  # short enough to be written out again
            for x in np.asarray(stage.value.array, dtype=object).flat:
                if isinstance(x, Unevaluated):
                    x.part = True
        return Value(self.lift(value), value.axes), stages

    # -- sizes, bounds and places, which are wanted as numbers -------------------------------------

    def size(self, e: Expr, env: Env[Value]) -> int:
        arguments = {k: self.evaluated(v) for k, v in (env.arguments or {}).items()}
        return self.exact.size(e, replace(env, arguments=arguments))

    def along(
        self, v: Value, label: str, index: Expr, among: Letter, env: Env[Value]
    ) -> Value:  # fmt: skip
        with self.quietly():
            return super().along(v, label, index, among, env)

    def gather(
        self, v: Value, label: str, at: Value, index: Expr, among: Letter, env: Env[Value]
    ) -> Value:  # fmt: skip
        return super().gather(v, label, self.evaluated(at), index, among, env)

    def evaluated(self, v: Value) -> Value:
        """A number without axes, carried out; a fraction if it equals one."""
        if not isinstance(v.array, Unevaluated):
            return v
        return replace(v, array=self.exact.space.alone(v.array.number))

    # -- stages ------------------------------------------------------------------------------------

    def of(self, e: Expr, env: Env[Value] | None = None) -> Value:
        env = self.env if env is None else env
        noted = not self.quiet and e not in self.open and is_stage(self.card, e)
        if isinstance(e, Apply) and e.op in self.card.function:
            e, env = self.with_letters(e, env)
        key = in_place(e, env)
        if noted and key in self.known:
            self.twice.add(e)
            return self.known[key]
        if isinstance(e, Table) or (isinstance(e, Bind) and e.ranges is not None):
            with self.quietly():
                v = super().of(e, env)
        else:
            v = super().of(e, env)
        if noted and (v.axes or not v.const):
            self.known[key] = v
            self.stages.setdefault(e, Stage(e, e, lettered(v, env)))
        return v

    def apply(self, e: Apply, env: Env[Value]) -> Value:
        if e.op not in self.card.function:
            return super().apply(e, env)

        def rule(x: Expr) -> Expr | None:
            if isinstance(x, Apply) and x.op in MEASURES and x.free <= e.free:
                return Num(Fraction(self.size(x, env)))
            return neutral(x) or evaluated(x)

        body = transform(inlined(e, self.card.function, taken=self.card.names), rule)
        self.leave_open(body)  # the call itself is the stage, if one is wanted
        arguments = {} if env.arguments is None else env.arguments
        return self.of(body, replace(env, arguments=arguments, level=env.level + 1, alone=True))

    def with_letters(self, e: Apply, env: Env[Value]) -> tuple[Apply, Env[Value]]:
        """A call with letters for arguments that are formulas, and the values of these letters."""
        args, values = list(e.args), dict(env.arguments or {})
        arguments = self.card.function[e.op].arguments
        for k, a in enumerate(e.args):
            if simple(a):
                continue
            self.leave_open(a)
            key = in_place(a, env)
            v = self.known[key] if key in self.known and not self.quiet else self.of(a, env)
            number = self.evaluated(v).array if v.const and not v.axes else None
            if isinstance(number, Fraction):  # such as a size
                args[k] = Num(number)
                continue
            stage = self.stages.get(a)
            letter = stage.label if stage else self.letter_for(arguments[k].symbol.base, values)
            assert isinstance(letter, Ref)
            if not self.quiet:
                self.known[key] = v
                self.stages.setdefault(a, Stage(letter, a, lettered(v, env)))
                self.twice.add(a)
            args[k], values[letter.key] = letter, v
        if args == list(e.args):
            return e, env
        return Apply(e.op, tuple(args), e.semi), replace(env, arguments=values)

    def letter_for(self, base: str, values: Mapping[str, Value]) -> Ref:
        """A letter for an argument that is a formula: the function's letter, unless taken."""
        taken = {s.label for s in self.stages.values()}
        bases = [base, *(x for x in "zwqfgabcdehijklmnoprstuvxy" if x != base)]
        for mark in ("", "'", "''", *(f"'{k}" for k in range(3, 100))):
            for b in bases:
                letter = Ref(Symbol("value", b + mark))
                if letter not in taken and letter.key not in values and (
                    b not in self.card.scope.symbols
                ):  # fmt: skip
                    return letter
        raise VieteError("an equation has more formulas for arguments than there are letters")

    def leave_open(self, e: Expr) -> None:
        """Mark a formula, and products among its terms, as no stages."""
        self.open.add(e)
        if is_arithmetic(e):
            terms = list(e.children)
            while terms:
                x = terms.pop()
                if is_product(x):
                    self.open.add(x)
                elif is_arithmetic(x):
                    terms += x.children

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Record no stages, while sizes, places and entries of tables are evaluated."""
        self.quiet += 1
        try:
            yield
        finally:
            self.quiet -= 1


def in_place(e: Expr, env: Env[Value]) -> Key:
    """A formula with the meanings of its letters."""
    return e, tuple((x, env.index.get(x)) for x in sorted(e.free))


def lettered(v: Value, env: Env[Value]) -> Value:
    """A value whose axes of a sum or concat are named by their letters."""
    for name, letter in env.index.items():
        if isinstance(letter, Letter) and letter.label in v.axes and name not in v.axes:
            v = v.relabel(letter.label, name)
    return v


def is_stage(card: CardData, e: Expr) -> bool:
    """Whether a sub-expression is a stage that a reader would want to see separately."""
    if isinstance(e, Bind):
        return True
    return isinstance(e, Apply) and (
        e.op in card.function or e.op in ("inner", "prod", "add", "sub", *UNARY)
        or (e.op in REDUCTIONS and len(e.args) == 1)
    )  # fmt: skip


def is_arithmetic(e: Expr) -> bool:
    return isinstance(e, Apply) and e.op in ("add", "sub", "neg", "div", "times", "had")


def is_product(e: Expr) -> bool:
    """Whether a formula is a matrix product or a sum over an index, which stays open in sums."""
    return (isinstance(e, Apply) and e.op in ("prod", "inner")) or (
        isinstance(e, Bind) and e.op == "sum"
    )


def simple(e: Expr) -> bool:
    """Whether a formula is a name, a number or a row, short enough for use inside another."""
    if isinstance(e, Pick):
        return simple(e.value)
    if isinstance(e, Apply) and e.op == "neg":
        return simple(e.args[0])
    return isinstance(e, Ref | Num | Idx)


def at_block(e: Expr, loops: Mapping[str, int], sizes: Mapping[str, Fraction]) -> Expr:
    """A formula with numbers for block letters: ``x^0`` for ``x^{i-1}`` at i = 1.

    ``sizes`` are inserted where one numbers a block: ``x^N``.
    """

    def rule(x: Expr) -> Expr | None:
        match x:
            case Ref() if x.index:
                index = (Num(sizes[k.key]) if isinstance(k, Ref) and k.key in sizes else k
                         for k in x.index)  # fmt: skip
                return replace(x, index=tuple(index))
            case Apply("add" | "sub", (Num(), Num())) if loops:
                return evaluated(x)
        return None

    return transform(substitute(e, letters={k: Num(Fraction(n)) for k, n in loops.items()}), rule)


# -- writing ---------------------------------------------------------------------------------------


def spelled_out(
    x: Unevaluated, cut: bool = True, plain: bool = False, known: Collection[int] = ()
) -> Expr:
    """The formula that computed an entry; without ``cut`` nothing is abbreviated.

    ``plain`` also leaves out neutral factors 1 and terms 0 of the data, such as scales and shifts
    without effect, and writes numbers in their simplest form. ``known`` are the `id` of entries
    that were written out before, and are not written out again.
    """
    return EntryWriter(cut, plain, known).outermost(x)


class EntryWriter:
    """Writes entries; `spelled_out` describes what is left out."""

    def __init__(self, cut: bool = True, plain: bool = False, known: Collection[int] = ()) -> None:
        self.cut, self.plain, self.known = cut, plain, known

    def outermost(self, x: Unevaluated) -> Expr:
        """An entry with its outermost operation written out."""
        if id(x) in self.known:
            return self.leaf(x)
        return self.open(x, self.operand if x.op in ARITHMETIC else self.inside)

    def operand(self, x: Unevaluated) -> Expr:
        """An operand of the outermost arithmetic operation."""
        if id(x) in self.known:
            return self.leaf(x)
        arithmetic = x.op in (*ARITHMETIC, "dot") and not x.part
        return self.outermost(x) if arithmetic else self.inside(x)

    def inside(self, x: Unevaluated) -> Expr:
        """A part within a formula: its number, or the formula that computed it."""
        if id(x) in self.known:
            return self.leaf(x)
        if x.rational is not None and (x.part or x.op not in OPEN):
            return self.leaf(x)
        if x.op in OPEN and not x.part:
            return self.open(x, self.inside)
        if x.op in ("sum", *UNARY) and weight(x) <= SHORT:
            return self.open(x, self.inside)
        return self.leaf(x)

    def leaf(self, x: Unevaluated) -> Expr:
        """A number; if it is too long to read or contains a name, its first digits."""
        found = x.number
        if isinstance(found, float):
            return INFINITY if found > 0 else Apply("neg", (INFINITY,))
        return self.number(found)

    def number(self, found: Number) -> Expr:
        """A number as written within a formula."""
        if not self.cut:
            return spelled(found)
        named = any(a.kind == "name" for a in found.atoms())
        e = None if named else short(found, LONG, simplest if self.plain else spelled)
        return first_digits(found) if e is None else e

    def open(self, x: Unevaluated, inner: Callable[[Unevaluated], Expr]) -> Expr:
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
            pairs = [(a, b) for a, b in zip(x.args[:half], x.args[half:], strict=True)
                     if not (a.gone or b.gone)]  # fmt: skip
            if self.plain and len(pairs) > MOST_PAIRS:  # of a long sum what is not 0
                pairs = [p for p in pairs if 0 not in (p[0].rational, p[1].rational)] or pairs[:1]
            return self.terms([Apply("times", (self.inside(a), self.inside(b))) for a, b in pairs])
        if x.op == "exp":
            power = self.inside(x.args[0])
            if power == Num(Fraction(1)):
                return E
            return Apply("pow", (E, power)) if weight(x.args[0]) <= 3 else Apply("exp", (power,))
        if x.op in ("max", "min", "argmax") and len(x.args) > MOST and self.cut:
            args = [inner(a) for a in x.args]
            return Apply(x.op, (*args[:FIRST], DOTS, args[-1]))
        if x.op in ("add", "sub") and x.args[1].gone:
            return inner(x.args[0])
        if x.op == "add" and x.args[0].gone:
            return inner(x.args[1])
        op = "times" if x.op in ("had", "prod") else x.op
        if self.plain and len(x.args) == 2 and (k := idle(op, x.args)) is not None:
            return inner(x.args[k])
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


INFINITY = Apply("inf", ())


def idle(op: str, args: Sequence[Unevaluated]) -> int | None:
    """The index of the operand that is the result, if the other is a neutral 1 or 0."""
    nothing = {"add": 0, "times": 1, "sub": 0, "div": 1}.get(op)
    sides = (1, 0) if op in ("add", "times") else (1,)
    return next((1 - k for k in sides if nothing is not None and args[k].op != "dot"
                 and args[k].rational == nothing), None)  # fmt: skip


def weight(x: Unevaluated, most: int = SHORT) -> int:
    """The number of numbers in a formula, counted up to ``most``."""
    if x.op == "leaf" or (x.op not in UNARY and x.rational is not None):
        return 1
    count = 0
    for a in x.args:
        if not a.gone:
            count += weight(a, most)
            if count > most:
                break
    return count


__all__ = ["Derivation", "EntryWriter", "Stage", "Unevaluated", "at_block", "spelled_out"]
