"""The answers of ``viete ask`` in a format: a page, a table, data, a picture."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from viete.cli.asking import Asking
from viete.document.columns import terminal_width
from viete.document.rendering import STYLES, render
from viete.document.tree import heading
from viete.errors import VieteError

if TYPE_CHECKING:
    from viete.document.tree import Block
    from viete.report.answer_rows import AnswerRow
    from viete.report.over_steps import OverSteps
    from viete.report.pictures.picture import Picture


@dataclass
class AnswerPages:
    """The questions and their answers, a row for each text or checkpoint."""

    asking: Asking
    rows: list[AnswerRow]

    def in_format(self, form: str, top: int | None, output: Path | None) -> str | None:
        """The answers in a format; None for an archive of arrays, which is no text."""
        from viete.document.colours import svg_file
        from viete.report import answer_files as data
        from viete.report.answer_rows import rows_table
        from viete.report.largest_entries import largest

        asking, rows = self.asking, self.rows
        if form in ("npz", "csv", "svg"):  # where no words stand
            for note in asking.notes:
                typer.echo(f"viete: {note}", err=True)
        if form == "npz":
            data.as_arrays(rows)  # what cannot be written is refused before anything is
            return None
        if form == "json":
            said = {
                "model": asking.title,
                "conventions": list(asking.notes),
                "rows": data.as_data(rows),
            }
            return json.dumps(said, ensure_ascii=False, indent=1) + "\n"
        if form == "csv":
            return data.to_csv(rows)
        if form == "svg":
            return svg_file(self.drawn().svg)
        width = terminal_width() if output is None else 100
        if top is not None:
            return render([*self.conventions(), *largest(rows, top)], form)
        if len(rows) > 1 and rows[0].revision:
            title = [heading(1, f"{asking.title}, over its checkpoints")] * (form == "html")
            page = self.over_steps.page(STYLES[form])
            return render([*title, *self.conventions(), *page], form)
        if len(rows) > 1:
            return render([*self.conventions(), *rows_table(rows, self.titles)], form)
        return self.page(rows[0], form, width)

    @property
    def titles(self) -> list[str]:
        """The titles of the questions."""
        return [q.words or q.text.text for q in self.asking.questions]

    def drawn(self) -> Picture:
        """The answers about one text as pictures, one below the other; else curves."""
        from viete.report.pictures.choosing import draw
        from viete.report.pictures.picture import stacked

        if len(self.rows) > 1:
            return self.over_steps.draw()
        blocks = sorted(self.asking.run.program.model.loop_letters)
        answers = zip(self.rows[0].answers, self.titles, strict=True)
        return stacked([draw(a, blocks, title) for a, title in answers], self.asking.title)

    @property
    def over_steps(self) -> OverSteps:
        """The answers over several checkpoints."""
        from viete.report.over_steps import OverSteps

        return OverSteps(self.asking.title, self.titles, self.asking.letters, self.rows)

    def with_pictures(self) -> str:
        """A page of the answers about one text or all texts, with pictures and the card."""
        from viete.cards.writer import blocks
        from viete.document.tree import CodeBlock
        from viete.report.pictures.choosing import draw

        if len(self.rows) > 1:
            raise VieteError("a page with pictures shows one text, or values over all texts")
        card = self.asking.card
        out: list[Block] = [heading(1, card.title), *self.conventions()]
        for title, answer in zip(self.titles, self.rows[0].answers, strict=True):
            picture = draw(answer, sorted(card.loop_letters), title)
            drawing = CodeBlock("\n".join(picture.lines), picture=picture.svg)
            out += [drawing, *answer.blocks(100, title)]
        return render([*out, heading(2, "The card"), *blocks(card, "mathml")[1:]], "html")

    def picture(self) -> str:
        """The pictures for the terminal, in colours if it has any."""
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        return self.drawn().text(colour)

    def page(self, row: AnswerRow, form: str, width: int) -> str:
        """The answers about one text, below its tokens."""
        from viete.evaluate.answer_page import tokens_table

        blocks: list[Block] = []
        for line in row.tokens:
            blocks += tokens_table(line.labels, width, line.name if len(row.tokens) > 1 else "")
        blocks += self.conventions()
        if self.asking.number.meaning == "exact":
            return render([*blocks, *self.exact_blocks(form)], form)
        title = ""
        for q, answer in zip(self.asking.questions, row.answers, strict=True):
            if q.title != title:
                blocks.append(heading(2, q.title))
                title = q.title
            said = f"{q.words}: {q.text.text}" if q.words else q.text.text
            blocks += answer.blocks(width, said)
        return render(blocks, form)

    def conventions(self) -> list[Block]:
        """Notes on how the questions were read."""
        from viete.document.tree import item
        from viete.evaluate.answer_page import literal

        return [item(literal(note)) for note in self.asking.notes]

    def exact_blocks(self, form: str) -> list[Block]:
        """Exact answers, with the meanings of their names."""
        from viete.report.exact_values import exact_blocks

        texts = [q.text.text for q in self.asking.questions]
        run: Any = self.asking.run
        number = self.asking.number
        return exact_blocks(run, texts, number.digits, number.unfold or 0, form)


__all__ = ["AnswerPages"]
