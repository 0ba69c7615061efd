"""An exact run becomes a lesson: its equations in order, the numbers of every position put in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from viete.analysis import roles as role
from viete.document.tree import Chain, Column, RegisterRow, listed
from viete.errors import VieteError
from viete.evaluate.labelled import COL, ROW, Value, permute
from viete.evaluate.schedule import Step as Turn
from viete.evaluate.schedule import program
from viete.graph.card import CardData
from viete.meanings.entries import run_entries
from viete.meanings.exact.entry_writer import MOST_PAIRS
from viete.meanings.exact.numbers import Number, total
from viete.meanings.exact.run import ExactRun
from viete.meanings.exact.unevaluated import Unevaluated
from viete.notation.printer import show
from viete.notation.tree import Expr, Pick, num
from viete.report.article import respelled
from viete.report.lesson.beginning import Beginning
from viete.report.lesson.document import Lesson, LessonStep
from viete.report.lesson.exact_summaries import ExactSummaries
from viete.report.lesson.formulas import Decimals
from viete.report.lesson.idle import idle
from viete.report.lesson.lines import MOST_HEADS, Lines, equal_members, number_of
from viete.report.lesson.outline import Outline, Station
from viete.report.lesson.positions import (
    at_position,
    exercise_positions,
    followed_positions,
    tracks,
)
from viete.report.lesson.telling import Teller
from viete.rewrite.blocks import at_block

MOST_OTHERS = 8  # rows that are read but not followed
DECIMALS = 4  # digits of decimals


def lesson(
    card: CardData, tokens: Sequence[int], weights: Mapping[str, Any], *,
    positions: Sequence[int] | None = None, digits: int = 6, style: str = "unicode",
    origin: str = "", inputs: Mapping[str, Any] | None = None,
    word: Callable[[int], str] | None = None, exercise: bool = False,
) -> Lesson:  # fmt: skip
    """A lesson on a card's run on ``tokens``, with exact ``weights`` (see `run_entries`).

    The lesson follows ``positions``, or those of `followed_positions`; as an ``exercise`` those of
    `exercise_positions`. Numbers other than fractions have ``digits`` certified digits, formulas
    are in ``style``, ``origin`` says where the weights come from, and ``word`` names a token. A
    division by exactly zero or an undecided comparison ends the lesson at its step, which says so.
    Raises VieteError for tokens, weights and positions that do not fit.
    """
    if not card.inputs:
        raise VieteError(f"{card.title} takes no input, so there is nothing to follow")
    if not len(tokens):
        raise VieteError("a lesson needs at least one token")
    if digits < 1:
        raise VieteError(f"the number of digits must be at least 1, not {digits}")
    card = respelled(card, style) if style == "typst" else card
    given = {card.inputs[0].name: np.asarray(tokens), **(inputs or {})}
    run, stopped = run_to_the_end(card, given, weights)
    maker = Maker(run, digits, style, stopped, positions, word=word, exercise=exercise)
    return maker.lesson(origin)


def run_to_the_end(
    card: CardData, given: Mapping[str, Any], weights: Mapping[str, Any]
) -> tuple[ExactRun, VieteError | None]:
    """All values of an exact run, as far as it goes, and the error that ended it, if any."""
    run = run_entries(ExactRun, program(card), given, weights, [])
    run.wanted = None
    try:
        run.compute(None)
    except VieteError as error:
        return run, error
    return run, None


class Maker(Teller):
    """Makes the parts of one lesson; ``stopped`` is the error that ended the run, if any.

    The lesson follows ``positions``, or those of `followed_positions`, or as an ``exercise`` those
    of `exercise_positions`. With ``decimals`` each line is made in decimals, too.
    """

    def __init__(
        self, run: ExactRun, digits: int, style: str, stopped: VieteError | None,
        positions: Sequence[int] | None = None, decimals: bool = False,
        word: Callable[[int], str] | None = None, exercise: bool = False,
    ) -> None:  # fmt: skip
        self.exercise = exercise
        self.exact, self.stopped, self.wanted = run, stopped, positions
        self.tracks = tracks(run)
        self.failed: Turn | None = None  # what the run stopped at
        if stopped is not None:
            there = run.store.keys() | run.missing.keys()
            self.failed = next(t for t in run.program.steps if t.makes not in there)
        super().__init__(run, style, digits, word)
        for turn in self.turns:
            if turn is not self.failed and 0 in np.shape(run.store[turn.makes].array):
                raise turn.equation.text.error(
                    f"{show(turn.equation.left)} has no entries on this text, and only entries can "
                    f"be followed; take a longer text, or leave this equation out"
                )
        heads = self.formulas.heads
        rounded = Decimals(style, DECIMALS, heads) if decimals else None
        self.lines = Lines(run, self.formulas, self.word, rounded)
        if self.failed is not None:
            self.turns.append(self.failed)
            self.outline = Outline(self.turns, self.words)
            if not positions:
                count = len(self.tracks)
                self.followed = [next((j for j in range(count) if self.refused(j)), count - 1)]

    def positions(self) -> list[int]:
        count = len(self.tracks)
        for j in self.wanted or ():
            if not 0 <= j < count:
                raise VieteError(
                    f"--position {j}: the text has positions 0 to {count - 1}, counted from 0"
                )
        if self.wanted:
            return list(dict.fromkeys(self.wanted))
        if self.exercise:
            return exercise_positions(self.tracks, self.text)
        return followed_positions(self.tracks)

    def summarised(self) -> ExactSummaries:
        return ExactSummaries(self.exact, self.tracks, self.words, self.formulas, self.place,
                              self.token, self.made)  # fmt: skip

    def lesson(self, origin: str = "") -> Lesson:
        """The whole lesson; ``origin`` says where the weights come from."""
        out = super().lesson()
        why = [f"Left out: {'; '.join(self.run.without())}."] * bool(self.run.without())
        ended = [] if self.stopped is None else [f"The run ended early: {self.stopped.message}."]
        return replace(
            out, title=f"{out.title} (a lesson in exact numbers)",
            intro=[*out.intro, *[origin] * bool(origin), *why],
            numbers=self.about_numbers(),
            tables=Beginning(self.exact, self.formulas).matrices(),
            closing=[*out.closing, *ended], proven=self.proven(),
        )  # fmt: skip

    def proven(self) -> list[str]:
        assert isinstance(self.summaries, ExactSummaries)
        return self.summaries.conclusions()

    def about_numbers(self) -> list[str]:
        """How numbers are written."""
        return [
            "Every number is exact: nothing is rounded. A number with a root or a power of e is "
            f"followed by ≈ and its first {self.formulas.digits} digits, which are proven. A "
            "number that is too long to read is cut off after some digits, with … for the rest."
            + " Only the shares that are told in per cent are rounded."
            * any(role.WEIGHTS in self.words.roles(t.equation) for t in self.turns)
            + " A sum of more than three products leaves out the products that are 0."
            * self.has_long_sums()
        ]

    def has_long_sums(self) -> bool:
        """Whether a value has so many columns that products of 0 are left out of its sums."""
        return any(COL in v.axes and v.size(COL) > MOST_PAIRS for v in self.run.store.values())

    def about_positions(self) -> list[str]:
        """Which positions the numbers belong to."""
        if len(self.followed) == len(self.tracks):
            return []
        return [
            f"The text has {len(self.tracks)} positions. The lesson shows all numbers of position"
            f"{'s' * (len(self.followed) > 1)} {listed(map(self.place, self.followed))}, and of "
            "the other positions what is read from them."
        ]

    # -- parts and steps ---------------------------------------------------------------------------

    def summary(self, station: Station) -> Sequence[str]:
        return [] if self.failed in station.turns else super().summary(station)

    def about(self, station: Station) -> Sequence[str]:
        assert isinstance(self.summaries, ExactSummaries)
        levels = self.summaries.levels
        return [] if self.failed in station.turns else levels(station, self.followed)

    def step(self, turn: Turn) -> LessonStep:
        """A step with its numbers."""
        out = super().step(turn)
        if self.has_positions(turn):
            for j in self.followed:
                lines, status = self.side(turn, j)
                out.sides.append(Column(f"Position {self.place(j)}", lines, j))
                out.status += status
        else:
            sides = [self.side(turn, row) for row in self.own_rows(turn)]
            out.sides.append(
                Column("", [x for lines, _ in sides for x in lines], self.followed[-1])
            )
            out.status += sides[-1][1]
        out.letters = self.letters()
        if turn is not self.failed:
            out.sides += self.others(turn)
            out.hints = idle(self.lines, self.at(turn.equation.right, turn))
            out.status += self.status(turn)
            out.register = self.entry(turn)
        return out

    def own_rows(self, turn: Turn) -> Sequence[int]:
        """The rows of a matrix whose rows are not positions, such as the derivative of a weight."""
        if turn is self.failed or ROW not in (stored := self.run.store[turn.makes]).axes:
            return self.followed[-1:]
        return range(min(stored.size(ROW), MOST_OTHERS))

    def letters(self) -> list[str]:
        """The meanings of the letters in the lines of a step."""
        found = [f"${self.formulas.e(letter)}$ stands for ${self.formulas.e(formula)}$"
                 for letter, formula in self.lines.letters.items()]  # fmt: skip
        return [f"Below, {listed(found)}."] * bool(found)

    def side(self, turn: Turn, j: int) -> tuple[list[Chain], list[str]]:
        """The lines of one position, and the reason where the run failed."""
        failed = turn is self.failed
        value, stages = self.lines.values(turn, failed)
        if not failed:  # what is the value itself is written in its own line
            stages = [s for s in stages if not same_entries(s.value, value)]
        drawn: set[int] = set()
        out: list[Chain] = []
        self.lines.begin()
        try:
            for stage in stages:
                out += self.lines.of_stage(stage, turn, j, drawn)
        except VieteError:
            if not failed:
                raise
        if not failed:
            out += self.lines.of_turn(turn, j, drawn)
            stored = self.run.store[turn.makes]
            if stored.array.dtype != object:  # places in the vocabulary
                out += self.token_of(self.of_position(stored, turn, j))
            return out, []
        assert self.stopped is not None
        if why := self.refused(j):
            return out, [f"Here the lesson ends: {why}."]
        out += self.lines.of_failed(turn, j, drawn)
        return out, [f"Here the lesson ends, because at another position {self.stopped.message}."]

    def token_of(self, places: list[Any]) -> list[Chain]:
        if len(places) == 1 and int(places[0]) < len(self.model.vocabulary):
            return [Chain("", note=f"the token is {self.token(int(places[0]))}")]
        return []

    def others(self, turn: Turn) -> list[Column]:
        """The rows, read by followed positions, of the other positions."""
        found = self.words.roles(turn.equation)
        stored = self.run.store[turn.makes]
        if not {role.KEY, role.VALUE} & {*found} or stored.axes != (ROW, COL):
            return []
        rest = [j for j in range(stored.size(ROW)) if j not in self.followed]
        left = self.at(turn.equation.left, turn)
        lines = []
        for j in rest[:MOST_OTHERS]:
            name = self.formulas.e(Pick(left, (num(j),)))
            lines.append(Chain(name, (), "", self.formulas.brief(list(stored.array[j]), False)))
        if len(rest) > MOST_OTHERS:
            lines.append(
                Chain("", note=f"{len(rest) - MOST_OTHERS} more are computed the same way")
            )
        return [Column("Other positions that are read", lines)] if lines else []

    def entry(self, turn: Turn) -> list[RegisterRow]:
        """The register rows of a turn: one for each head shown, one where heads are equal."""
        stored, left = self.run.store[turn.makes], self.at(turn.equation.left, turn)
        if ROW in stored.axes and not self.has_positions(turn):
            return []  # its rows are no positions, which the columns are
        letters = [a for a in stored.axes if a not in (ROW, COL)]
        axes = tuple(a for a in stored.axes if a in (ROW, COL))
        array = permute(np, np.asarray(stored.array, dtype=object), stored.axes, (*letters, *axes))
        shape = array.shape[: len(letters)]
        if alike := bool(letters) and equal_members(array, len(letters)):
            shape = (1,) * len(letters)
        out = []
        for places in islice(np.ndindex(shape), MOST_HEADS):
            member = {a: k + self.run.program.range_of(a).start
                      for a, k in zip(letters, places, strict=True)}  # fmt: skip
            name = left if alike else at_block(left, member, self.run.sizes)
            row = self.register_row(name, Value(np.asarray(array[places]), axes), turn)
            out.append(row if alike else replace(row, heads=tuple(member.items())))
        return out

    def register_row(self, name: Expr, v: Value, turn: Turn) -> RegisterRow:
        """The entries of one value at the followed positions."""
        cells = []
        for j in self.followed:
            entries = [number_of(x) for x in self.of_position(v, turn, j)]
            counted = ROW in v.axes or (v.axes == (COL,) and not self.lines.counts(turn))
            cells.append(self.formulas.brief(entries, not counted))
        if not self.has_positions(turn):
            cells = [*cells[-1:], *[""] * (len(self.followed) - 1)]
        return RegisterRow(show(name, self.style), tuple(cells), self.number)

    # -- what a step says at its end ---------------------------------------------------------------

    def status(self, turn: Turn) -> list[str]:
        """Facts about the numbers of a step."""
        out = []
        found = self.words.roles(turn.equation)
        rows = [self.of_position(self.run.store[turn.makes], turn, j) for j in self.followed]
        if role.WEIGHTS in found and any(map(weights_of_a_mean, rows)):
            out.append("The weights of each row sum to exactly 1.")
        if role.MASK in found:
            out += self.hidden(turn)
        ties = self.exact.status[turn.makes].ties
        return out + [f"{t[0].upper()}{t[1:]}." for t in ties]

    def hidden(self, turn: Turn) -> list[str]:
        """The positions that the mask hides here, for each followed position."""
        v = self.run.store[turn.makes]
        if v.axes[-2:] != (ROW, COL):
            return []
        array = np.asarray(v.array, dtype=object).reshape(-1, *v.array.shape[-2:])[0]
        weights = role.WEIGHTS in self.words.roles(turn.equation)
        out = []
        for j in self.followed:
            if j >= len(array):
                continue
            gone = [k for k, x in enumerate(array[j]) if is_hidden(x, weights)]
            if gone and len(gone) <= 4:
                many = f"position{'s' * (len(gone) > 1)} {listed(map(self.place, gone))}"
                out.append(f"The mask hides {many} from position {self.place(j)}.")
            elif gone:
                out.append(f"The mask hides {len(gone)} positions from position {self.place(j)}.")
            else:
                out.append(f"Position {self.place(j)} may read every position.")
        nothing = len(out) > 1 and all(s.endswith("may read every position.") for s in out)
        return ["The mask hides nothing here."] if nothing else out

    def of_position(self, v: Value, turn: Turn, j: int) -> list[Any]:
        """The entries of one position, for all members of a family."""
        v = at_position(v, j) if ROW in v.axes or self.lines.counts(turn) else v
        return list(np.asarray(v.array, dtype=object).flat)

    def refused(self, j: int) -> str:
        """The reason why the failing equation has no value at position j, or ''."""
        assert self.failed is not None and self.stopped is not None
        value, stages = self.lines.values(self.failed, True)
        for v in (*(s.value for s in stages), value):
            if not np.size(v.array):
                return self.stopped.message
            try:
                for x in self.of_position(v, self.failed, j):
                    number_of(x)
            except VieteError as error:
                return error.message
        return ""


def same_entries(a: Value, b: Value) -> bool:
    """Whether two values have the same entries, with the same derivations."""
    one, other = (np.asarray(v.array, dtype=object).flat for v in (a, b))  # one number is no array
    found = {id(x) for x in one if isinstance(x, Unevaluated) and x.op != "leaf"}
    return len(found) == len(one) == len(other) and found == {id(x) for x in other}


def is_hidden(x: Any, weight: bool) -> bool:
    """Whether a score is −∞, or a weight exactly 0 because its score was."""
    if isinstance(x, float):
        return x == -np.inf
    return weight and isinstance(x, Number) and x.rational == 0


def weights_of_a_mean(entries: list[Any]) -> bool:
    """Whether a row is two or more non-negative weights with sum exactly 1 (proven)."""
    if len(entries) < 2 or not all(isinstance(x, Number) for x in entries):
        return False
    if sum(1 for x in entries if x.rational != 0) < 2:
        return False
    try:
        return total([*entries, Number.of(-1)]).is_zero() and all(x.sign() >= 0 for x in entries)
    except VieteError:
        return False


__all__ = ["lesson"]
