"""A second reading of whole cards, for the tests alone: one number at a time, with Python's loops.

It is written from `docs/reference/notation.md`. It uses the parser's trees and nothing else of the
program: no evaluator, no rewriting, no value of a run. A value is found when it is asked for, so
the order of equations and the direction of loops do not matter to it. It is slow, and hard to get
wrong; every law may compare with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

import viete as vt
from viete.errors import Text
from viete.graph.card import CardData, Equation
from viete.notation.parser import parse
from viete.notation.tree import (
    Apply,
    Bind,
    Expr,
    Idx,
    Num,
    Pick,
    Ref,
    Slice,
    Slot,
    Symbol,
    Table,
)  # fmt: skip

At = Mapping[str, int]
Members = Mapping[tuple[str, tuple[int, ...]], Any]
NOTHING: dict[Any, Any] = {}
Values = Mapping[str, Any]
UFUNC: dict[str, Any] = {
    "neg": np.negative, "add": np.add, "sub": np.subtract, "had": np.multiply,
    "times": np.multiply, "div": np.divide, "mod": np.mod, "pow": np.power, "max": np.maximum,
    "min": np.minimum, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and,
    "or": np.logical_or, "not": np.logical_not, "exp": np.exp, "log": np.log, "abs": np.abs,
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "arctan": np.arctan,
    "floor": np.floor, "erf": np.vectorize(math.erf, otypes=[float]),
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """``left = right for conditions``: what a value is instead, where the conditions hold."""

    left: Ref
    places: tuple[Expr, ...]
    right: Expr
    tests: tuple[Expr, ...] = ()


def change(card: CardData, text: str) -> Change:
    """A change as people write it: ``x^3_j = 2 x^3_j for j ≥ 5``, ``A^{1,h} = 0 for h > 1``."""
    body, _, tests = text.partition(" for ")
    left, right = re.split(r"(?<![<>!≤≥])=", body, maxsplit=1)
    letters = {*"jk"} | {x.name for x in card.indices} | card.loop_letters
    scope = card.scope.inside(letters)
    seen = parse(Text(left.strip()), scope)
    ref, places = (seen.value, seen.items) if isinstance(seen, Pick) else (seen, ())
    assert isinstance(ref, Ref)
    conditions = tuple(parse(Text(x.strip()), scope) for x in tests.split(",") if x.strip())
    return Change(ref, places, parse(Text(right.strip()), scope), conditions)


class Reference:
    """The values of a card with these weights and inputs, as a reader with a pencil finds them.

    ``values`` replaces whole members, by key and index: ``{("x^i", (1,)): array}``. So what only
    one reader sees is that reader's value in the changed card, put here.
    """

    def __init__(
        self, card: vt.Card | CardData, weights: Values, inputs: Values,
        changes: Sequence[str | Change] = (), values: Members = NOTHING,
    ) -> None:  # fmt: skip
        self.card, self.inputs, self.given = card, inputs, dict(values)
        self.weights = {k: np.asarray(v) for k, v in weights.items()}
        self.changes = [change(card, c) if isinstance(c, str) else c for c in changes]
        self.memo: dict[Any, Any] = {}
        self.equations: dict[str, list[Equation]] = {}
        for e in (*card.equations, *card.derived):
            self.equations.setdefault(e.name, []).append(e)
        self.dims = {d.name: d for d in card.dims}
        self.letters = {x.name: x for x in card.indices}
        self.lengths: dict[str, float] = {}
        for given in card.inputs:
            if given.name in inputs and given.shape:
                core = np.shape(inputs[given.name])[len(self.heads(given.symbol)) :]
                for size, count in zip(given.shape, core, strict=True):
                    if isinstance(size, Ref) and self.dims[size.key].at_most is not None:
                        self.lengths[size.key] = count

    # -- names -------------------------------------------------------------------------------------

    def heads(self, symbol: Symbol) -> list[str]:
        """The letters of a symbol that are axes of its array: all but those of blocks."""
        return [s for s in symbol.slots if s not in self.card.loop_letters]

    def number(self, name: str) -> float:
        """A dimension."""
        if name in self.lengths:
            return self.lengths[name]
        value = self.dims[name].value
        assert value is not None, f"{name} has no value"
        return float(self.of(value, {}))

    def range(self, letter: str) -> range:
        """The values of a letter that the card declares, of a loop or of a family."""
        if letter in self.letters:
            ends = self.letters[letter].lower, self.letters[letter].upper
            return range(*(int(self.of(x, {})) + k for k, x in enumerate(ends)))
        loops = [loop for loop in self.card.loops if loop.index == letter]
        low = min(int(self.of(x.lower, {})) for x in loops)
        return range(low, max(int(self.of(x.upper, {})) for x in loops) + 1)

    def members(self, name: str) -> Iterator[tuple[int, ...]]:
        """The indices of all members of a value that equations make."""
        found = dict[tuple[int, ...], None]()
        for e in self.equations[name]:
            own = [x.name for x in e.left.index if isinstance(x, Idx)]
            ends = e.loop and (int(self.of(e.loop.lower, {})), int(self.of(e.loop.upper, {})))
            ranges = [range(ends[0], ends[1] + 1) if ends and e.loop and x == e.loop.index
                      else self.range(x) for x in own]  # fmt: skip
            for at in product(*ranges):
                index = dict(zip(own, at, strict=True))
                found[tuple(int(self.of(x, index)) for x in e.left.index)] = None
        return iter(found)

    def member(self, symbol: Symbol, index: tuple[int, ...]) -> Any:
        """One member of an input, a parameter or a value."""
        key = symbol.key, index
        if key not in self.memo:
            self.memo[key] = self.changed(symbol, index, len(self.changes))
        return self.memo[key]

    def whole(self, name: str) -> np.ndarray:
        """All members over heads of a name without free block letters, as a run has them."""
        e = self.parse(name)
        assert isinstance(e, Ref)
        return self.family(e, {})

    def family(self, e: Ref, block: At) -> np.ndarray:
        """All members over heads of a name, in one block."""
        free = [x.name for x in e.index if isinstance(x, Idx) and x.name not in block]
        ranges = [self.range(x) for x in free]
        parts = [self.of(e, {**block, **dict(zip(free, at, strict=True))})
                 for at in product(*ranges)]  # fmt: skip
        return np.reshape(np.stack(parts), [*map(len, ranges), *np.shape(parts[0])])

    def in_order(self, name: str) -> list[np.ndarray]:
        """The arrays of a value of the card, one for each block, in the order of a run."""
        out = []
        for e in self.equations[name]:
            ends = (0, 0) if e.loop is None else (e.loop.lower, e.loop.upper)
            low, high = (x if isinstance(x, int) else int(self.of(x, {})) for x in ends)
            letter = [e.loop.index] if e.loop else []
            out += [self.family(e.left, dict.fromkeys(letter, k)) for k in range(low, high + 1)]
        return out

    def parse(self, formula: str) -> Expr:
        """A formula over the card's names."""
        return parse(Text(formula), self.card.scope.inside(self.letters))

    def __getitem__(self, formula: str) -> np.ndarray:
        """The value of a formula; its free letters of heads become axes, in alphabetical order."""
        e = self.parse(formula)
        free = sorted(e.free)
        ranges = [self.range(x) for x in free]
        parts = [self.of(e, dict(zip(free, at, strict=True))) for at in product(*ranges)]
        return np.reshape(np.stack(parts), [*map(len, ranges), *np.shape(parts[0])])

    def changed(self, symbol: Symbol, index: tuple[int, ...], before: int) -> Any:
        """The member after the changes that come ``before``, of which each reads the one below."""
        for k in range(before, 0, -1):
            c = self.changes[k - 1]
            if c.left.symbol.key != symbol.key:
                continue
            at = matched(c.left.index, index, lambda x: int(self.of(x, {})))
            if at is None:
                continue
            old = self.changed(symbol, index, k - 1)
            return self.put(c, old, at, {(symbol.key, index): old, "before": k - 1})
        return self.unchanged(symbol, index)

    def put(self, c: Change, old: Any, at: At, own: dict[Any, Any]) -> Any:
        """The old value with the right side at the places where the tests hold."""
        if not c.places:
            if not all(bool(self.of(test, at, own=own)) for test in c.tests):
                return old
            return np.array(np.broadcast_to(self.of(c.right, at, own=own), np.shape(old)))
        out = np.array(old, float)
        letters = [x.name if isinstance(x, Idx) else None for x in c.places]
        fixed = [None if x else int(self.of(p, at, own=own))
                 for x, p in zip(letters, c.places, strict=True)]  # fmt: skip
        for place in product(*(range(old.shape[axis]) if x else [fixed[axis] or 0]
                               for axis, x in enumerate(letters))):  # fmt: skip
            where = {**at, **{x: k for x, k in zip(letters, place, strict=True) if x}}
            if all(bool(self.of(test, where, own=own)) for test in c.tests):
                out[place] = self.of(c.right, where, own=own)
        return out

    def unchanged(self, symbol: Symbol, index: tuple[int, ...]) -> Any:
        """The member as the card has it."""
        if (symbol.key, index) in self.given:
            return np.asarray(self.given[symbol.key, index])
        if symbol.kind in ("input", "parameter"):
            return self.array(symbol, index)
        for e in self.equations.get(symbol.key, ()):
            at = matched(e.left.index, index, lambda x: int(self.of(x, {})))
            if at is not None and self.runs(e, at):
                return self.of(e.right, at)
        raise LookupError(f"no equation makes {symbol.key} at {index}")

    def runs(self, e: Equation, at: At) -> bool:
        """Whether the equation's loop and the ranges of its letters have these values."""
        if e.loop is not None:
            ends = (int(self.of(x, {})) for x in (e.loop.lower, e.loop.upper))
            if not next(ends) <= at[e.loop.index] <= next(ends):
                return False
        return all(v in self.range(x) for x, v in at.items() if e.loop is None or x != e.loop.index)

    def array(self, symbol: Symbol, index: tuple[int, ...]) -> Any:
        """A member of a parameter, which has an array for each block, or of an input."""
        loops = self.card.loop_letters
        place = dict(zip(symbol.slots, index, strict=True))

        def slots(them: tuple[Slot, ...]) -> tuple[Slot, ...]:
            return tuple(Slot(str(place[s.text])) if s.index and s.text in loops else s
                         for s in them)  # fmt: skip

        name = replace_scripts(symbol, slots).key
        found = self.inputs.get(name) if symbol.kind == "input" else self.weights[name]
        if found is None:
            default = next(i.default for i in self.card.inputs if i.name == symbol.key)
            assert default is not None, f"no input {name}"
            shape = next(i.shape for i in self.card.inputs if i.name == symbol.key)
            return np.full([int(self.of(x, {})) for x in shape], self.of(default, {}))
        heads = self.heads(symbol)
        first = [place[s] - self.range(s).start for s in heads]
        assert all(0 <= k < len(self.range(s)) for k, s in zip(first, heads, strict=True)), index
        return np.asarray(found)[tuple(first)]

    # -- formulas ----------------------------------------------------------------------------------

    def of(
        self, e: Expr, at: At, names: Values | None = None, own: Any = None,
    ) -> Any:  # fmt: skip
        """The value of a formula, with numbers for its free letters.

        ``names`` are the arguments of the function in whose body it stands. ``own`` are old
        values, for the right side of a change.
        """
        if names is not None or own is not None:
            return self.compute(e, at, names, own)
        key = e, tuple((x, at[x]) for x in sorted(e.free))
        if key not in self.memo:
            self.memo[key] = self.compute(e, at, names, own)
        return self.memo[key]

    def compute(self, e: Expr, at: At, names: Any, own: Any) -> Any:
        def value(x: Expr, more: At = NOTHING) -> Any:
            return self.of(x, {**at, **more} if more else at, names, own)

        match e:
            case Num(v):
                return np.float64(float(v))
            case Idx(letter):
                return np.float64(at[letter])
            case Ref():
                if names is not None:
                    return names[e.key]
                if e.symbol.kind == "dim":
                    return np.float64(self.number(e.key))
                index = tuple(whole_number(value(x)) for x in e.index)
                if own is not None and (e.key, index) in own:
                    return own[e.key, index]
                if own is not None and any(c.left.symbol.key == e.key for c in self.changes):
                    return self.changed(e.symbol, index, own["before"])
                return self.member(e.symbol, index)
            case Pick():

                def end(x: Expr | None) -> int | None:
                    return None if x is None else whole_number(value(x))

                return picked(value(e.value), [
                    slice(end(i.start), end(i.stop)) if isinstance(i, Slice) else value(i)
                    for i in e.items
                ])  # fmt: skip
            case Bind():
                if e.lower is not None and e.upper is not None:
                    bounds = range(whole_number(value(e.lower)), whole_number(value(e.upper)) + 1)
                else:
                    bounds = self.range(e.index)
                return folded(e.op, [value(e.body, {e.index: k}) for k in bounds])
            case Table():
                letters = [letter for letter, _ in e.ranges]
                out = np.empty([whole_number(value(size)) for _, size in e.ranges])
                for place in np.ndindex(*out.shape):
                    out[place] = value(e.body, dict(zip(letters, place, strict=True)))
                return out
            case Apply(op, args) if op in self.card.function:
                return self.call(op, [value(a) for a in args])
            case Apply(op, args):
                return primitive(op, [value(a) for a in args])
        raise TypeError(e)

    def call(self, name: str, args: list[Any]) -> Any:
        """A function, by its definition."""
        function, names = self.card.function[name], dict[str, Any]()
        if name == "logsumexp" or self.card.applies(Apply(name, ()), "softmax"):
            # As defined, but scores may be larger than exp can take.
            most = np.max(args[0], axis=-1, keepdims=True)
            args = [args[0] - most]
        for k, argument in enumerate(function.arguments):
            x = args[k] if k < len(args) else self.of(argument.default or Num(Fraction(0)), {}, {})
            x = np.atleast_1d(x) if argument.pattern else x
            names[argument.symbol.key] = x
            if argument.pattern:
                sizes = zip(argument.pattern, x.shape, strict=True)
                names |= {s.key: np.float64(n) for s, n in sizes}
        found = self.of(function.body, {}, names)
        return found + np.reshape(most, np.shape(found)) if name == "logsumexp" else found


