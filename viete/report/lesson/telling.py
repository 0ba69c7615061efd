"""A run in words, of any numbers: what goes in, what each part comes to, what is predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from viete.analysis.traits import predicts_next
from viete.document.tree import Chain, Column, RegisterRow, capital, listed
from viete.evaluate.inputs import NO_TARGET, host
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step as Turn
from viete.evaluate.schedule import member_name
from viete.graph.card import Input
from viete.notation.printer import show, show_equation
from viete.notation.tree import Expr, Ref, walk
from viete.report.lesson.document import Lesson, LessonPart, LessonStep
from viete.report.lesson.formulas import NumberFormulas
from viete.report.lesson.outline import Outline, Station
from viete.report.lesson.overview import letters, overview
from viete.report.lesson.positions import FEW, followed_length, position_size
from viete.report.lesson.retelling import Retelling
from viete.report.lesson.summaries import Summaries
from viete.report.lesson.words import HEADINGS, StepWords
from viete.rewrite.blocks import at_block

MOST_WORDS = 8  # tokens of a vocabulary that are listed with their numbers


class Teller:
    """Tells about one run, in a lesson whose steps have no lines.

    ``word`` gives the word of a token, where the card has no words of its own.
    """

    def __init__(
        self, run: Run, style: str, digits: int, word: Callable[[int], str] | None = None
    ) -> None:
        self.run, self.model, self.style = run, run.program.model, style
        heads = {key: self.model.heads_of(s) for key, s in self.model.symbols.items()}
        self.formulas = NumberFormulas(style, digits, heads)
        self.words, self.named = StepWords(self.model, style), word
        self.turns = [t for t in run.program.steps if t.makes in run.store]
        self.length = followed_length(run)
        self.text = next((ids for i, ids in self.ids() if show(i.shape[0]) == self.length), [])
        self.explained: set[Any] = set()
        self.number = 1
        self.followed = self.positions()
        self.outline = Outline(self.turns, self.words)
        self.summaries = self.summarised()

    def positions(self) -> list[int]:
        """The positions of the lesson: all of a short text, else the last."""
        count = int(self.run.sizes.get(self.length, 1)) if self.length else 1
        return list(range(count)) if count <= FEW else [count - 1]

    def summarised(self) -> Summaries:
        return Summaries(self.run, self.words, self.formulas, self.place, self.token, self.made)

    def lesson(self) -> Lesson:
        """The input, the parts with their summaries, and the prediction."""
        return Lesson(
            self.model.title, [*self.overview(), *self.about_positions()], [],
            [self.place(j) for j in self.followed],
            [self.tokens(), *map(self.part, self.outline.stations)],
            self.summaries.told_of(self.followed), way=[*self.retold()], reads=self.goes_in(),
            about=[*self.model.about[:1]], letters=letters(self.run, self.turns, self.words.style),
            predicted=self.summaries.told_of(self.followed[-1:]), model=self.model.title,
        )  # fmt: skip

    def about_positions(self) -> list[str]:
        """The positions that the lesson is about, if not all."""
        count = int(self.run.sizes.get(self.length, 1)) if self.length else 1
        if len(self.followed) == count:
            return []
        predicted = ", where the next token is predicted" * predicts_next(self.model)
        return [f"The same happens at each of the {count} positions. Numbers are given for the "
                f"last one, {self.place(count - 1)}{predicted}."]  # fmt: skip

    def retold(self) -> list[str]:
        """The path to the prediction at the last of the followed positions."""
        j = self.followed[-1]
        return Retelling(self.summaries, self.turns).sentences(j) if j < len(self.text) else []

    # -- names -------------------------------------------------------------------------------------

    def word(self, token: Any) -> str:
        words = self.model.vocabulary
        if 0 <= int(token) < len(words):
            return words[int(token)]
        named = self.named if int(token) >= 0 else None
        return str(int(token)) if named is None else named(int(token))

    def has_words(self) -> bool:
        return any(self.word(k) != str(k) for k in self.text)

    def token(self, k: int) -> str:
        """A token for prose."""
        if k == NO_TARGET:
            return "no target"
        word = self.word(k).replace("`", "\u02cb").replace("$", "\uff04")
        if not word.strip():
            word = f'"{word}"'  # a space by itself is not seen
        return f"token {k}" if word == str(k) else f"`{word}`"

    def place(self, j: int) -> str:
        """``0 `a```: a position and its token."""
        known = j < len(self.text) and self.word(self.text[j]) != str(self.text[j])
        return f"{j} ({self.token(self.text[j])})" if known else str(j)

    def ids(self) -> list[tuple[Input, list[int]]]:
        """The inputs of whole numbers that a told equation reads, with their numbers."""
        read = {x.key for t in self.turns for x in walk(t.equation.right) if isinstance(x, Ref)}
        return [
            (i, [int(k) for k in host(self.run.store[i.name, ()].array)]) for i in self.model.inputs
            if i.high is not None and len(i.shape) == 1 and i.name in read
            and (i.name, ()) in self.run.store
        ]  # fmt: skip

    def at(self, e: Expr, turn: Turn) -> Expr:
        """A formula for one turn of its loop."""
        return at_block(e, turn.loops, self.run.sizes)

    def made(self, turn: Turn) -> str:
        return f"${show(self.at(turn.equation.left, turn), self.style)}$"

    def has_positions(self, turn: Turn) -> bool:
        return bool(position_size(self.run, turn))

    # -- the beginning -----------------------------------------------------------------------------

    def goes_in(self) -> list[str]:
        """The input, in words."""
        out = []
        for i, ids in self.ids():
            tokens = i.high == self.model.inputs[0].high and self.has_words()
            between = ", " if NO_TARGET in ids else " "
            text = between.join(map(self.token, ids)) * tokens
            name, numbers = show(Ref(i.symbol), self.style), ", ".join(map(str, ids))
            row = f"${name}$ = ({numbers})"
            out.append(f"{text}, as the numbers {row}" if text else f"the numbers {row}")
        return [f"The model reads {listed(out)}."] * bool(out)

    def overview(self) -> list[str]:
        """An overview of the model's computation."""
        return overview(self.run, self.turns, self.words)

    def mapping(self) -> str:
        """``a ↦ 0, b ↦ 1``: the whole vocabulary, or the tokens of the text if it is long."""
        words = self.model.vocabulary
        shown = range(len(words)) if 0 < len(words) <= MOST_WORDS else dict.fromkeys(self.text)
        to = r"\mapsto" if self.style == "latex" else "↦"
        return ", ".join(f"{self.token(k)}\u00a0${to} {k}$" for k in list(shown)[:MOST_WORDS])

    def tokens(self) -> LessonPart:
        """The first part: words become numbers."""
        why = ["The text is given as the numbers of its tokens."]
        if self.has_words():
            why = ["A model can only calculate with numbers. So each token is replaced by its "
                   f"place in the vocabulary, counted from 0: {self.mapping()}."]  # fmt: skip
        chains = []
        for i, ids in self.ids():
            name = show(Ref(i.symbol), self.style)
            chains.append(Chain(name, (), "", self.formulas.row([str(k) for k in ids], False)))
        step = LessonStep(1, -1, "", "Tokens become numbers", why, "",
                          [Column("", chains)] * bool(chains))  # fmt: skip
        step.pipeline = self.outline.chips(None)
        item = self.model.inputs[0]
        if self.text:
            cells = tuple(str(self.text[j]) if j < len(self.text) else "" for j in self.followed)
            step.register = [RegisterRow(show(Ref(item.symbol), self.style), cells, 1)]
        return LessonPart("Tokens", [step], [])

    # -- parts and steps ---------------------------------------------------------------------------

    def part(self, station: Station) -> LessonPart:
        steps = [self.step(turn) for turn in station.turns]
        names = [c for c in station.chips if not c.startswith("$")] or [*station.chips]
        title = capital(listed(HEADINGS.get(c, c) for c in names))
        title = f"{capital(station.block)}: {title}" if station.block else title
        return LessonPart(title, steps, [*self.summary(station)], [*self.about(station)])

    def summary(self, station: Station) -> Sequence[str]:
        return self.summaries.of(station, self.followed)

    def about(self, station: Station) -> Sequence[str]:
        """The kind of numbers that a part has reached."""
        return []

    def step(self, turn: Turn) -> LessonStep:
        """A step in words: its title, why it is there, and its equation."""
        self.number += 1
        left, right = (self.at(e, turn) for e in (turn.equation.left, turn.equation.right))
        place = self.words.place(turn.equation)
        first = self.first_time(place)
        why = self.words.why(turn.equation, partial(self.at, turn=turn)) if first else []
        defines = self.words.definitions(turn.equation) if first else []
        symbol = turn.equation.left.symbol
        member = member_name(symbol, self.run.program.loops_of(symbol, turn.makes[1]))
        out = LessonStep(self.number, place, member,
                         f"{self.words.title(turn.equation)}: {self.made(turn)}", why,
                         show_equation(left, right, self.style),
                         family=show(turn.equation.left), defines=defines)  # fmt: skip
        out.pipeline = self.outline.chips(turn)
        at = {m: self.words.place(t.equation) for t in self.turns for m in [t.makes]}
        out.reads = frozenset(at[m] for m in turn.needs if m in at)
        out.mixes = self.words.mixes(turn.equation)
        return out

    def first_time(self, what: Any) -> bool:
        """Whether a thing has not been explained yet; from now on it has."""
        new = what not in self.explained
        self.explained.add(what)
        return new


__all__ = ["Teller"]
