"""The evaluator that takes an equation apart into the operations that compute its value.

It walks a formula as every meaning does, and the numbers of that meaning do the work. Entrywise
operations are merged into one formula as far as possible: a product, a fold, a function, or a
lookup by position is a separate operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any, Self

import numpy as np

from viete.errors import VieteError
from viete.evaluate.array import Arrays
from viete.evaluate.labelled import Value, in_order, permute
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step, member_name
from viete.explore.choosing import constants
from viete.explore.operation import (
    Counting,
    EntryFormula,
    Operand,
    Operation,
    distinct_operands,
    operands_of,
)
from viete.explore.reading import entries_read
from viete.graph.evaluator import COL, ROW, Algebra, Env, Letter
from viete.notation.tree import Apply, Bind, Expr, Idx, Pick, Ref, Slice

MOST = 12  # operands of one formula
LARGEST = 20_000_000  # entries of an operation's value


class TooManyEntries(VieteError):
    """An operation has more entries than can be shown."""


@dataclass(frozen=True)
class Traced:
    """A value in some meaning, and the formula of operands for its entries."""

    value: Value
    formula: EntryFormula | Operand
    expr: Expr | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """The labels of the value's axes."""
        return self.value.axes

    @property
    def core(self) -> int:
        """The number of the value's row and column axes."""
        return self.value.core

    def relabel(self, old: str, new: str) -> Self:
        """This value with another label."""
        return replace(self, value=self.value.relabel(old, new),
                       formula=self.formula.renamed({old: new}))  # fmt: skip


