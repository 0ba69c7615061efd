"""An exact run becomes a lesson: its equations in order, the numbers of one position put in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from viete.analysis.def_use import def_use
from viete.document.tree import Chain
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW, Value, permute
from viete.evaluate.schedule import Step as Turn
from viete.evaluate.schedule import program
from viete.graph.card import CardData, Input, Parameter
from viete.meanings.entries import run_entries
from viete.meanings.exact.derivation import Derivation, Stage, Unevaluated, at_block
from viete.meanings.exact.numbers import Number, total
from viete.meanings.exact.run import NAMED, RATIONAL, ExactRun, level_of
from viete.notation.printer import show, show_equation
from viete.notation.tree import Expr, Idx, Num, Pick, Ref, walk
from viete.report.lesson.closing import closing
from viete.report.lesson.document import Grid, Lesson, LessonStep, Section, Substep
from viete.report.lesson.explaining import Explainer
from viete.report.lesson.formulas import Formulas, entries_of, same
from viete.report.lesson.pipeline import Pipeline
from viete.report.lesson.positions import chosen, followed_length, position_size, said, tracks

MOST_HEADS = 4  # members of a family that are shown
SMALL, MOST_ROWS = 40, 60  # entries of a table that is shown at the start; rows of all tables


def lesson(
    card: CardData, tokens: Sequence[int], weights: Mapping[str, Any], *,
    positions: Sequence[int] | None = None, digits: int = 6, style: str = "unicode",
    origin: str = "", inputs: Mapping[str, Any] | None = None,
) -> Lesson:  # fmt: skip
    """A lesson on a card's run on ``tokens``, with exact ``weights`` (see `run_entries`).

    ``positions`` are followed; else those of `positions.chosen`. ``digits`` are the certified ones
    of what is no fraction, ``style`` that of formulas, ``origin`` says where the weights come from.
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
        self.formulas = Formulas(style, digits)
        self.explainer = Explainer(self.model, style)
        self.uses = def_use(self.model)
        self.number = {(e.left, e.loop): k for k, e in enumerate(self.model.equations)}
        self.turns = [t for t in run.program.steps if t.makes in run.store]
        self.failed = self.failing()
        shown = [*self.turns, self.failed] if self.failed else self.turns
        self.pipeline = Pipeline(shown, self.style, self.is_end)
        self.length = followed_length(run)
        self.derivation = Derivation(run)
        self.explained: set[Any] = set()
        self.kept: dict[Any, tuple[Value, list[Stage]]] = {}

    def failing(self) -> Turn | None:
        """The turn that the run stopped at."""
        if self.stopped is None:
            return None
        return next(
            t
            for t in self.run.program.steps
            if t.makes not in self.run.store and t.makes not in self.run.missing
        )

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
            followed = chosen(found)
        end = "to the end" if self.failed is None else "as far as the run goes"
        return Lesson(
            f"{self.model.title}: a lesson in exact numbers",
            self.intro(origin),
            self.grids(),
            [said(t, self.made, end) for t in found],
            [self.section(j) for j in followed],
            closing(run, found, self.made, self.stopped),
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
            "Every number below is exact. A number stays a fraction as long as it is one; what is "
            f"none is written with roots and powers of e, and shown with {self.formulas.digits} "
            "certified digits after ≈. Numbers put in that are too long to read are cut off "
            "after their first digits, with … for the rest."
        )
        if origin:
            out.append(origin)
        if why := self.run.without():
            out.append(f"Not computed: {'; '.join(why)}.")
        return out

    def word(self, token: Any) -> str:
        words = self.model.vocabulary
        return words[int(token)] if int(token) < len(words) else str(int(token))

    def grids(self) -> list[Grid]:
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
        out = [Grid(", ".join(names) + (f": {meaning}" if meaning else ""),
                    [""] * len(cells[0]), [list(r) for r in cells])
               for (meaning, cells), names in alike.items()]  # fmt: skip
        return out if sum(len(g.rows) for g in out) <= MOST_ROWS else []

    def tables(self) -> Iterator[tuple[tuple[Parameter, np.ndarray], str]]:
        """Every parameter's array for every block and head, with its name."""
        for p, blocks, shape in self.run.program.parameters.values():
            v = self.run.store.get((p.name, blocks))
            if v is None:
                continue
            letters = [s for s in p.symbol.slots if s in self.model.loop_letters]
            heads = [s for s in p.symbol.slots if s not in letters]
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
        steps = [self.tokens_step(j)]
        for turn in self.turns:
            steps.append(self.step(len(steps) + 1, turn, j))
        if self.failed is not None:
            steps.append(self.last_step(len(steps) + 1, self.failed, j))
        return Section(f"Position {j}{word}", [], steps)

    def tokens_step(self, j: int) -> LessonStep:
        words = self.model.vocabulary
        why = [
            "The tokens become numbers: each is its place in the vocabulary, counted from 0."
            if words
            else "The tokens are numbers already."
        ]
        why = [] if "tokens" in self.explained else why
        self.explained.add("tokens")
        lines = []
        for item, ids in self.ids():
            name = show(Ref(item.symbol), self.style)
            lines.append(Chain(name, "", self.formulas.row([str(k) for k in ids], False)))
            if j < len(ids) and self.counted_by(item) == self.length:
                lines.append(Chain(f"{name}[{j}]", "", str(ids[j])))
        return LessonStep(1, "Tokens", why, "", [], lines, [], self.pipeline.chips(None))

    def ids(self) -> list[tuple[Input, list[int]]]:
        """The inputs that are whole numbers, and what they are."""
        return [
            (i, [int(k) for k in self.run.store[i.name, ()].array]) for i in self.model.inputs
            if i.high is not None and len(i.shape) == 1 and (i.name, ()) in self.run.store
        ]  # fmt: skip

    def counted_by(self, item: Input) -> str:
        return show(item.shape[0])

    def values(self, turn: Turn) -> tuple[Value, list[Stage]]:
        """The equation with numbers put in."""
        if turn.makes not in self.kept:
            try:
                self.kept[turn.makes] = self.derivation.derived(turn.equation.right, turn.loops)
            except VieteError:
                if turn is not self.failed:
                    raise
                parts = list(self.derivation.stages.values())
                self.kept[turn.makes] = Value(np.zeros(0, dtype=object), (COL,)), parts
        return self.kept[turn.makes]

    def step(self, number: int, turn: Turn, j: int) -> LessonStep:
        equation = turn.equation
        left, right = (self.at(e, turn.loops) for e in (equation.left, equation.right))
        out = LessonStep(
            number, self.title(turn), self.why(turn), show_equation(left, right, self.style)
        )
        value, parts = self.values(turn)
        stored = self.run.store[turn.makes]
        lettered = full(value, stored)
        drawn: set[int] = set()
        for part in parts:
            out.parts += self.substep(part, turn, j, drawn)
        out.lines = list(self.lines(left, lettered, stored, turn, j, drawn))
        out.status = self.status(
            turn,
            j,
            any(line.digits for line in (*out.lines, *(x for p in out.parts for x in p.lines))),
        )
        out.pipeline = self.pipeline.chips(turn)
        if self.is_token(turn):
            out.lines += self.token(turn, j)
        return out

    def title(self, turn: Turn) -> str:
        part = turn.equation.part
        block = ", ".join(f"{i} = {k}" for i, k in turn.loops.items())
        head = f"{part} ({block})" if part and block else part or block
        return f"{head}: {self.made(turn)}" if head else self.made(turn)

    def why(self, turn: Turn) -> list[str]:
        """The explanation, once for every equation."""
        if id(turn.equation) in self.explained:
            return []
        self.explained.add(id(turn.equation))
        k = self.number[turn.equation.left, turn.equation.loop]
        return self.explainer.equation(
            turn.equation.right, turn.equation.meaning, bool(self.uses.residuals(k))
        )

    def substep(self, part: Stage, turn: Turn, j: int, drawn: set[int]) -> list[Substep]:
        lines = list(self.lines(part.label, part.value, None, turn, j, drawn))
        if not lines:
            return []
        named = isinstance(part.label, Ref)
        formula = show_equation(part.label, part.formula, self.style) if named else ""
        return [Substep(formula, "", lines)]

    def lines(
        self, label: Expr, value: Value, stored: Value | None, turn: Turn, j: int, drawn: set[int],
    ) -> Iterator[Chain]:  # fmt: skip
        """A line for every member of the family that the value is; the row of position j."""
        letters = [a for a in value.axes if a not in (ROW, COL)]
        ranges = [self.run.program.range_of(a) for a in letters]
        members = list(product(*ranges))
        counted = isinstance(label, Ref) and label.symbol == turn.equation.left.symbol
        counted = counted and self.counts(turn)
        for places in members[:MOST_HEADS]:
            member = dict(zip(letters, places, strict=True))
            name = at_block(label, member, self.run.sizes)
            which = ", ".join(f"{a} = {k}" for a, k in member.items()) if name == label else ""
            entries, items, scalar = self.one(value, letters, places, ranges, j, counted)
            held = None
            if stored is not None:
                held = self.one(stored, letters, places, ranges, j, counted)[0]
            name = Pick(name, items) if items else name
            line = self.line(name, entries, held, scalar, drawn)
            yield replace(line, note="; ".join(x for x in (which, line.note) if x))
        if len(members) > MOST_HEADS:
            dots = r"\ldots" if self.style == "latex" else "…"
            yield Chain(dots, note=f"and so for the other {len(members) - MOST_HEADS}")

    def one(
        self, v: Value, letters: list[str], places: Sequence[int], ranges: list[range], j: int,
        counted: bool,
    ) -> tuple[list[Any], tuple[Expr, ...], bool]:  # fmt: skip
        """One member's entries for position j: what they are, the index, and whether it is one.

        ``counted``: the entries of a vector are the positions' own.
        """
        order = (*letters, *(a for a in (ROW, COL) if a in v.axes))
        array = np.asarray(permute(np, np.asarray(v.array, dtype=object), v.axes, order))
        array = array[tuple(k - r.start for k, r in zip(places, ranges, strict=True))]
        if ROW in v.axes or counted:
            at = min(j, len(array) - 1)
            array = np.asarray(array[at], dtype=object)
            return entries_of(array), (Num(Fraction(at)),), array.ndim == 0
        return entries_of(array), (), array.ndim == 0 if hasattr(array, "ndim") else True

    def counts(self, turn: Turn) -> bool:
        """Whether what is made is a vector with an entry for every position."""
        shape = self.run.program.shapes.types[turn.equation.name].shape
        return len(shape) == 1 and bool(position_size(self.run, turn))

    def line(
        self, name: Expr, entries: list[Any], held: list[Any] | None, scalar: bool, drawn: set[int]
    ) -> Chain:
        shown = [x for x in entries if isinstance(x, Unevaluated)]
        known = bool(shown) and all(id(x) in drawn for x in shown)
        drawn |= {id(x) for x in shown}
        numbers = held if held is not None else [number_of(x) for x in entries]
        value, digits = self.formulas.value(numbers, scalar)
        put_in, note = "", ""
        if shown and len(shown) == len(entries) and not known and not same(entries):
            put_in, note = self.formulas.put_in(entries, scalar)
        if note:
            return Chain(self.formulas.e(name), "", value, digits, f"{note}: ${put_in}$")
        return Chain(self.formulas.e(name), put_in, value, digits, "")

    # -- what a step says at its end ---------------------------------------------------------------

    def status(self, turn: Turn, j: int, open_: bool) -> list[str]:
        stored, status = self.run.store[turn.makes], self.run.status[turn.makes]
        entries = self.rows(stored, turn, j)
        level = max((level_of(x) for x in entries), default=RATIONAL)
        words = [
            "Exact: fractions.",
            "Exact: roots and powers of e; whether two such numbers are equal is decided.",
            "Named: an exact definition, and certified digits.",
        ]
        out = [words[level]]
        if level == NAMED and "named" not in self.explained:
            self.explained.add("named")
            out.append("Here the pass leaves the numbers for which equality is decided.")
        if level == RATIONAL:
            out = ["A row of fractions again."] if open_ else []
        if weights_of_a_mean(entries):
            out.append("The entries are at least 0 and sum to exactly 1.")
        if any(isinstance(x, float) for x in entries):
            out.append(f"${self.formulas.plain(-np.inf)}$ hides what is not to be seen.")
        if status.bits and open_:
            out.append(f"A comparison was decided by an enclosure of {status.bits} bits.")
        return out + [f"{t[0].upper()}{t[1:]}." for t in status.ties]

    def rows(self, v: Value, turn: Turn, j: int) -> list[Any]:
        letters = [a for a in v.axes if a not in (ROW, COL)]
        ranges = [self.run.program.range_of(a) for a in letters]
        counted = self.counts(turn)
        out: list[Any] = []
        for places in product(*ranges):
            out += self.one(v, letters, places, ranges, j, counted)[0]
        return out

    def is_end(self, turn: Turn) -> bool:
        return self.uses.is_end(self.number[turn.equation.left, turn.equation.loop])

    def is_token(self, turn: Turn) -> bool:
        """Whether a value is made of places in the vocabulary."""
        return self.run.store[turn.makes].array.dtype != object

    def token(self, turn: Turn, j: int) -> list[Chain]:
        found = [int(x) for x in self.rows(self.run.store[turn.makes], turn, j)]
        if len(found) == 1 and found[0] < len(self.model.vocabulary):
            word = self.model.vocabulary[found[0]]
            return [Chain("", note=f"the token is `{word}`")]
        return []

    # -- where the run was refused -----------------------------------------------------------------

    def refused(self, j: int) -> str:
        """Why the failing equation has no value at position j, or nothing."""
        assert self.failed is not None
        value, parts = self.values(self.failed)
        for v in (*(p.value for p in parts), value):
            if not v.array.size:
                return self.stopped.message if self.stopped else ""
            try:
                for x in self.rows(v, self.failed, j):
                    number_of(x)
            except VieteError as error:
                return error.message
        return ""

    def last_step(self, number: int, turn: Turn, j: int) -> LessonStep:
        left, right = (self.at(e, turn.loops) for e in (turn.equation.left, turn.equation.right))
        out = LessonStep(
            number, self.title(turn), self.why(turn), show_equation(left, right, self.style)
        )
        out.pipeline = self.pipeline.chips(turn)
        drawn: set[int] = set()
        value, parts = self.values(turn)
        for part in parts:
            try:
                out.parts += self.substep(part, turn, j, drawn)
            except VieteError:
                break
        why = self.refused(j)
        assert self.stopped is not None
        if why:
            out.status = [f"Here the lesson ends: {why}."]
        else:
            out.lines = (
                list(self.lines(left, value, None, turn, j, drawn)) if value.array.size else []
            )
            out.status = [f"Here the lesson ends, for at another position {self.stopped.message}."]
        return out


def number_of(x: Any) -> Any:
    return x.number if isinstance(x, Unevaluated) else x


def full(value: Value, stored: Value) -> Value:
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
