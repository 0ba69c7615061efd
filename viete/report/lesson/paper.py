"""A worksheet for paper: what is asked with its equation and an example, what is given in lines."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from viete.document.tree import Block, Chain, Matrix, Paragraph, heading, item, paragraph, simple
from viete.report.lesson.document import Lesson, LessonStep


def on_paper(sheet: Lesson, asked: Collection[int], form: str) -> list[Block]:
    """The tree of a worksheet in fewer words; ``asked`` are the numbers of its steps with fields.

    The first of the ``intro`` says what to do. Words that explain the model stand in the lesson.
    """
    task, *_ = sheet.intro
    out: list[Block] = [heading(1, sheet.title), paragraph(" ".join([*sheet.reads, task]))]
    if sheet.tables:
        out += [heading(3, "The weights"), *weights(sheet.tables, form)]
    about = r"\approx" if form in ("latex", "md") else "≈"
    given: list[Block] = []
    for step in sheet.steps:
        if step.number in asked:
            out += [heading(3, "Given"), *given] * bool(given)
            out += question(step)
            given = []
        elif step.equation >= 0:
            given.append(item(stated(step, about)))
    if sheet.closing:
        out += [heading(3, "The last question"), *map(paragraph, sheet.closing)]
    return out


def question(step: LessonStep) -> list[Block]:
    """A step with fields: its title, its equation, the worked example, and the fields."""
    needed = [s for k, s in enumerate(step.why) if k == 0 or "$" in s or "∞" in s]
    why = " ".join([*needed, *step.defines, *step.letters])
    lines = [replace(x, part=False) for side in step.sides for x in side.lines if x.name]
    lines.sort(key=lambda x: x.number)  # first what is given
    about = f"${step.formula}$: {why}" if why else f"${step.formula}$"
    return [heading(3, step.title), paragraph(about), *lines]


def weights(tables: Sequence[Matrix], form: str) -> list[Block]:
    """The matrices of the parameters, on paper one below the other."""
    if form == "text":
        return [*tables]
    return [item(t.text.text) for t in simple(tables, form == "typst") if isinstance(t, Paragraph)]


def stated(step: LessonStep, about: str) -> str:
    """A step that is not asked, in one line: its equation and its values without their working."""
    values = [line for side in step.sides for line in side.lines if not line.part and line.name]
    said = ", ".join(f"${value_of(line, about)}$" for line in values)
    return ". ".join([f"${step.formula}$: {said}", *[" ".join(step.defines)] * bool(step.defines)])


def value_of(line: Chain, about: str) -> str:
    """The name of a line with its value, or with its digits where the value is too long."""
    digits = "" if line.value else line.digits
    return replace(line, rows=(), put_in="", digits=digits).formula(about)


def answers(lines: Sequence[Chain]) -> list[Block]:
    """The lines of a key in one list."""
    return [replace(line, part=False) for line in lines]


__all__ = ["answers", "on_paper"]
