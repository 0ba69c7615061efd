"""A lesson as a worksheet: some of its numbers are fields to fill in, and a key has the answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from viete.document.rendering import render
from viete.document.tree import (
    Block,
    Chain,
    Column,
    RegisterRow,
    heading,
    item,
    listed,
    paragraph,
)
from viete.report.lesson.blanks import is_about, questions
from viete.report.lesson.document import Lesson, LessonPart, LessonStep, document
from viete.report.lesson.formulas import visible
from viete.report.lesson.paper import answers, on_paper

NARROW, WIDE, ROOM = 8, 18, 66  # letters of a field, and of all fields of a row
MOST_FIELDS = 6  # of a row; a longer one is one field


@dataclass
class Worksheet:
    """The sheet for students, and the key: the same lines with their answers."""

    sheet: Lesson
    key: list[Block]
    asked: Collection[int]  # the numbers of the steps that are asked

    def blocks(self, form: str) -> list[Block]:
        """The sheet's tree: the whole lesson with fields for a page, a shorter one for paper."""
        return document(self.sheet) if form == "html" else on_paper(self.sheet, self.asked, form)

    def write(self, form: str) -> tuple[str, str]:
        """The sheet and the key as two documents."""
        return render(self.blocks(form), form), render(self.key, form)

    def write_both(self, form: str) -> str:
        """The sheet followed by the key, in one document."""
        _, *rest = self.key
        return render([*self.blocks(form), heading(2, "Key"), *rest], form)


def worksheet(lesson: Lesson, blank: Sequence[str] = ()) -> Worksheet:
    """The worksheet of a lesson that was made with all its numbers.

    The steps that make a value named in ``blank``, or all of them, are asked at the last position
    that the lesson follows; the others are worked out as examples. Raises VieteError for a name
    that no step makes.
    """
    return Blanking(lesson, blank).worksheet()


class Blanking:
    """Numbers the lines that are asked, in the order of the steps."""

    def __init__(self, lesson: Lesson, blank: Sequence[str]) -> None:
        self.lesson, self.number = lesson, 0
        self.columns = len(lesson.columns)
        computed = [s for s in lesson.steps if s.equation >= 0]
        self.asked = questions(computed, blank)
        self.hidden = {s.equation for s in computed if s.number in self.asked}

    def worksheet(self) -> Worksheet:
        lesson, key = self.lesson, list[Block]()
        parts = [self.part(part, key) for part in lesson.parts]
        last = f"position {lesson.columns[-1]}"
        others = [f"position {c}" for c in lesson.columns[:-1]]
        many = ", as examples" if others[1:] else ", as an example"
        given = f" The numbers of {listed(others)} are given{many}." if others else ""
        task = (
            f"Fill in the fields (1) to ({self.number}), in this order, for {last}.{given} Write "
            "fractions, roots and powers of e as they are, and do not round."
        )
        sheet = replace(
            lesson, title=f"{lesson.model} (worksheet)", intro=[task, *lesson.intro], parts=parts,
            predicted=[], about=[], numbers=[], proven=[], way=[], closing=self.last_question(),
        )  # fmt: skip
        told = [*map(item, [*lesson.way, *lesson.predicted])]
        head: list[Block] = [
            heading(1, f"{lesson.model} (key)"),
            paragraph(f"The answers for {last}, each with its working."),
        ]
        key += [heading(2, "The last question"), *told] * bool(lesson.predicted)
        return Worksheet(sheet, [*head, *key], self.asked)

    def last_question(self) -> list[str]:
        """The question at the end, where the lesson has an answer."""
        if not self.lesson.predicted:
            return []
        return [
            f"What does the model predict at position {self.lesson.columns[-1]}? Compare the two "
            "greatest scores: is one of them greater, and why?"
        ]

    def part(self, part: LessonPart, key: list[Block]) -> LessonPart:
        """A part with its questions; their answers are added to the key."""
        found: list[Chain] = []
        steps = [self.step(s, found) for s in part.steps]
        key += [heading(2, part.title), *answers(found)] * bool(found)
        is_asked = any(s.number in self.asked for s in part.steps)
        return replace(part, steps=steps, summary=[] if is_asked else part.summary, numbers=[])

    def step(self, step: LessonStep, found: list[Chain]) -> LessonStep:
        """A step with its fields; the answers, and notes on them, are added to those found."""
        if step.number not in self.asked:
            sides = [self.example(s, step, s.place) for s in step.sides]
            return replace(step, sides=sides, status=[], register=list(self.register(step)))
        places = [s.place for s in step.sides if s.place is not None]
        sides = []
        for side in step.sides:
            if side.place is None or side.place != places[-1]:
                sides.append(self.example(side, step, side.place))
                continue
            lines = [replace(x, number=self.next()) if self.is_question(x, step) else x
                     for x in side.lines]  # fmt: skip
            found += [x for x in lines if x.number or not x.heads]
            lines = [asked(x) if x.number else x for x in lines if x.number or x.heads]
            sides.append(replace(side, lines=lines))
        return replace(step, sides=sides, status=[], register=list(self.register(step)))

    def is_question(self, line: Chain, step: LessonStep) -> bool:
        """Whether a line of a step has a number that is asked for."""
        return bool(line.name and line.value + line.digits) and is_about(
            line, self.asked[step.number]
        )

    def next(self) -> int:
        self.number += 1
        return self.number

    def example(self, side: Column, step: LessonStep, place: int | None) -> Column:
        """Lines with their numbers given; numbers put in are omitted where they are an answer."""
        last = max((s.place for s in step.sides if s.place is not None), default=None)
        reads = bool(step.reads & self.hidden) or step.number in self.asked
        if not (reads and (place == last or step.mixes)):
            return side
        lines = [replace(x, put_in="", note="" if "$" in x.note else x.note)
                 for x in side.lines if not (x.part and place == last)]  # fmt: skip
        return replace(side, lines=lines)

    def register(self, step: LessonStep) -> Iterator[RegisterRow]:
        """The register rows of a step; if it is asked, without the answers."""
        for row in step.register:
            cells = list(row.cells)
            if is_about(row, self.asked.get(step.number, ())):
                at = max((k for k, c in enumerate(cells) if c), default=0)
                cells[at] = "?"
            yield replace(row, cells=tuple(cells))


def asked(line: Chain) -> Chain:
    """A line with fields instead of its numbers."""
    widest = max((6 + len(visible(x)) if x else WIDE for x in line.entries), default=WIDE)
    share = ROOM // max(1, len(line.entries))
    letters = [min(WIDE, share, max(NARROW, widest))] * len(line.entries)  # all as wide: no hint
    if not 0 < len(letters) <= MOST_FIELDS:
        letters = [2 * WIDE]
    note = "" if "$" in line.note else line.note
    return replace(line, put_in="", value="", digits="", note=note, blanks=tuple(letters))


__all__ = ["NARROW", "ROOM", "Worksheet", "worksheet"]