def replace_scripts(symbol: Symbol, slots: Any) -> Symbol:
    return Symbol(symbol.kind, symbol.base, slots(symbol.sub), slots(symbol.sup))


def matched(index: Sequence[Expr], wanted: Sequence[int], number: Any) -> dict[str, int] | None:
    """The letters of a left side at a member; None if the member is another one."""
    at = dict[str, int]()
    for e, k in zip(index, wanted, strict=True):
        if isinstance(e, Idx):
            if at.setdefault(e.name, k) != k:
                return None
        elif e.free or number(e) != k:
            return None
    return at


def whole_number(x: Any) -> int:
    k = int(x)
    assert k == x, f"{x} is no whole number"
    return k


def picked(out: Any, items: list[Any]) -> Any:
    """Rows, columns and entries; no index counts from the end here, and none is outside."""
    out = np.asarray(out)
    while out.ndim < len(items):
        out = out[..., None]
    places: list[Any] = []
    for item, size in zip(items, out.shape, strict=False):
        if isinstance(item, slice):
            ends = [x for x in (item.start, item.stop) if x is not None]
        else:
            item = np.asarray(item)
            ends = [*item.ravel(), *(item.ravel() + 1)]
            assert np.array_equal(item, np.floor(item)), f"{item} is no whole number"
            item = item.astype(int)
        assert all(0 <= x <= size for x in ends), f"{item} of {size}"
        places.append(item)
    return out[tuple(places)]


