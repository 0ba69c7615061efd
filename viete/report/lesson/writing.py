"""Lessons as text for the terminal, as Markdown and as LaTeX."""

from __future__ import annotations

import textwrap

from viete.cards.document import Block, Heading, Item, Paragraph, Table, plain, write_markdown
from viete.cards.latex import write_latex
from viete.errors import Text, VieteError
from viete.notation.tex import is_formula
from viete.report.lesson.data import Chip, Lesson, Line, Step

FORMS = {"text": "unicode", "md": "latex", "latex": "latex", "html": "latex"}
WIDTH = 100


def write_lesson(lesson: Lesson, form: str) -> str:
    """A lesson as 'text' (made in unicode style), 'md', 'latex' or 'html' (made in latex style)."""
    if form == "text":
        return write_text(lesson)
    if form == "md":
        return write_markdown(blocks(lesson))
    if form == "latex":
        return write_latex(blocks(lesson))
    if form == "html":
        from viete.report.lesson.page import write_page

        return write_page(lesson)
    raise VieteError(f"a lesson is {', '.join(FORMS)}, not {form}")


# -- blocks: Markdown and LaTeX --------------------------------------------------------------------


def blocks(lesson: Lesson) -> list[Block]:
    """A lesson made in latex style as the blocks of a document."""
    out: list[Block] = [Heading(1, Text(lesson.title))]
    out += [Paragraph(Text(p)) for p in lesson.intro]
    for grid in lesson.grids:
        out += [
            Paragraph(Text(grid.caption)),
            Table([Text(c) for c in grid.header], [[Text(c) for c in r] for r in grid.rows]),
        ]
    out.append(Heading(2, Text("How far each position stays rational")))
    out += [Item(Text(p)) for p in lesson.positions]
    for section in lesson.sections:
        out.append(Heading(2, Text(section.title)))
        out += [Paragraph(Text(p)) for p in section.intro]
        for step in section.steps:
            out += step_blocks(step)
    out.append(Heading(2, Text("What was shown")))
    return out + [Item(Text(p)) for p in lesson.closing]


def step_blocks(step: Step) -> list[Block]:
    """One step: its title, the pipeline, why, the equation, and the numbers in a list."""
    out: list[Block] = [Heading(3, Text(f"{step.number}. {step.title}"))]
    out.append(Paragraph(Text(" → ".join(map(marked, step.pipeline)))))
    if step.why:
        out.append(Paragraph(Text(" ".join(step.why))))
    if step.formula:
        out.append(Paragraph(Text(f"${step.formula}$")))
    for part in step.parts:
        out += [Item(Text(said(line, part.formula))) for line in part.lines]
    out += [Item(Text(said(line))) for line in step.lines]
    if step.status:
        out.append(Paragraph(Text(" ".join(step.status))))
    return out


def said(line: Line, formula: str = "") -> str:
    r"""``$x_0 = (1 + 0) = (1)$``, with what it is called before it."""
    text = f"${line.formula(chr(92) + 'approx')}$" if line.name else ""
    if formula:
        text = f"${formula}$: {text}"
    return f"{text} ({line.note})" if text and line.note else text or line.note


def marked(chip: Chip) -> str:
    """A stage of the pipeline, in a box where it is this step's."""
    if not chip.now:
        return chip.text
    if chip.text.startswith("$"):
        return rf"$\boxed{{{chip.text[1:-1]}}}$"
    boxed = rf"\boxed{{\text{{{chip.text}}}}}"
    return f"${boxed}$" if is_formula(boxed) else f"**{chip.text}**"


# -- text ------------------------------------------------------------------------------------------


def write_text(lesson: Lesson) -> str:
    """A lesson made in unicode style, for the terminal."""
    out = [lesson.title, "═" * len(lesson.title)]
    for p in lesson.intro:
        out += ["", *wrapped(p)]
    for grid in lesson.grids:
        cells = [[plain(c) for c in r] for r in grid.rows]
        widths = [max(len(r[k]) for r in cells) for k in range(len(cells[0]))]
        rows = ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in cells]
        name = plain(grid.caption)
        out += ["", *wrapped(name), *(f"    {r}" for r in rows)]
    out += ["", *titled("How far each position stays rational", "─"), ""]
    for p in lesson.positions:
        out += wrapped(p, "· ")
    for section in lesson.sections:
        out += ["", *titled(plain(section.title), "─")]
        for step in section.steps:
            out += step_text(step)
    out += ["", *titled("What was shown", "─"), ""]
    for p in lesson.closing:
        out += wrapped(p, "· ")
    return "\n".join(out) + "\n"


def step_text(step: Step) -> list[str]:
    """The lines of one step."""
    chips = " → ".join(f"[{plain(c.text)}]" if c.now else plain(c.text) for c in step.pipeline)
    out = ["", f"{step.number}. {plain(step.title)}"]
    out += textwrap.wrap(chips, WIDTH, initial_indent="   ", subsequent_indent="   ")
    if step.why:
        out += wrapped(" ".join(step.why), "   ", "   ")
    out += ["", f"     {step.formula}"] if step.formula else []
    for part in step.parts:
        for line in part.lines:
            out += line_text(line, part.formula)
    for line in step.lines:
        out += line_text(line)
    if step.status:
        out += ["", *wrapped(" ".join(step.status), "   ", "   ")]
    return out


def line_text(line: Line, formula: str = "") -> list[str]:
    """One line of numbers; ``formula`` says what a letter stands for."""
    text = line.formula("≈")
    if formula:
        text = f"{formula}:  {text}"
    if line.note:
        text += f"   ({plain(line.note)})" if text else plain(line.note)
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent="     · ",
        subsequent_indent="         ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def titled(text: str, rule: str) -> list[str]:
    """A heading with a rule below it."""
    return [text, rule * len(text)]


def wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    """Prose in lines of `WIDTH`, without its markup."""
    return textwrap.wrap(
        plain(text), WIDTH, initial_indent=first, subsequent_indent=rest or " " * len(first)
    )
