"""Derivation: how each entry of an exact run was computed, and the stages on the way.

`Derivation` evaluates an equation on unevaluated entries by the rules of every meaning, and records
the intermediate stages that a reader wants to see separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from viete.meanings.exact.run import ExactRun
from viete.meanings.exact.unevaluated import UNARY, Formulas, Unevaluated
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
from viete.rewrite.blocks import at_block
from viete.rewrite.simplify import evaluated, neutral


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
            stage = self.stages.get(a)
            if simple(a) or (stage is not None and not isinstance(stage.label, Ref)):
                continue  # a stage that is an entry of a value stands as such
            self.leave_open(a)
            key = in_place(a, env)
            v = self.known[key] if key in self.known and not self.quiet else self.of(a, env)
            number = self.evaluated(v).array if v.const and not v.axes else None
            if isinstance(number, Fraction):  # such as a size
                args[k] = Num(number)
                continue
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


__all__ = ["Derivation", "Stage"]
