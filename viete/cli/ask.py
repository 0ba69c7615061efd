"""``viete ask``: questions in the notation, about one text, about many, and over checkpoints."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from viete.cli.options import (
    InputOptions,
    NumberOptions,
    Output,
    SourceOptions,
    WeightOptions,
    choice,
    emit,
    numbers,
)
from viete.cli.running import estimate, started
from viete.document.rendering import PAGES, render
from viete.errors import ConventionWarning, VieteError

if TYPE_CHECKING:
    from viete.ask.example_list import Example
    from viete.ask.question_list import ListedQuestion
    from viete.document.tree import Block
    from viete.nouns.run import Questions
    from viete.report.answer_rows import AnswerRow
    from viete.report.pictures.picture import Picture

FORMATS = (*PAGES, "json", "csv", "npz", "svg")
SUFFIXES = {".txt": "text", ".md": "md", ".tex": "latex", ".html": "html"} | {
    f".{form}": form for form in FORMATS[len(PAGES) :]
}


@dataclass
class AskedInputs(InputOptions):
    """What is asked about: a text or token ids, many of them, and a second one beside each."""

    texts: Annotated[
        Path | None,
        typer.Option(help="Ask of each text of a file: one a line, or JSON lines with text and "
                     "where wanted against, and words that the questions name, as answer."),
    ] = None  # fmt: skip
    against: Annotated[
        str | None,
        typer.Option(help="Another text, or with --tokens other ids; its values have a prime: "
                     "x'^3 beside x^3."),
    ] = None  # fmt: skip

    def examples(self) -> list[Example]:
        """The texts, one or those of the file."""
        from viete.ask.example_list import Example, read_examples

        if self.texts is None:
            return [Example(None, self.against)]
        if (self.tokens, self.text, self.against) != (None, None, None):
            raise VieteError("--texts goes without --text, --tokens and --against")
        return read_examples(self.texts)


def ask(
    source: SourceOptions,
    questions: Annotated[
        list[str],
        typer.Argument(metavar="QUESTION…", help="Formulas; @FILE for those of a file."),
    ],
    inputs: AskedInputs,
    weights: WeightOptions,
    number: NumberOptions,
    top: Annotated[
        int | None, typer.Option(min=1, help="The K largest values, and the tokens around.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as -f json.")] = False,
    form: Annotated[
        str | None, choice(FORMATS, "--format", "-f", help="By the output's suffix, else text.")
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Answers as pictures, on the terminal too.")
    ] = False,
    output: Output = None,
) -> None:
    """Ask about a run in the notation: what a formula is worth, of a text and a model.

    Several checkpoints give a line each: --revision step1000,step2000, or all those of a run of
    viete train with --revision all.
    """
    from viete.ask.question_list import questions_of

    number.check()
    form = form_of("json" if as_json else form, output)
    if draw and (form not in ("text", "svg") or (form == "text" and output is not None)):
        raise VieteError("--draw draws on the terminal, or with -o picture.svg as SVG")
    listed = questions_of(questions)
    asking = Asking(source, listed, inputs, weights, number, inputs.examples())
    rows = asking.rows()
    text = asking.picture(rows) if draw and form == "text" else None
    text = asking.page_of(rows, form, top, output) if text is None else text
    if text is not None:
        emit(text, output, source.name)
    if output is not None and form == "npz":
        from viete.atomic import behind
        from viete.formats.files import save_npz
        from viete.report.answer_rows import as_arrays

        save_npz(behind(output), as_arrays(rows))


def form_of(form: str | None, output: Path | None) -> str:
    """The format that was asked for, else that of the output's suffix, else text."""
    if form is None and output is not None and output.suffix:
        form = SUFFIXES.get(output.suffix.lower())
        if form is None:
            raise VieteError(
                f"-o {output}: answers are written to {', '.join(SUFFIXES)}, not "
                f"{output.suffix}, or say --format"
            )
    if form == "npz" and output is None:
        raise VieteError("an archive of arrays needs a file: -o answers.npz")
    return form or "text"


