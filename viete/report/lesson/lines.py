"""The lines of a step: a row's formula, the numbers put in, what they are, and digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from viete.analysis.linearity import linearity
from viete.analysis.rows import Rows, Subscript
from viete.analysis.types import Mismatch
from viete.document.tree import Chain
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW, Value, permute
from viete.evaluate.schedule import Member
from viete.evaluate.schedule import Step as Turn
from viete.meanings.exact.derivation import Derivation, Stage
from viete.meanings.exact.numbers import Number
from viete.meanings.exact.run import ExactRun
from viete.meanings.exact.unevaluated import Unevaluated
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Num, Pick, Ref, num, replaced, transform, walk
from viete.report.lesson.formulas import Decimals, NumberFormulas, same, visible, word
from viete.report.lesson.positions import at_position, position_size
from viete.rewrite.blocks import at_block

MOST_HEADS = 4  # members of a family that are shown
WIDE = 48  # letters of a row's formula that is written before its numbers
NO_ROW = (Mismatch, VieteError, AssertionError, KeyError)


class Lines:
    """Writes the lines of turns, also in ``decimals``.

    ``name_token`` gives the name of an input's tokens.
    """

    def __init__(
        self, run: ExactRun, formulas: NumberFormulas, name_token: Callable[[Any], str],
        decimals: Decimals | None = None,
    ) -> None:  # fmt: skip
        self.decimals = decimals
        self.run, self.formulas, self.style = run, formulas, formulas.style
        self.card, self.name_token = run.program.model, name_token
        self.rows = Rows(linearity(self.card))
        self.derivation = Derivation(run)
        self.derived: dict[Member, tuple[Value, list[Stage]]] = {}
        self.identities: dict[Any, bool] = {}
        self.letters: dict[Expr, Expr] = {}  # what the letters of a turn's stages stand for

    def values(self, turn: Turn, failed: bool = False) -> tuple[Value, list[Stage]]:
        """The equation with numbers put in, and its stages; after a failure those with a value."""
        if turn.makes not in self.derived:
            try:
                found = self.derivation.derived(turn.equation.right, turn.loops)
            except VieteError:
                if not failed:
                    raise
                nothing = Value(np.zeros(0, dtype=object), (COL,))
                found = nothing, list(self.derivation.stages.values())
            self.derived[turn.makes] = found
        return self.derived[turn.makes]

    def at(self, e: Expr, loops: Mapping[str, int]) -> Expr:
        """A formula for one turn of its loop: ``x^0`` for ``x^{i-1}`` at i = 1."""
        return at_block(e, loops, self.run.sizes)

    # -- the lines of a turn -----------------------------------------------------------------------

    def of_stage(self, stage: Stage, turn: Turn, j: int, drawn: set[int]) -> list[Chain]:
        """The lines of a stage, below its formula where it has a name."""
        named = isinstance(stage.label, Ref)
        formula = stage.formula if named else None
        if named:
            self.letters[stage.label] = stage.formula
        found = self.of(stage.label, formula, stage.value, None, turn, j, drawn)
        return [replace(line, part=True) for line in found]

    def begin(self) -> None:
        """Forget the letters of the last turn."""
        self.letters = {}

    def of_turn(self, turn: Turn, j: int, drawn: set[int]) -> list[Chain]:
        """The lines of a turn's result, as stored in the run."""
        left, right = (self.at(e, turn.loops) for e in (turn.equation.left, turn.equation.right))
        value, stored = self.values(turn)[0], self.run.store[turn.makes]
        lines = self.of(left, right, with_family(value, stored), stored, turn, j, drawn)
        return list(lines)

    def of_failed(self, turn: Turn, j: int, drawn: set[int]) -> list[Chain]:
        """The lines of a failed turn's result, at a position that has a value."""
        left = self.at(turn.equation.left, turn.loops)
        value, _ = self.values(turn, True)
        return list(self.of(left, None, value, None, turn, j, drawn)) if value.array.size else []

    def of(
        self, label: Expr, formula: Expr | None, value: Value, stored: Value | None, turn: Turn,
        j: int, drawn: set[int],
    ) -> Iterator[Chain]:  # fmt: skip
        """One line for every member of the family that the value is, with the row of position j.

        For a vector that the turn makes, with an entry for every position, it has the entry of
        position j. Members with equal numbers are one line.
        """
        letters = [a for a in value.axes if a not in (ROW, COL)]
        shape = tuple(value.size(a) for a in letters)
        counted = isinstance(label, Ref) and label.symbol == turn.equation.left.symbol
        own = ROW in value.axes or (counted and self.counts(turn))
        arrays = []
        for v in (value, stored or value):
            v = at_position(v, j) if own else v
            order = (*letters, *(a for a in (ROW, COL) if a in v.axes))
            arrays.append(permute(np, np.asarray(v.array, dtype=object), v.axes, order))
        at = min(j, value.size(ROW if ROW in value.axes else COL) - 1) if own else None
        alike = len(letters) > 0 and math.prod(shape) > 1 and equal_members(arrays[1], len(letters))
        for places in islice(np.ndindex(shape), 1 if alike else MOST_HEADS):
            rows = [np.asarray(a[places], dtype=object) for a in arrays]
            member = {a: k + self.run.program.range_of(a).start
                      for a, k in zip(letters, places, strict=True)}  # fmt: skip
            own_label = label if alike else self.at(label, member)
            which = ", ".join(f"{a} = {k}" for a, k in member.items()) if own_label == label else ""
            name = own_label if at is None else self.row(own_label, at)
            steps = [] if formula is None else self.formula(self.at(formula, member), name, at)
            if stored is None and formula is not None and not steps:
                said = self.formulas.e(Apply("eq", (own_label, self.at(formula, member))))
                which = "; ".join(x for x in (which, f"${said}$") if x)
            line = self.line(name, steps, formula, rows, drawn, turn, at)
            which = f"the same for every {', '.join(letters)}" if alike else which
            note, decimal_note = ("; ".join(x for x in (which, own) if x)
                                  for own in (line.note, line.decimal_note))  # fmt: skip
            heads = () if alike else tuple(member.items())
            yield replace(line, note=note, decimal_note=decimal_note, heads=heads)
        if (rest := math.prod(shape) - MOST_HEADS) > 0 and not alike:
            dots = r"\ldots" if self.style == "latex" else "…"
            yield Chain(dots, note=f"the other {rest} are computed the same way")

    def counts(self, turn: Turn) -> bool:
        """Whether the result of a turn is a vector with an entry for every position."""
        shape = self.run.program.shapes.types[turn.equation.name].shape
        return len(shape) == 1 and bool(position_size(self.run, turn))

    def line(
        self, name: Expr, steps: list[Expr], formula: Expr | None, rows: list[np.ndarray],
        drawn: set[int], turn: Turn, at: int | None,
    ) -> Chain:  # fmt: skip
        """Entries with the numbers put in, and their values, as stored in the run."""
        entries, scalar = list(rows[0].flat), not rows[0].ndim
        held = [number_of(x) for x in rows[1].flat]
        open_ = [x for x in entries if isinstance(x, Unevaluated)]
        seen = set(drawn)
        drawn |= {id(x) for x in open_}
        new = len(open_) == len(entries) and not {id(x) for x in open_} <= seen

        def put_in(formulas: NumberFormulas) -> tuple[str, str]:
            if len(steps) > 1 or (steps and is_lookup(steps[-1])):
                return "", ""  # a step that only hands on what is there
            if steps and at is not None and (found := self.operands(steps[-1], formulas)):
                return found, ""
            return formulas.put_in(entries, scalar, seen) if new and not same(entries) else ("", "")

        written, (came, note) = [self.formulas.e(x) for x in steps], put_in(self.formulas)
        spelled = self.formulas.spelled(held)
        value, digits = self.formulas.value(held, scalar, spelled)
        out = Chain(
            self.formulas.e(name), tuple(written), "" if note or alike(came, value) else came,
            self.formulas.standing_for(name, value) if value else "", digits,
            f"{note}: ${came}$" if note else "", entries=tuple(s or "" for s in spelled),
            row=not scalar,
        )  # fmt: skip
        if self.decimals is None:
            return out
        came, note = put_in(self.decimals)
        equal = "≈" if any(map(self.decimals.is_rounded, held)) else "="
        value = "".join(self.decimals.value(held, scalar))
        sides = [("=", came)] * bool(came and not note and not alike(came, value))
        return replace(
            out, decimals=(*sides, (equal, self.formulas.standing_for(name, value))),
            decimal_note=f"{note}: ${came}$" if note else "",
        )  # fmt: skip

    # -- rows of formulas --------------------------------------------------------------------------

    def row(self, label: Expr, at: int) -> Expr:
        """The row of a value named by a formula: ``mean(r_0)`` of ``mean(r)``."""
        if isinstance(label, Ref):
            return Pick(label, (num(at),))
        return self.row_of(label, at) or Pick(label, (num(at),))

    def row_of(self, e: Expr, at: int) -> Expr | None:
        """The row of a formula in rows of its operands, also of stages named by letters."""
        whole = e
        for _ in self.letters:  # a letter may stand for a formula with another in it
            whole = replaced(whole, self.letters)
        try:
            if isinstance(whole, Apply) and whole.op == "argmax":  # of each row a place
                return whole.over([self.rows.row(whole.args[0], Subscript(num(at)))])
            row = self.rows.row(whole, Subscript(num(at)))
            for letter, formula in reversed(self.letters.items()):
                if letter in walk(e):
                    value = replaced(formula, self.letters)
                    part = self.rows.row(value, Subscript(num(at)))
                    own = letter if part == value else Pick(letter, (num(at),))  # one for all rows
                    row = replaced(row, {part: own})
        except NO_ROW:
            return None
        return row

    def formula(self, e: Expr, name: Expr, at: int | None) -> list[Expr]:
        """The row as a formula of rows: ``E[a] + P_0``; without identities, as a second form."""
        whole = e
        if at is not None:
            found = self.row_of(e, at)
            if found is None:
                return self.row_of_call(e, at)
            e = found
        e = transform(e, self.token)
        if any(isinstance(x, Pick) and not isinstance(x.value, Ref) for x in walk(e)):
            return [] if at is None else self.row_of_call(whole, at)
        plain = transform(e, self.without_identity)
        out = [x for x in dict.fromkeys((e, plain)) if len(show(x)) <= WIDE and x != name]
        return out if plain in out or len(out) == 0 else []

    def row_of_call(self, e: Expr, at: int) -> list[Expr]:
        """``causal(w)_0``: the row of a function that depends on the row's number."""
        letters = {formula: letter for letter, formula in self.letters.items()}
        called = isinstance(e, Apply) and e.op in self.card.function
        found = Pick(replaced(e, letters), (num(at),))
        return [found] if called and len(show(found)) <= WIDE else []

    def token(self, e: Expr) -> Expr | None:
        """``E[a]`` for ``E[t_0]``."""
        match e:
            case Pick(Ref() as value, (Pick(Ref() as ids, (place,)),)) if (
                ids.symbol.kind == "input" and (ids.key, ()) in self.run.store
            ):
                k = int(self.run.store[ids.key, ()].array[int(getattr(place, "value", 0))])
                name = self.name_token(k)
                return Pick(value, (word(name) if name.isalpha() else num(k),))
        return None

    def without_identity(self, e: Expr) -> Expr | None:
        """A formula in which a product with the identity matrix is its other factor."""
        match e:
            case Apply("prod", (a, Ref() as w)) if w.symbol.kind == "parameter":
                return a if self.is_identity(w) else None
        return None

    def is_identity(self, w: Ref) -> bool:
        if w not in self.identities:
            try:
                array = np.asarray(self.derivation.exact.of(w).array, dtype=object)
                square = array.ndim == 2 and array.shape[0] == array.shape[1]
                self.identities[w] = square and all(
                    rational(x) == (j == k) for (j, k), x in np.ndenumerate(array)
                )
            except NO_ROW:
                self.identities[w] = False
        return self.identities[w]

    def operands(self, e: Expr, formulas: NumberFormulas) -> str:
        """A sum of rows with numbers put in: ``(1, 0) + (0, 0)``; empty for another formula."""
        if not (isinstance(e, Apply) and e.op in ("add", "sub")):
            return ""
        parts = []
        for term in e.args:
            if isinstance(term, Apply) and term.op in ("add", "sub"):
                text = self.operands(term, formulas)
            else:
                text = self.operand(term, formulas)
            if not text:
                return ""
            parts.append(text)
        sign = " + " if e.op == "add" else (" - " if self.style == "latex" else " − ")
        text = sign.join(parts)
        return text if len(visible(text)) <= 3 * WIDE else ""

    def operand(self, e: Expr, formulas: NumberFormulas) -> str:
        """The numbers of a name, or of a row of one."""
        match e:
            case Pick(Ref() as value, (item,)):
                place = self.place(item)
                v = self.held(value)
                if place is None or v is None or v.axes != (ROW, COL):
                    return ""
                return formulas.standing_for(e, brief(v.array[place], formulas))
            case Ref():
                v = self.held(e)
                if v is None or v.axes != (COL,):
                    return ""
                return formulas.standing_for(e, brief(v.array, formulas))
        return ""

    def place(self, item: Expr) -> int | None:
        if isinstance(item, Ref):
            names = self.card.vocabulary
            label = item.symbol.base
            return names.index(label) if label in names else int(label) if label.isdigit() else None
        return int(item.value) if isinstance(item, Num) else None

    def held(self, r: Ref) -> Value | None:
        try:
            return self.derivation.exact.of(r)
        except NO_ROW:
            return None


