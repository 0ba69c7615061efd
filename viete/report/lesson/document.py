"""A lesson as plain data, and the document that it makes. Formulas stand between dollar signs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from viete.document.rendering import STYLES, check_format, render
from viete.document.tree import (
    Block,
    Chip,
    Column,
    Matrix,
    Panel,
    Pipeline,
    Register,
    RegisterRow,
    SideBySide,
    StepsBeside,
    heading,
    item,
    paragraph,
)

MOST_ENTRIES = 16  # of a register


@dataclass
class LessonStep:
    """One equation in one turn; ``equation`` is its number in the card from 0, -1 for the tokens.

    It makes the member ``makes`` of the ``family``, such as A^{2,h} of A^{i,h}. ``sides`` are the
    followed positions with their lines, or one side for a value without positions; ``letters`` are
    the meanings of letters in them, ``hints`` name parameters that change nothing, and ``status``
    is what is true of the numbers. ``reads`` are the equations whose values the step reads, and a
    step ``mixes`` if it reads other positions, too.
    """

    number: int
    equation: int
    makes: str
    title: str
    why: list[str]
    formula: str
    sides: list[Column] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    pipeline: list[Chip] = field(default_factory=list)
    register: list[RegisterRow] = field(default_factory=list)  # what the step adds to it
    letters: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    reads: frozenset[int] = frozenset()
    mixes: bool = False
    family: str = ""
    defines: list[str] = field(default_factory=list)  # the functions that it is the first to use


@dataclass
class LessonPart:
    """Steps with one purpose, and their result; ``numbers`` is about exact ones."""

    title: str
    steps: list[LessonStep]
    summary: list[str]
    numbers: list[str] = field(default_factory=list)


@dataclass
class Lesson:
    """The input and the prediction, the parts, and the conclusions.

    ``reads`` says what goes in, ``predicted`` what comes out at the last of the positions, ``way``
    how it got there, and ``intro`` what the model does. ``letters``
    are those of the shapes, ``about`` is the card's own words. ``columns`` are the followed
    positions, as in the register. Where its numbers are exact, ``numbers`` says how they are
    written, and ``proven`` what is certain of them at the end. ``model`` is the card's title.
    """

    title: str
    intro: list[str]
    tables: list[Matrix]
    columns: list[str]
    parts: list[LessonPart]
    closing: list[str]
    numbers: list[str] = field(default_factory=list)
    proven: list[str] = field(default_factory=list)
    about: list[str] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    predicted: list[str] = field(default_factory=list)
    way: list[str] = field(default_factory=list)
    model: str = ""

    @property
    def steps(self) -> list[LessonStep]:
        """The steps of all parts in order."""
        return [s for part in self.parts for s in part.steps]


def write_lesson(lesson: Lesson, form: str) -> str:
    """A lesson in a format of `STYLES`, written in that format's style."""
    check_format("a lesson", form, tuple(STYLES))
    return render(document(lesson), form)


def document(lesson: Lesson) -> list[Block]:
    """The tree of a lesson."""
    first = " ".join([*lesson.reads, *lesson.predicted])
    said = [*[first] * bool(first), *lesson.intro, *lesson.numbers]
    out: list[Block] = [heading(1, lesson.title), *map(paragraph, said)]
    out += [heading(2, "The weights"), *lesson.tables] * bool(lesson.tables)
    about = [*lesson.letters, *lesson.about]
    out += [heading(2, "About this model"), *map(paragraph, about)] * bool(about)
    entries: list[RegisterRow] = []
    for part in lesson.parts:
        out.append(heading(2, part.title))
        before, registers = len(entries), []
        for step in part.steps:
            entries += step.register
            registers.append(register(lesson, entries, len(entries) - len(step.register)))
        panels = [Panel(s.number, s.title, step_blocks(s)) for s in part.steps]
        out.append(StepsBeside(panels, registers, register(lesson, entries, before)))
        told = [*part.summary, *part.numbers]
        out += [paragraph(" ".join(told))] * bool(told)
    closing = [*lesson.way, *lesson.closing, *lesson.proven]
    return [*out, *[heading(2, "Summary")] * bool(closing), *map(item, closing)]


def register(lesson: Lesson, entries: list[RegisterRow], new: int) -> Register:
    """All values so far, those from place ``new`` on marked; if there are many, the last ones."""
    marked = [replace(e, now=k >= new) for k, e in enumerate(entries)]
    shown = marked[-max(MOST_ENTRIES, len(entries) - new) :]
    return Register(lesson.columns, shown, len(entries) - len(shown))


def step_blocks(step: LessonStep) -> list[Block]:
    """One step: the pipeline, why, the equation, and the numbers line by line."""
    out: list[Block] = [Pipeline(step.pipeline)]
    why = [*step.why, *step.defines]
    out += [paragraph(" ".join(why))] * bool(why)
    out += [paragraph(f"${step.formula}$")] * bool(step.formula)
    out += [paragraph(" ".join(step.letters))] * bool(step.letters)
    out += [SideBySide(step.sides)] * bool(step.sides)
    told = [*step.hints, *step.status]
    return [*out, *[paragraph(" ".join(told))] * bool(told)]