@dataclass
class Asking:
    """One call of the command: what is asked of what."""

    source: SourceOptions
    questions: Sequence[ListedQuestion]
    inputs: AskedInputs
    weights: WeightOptions
    number: NumberOptions
    examples: Sequence[Example]

    @cached_property
    def revisions(self) -> list[str | None]:
        """The checkpoints: one, those with commas between, or all of a run."""
        from viete.model import checkpoints

        said = self.source.revision
        if said == "all":
            found = checkpoints.steps(Path(self.source.name))
            if not found:
                raise VieteError(f"{self.source.name} has no checkpoints; --revision all is of a "
                                 f"run of viete train")  # fmt: skip
            return [str(step) for step in found]
        return [None] if said is None else [part.strip() for part in said.split(",")]

    def rows(self) -> list[AnswerRow]:
        """All answers: a row for each text, or, of several checkpoints, for each of these.

        How questions were read is in ``notes``, warnings among it.
        """
        from viete.formats.tensors import bar
        from viete.report.answer_rows import averaged

        out: list[AnswerRow] = []
        several = len(self.revisions) > 1
        self.notes = dict[str, None]()
        with catch_warnings(), bar(len(self.revisions) * len(self.examples), "asking") as tell:
            simplefilter("ignore", ConventionWarning)  # they are among the notes
            for revision in self.revisions:
                self.source.revision = revision
                found = []
                for row in self.answered(revision if several else None):
                    found.append(row)
                    tell(1)
                out += [averaged(found)] if several and len(found) > 1 else found
        return out

    def answered(self, revision: str | None) -> Iterator[AnswerRow]:
        """The answers of one model, text by text."""
        from viete.ask.asking import asked
        from viete.ask.reading_notes import reading_notes
        from viete.report.answer_rows import AnswerRow, token_lines

        n = self.number
        card, model = self.source.opened(self.weights, n.dtype, n.device)
        arrays = self.weights.arrays(card, model, n.meaning != "float", n.dtype, n.device)
        self.title, others = card.title, self.inputs.others(card)
        start = started(card, model, arrays, n.meaning, others)
        texts = [q.text.text for q in self.questions]
        for example in self.examples:
            ids = self.ids(card, model, example.text)
            if n.meaning == "exact":
                estimate(card, ids)
            run = start(ids, texts)
            other = None
            if example.against is not None:
                other = start(self.ids(card, model, example.against, beside=True), [])
            self.run = asked(run, self.values(run, example), other)
            answers = tuple(self.answer(q).alone for q in self.questions)
            self.notes |= dict.fromkeys(
                note for q in self.questions for note in reading_notes(self.run, q.text.text)
            )
            text = example.text if isinstance(example.text, str) else ""
            shown = text or (example.text and " ".join(map(str, example.text))) or ""
            yield AnswerRow(answers, shown, token_lines(self.run), revision or "")

    def ids(self, card: Any, model: Any, text: Any, beside: bool = False) -> Any:
        """The token ids of one text."""
        if text is None:
            return self.inputs.ids(card, model)
        if beside and self.inputs.tokens is not None:
            return numbers(text, card, "--against")
        if not isinstance(text, str):
            return text
        if model is None:
            if card.vocabulary:
                return numbers(text, card, "the text")
            raise VieteError(f"{card.title} is a card, and has no tokenizer: give token ids")
        return model.to_tokens(text, self.inputs.bos, truncate=False)

    def values(self, run: Questions, example: Example) -> dict[str, Any]:
        """What the questions may name of this text: the tokens of words, and numbers."""
        words, out = run.scope.words(), dict[str, Any]()
        elsewhere = set[str]().union(*(e.values for e in self.examples)) - example.values.keys()
        for name in sorted(elsewhere):
            if any(re.search(rf"\b{name}\b", q.text.text) for q in self.questions):
                raise example.place.error(f"the questions name {name}, and this line has none")
        for name, value in example.values.items():
            if isinstance(value, str):
                token = words.get(value)
                if token is None:
                    raise example.place.error(f"{name}: {words.unknown(value)}")
                value = token
            out[name] = value
        return out

    def answer(self, q: ListedQuestion) -> Any:
        """The answer to one question; an error points into it, wherever it was read."""
        try:
            return self.run.answer(q.text.text)
        except VieteError as error:
            where = error.where
            if where is not None and where.file != "<name>":
                raise
            start = 0 if where is None else where.column - 1
            end = None if where is None else start + where.width
            raise q.text.error(error.message, start, end) from None

    # -- as it is shown ----------------------------------------------------------------------------

    def page_of(
        self, rows: list[AnswerRow], form: str, top: int | None, output: Path | None
    ) -> str | None:
        """The answers in a format; None of an archive, which is no text."""
        from viete.report import answer_rows as data

        if form in ("npz", "csv", "svg"):  # where no words stand
            for note in self.notes:
                typer.echo(f"viete: {note}", err=True)
        if form == "npz":
            data.as_arrays(rows)  # what cannot be written is refused before anything is
            return None
        if form == "json":
            said = {
                "model": self.title,
                "conventions": list(self.notes),
                "rows": data.as_data(rows),
            }
            return json.dumps(said, ensure_ascii=False, indent=1) + "\n"
        if form == "csv":
            return data.to_csv(rows)
        if form == "svg":
            return data.curve(rows, self.title) if len(rows) > 1 else self.drawn(rows).svg
        width = get_terminal_size((100, 24)).columns if output is None else 100
        if top is not None:
            return render([*self.conventions(), *data.largest(rows, top)], form)
        if len(rows) > 1:
            titles = [q.words or q.text.text for q in self.questions]
            return render([*self.conventions(), *data.rows_table(rows, titles)], form)
        return self.page(rows[0], form, width)

    def drawn(self, rows: list[AnswerRow]) -> Picture:
        """The answers about one text, each as a picture, one below the other."""
        from viete.report.pictures.choosing import draw
        from viete.report.pictures.picture import stacked

        if len(rows) != 1:
            raise VieteError("a picture is of one text; over checkpoints, a curve is an SVG: -o")
        blocks = sorted(self.run.program.model.loop_letters)
        titles = [q.words or q.text.text for q in self.questions]
        answers = zip(rows[0].answers, titles, strict=True)
        return stacked([draw(a, blocks, title) for a, title in answers], self.title)

    def picture(self, rows: list[AnswerRow]) -> str:
        """The same for the terminal, in colours where it has some."""
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        return self.drawn(rows).text(colour)

    def page(self, row: AnswerRow, form: str, width: int) -> str:
        """One text: its tokens, then each answer."""
        from viete.document.tree import heading
        from viete.report.answers import answer_blocks, tokens_table

        blocks: list[Block] = []
        for line in row.tokens:
            blocks += tokens_table(line.labels, width, line.name if len(row.tokens) > 1 else "")
        blocks += self.conventions()
        if self.number.meaning == "exact":
            return render([*blocks, *self.exact_blocks(form)], form)
        title = ""
        for q, answer in zip(self.questions, row.answers, strict=True):
            if q.title != title:
                blocks.append(heading(2, q.title))
                title = q.title
            said = f"{q.words}: {q.text.text}" if q.words else q.text.text
            blocks += answer_blocks(answer, width, said)
        return render(blocks, form)

    def conventions(self) -> list[Block]:
        """How the questions were read."""
        from viete.document.tree import item
        from viete.report.answers import literal

        return [item(literal(note)) for note in self.notes]

    def exact_blocks(self, form: str) -> list[Block]:
        """Exact answers, with what their names mean."""
        from viete.report.exact_values import exact_blocks

        texts = [q.text.text for q in self.questions]
        run: Any = self.run
        return exact_blocks(run, texts, self.number.digits, self.number.unfold or 0, form)