def alike(a: str, b: str) -> bool:
    """Whether two formulas look the same."""
    return visible(a) == visible(b)


def brief(row: Any, formulas: NumberFormulas) -> str:
    """A row in little space."""
    return formulas.brief([number_of(x) for x in np.asarray(row, dtype=object).flat], False)


def number_of(x: Any) -> Any:
    """The number of an entry; anything but a formula is returned as it is."""
    return x.number if isinstance(x, Unevaluated) else x


def rational(x: Any) -> Any:
    x = number_of(x)
    return x.rational if isinstance(x, Number) else x


def is_lookup(e: Expr) -> bool:
    """Whether a formula is only a row, a name or a number, so that nothing is calculated."""
    return isinstance(e.value if isinstance(e, Pick) else e, Ref | Num)


def with_family(value: Value, stored: Value) -> Value:
    """The value with the axes of a family along which it is constant."""
    missing = [a for a in stored.axes if a not in value.axes]
    if not missing:
        return value
    shape = tuple(stored.size(a) for a in missing)
    array = np.asarray(value.array, dtype=object)  # one number is no array
    array = np.broadcast_to(array, shape + array.shape)
    return Value(array, (*missing, *value.axes))


def equal_members(array: np.ndarray, letters: int) -> bool:
    """Whether all members of a family have the same numbers, by construction."""
    members = array.reshape(-1, *array.shape[letters:])

    def keys(a: Any) -> list[Any]:
        found = (number_of(x) for x in np.asarray(a, dtype=object).flat)
        return [x.key if isinstance(x, Number) else x for x in found]

    first = keys(members[0])
    return all(keys(m) == first for m in members[1:])


__all__ = ["Lines", "number_of", "with_family"]
