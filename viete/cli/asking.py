"""The runs that ``viete ask`` evaluates questions on: texts, pairs of texts, and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast
from warnings import catch_warnings, simplefilter

import typer

from viete.cli.cutting import given_values
from viete.cli.inputs import InputOptions, NumberOptions, numbers
from viete.cli.running import estimate, started
from viete.cli.source import SourceOptions
from viete.cli.weights import WeightOptions
from viete.errors import ConventionWarning, VieteError

if TYPE_CHECKING:
    from viete.ask.example_list import Example
    from viete.ask.question_list import ListedQuestion
    from viete.evaluate.answers import Answer
    from viete.graph.card import CardData
    from viete.nouns.model import Model
    from viete.nouns.run import Questions
    from viete.report.answer_rows import AnswerRow

T = TypeVar("T")


@dataclass
class AskedInputs(InputOptions):
    """The inputs of the questions: one text or many, each perhaps with a second one to compare."""

    texts: Annotated[
        str | None,
        typer.Option(help="Ask about each text of a file: one a line, or JSON lines with text, "
                     "against and any words that the questions name, such as answer. Or about "
                     "random texts: repeated(16), random(32)."),
    ] = None  # fmt: skip
    against: Annotated[
        str | None,
        typer.Option(help="A second input, given like the first. Its values have a prime: x'^3."),
    ] = None  # fmt: skip

    of: Annotated[
        str | None,
        typer.Option(help="The number whose derivative is ∂x^3, such as logits_{-1,5}; for ∂x'^3 "
                     "it is that number of the second input."),
    ] = None  # fmt: skip

    def ids(self, card: CardData, model: Model | None) -> Any:
        """The token ids of the input, which a question about weights alone needs too."""
        if (self.tokens, self.text) == (None, None):
            raise VieteError(
                "give the input: --tokens 3,1,4, or for a model --text TEXT, or several texts with "
                "--texts FILE; a question about weights alone takes any input, such as --tokens 0"
            )
        return super().ids(card, model)

    def examples(self) -> list[Example]:
        """The texts, one or those of a file; empty for drawn texts, see `drawn`."""
        from viete.ask.claim_texts import is_drawn
        from viete.ask.example_list import Example, read_examples

        if self.texts is None:
            return [Example(None, self.against)]
        if (self.tokens, self.text, self.against) != (None, None, None):
            raise VieteError("--texts cannot be combined with --text, --tokens or --against")
        return [] if is_drawn(self.texts) else read_examples(Path(self.texts))

    def drawn(self, card: CardData) -> list[Example]:
        """The texts ``repeated(16)`` or ``random(32)`` of a card, equal for all checkpoints."""
        from viete.ask.claim_texts import texts_of

        found = texts_of(self.texts or "", card, 0)
        return [replace(x, text=[int(t) for t in x.text]) for x in found]


@dataclass
class Asking:
    """One call of the command: its questions and the runs to evaluate them on."""

    source: SourceOptions
    questions: Sequence[ListedQuestion]
    inputs: AskedInputs
    weights: WeightOptions
    number: NumberOptions
    examples: Sequence[Example]
    definitions: list[ListedQuestion] = field(default_factory=list, init=False)

    @cached_property
    def revisions(self) -> list[str | None]:
        """The checkpoints: one, several with commas between, or all."""
        from viete.model.revisions import revisions

        which, name = self.source.revision, self.source.name
        if which == "all" and self.weights.present:
            raise VieteError(f"{name} has no checkpoints with --weights or --seed: leave these out")
        return [None] if which is None else list(revisions(name, which))

    def rows(self) -> list[AnswerRow]:
        """All answers: a row for each text, or for each checkpoint if there are several.

        ``notes`` collects how questions were read, with warnings. After Ctrl-C the rows are those
        of finished checkpoints, and ``stopped`` says so.
        """
        from viete.ask.claim_texts import TEXTS as DRAWN
        from viete.formats.tensors import bar
        from viete.report.answer_rows import averaged

        out: list[AnswerRow] = []
        several = len(self.revisions) > 1
        self.notes = dict[str, None]()
        self.stopped = ""
        count = len(self.revisions) * (len(self.examples) or DRAWN)
        with catch_warnings(), bar(count, "asking") as tell:
            simplefilter("ignore", ConventionWarning)  # they are among the notes
            for revision in self.revisions:
                self.source.revision = revision
                self.__dict__.pop("run", None)  # so that one model is in memory at a time
                found = []
                try:
                    for row in self.answered(revision if several else None):
                        found.append(row)
                        tell(1)
                except KeyboardInterrupt:
                    if not (several and out):
                        raise
                    self.stopped = f"stopped before {revision}: these are the answers up to there"
                    break
                out += [averaged(found)] if several and len(found) > 1 else found
        return out

    def answered(self, revision: str | None) -> Iterator[AnswerRow]:
        """The answers of one model: a row for each text, or one row about all texts."""
        from viete.ask.asking import asked
        from viete.ask.over_texts import asks_of_all, over_texts
        from viete.ask.reading_notes import reading_notes
        from viete.report.answer_rows import AnswerRow, token_lines

        n = self.number
        card, model = self.defined(*self.source.opened(self.weights, n.dtype, n.device))
        arrays = self.weights.arrays(card, model, n.meaning != "float", n.dtype, n.device)
        self.card, self.title, others = card, card.title, self.inputs.others(card)
        self.letters = set(card.ranges)
        self.examples = self.examples or self.inputs.drawn(card)
        given = given_values(self.source, self.weights, n, card, model, others)
        start = started(card, model, arrays, n.meaning, given)
        texts = [q.text.text for q in self.questions]
        over = len(self.examples) > 1 and any(map(asks_of_all, texts))
        runs: list[Questions] = []
        rows: list[AnswerRow] = []
        for example in self.examples:
            ids = self.ids(card, model, example.text)
            if n.meaning == "exact":
                estimate(card, ids, trained=model is not None)
            run = start(ids, texts)
            other = None
            if example.against is not None:
                other = start(self.ids(card, model, example.against, beside=True), [])
            self.run = asked(run, self.values(run, example), other, self.inputs.of)
            if example is self.examples[0]:
                self.set_aside()
            answers = () if over else tuple(self.answer(q) for q in self.questions)
            self.notes |= dict.fromkeys(
                note for q in self.questions for note in reading_notes(self.run, q.text.text)
            )
            text = example.text if isinstance(example.text, str) else ""
            shown = text or (example.text and " ".join(map(str, example.text))) or ""
            row = AnswerRow(answers, shown, token_lines(self.run), revision or "")
            if not over:
                yield row
                continue
            runs.append(cast("Questions", self.run))
            rows.append(row)
        if not over:
            return
        columns = [self.located(q, lambda text: over_texts(runs, text)) for q in self.questions]
        if all(len(column) == 1 for column in columns):
            yield AnswerRow(tuple(column[0] for column in columns), revision=revision or "")
            return
        for k, row in enumerate(rows):
            yield replace(row, answers=tuple(c[k if len(c) > 1 else 0] for c in columns))

    def defined(self, card: CardData, model: Model | None) -> tuple[CardData, Model | None]:
        """The card and the model with the names that files define; a note says which.

        Such an equation is no question. Raises VieteError where no question is left.
        """
        from viete.ask.question_list import ListedQuestion
        from viete.cards.claim_pages import ClaimPage
        from viete.nouns.card import Card

        page, asked = ClaimPage(card), list[ListedQuestion]()
        for q in self.questions:
            try:
                new = not q.typed and page.define(q.text)
            except VieteError:  # it is said of it as of a question
                new = False
            (self.definitions if new else asked).append(q)
        self.questions = asked
        if self.definitions and not asked:
            where = self.definitions[-1].text
            raise where.error("this defines a name, and nothing is asked about it")
        for q in self.definitions:
            model = None if model is None else model.put(q.text.text)
            card = Card.of(card).put(q.text.text) if model is None else model.card
        if page.defined:
            self.notes[f"Defined: {', '.join(page.defined)}"] = None
        return card, model

    def set_aside(self) -> None:
        """Take out the formulas of files that are no questions of this run; a note says why.

        Raises VieteError where no question is left.
        """
        from viete.ask.over_texts import asks_of_all

        kept: list[ListedQuestion] = []
        for q in self.questions:
            try:
                if not (q.typed or asks_of_all(q.text.text)):
                    self.answer(q)
            except VieteError as error:
                if not kept and q is self.questions[-1]:
                    raise
                self.notes[f"Not read: {str(error).splitlines()[0]}"] = None
            else:
                kept.append(q)
        self.questions = kept

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
        return model.text_ids(text, self.inputs.bos)

    def values(self, run: Questions, example: Example) -> dict[str, Any]:
        """The values that questions may name for this text: tokens of words, and numbers."""
        from viete.ask.example_list import named_in, numbers_of

        asked_of = "\n".join(q.text.text for q in self.questions)
        return numbers_of(example, named_in(asked_of, self.examples), run.scope.words())

    def answer(self, q: ListedQuestion) -> Answer:
        """The answer to one question about one text."""
        return self.located(q, lambda text: self.run.answer(text))

    def located(self, q: ListedQuestion, answer: Callable[[str], T]) -> T:
        """The result for a question; an error points into the question's file or text."""
        try:
            return answer(q.text.text)
        except VieteError as error:
            where = error.where
            if where is not None and where.file != "<name>":
                raise
            start = 0 if where is None else where.column - 1
            end = None if where is None else start + where.width
            raise q.text.error(error.message, start, end) from None


__all__ = ["AskedInputs", "Asking"]
