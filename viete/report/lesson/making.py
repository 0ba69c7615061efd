"""An exact run becomes a lesson: its equations in order, the numbers of one position put in."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice, product
from typing import Any

import numpy as np

from viete.analysis.def_use import def_use
from viete.document.tree import Chain, TextTable
from viete.errors import Text, VieteError
from viete.evaluate.labelled import COL, ROW, Value, permute
from viete.evaluate.schedule import Member, program
from viete.evaluate.schedule import Step as Turn
from viete.graph.card import CardData, Input, Parameter
from viete.meanings.entries import run_entries
from viete.meanings.exact.derivation import Derivation, Stage, Unevaluated, at_block
from viete.meanings.exact.numbers import Number, total
from viete.meanings.exact.run import CLOSED, NAMED, RATIONAL, ExactRun, level_of
from viete.notation.printer import show, show_equation
from viete.notation.tree import Expr, Idx, Num, Pick, Ref, walk
from viete.report.lesson.document import Lesson, LessonStep, Section
from viete.report.lesson.explaining import Explainer
from viete.report.lesson.formulas import NumberFormulas, same
from viete.report.lesson.outline import Stages, conclusions
from viete.report.lesson.positions import (
    at_position,
    followed_length,
    followed_positions,
    position_size,
    sentence,
    tracks,
)

MOST_HEADS = 4  # members of a family that are shown
SMALL, MOST_ROWS = 40, 60  # entries of a table that is shown at the start; rows of all tables


def lesson(
    card: CardData, tokens: Sequence[int], weights: Mapping[str, Any], *,
    positions: Sequence[int] | None = None, digits: int = 6, style: str = "unicode",
    origin: str = "", inputs: Mapping[str, Any] | None = None,
) -> Lesson:  # fmt: skip
    """A lesson on a card's run on ``tokens``, with exact ``weights`` (see `run_entries`).

    The lesson follows ``positions``, or those of `followed_positions`. What is no fraction has so
    many certified ``digits``, formulas are in ``style``, ``origin`` says whence the weights come.
    A division by exactly zero or an undecided comparison ends the lesson at its step, which says
    so. Raises VieteError for tokens, weights and positions that do not fit.
    """
    if not card.inputs:
        raise VieteError(f"{card.title} takes no input, so there is nothing to follow")
    if not len(tokens):
        raise VieteError("a lesson needs at least one token")
    if digits < 1:
        raise VieteError(f"the number of digits must be at least 1, not {digits}")
    given = {card.inputs[0].name: np.asarray(tokens), **(inputs or {})}
    run = run_entries(ExactRun, program(card), given, weights, [])
    run.wanted, stopped = None, None
    try:
        run.compute(None)
    except VieteError as error:
        stopped = error
    return Maker(run, tokens, digits, style, stopped).lesson(positions, origin)


class Maker:
    """Makes the sections of one lesson; ``stopped`` is the error that ended the run, if one did."""

    def __init__(
        self, run: ExactRun, tokens: Sequence[int], digits: int, style: str,
        stopped: VieteError | None,
    ) -> None:  # fmt: skip
        self.run, self.model, self.tokens = run, run.program.model, tokens
        self.style, self.stopped = style, stopped
        self.formulas = NumberFormulas(style, digits)
        self.explainer = Explainer(self.model, style)
        self.uses = def_use(self.model)
        self.number = {(e.left, e.loop): k for k, e in enumerate(self.model.equations)}
        self.turns = [t for t in run.program.steps if t.makes in run.store]
        self.failed: Turn | None = None  # what the run stopped at
        if stopped is not None:
            there = run.store.keys() | run.missing.keys()
            self.failed = next(t for t in run.program.steps if t.makes not in there)
            self.turns.append(self.failed)
        self.stages = Stages(self.turns, self.made)
        self.length = followed_length(run)
        self.derivation = Derivation(run)
        self.explained: set[Any] = set()
        self.derived: dict[Member, tuple[Value, list[Stage]]] = {}

    def lesson(self, positions: Sequence[int] | None, origin: str) -> Lesson:
        run, found = self.run, tracks(self.run)
        count = len(found)
        for j in positions or ():
            if not 0 <= j < count:
                raise VieteError(f"there is no position {j}: they are 0 to {count - 1}")
        if positions:
            followed = list(dict.fromkeys(positions))
        elif self.failed is not None:
            followed = [next((j for j in range(count) if self.refused(j)), count - 1)]
        else:
            followed = followed_positions(found)
        end = "to the end" if self.failed is None else "as far as the run goes"
        return Lesson(
            f"{self.model.title}: a lesson in exact numbers",
            self.intro(origin),
            self.small_tables(),
            [sentence(t, self.made, end) for t in found],
            [self.section(j) for j in followed],
            conclusions(run, found, self.made, self.stopped),
        )

    # -- the beginning -----------------------------------------------------------------------------

    def intro(self, origin: str) -> list[str]:
        words = [self.word(t) for t in self.tokens]
        item = self.model.inputs[0]
        text = " ".join(words)
        ids = ", ".join(str(int(t)) for t in self.tokens)
        out = list(self.model.about[:1])
        out.append(
            f"The input is `{text}`: {item.name} = ({ids}), counted from 0."
            if self.model.vocabulary
            else f"The input is {item.name} = ({ids})."
        )
        out.append(
            "Every number below is exact. A number is written as a fraction as long as it is one, "
            "and after that with roots and powers of e, followed by ≈ and "
            f"{self.formulas.digits} certified digits. A number that is too long to read is cut "
            "off after its first digits, with … for the rest."
        )
        if origin:
            out.append(origin)
        if why := self.run.without():
            out.append(f"Not computed: {'; '.join(why)}.")
        return out

    def word(self, token: Any) -> str:
        words = self.model.vocabulary
        return words[int(token)] if int(token) < len(words) else str(int(token))

    def small_tables(self) -> list[TextTable]:
        """The parameters that are small enough to be looked at."""
        alike: dict[Any, list[str]] = {}
        for (p, array), name in self.tables():
            if array.size > SMALL:
                return []
            rows = array.reshape(1, -1) if array.ndim < 2 else array
            cells = [[f"${self.cell(x)}$" for x in r] for r in rows]
            words = self.model.vocabulary
            if self.looked_up(p.name) and len(words) == len(cells):
                cells = [[f"`{w}`", *r] for w, r in zip(words, cells, strict=True)]
            alike.setdefault((p.meaning, tuple(map(tuple, cells))), []).append(f"${name}$")
        out = [
            TextTable([], [list(map(Text, row)) for row in cells],
                      ", ".join(names) + (meaning and f": {meaning}"))
            for (meaning, cells), names in alike.items()
        ]  # fmt: skip
        return out if sum(len(t.rows) for t in out) <= MOST_ROWS else []

    def tables(self) -> Iterator[tuple[tuple[Parameter, np.ndarray], str]]:
        """Every parameter's array for every block and head, with its name."""
        for p, blocks, shape in self.run.program.parameters.values():
            v = self.run.store.get((p.name, blocks))
            if v is None:
                continue
            letters, heads = self.model.blocks_of(p.symbol), self.model.heads_of(p.symbol)
            ranges = [self.run.program.range_of(s) for s in heads]
            array = np.asarray(v.array, dtype=object).reshape(shape)
            for places in product(*ranges):
                index = dict(zip([*letters, *heads], [*blocks, *places], strict=True))
                at = tuple(k - r.start for k, r in zip(places, ranges, strict=True))
                yield (p, np.asarray(array[at], dtype=object)), self.name_of(p.symbol, index)

    def cell(self, x: Any) -> str:
        return self.formulas.exact(x) or self.formulas.decimal(x)

    def looked_up(self, name: str) -> bool:
        """Whether tokens look up rows of a parameter."""
        tokens = self.model.inputs[0].name
        return any(
            isinstance(x, Pick) and isinstance(x.value, Ref) and x.value.key == name
            and isinstance(x.items[0], Ref) and x.items[0].key == tokens
            for e in self.model.equations for x in walk(e.right)
        )  # fmt: skip

    def name_of(self, symbol: Any, loops: Mapping[str, int]) -> str:
        return show(self.at(Ref(symbol, tuple(Idx(s) for s in symbol.slots)), loops), self.style)

    def at(self, e: Expr, loops: Mapping[str, int]) -> Expr:
        """A formula for one turn of its loop: ``x^0`` for ``x^{i-1}`` at i = 1."""
        return at_block(e, loops, self.run.sizes)

    def made(self, turn: Turn) -> str:
        return f"${show(self.at(turn.equation.left, turn.loops), self.style)}$"

    # -- steps -------------------------------------------------------------------------------------

    def section(self, j: int) -> Section:
        ids = next((a for i, a in self.ids() if self.counted_by(i) == self.length), [])
        word = f", `{self.word(ids[j])}`" if j < len(ids) and self.model.vocabulary else ""
        steps = [self.step(k, turn, j) for k, turn in enumerate(self.turns, 2)]
        return Section(f"Position {j}{word}", [self.tokens_step(j), *steps])

    def first_time(self, what: Any) -> bool:
        """Whether this has not been explained yet."""
        new = what not in self.explained
        self.explained.add(what)
        return new

    def tokens_step(self, j: int) -> LessonStep:
        why = (
            "The tokens become numbers: each token is its place in the vocabulary, counted from 0."
            if self.model.vocabulary
            else "The tokens are numbers already."
        )
        lines = []
        for item, ids in self.ids():
            name = show(Ref(item.symbol), self.style)
            lines.append(Chain(name, "", self.formulas.row([str(k) for k in ids], False)))
            if j < len(ids) and self.counted_by(item) == self.length:
                lines.append(Chain(f"{name}[{j}]", "", str(ids[j])))
        out = LessonStep(1, "Tokens", [why] if self.first_time("tokens") else [], "", lines=lines)
        out.pipeline = self.stages.chips(None)
        return out

    def ids(self) -> list[tuple[Input, list[int]]]:
        """The inputs that are whole numbers, and what they are."""
        return [
            (i, [int(k) for k in self.run.store[i.name, ()].array]) for i in self.model.inputs
            if i.high is not None and len(i.shape) == 1 and (i.name, ()) in self.run.store
        ]  # fmt: skip

    def counted_by(self, item: Input) -> str:
        return show(item.shape[0])

    def values(self, turn: Turn) -> tuple[Value, list[Stage]]:
        """The equation with numbers put in, and its stages, or those of them that have a value."""
        if turn.makes not in self.derived:
            try:
                found = self.derivation.derived(turn.equation.right, turn.loops)
            except VieteError:
                if turn is not self.failed:
                    raise
                nothing = Value(np.zeros(0, dtype=object), (COL,))
                found = nothing, list(self.derivation.stages.values())
            self.derived[turn.makes] = found
        return self.derived[turn.makes]

    def step(self, number: int, turn: Turn, j: int) -> LessonStep:
        left, right = (self.at(e, turn.loops) for e in (turn.equation.left, turn.equation.right))
        formula = show_equation(left, right, self.style)
        out = LessonStep(number, self.title(turn), self.why(turn), formula)
        out.pipeline = self.stages.chips(turn)
        value, stages = self.values(turn)
        drawn: set[int] = set()
        try:
            for stage in stages:
                out.parts += self.on_the_way(stage, turn, j, drawn)
        except VieteError:
            if turn is not self.failed:
                raise
        if self.stopped is not None and turn is self.failed:
            if why := self.refused(j):
                out.status = [f"Here the lesson ends: {why}."]
                return out
            if value.array.size:
                out.lines = list(self.lines(left, value, None, turn, j, drawn))
            out.status = [
                f"Here the lesson ends, because at another position {self.stopped.message}."
            ]
            return out
        stored = self.run.store[turn.makes]
        out.lines = list(self.lines(left, with_family(value, stored), stored, turn, j, drawn))
        digits = any(x.digits for x in (*out.lines, *out.parts))
        out.status = self.status(turn, j, digits)
        if stored.array.dtype != object:  # places in the vocabulary
            out.lines += self.token(self.of_position(stored, turn, j))
        return out

    def title(self, turn: Turn) -> str:
        part = turn.equation.part
        block = ", ".join(f"{i} = {k}" for i, k in turn.loops.items())
        head = f"{part} ({block})" if part and block else part or block
        return f"{head}: {self.made(turn)}" if head else self.made(turn)

    def why(self, turn: Turn) -> list[str]:
        """The explanation, once for every equation."""
        equation = turn.equation
        if not self.first_time(id(equation)):
            return []
        residual = bool(self.uses.residuals(self.number[equation.left, equation.loop]))
        return self.explainer.equation(equation.right, equation.meaning, residual)

    def on_the_way(self, stage: Stage, turn: Turn, j: int, drawn: set[int]) -> list[Chain]:
        """The lines of a stage, below its formula where it has a name."""
        named = isinstance(stage.label, Ref)
        formula = show_equation(stage.label, stage.formula, self.style) if named else ""
        found = self.lines(stage.label, stage.value, None, turn, j, drawn)
        return [replace(line, label=formula, part=True) for line in found]

    def lines(
        self, label: Expr, value: Value, stored: Value | None, turn: Turn, j: int, drawn: set[int],
    ) -> Iterator[Chain]:  # fmt: skip
        """A line for every member of the family that the value is; the row of position j.

        Of a vector that the turn makes, with an entry for every position, position j's own.
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
        index: tuple[Expr, ...] = ()
        if own:
            count = value.size(ROW if ROW in value.axes else COL)
            index = (Num(Fraction(min(j, count - 1))),)
        for places in islice(np.ndindex(shape), MOST_HEADS):
            rows = [np.asarray(a[places], dtype=object) for a in arrays]
            member = {a: k + self.run.program.range_of(a).start
                      for a, k in zip(letters, places, strict=True)}  # fmt: skip
            name = self.at(label, member)
            which = ", ".join(f"{a} = {k}" for a, k in member.items()) if name == label else ""
            name = Pick(name, index) if index else name
            line = self.line(name, list(rows[0].flat), list(rows[1].flat), not rows[0].ndim, drawn)
            yield replace(line, note="; ".join(x for x in (which, line.note) if x))
        if (rest := math.prod(shape) - MOST_HEADS) > 0:
            dots = r"\ldots" if self.style == "latex" else "…"
            yield Chain(dots, note=f"the other {rest} work the same way")

    def counts(self, turn: Turn) -> bool:
        """Whether what is made is a vector with an entry for every position."""
        shape = self.run.program.shapes.types[turn.equation.name].shape
        return len(shape) == 1 and bool(position_size(self.run, turn))

    def line(
        self, name: Expr, entries: list[Any], held: list[Any], scalar: bool, drawn: set[int]
    ) -> Chain:
        """Entries as they came about, and the numbers that they are, as the run held them."""
        value, digits = self.formulas.value([number_of(x) for x in held], scalar)
        open_ = [x for x in entries if isinstance(x, Unevaluated)]
        new = any(id(x) not in drawn for x in open_)
        drawn |= {id(x) for x in open_}
        put_in, note = "", ""
        if new and len(open_) == len(entries) and not same(entries):
            put_in, note = self.formulas.put_in(entries, scalar)
        if note:
            return Chain(self.formulas.e(name), "", value, digits, f"{note}: ${put_in}$")
        return Chain(self.formulas.e(name), put_in, value, digits, "")

    # -- what a step says at its end ---------------------------------------------------------------

    def status(self, turn: Turn, j: int, digits: bool) -> list[str]:
        """What the row of position j is; ``digits`` says whether the step shows any."""
        status, entries = (
            self.run.status[turn.makes],
            self.of_position(self.run.store[turn.makes], turn, j),
        )
        level = max((level_of(x) for x in entries), default=RATIONAL)
        out = [{
            RATIONAL: "The row consists of fractions again.",
            CLOSED: "Exact: made of roots and powers of e, for which equality is decided.",
            NAMED: "Named: defined exactly, with certified digits.",
        }[level]] if digits or level != RATIONAL else []  # fmt: skip
        if level == NAMED and self.first_time("named"):
            out.append("From here on, equality of two such numbers is not always decided.")
        if weights_of_a_mean(entries):
            out.append("The entries are at least 0 and sum to exactly 1.")
        if any(isinstance(x, float) for x in entries):
            out.append(
                f"${self.formulas.plain(-np.inf)}$ hides the positions that may not be seen."
            )
        if status.bits and digits:
            out.append(f"An enclosure of {status.bits} bits decided a comparison.")
        return out + [f"{t[0].upper()}{t[1:]}." for t in status.ties]

    def of_position(self, v: Value, turn: Turn, j: int) -> list[Any]:
        """The entries of one position, of all members of a family."""
        v = at_position(v, j) if ROW in v.axes or self.counts(turn) else v
        return list(np.asarray(v.array, dtype=object).flat)

    def token(self, places: list[Any]) -> list[Chain]:
        if len(places) == 1 and int(places[0]) < len(self.model.vocabulary):
            return [Chain("", note=f"the token is `{self.word(places[0])}`")]
        return []

    def refused(self, j: int) -> str:
        """Why the failing equation has no value at position j, or nothing."""
        assert self.failed is not None and self.stopped is not None
        value, stages = self.values(self.failed)
        for v in (*(s.value for s in stages), value):
            if not v.array.size:
                return self.stopped.message
            try:
                for x in self.of_position(v, self.failed, j):
                    number_of(x)
            except VieteError as error:
                return error.message
        return ""


def number_of(x: Any) -> Any:
    return x.number if isinstance(x, Unevaluated) else x


def with_family(value: Value, stored: Value) -> Value:
    """With the axes of a family along which the value is everywhere the same."""
    missing = [a for a in stored.axes if a not in value.axes]
    if not missing:
        return value
    shape = tuple(stored.size(a) for a in missing)
    array = np.broadcast_to(value.array, shape + value.array.shape)
    return Value(array, (*missing, *value.axes))


def weights_of_a_mean(entries: list[Any]) -> bool:
    """Whether a row is two or more weights: none negative, their sum exactly 1 (proven)."""
    if len(entries) < 2 or not all(isinstance(x, Number) for x in entries):
        return False
    if sum(1 for x in entries if x.rational != 0) < 2:
        return False
    try:
        return total([*entries, Number.of(-1)]).is_zero() and all(x.sign() >= 0 for x in entries)
    except VieteError:
        return False


__all__ = ["lesson"]
