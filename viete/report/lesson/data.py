"""A lesson as JSON for a page: its texts and formulas as HTML, made in LaTeX style."""

from __future__ import annotations

from typing import Any

from viete.document.formulas import math
from viete.document.html import bracketed, prose
from viete.document.tree import Chain
from viete.report.lesson.document import Lesson, LessonStep


def lesson_data(lesson: Lesson, meaning: str = "exact") -> dict[str, Any]:
    """The ``title``, ``intro``, ``matrices``, ``about``, ``columns``, ``parts``, ``closing``.

    ``meaning`` is that of the numbers of its lines, where they are not in decimals; ``numbers``
    (how they are written) and ``proven`` (what is certain of them) are about these.

    A part has a ``title``, ``steps``, a ``summary`` and ``numbers``: what kind they are. A step has
    its ``number``, the ``equation`` of the card (from 1; 0 for the tokens) and the ``member`` that
    it makes, ``title``, ``why``, ``formula``, ``letters`` (what those of its lines stand for),
    ``pipeline`` (each stage with its ``state``: done, now or later), ``sides`` with their lines,
    ``status``, and the rows that it adds to the ``register``: those of the steps so far are all
    values so far. Every text is HTML that is safe to be put in a page.
    """
    return {
        "title": prose(lesson.title),
        "meaning": meaning,
        "intro": list(map(prose, [" ".join([*lesson.reads, *lesson.predicted]), *lesson.intro])),
        "numbers": list(map(prose, lesson.numbers)),
        "about": list(map(prose, [*lesson.letters, *lesson.about])),
        "matrices": list(map(bracketed, lesson.tables)),
        "columns": list(map(prose, lesson.columns)),
        "parts": [
            {"title": prose(p.title), "steps": list(map(step_data, p.steps)),
             "summary": paragraph(p.summary), "numbers": paragraph(p.numbers)}
            for p in lesson.parts
        ],
        "closing": list(map(prose, [*lesson.way, *lesson.closing])),
        "proven": list(map(prose, lesson.proven)),
    }  # fmt: skip


def paragraph(sentences: list[str]) -> list[str]:
    """Sentences in one paragraph, or nothing."""
    return [prose(" ".join(sentences))] * bool(sentences)


def step_data(step: LessonStep) -> dict[str, Any]:
    """One step of `lesson_data`."""
    return {
        "number": step.number,
        "equation": step.equation + 1,
        "member": step.makes,
        "title": prose(step.title),
        "why": prose(" ".join([*step.why, *step.defines])),
        "formula": math(step.formula, True) if step.formula else "",
        "letters": prose(" ".join(step.letters)),
        "pipeline": [
            {"text": prose(c.text), "state": "now" if c.now else "done" if c.done else "later"}
            for c in step.pipeline
        ],
        "sides": [
            {"title": prose(s.title), "lines": list(map(line_data, s.lines))} for s in step.sides
        ],
        "status": prose(" ".join([*step.hints, *step.status])),
        "register": [
            {"name": math(e.name), "cells": [math(c) if c else "" for c in e.cells]}
            for e in step.register
        ],
    }


def line_data(line: Chain) -> dict[str, Any]:
    """A line of numbers for `step_data`.

    It has a ``name``, ``rows`` (formulas that it is equal to) and their result: ``numbers`` and
    their ``digits``, or ``decimals`` with the sign before each; and a ``note``, which in decimals
    is ``decimal_note``.
    """
    return {
        "name": math(line.name) if line.name else "",
        "rows": list(map(math, line.rows)),
        "numbers": [math(t) for t in line.sides if t not in line.rows],
        "digits": math(line.digits) if line.digits else "",
        "decimals": [[sign, math(text)] for sign, text in line.decimals],
        "note": prose(line.note) if line.note else "",
        "decimal_note": prose(line.decimal_note) if line.decimal_note else "",
        "part": line.part,
    }


__all__ = ["lesson_data"]