class Tracer(Algebra[Traced, Env[Traced]]):
    """Breaks equations of a run into operations; ``it`` computes their values, in any numbers."""

    zero = 0

    def __init__(self, run: Run, it: Arrays) -> None:
        self.card, self.run, self.it = run.program.model, run, it
        self.chosen = constants(run)
        self.env: Env[Traced] = Env(None, it.env.sizes, it.env.index)
        self.made: list[Operation] = []
        self.path: list[Expr] = []

    def of_step(self, step: Step, member: str) -> list[Operation]:
        """The operations of one equation for one turn; the last one makes the ``member``."""
        self.made, self.path = [], []
        with np.errstate(all="ignore"):
            part = self.of(step.equation.right, replace(
                self.env, index={**self.env.index, **step.loops}))  # fmt: skip
            held = self.run.lookup(*step.makes)
            axes = in_order(held, step.equation.left.symbol.slots)
            last = self.last_of(part, axes, held)
        for operation in reversed(self.made):  # a call before the operation that it is
            if not operation.key:
                operation.key = member if operation is last else f"{member}#{operation.id}"
            if operation.last is not None:
                self.made[operation.last].key = operation.key
        return self.made

    def of_formula(self, e: Expr, letters: Mapping[str, Letter]) -> list[Operation]:
        """The operations of a formula with letters that are axes; the last one makes its value."""
        self.made, self.path = [], []
        with np.errstate(all="ignore"):
            part = self.of(e, replace(self.env, index={**self.env.index, **letters}))
        if not self.made or self.operation_of(part) is not self.made[-1]:
            self.record("elementwise", part.value, part.formula, expr=part.expr)
        return self.made

    def last_of(self, part: Traced, axes: tuple[str, ...], held: Value) -> Operation:
        """The operation that makes an equation's value, with its axes in the given order."""
        found = self.operation_of(part)
        if found is None or found is not self.made[-1] or part.axes != axes:
            sizes = {a: held.size(a) for a in axes}
            return self.record(
                "elementwise", part.value, part.formula, axes=axes, sizes=sizes, expr=part.expr
            )
        return found

    # -- what is written down ----------------------------------------------------------------------

    def record(
        self, kind: str, value: Value, formula: EntryFormula | Operand | None = None, **more: Any
    ) -> Operation:
        """Add an operation; its operands are those of ``formula``, unless they are given."""
        operands = more.pop("operands", None)
        if operands is None:
            assert formula is not None
            operands = distinct_operands(formula)
        if all(x.plain for x in operands) and kind in ("elementwise", "reduce", "contract"):
            kind = "constant"
        axes = more.pop("axes", value.axes)
        sizes = {a: int(value.size(a)) for a in value.axes} | more.pop("sizes", {})
        expr = more.pop("expr", None) or (self.path[-1] if self.path else None)
        made = Operation(len(self.made), kind, expr, formula, operands, axes, value.frozen(),
                         sizes=sizes, **more)  # fmt: skip
        self.made.append(made)
        return made

    def result(self, operation: Operation) -> Traced:
        """An operation's value as an operand of others."""
        return Traced(operation.value, Operand(operation.id, operation.axes, True), operation.expr)

    def operation_of(self, part: Traced) -> Operation | None:
        """The operation whose value a part is, with exactly its axes."""
        x = part.formula
        if isinstance(x, Operand) and x.made and x.axes == part.axes:
            return self.made[x.of]
        return None

    def settled(self, part: Traced) -> Traced:
        """A part as an operand: a formula is computed by an operation."""
        if isinstance(part.formula, Operand):
            return part
        return self.result(self.record("elementwise", part.value, part.formula, expr=part.expr))

    def operand(self, part: Traced) -> Operand:
        """The operand for a part in an operation."""
        formula = self.settled(part).formula
        assert isinstance(formula, Operand)
        return formula

    def numbers(self, env: Env[Traced]) -> Env[Value]:
        """The environment with values instead of traced values."""
        arguments = None if env.arguments is None else {
            k: v.value for k, v in env.arguments.items()}  # fmt: skip
        return Env(arguments, env.sizes, env.index, env.level, env.alone)

    # -- names -------------------------------------------------------------------------------------

    def uncached(self, e: Expr, env: Env[Traced]) -> Traced:
        self.path.append(e)
        try:
            return replace(super().uncached(e, env), expr=e)
        finally:
            self.path.pop()

    def reusable(self, v: Traced) -> Traced:
        return self.settled(v)

    def plain(self, v: Value) -> Traced:
        """A number as a traced value."""
        return Traced(v.frozen(), Operand(v.array))

    def number(self, value: Fraction) -> Traced:
        return self.plain(self.it.number(value))

    def idx(self, e: Idx, env: Env[Traced]) -> Traced:
        v = self.it.idx(e, self.numbers(env))
        letter = env.index[e.name]
        if isinstance(letter, Letter):
            return Traced(v, Operand(Counting(int(letter.first)), v.axes))
        return self.plain(v)

    def dimension(self, e: Ref, env: Env[Traced]) -> Traced:
        if e.key in self.chosen:
            return Traced(self.it.dimension(e, self.numbers(env)).frozen(), Operand(e.key))
        return self.plain(self.it.dimension(e, self.numbers(env)))

    def named(self, e: Ref, blocks: Sequence[Expr], env: Env[Traced]) -> Traced:
        loops = tuple(self.it.size(b, self.numbers(env)) for b in blocks)
        key, turn = e.key, self.run.program.loops_of(e.symbol, loops)
        if key in self.run.derived and key not in self.run.program.computed:
            definition = self.run.derived[key].right
            return self.of(definition, replace(self.env, index={**self.env.index, **turn}))
        v = self.it.declared(key, self.it.lookup(key, loops))
        axes = in_order(v, e.symbol.slots)
        v = Value(permute(np, v.array, v.axes, axes), axes, interval=v.interval)
        return Traced(v, Operand(member_name(e.symbol, turn), axes))

    def size(self, e: Expr, env: Env[Traced]) -> int:
        return self.it.size(e, self.numbers(env))

    def length(self, v: Traced, label: str) -> Any:
        return self.it.length(v.value, label)

    # -- members of an axis ------------------------------------------------------------------------

    def picked(self, v: Traced, label: str, value: Value, places: Operand, first: int) -> Traced:
        """Members of an axis, at the places that an operand gives."""
        away = f"{label} of {len(self.made)}"
        operands = (self.operand(v).renamed({label: away}), places)
        if label not in self.operand(v).axes:  # all members are the same
            return Traced(value, self.operand(v))
        sizes = {away: v.value.size(label)}
        return self.result(self.record("pick", value, operands=operands, at=away, first=first,
                                       sizes=sizes))  # fmt: skip

    def members(
        self, v: Traced, old: str, new: Letter, among: Letter, env: Env[Traced]
    ) -> Traced:  # fmt: skip
        value = self.it.members(v.value, old, new, among, self.numbers(env))
        if (new.first, new.count) == (among.first, v.value.size(old)):
            return v.relabel(old, new.label)
        v = self.settled(v)
        places = Operand(Counting(int(new.first)), (new.label,))
        return self.picked(v, old, value, places, int(among.first))

    def gather(
        self, v: Traced, label: str, at: Traced, index: Expr, among: Letter, env: Env[Traced]
    ) -> Traced:  # fmt: skip
        value = self.it.gather(v.value, label, at.value, index, among, self.numbers(env))
        v, places = self.settled(v), self.operand(at)
        return self.picked(v, label, value, places, int(among.first))

    def from_end(
        self, v: Traced, label: str, k: int, item: Expr, among: Letter, env: Env[Traced]
    ) -> Traced:  # fmt: skip
        value = self.it.from_end(v.value, label, k, item, among, self.numbers(env))
        return self.picked(self.settled(v), label, value, Operand(Fraction(among.count - k)), 0)

    def cut(self, v: Traced, label: str, item: Slice, e: Pick, env: Env[Traced]) -> Traced:
        value = self.it.cut(v.value, label, item, e, self.numbers(env))
        start = self.size(item.start, env) if item.start else 0
        if value.size(label) == v.value.size(label):
            return v
        return self.picked(self.settled(v), label, value, Operand(Counting(start), (label,)), 0)

    # -- shapes ------------------------------------------------------------------------------------

    def column(self, v: Traced) -> Traced:
        return replace(v, value=self.it.column(v.value))

    def transpose(self, v: Traced) -> Traced:
        value = self.it.transpose(v.value)
        if COL not in v.axes:
            return replace(v, value=value)
        swap = {COL: ROW, ROW: COL}
        return replace(v, value=value, formula=v.formula.renamed(swap))

    def spread(self, v: Traced, letters: Sequence[Letter], env: Env[Traced]) -> Traced:
        return replace(v, value=self.it.spread(v.value, letters, self.numbers(env)))

    def bound_letter(self, e: Bind, env: Env[Traced], label: str) -> Letter:
        return self.it.bound_letter(e, self.numbers(env), label)

    def merge(self, v: Traced, label: str) -> Traced:
        v = self.settled(v)
        return self.joined([v], self.it.merge(v.value, label), (label, COL))

    def concat(self, args: list[Traced]) -> Traced:
        value = self.it.concat([v.value for v in args])
        args = [v for v in args if v.value.size(COL) > 0] or args[:1]
        return args[0] if len(args) == 1 else self.joined(args, value, (COL,))

    def joined(self, args: Sequence[Traced], value: Value, labels: tuple[str, ...]) -> Traced:
        """Parts side by side along the columns, each along ``labels``."""
        whole = [self.whole(v) for v in args]
        away = {a: f"{a} of {len(self.made)}" for a in labels}
        operands = tuple(self.operand(v).renamed(away) for v in whole)
        sizes = {away[a]: v.value.size(a) for v in args for a in labels}
        return self.result(self.record("concat", value, operands=operands, to=COL, sizes=sizes,
                                       along=tuple(away.values())))  # fmt: skip

    def whole(self, v: Traced) -> Traced:
        """A part as an operand that has all of its axes."""
        v = self.settled(v)
        if isinstance(v.formula, Operand) and v.formula.axes == v.axes:
            return v
        return self.result(self.record("elementwise", v.value, v.formula, expr=v.expr))

    # -- operations --------------------------------------------------------------------------------

    def apply(self, e: Apply, env: Env[Traced]) -> Traced:
        if e.op in ("inf", "pi"):
            return self.plain(self.it.apply(e, self.numbers(env)))
        return super().apply(e, env)

    def check_size(self, args: Sequence[Traced], without: Sequence[str] = ()) -> None:
        """Raises `TooManyEntries` for values with too many entries together."""
        sizes = {a: v.value.size(a) for v in args for a in v.axes if a not in without}
        if prod(sizes.values()) > LARGEST:
            raise TooManyEntries(f"this makes more than {LARGEST:,} numbers")

    def entrywise(self, op: str, args: list[Traced]) -> Traced:
        self.check_size(args)
        if sum(1 for v in args for _ in operands_of(v.formula)) > MOST:
            args = [self.settled(v) for v in args]
        value = self.it.entrywise(op, [v.value.frozen() for v in args]).frozen()
        return Traced(value, EntryFormula(op, tuple(v.formula for v in args)))

    def fold(self, op: str, v: Traced, label: str) -> Traced:
        value = self.it.fold(op, v.value.frozen(), label)
        sizes = {label: v.value.size(label)}
        return self.result(
            self.record("reduce", value, v.formula, over=(label,), fold=op, sizes=sizes)
        )

    def contract(self, a: Traced, b: Traced, over: tuple[str, ...]) -> Traced:
        self.check_size((a, b), over)
        value = self.it.contract(a.value, b.value, over)
        formula = EntryFormula("times", (self.operand(a), self.operand(b)))
        sizes = {label: a.value.size(label) for label in over}
        return self.result(
            self.record("contract", value, formula, over=over, fold="sum", sizes=sizes)
        )

    def blocks(self, e: Bind, env: Env[Traced]) -> Traced:
        assert e.lower is not None and e.upper is not None
        turns = range(self.size(e.lower, env), self.size(e.upper, env) + 1)
        parts = [self.of(e.body, replace(env, index={**env.index, e.index: k})) for k in turns]
        total = parts[0] if parts else self.number(Fraction(0))
        for part in parts[1:]:
            total = self.entrywise("max" if e.op == "max" else "add", [total, part])
        return self.entrywise("div", [total, self.sized(len(parts))]) if e.op == "mean" else total

    def call(self, name: str, args: list[Traced], level: int = 1) -> Traced:
        """A named function: the operations of its definition, and one operation for the call."""
        operands = tuple(self.operand(v) for v in args)
        args = [replace(v, formula=x) for v, x in zip(args, operands, strict=True)]
        start = len(self.made)
        found = super().call(name, args, level)
        last = self.operation_of(found)
        if last is None or last.id < start:
            last = self.record("elementwise", found.value, found.formula, expr=found.expr)
        kind = entries_read(last, operands, start, self.made)
        call = self.record(kind, found.value, operands=operands, call=name, last=last.id)
        for operation in self.made[start:-1]:
            if operation.within is None:
                operation.within = call.id
        return self.result(call)
