"""A lesson as plain data, and the document that it makes. Formulas stand between dollar signs."""

from __future__ import annotations

from dataclasses import dataclass, field

from viete.document.rendering import check_format, render
from viete.document.tree import (
    Block,
    Chain,
    Chip,
    Panel,
    Pipeline,
    TextTable,
    heading,
    item,
    paragraph,
)


@dataclass
class LessonStep:
    """One equation for the followed position; ``parts`` are on the way to its ``lines``."""

    number: int
    title: str
    why: list[str]
    formula: str
    parts: list[Chain] = field(default_factory=list)
    lines: list[Chain] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    pipeline: list[Chip] = field(default_factory=list)


@dataclass
class Section:
    """One followed position."""

    title: str
    steps: list[LessonStep]


@dataclass
class Lesson:
    """A title, what is given, the followed positions, and what may be concluded."""

    title: str
    intro: list[str]
    tables: list[TextTable]  # of parameters
    positions: list[str]
    sections: list[Section]
    closing: list[str]


def write_lesson(lesson: Lesson, form: str) -> str:
    """A lesson in one of `PAGES`, made in that format's style."""
    check_format("a lesson", form)
    return render(document(lesson), form)


def document(lesson: Lesson) -> list[Block]:
    """The tree of a lesson."""
    out: list[Block] = [heading(1, lesson.title), *map(paragraph, lesson.intro), *lesson.tables]
    out += [heading(2, "How far each position stays rational"), *map(item, lesson.positions)]
    for section in lesson.sections:
        out.append(heading(2, section.title))
        out += [Panel(s.number, s.title, step_blocks(s)) for s in section.steps]
    return [*out, heading(2, "What was shown"), *map(item, lesson.closing)]


def step_blocks(step: LessonStep) -> list[Block]:
    """One step: the pipeline, why, the equation, and the numbers line by line."""
    out: list[Block] = [Pipeline(step.pipeline)]
    out += [paragraph(" ".join(step.why))] * bool(step.why)
    out += [paragraph(f"${step.formula}$")] * bool(step.formula)
    return [*out, *step.parts, *step.lines, *[paragraph(" ".join(step.status))] * bool(step.status)]