def folded(op: str, parts: list[Any]) -> Any:
    """The values of a binder's body, as one."""
    if op == "concat":
        return np.concatenate([np.atleast_1d(p) for p in parts], axis=-1)
    return getattr(np, op)(np.stack(np.broadcast_arrays(*parts)), axis=0)


def primitive(op: str, args: list[Any]) -> Any:
    """An operation of numbers, vectors (of which a row is one) and matrices."""
    args = [np.asarray(a) for a in args]
    match op, args:
        case "prod", [a, b]:
            return a @ b if a.ndim and b.ndim else a * b
        case "T", [a]:
            return a.T if a.ndim == 2 else np.atleast_1d(a)[:, None]
        case "inner", [a, b]:
            return np.sum(a * b, axis=-1, keepdims=max(a.ndim, b.ndim) == 2)
        case (("sum" | "mean" | "max" | "min"), [a]):
            return getattr(np, op)(a, axis=-1, keepdims=a.ndim == 2) if a.ndim else a * 1.0
        case "argmax", [a]:
            return np.argmax(np.atleast_1d(a), axis=-1)
        case "rows", [a]:
            return np.float64(a.shape[0])
        case "len", [a]:
            return np.float64(np.atleast_1d(a).shape[0])
        case "cols", [a]:
            return np.float64(np.atleast_1d(a).shape[-1])
        case "concat", parts:
            rows = max((p.shape[0] for p in parts if p.ndim == 2), default=0)
            parts = [np.atleast_1d(p) for p in parts]
            if rows:
                parts = [np.broadcast_to(p, (rows, p.shape[-1])) for p in parts]
            return np.concatenate(parts, axis=-1)
        case "where", [c, a, b]:
            return np.where(c, a, b)
        case "inf", []:
            return np.float64(np.inf)
        case "pi", []:
            return np.float64(np.pi)
    with np.errstate(all="ignore"):
        return UFUNC[op](*args)
