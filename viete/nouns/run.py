"""`Questions`: the methods that ask, expand and draw the values of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Self, cast

from viete.ask.changed_run import changed_run
from viete.ask.own_questions import own_answer, own_question
from viete.ask.sweeps import answer_with
from viete.ask.text_vectors import as_written, texts_in, vector_of, with_texts
from viete.ask.with_clause import changes_of
from viete.document.displayed import Displayed
from viete.errors import VieteError
from viete.evaluate.answers import Answer
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member
from viete.graph.card import CardData
from viete.meanings.run import meaning_of
from viete.notation.symbols import Scope
from viete.notation.tree import Expr

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from viete.analysis.conventions import Convention
    from viete.ask.attribution import Attribution
    from viete.ask.expansion import Expansion
    from viete.document.tree import Block
    from viete.notation.tree import Expr
    from viete.nouns.card import Card
    from viete.nouns.model import Model
    from viete.report.pictures.picture import Picture


class Questions(Run, Displayed):
    """The values of a run, and the methods that ask questions about them.

    ``run["x^3"]`` is a value, ``run["|x^i_j|"]`` any question in the notation. ``of`` is the `Card`
    or `Model` that was run.
    """

    of: Card | Model[Any]

    @cached_property
    def scope(self) -> Scope:
        """As `Run.scope`, with the words of the model's tokenizer."""
        of, scope = self.of, self.program.scope
        return scope if isinstance(of, CardData) else replace(scope, words=lambda: of.words)

    def __reduce__(self) -> Any:
        make, (kind, *given) = super().__reduce__()
        return answering, (self.of, make, kind.__bases__[1], *given)

    def __getitem__(self, name: str) -> Any:
        """The answer to a question: an array; for ``top_5(…)`` and similar words a table.

        >>> run["x^3_5"]              # row 5 after block 3: (d)  # doctest: +SKIP
        >>> run["A^{2,h}"]            # all heads of block 2: (H, n, n)  # doctest: +SKIP
        >>> run["Q K^T / sqrt(d_k)"]  # any formula  # doctest: +SKIP
        >>> run["top_5(logits_{-1})"] # a `viete.ask.top.Top`  # doctest: +SKIP

        The axes are the batch if there is one, then the letters that the question leaves free, then
        rows and columns. Raises VieteError for a name that the card does not have.
        """
        if changes_of(self, name) is None and own_question(self, name) is None:
            return super().__getitem__(name)
        found = self.answer(name)
        return found.array if type(found) is Answer else found

    def answer(self, name: str) -> Answer:
        """The answer with its axes and their labels, as an `Answer`; see `axes` and `labels`."""
        if (changes := changes_of(self, name)) is not None:
            if (found := own_question(self, changes[0].text)) is None:
                return answer_with(self, name, *changes)
            return own_answer(self, found, name.strip().removeprefix(changes[0].text).strip())
        found = own_question(self, name)
        return super().answer(name) if found is None else own_answer(self, found)

    def read(self, name: str) -> tuple[Expr, tuple[Convention, ...]]:
        """As `Run.read`; also reads ``T("…")`` and arrows ``x^2_4 →(A^{5,1}) x^5_7``."""
        from viete.ask.arrow_questions import arrow, arrow_sides

        run, question = self.knowing_texts(name)
        if run is not self:
            e, found = run.read(question)
            return e, tuple(
                replace(c, sentence=as_written(c.sentence, run.scope.spelled)) for c in found
            )
        if name not in self.asked and (sides := arrow_sides(name)):
            self.asked[name] = arrow(self, sides), ()
        return super().read(name)

    def resolved(self, name: str) -> tuple[Run, Expr]:
        """As `Run.resolved`: ``T("…")`` is the last residual vector of a run on that text."""
        run, question = self.knowing_texts(name)
        return super().resolved(name) if run is self else run.resolved(question)

    def knowing_texts(self, question: str) -> tuple[Run, str]:
        """A run with the vectors of the texts in a question, and the question with their names."""
        if not (isinstance(question, str) and texts_in(question)):
            return self, question
        of = self.of
        if isinstance(of, CardData):
            raise VieteError('T("…") needs a model with a tokenizer, which reads the text')
        vectors = self.__dict__.setdefault("text_vectors", {})

        def vector(text: str) -> Any:
            if text not in vectors:
                vectors[text] = vector_of(of.card, text, of.run, meaning_of(self))
            return vectors[text]

        return with_texts(self, question, vector)

    def conventions(self, question: str) -> tuple[Convention, ...]:
        """The parts of a question that were read in another sense than a card's, each explained."""
        if (changes := changes_of(self, question)) is not None:
            question = changes[0].text
        found = own_question(self, question)
        inside = (question,) if found is None else found.formulas
        return tuple(c for q in inside for c in super(Questions, self).conventions(q))

    def extended(self, *given: Any) -> Self:
        """As `Run.extended`, for the same card or model."""
        out = super().extended(*given)
        out.of = self.of
        return out

    def with_changes(self, *given: Any) -> Self:
        """As `Run.with_changes`, for the same card or model."""
        out = super().with_changes(*given)
        out.of = self.of
        return out

    def names_needed(self, questions: Sequence[str]) -> list[str]:
        """The names of the values that questions need, as ``names`` for another run.

        Derivatives in a question are computed when it is asked.
        """
        found = set[Member]()
        for question in questions:
            with suppress(VieteError):
                own = own_question(self, question)
                for inside in (question,) if own is None else own.formulas:
                    run, e = self.resolved(inside)
                    found |= run.needed_by(e) if run is self else set()
        found -= self.runnable()[1].keys()  # where something lacks, the question says what
        return [name for name, member in self.program.names.items() if member in found]

    def ask(
        self, *questions: str, against: Run | None = None, of: str | None = None, **values: Any
    ) -> Any:  # fmt: skip
        """Answer questions that need more: your own vectors, another run, a derivative.

        >>> run.ask("⟨x^3_{-1}, probe⟩", probe=v)  # doctest: +SKIP
        >>> run.ask("|x^3 - x'^3|", "cos(x^3_4, x'^3_4)", against=other)  # doctest: +SKIP
        >>> run.ask("(x^3 - x'^3) ⊙ ∂x'^3", against=other, of="logits_{-1,5}")  # doctest: +SKIP

        One question returns an array, several return a tuple of arrays. ``values`` are numbers,
        vectors and matrices by new names. ``against`` is another run, of this card or another,
        whose names have a prime: ``x'^3`` beside ``x^3``. Where dimensions or index letters differ,
        they have primes too. ``of`` is a number; then ``∂x^3`` is its derivative, and ``∂x'^3``
        that of the same number of the other run. Raises VieteError for a new name that the card has
        already, for an ``of`` that is not one number, and as ``run[question]`` does.
        """
        from viete.ask.asking import asked

        if not questions:
            raise VieteError("ask takes a question, such as run.ask('x^1_0')")
        run = asked(self, values, against, of)
        found = tuple(run[question] for question in questions)
        return found[0] if len(found) == 1 else found

    def expand(
        self, expression: str, into: str | Collection[str] = "block", *, top: int | None = None,
        least: float = 0.0, depth: int = 2, held: str | Collection[str] = "A, scale",
        cumulative: bool = False, explain: float | None = None,
        directions: str | Collection[str] = (), against: Run | None = None, **values: Any,
    ) -> Expansion:  # fmt: skip
        """Split an expression into the terms that add up to it.

        >>> e = run.expand("logits_{-1, 5}", into="block, head, source", top=8)  # doctest: +SKIP
        >>> for term in e: print(term.kind, term.label, term.value)  # doctest: +SKIP
        >>> sum(term.value for term in e)  # is run["logits_{-1, 5}"]  # doctest: +SKIP

        ``into`` says how far, in words with commas:

        - 'block', 'sublayer', 'head', 'neuron': what each of these adds;
        - 'source': the position that a head reads;
        - 'path': what a head read there, through ``depth`` heads;
        - 'query' and 'key': the two sides of a score;
        - 'feature': each feature of an autoencoder or transcoder, and its error;
        - 'directions', or one name: the projection on ``directions``, by default on all vectors
          that the card has names for, and what is left.

        ``top`` lists the largest terms, of at least the size ``least``; ``cumulative`` lists them
        in the order in which they add up. The rest is a term too, of the kind 'hidden', 'unopened',
        'constant' or 'rounding', so that the sum is complete. ``held`` are values that are taken as
        they are: by default A, the attention patterns, and scale, what norms divide by.
        ``explain=0.9`` splits the largest terms until those that split no further make up 90% of
        all sizes. ``against``
        and ``values`` are those of `ask`. Raises VieteError for an unknown word, and where the
        terms do not add up.
        """
        from viete.ask.asking import asked
        from viete.ask.expansion import expanded, options

        chosen = options(into, top, least, depth, held, cumulative, explain, directions)
        run: Run = asked(self, values, against)
        if (changes := changes_of(run, expression)) is not None:
            run, expression = changed_run(run, changes[1]), changes[0].text
        return expanded(run, expression, chosen, self.program.model.lengths)

    def attribute(
        self, of: str, by: str, against: Run | None = None, *, steps: int = 1, exact: bool = False,
        held: Sequence[str] = (),
    ) -> Attribution:  # fmt: skip
        """Estimate how much each value contributes to a number, by one gradient.

        >>> found = run.attribute("logits_{-1, 5}", by="A^{i,h}", against=other)  # doctest: +SKIP
        >>> found.estimate.shape  # doctest: +SKIP
        (12, 12)

        ``of`` is the number, ``by`` the value. Letters that ``by`` leaves free are the axes of
        ``estimate``, which sums over rows and columns; ``entries`` keeps these. The estimate is the
        gradient times the difference to the run ``against`` (attribution patching), or times the
        value itself. ``steps`` averages the gradient at so many points on the way (integrated
        gradients). ``exact`` adds the true effect of each part, as ``of with by = …`` computes it.
        ``held`` are values through which no gradient flows. Raises VieteError for what no equation
        makes.
        """
        from viete.ask.attribution import attributed

        return attributed(self, of, by, against, steps, exact, held)

    def page(self, style: str = "unicode") -> list[Block]:
        """The text and the values with their shapes, which a notebook shows."""
        from viete.report.run_page import run_blocks

        return run_blocks(self, style)

    def explore(self) -> Any:
        """Open the page of this run in a notebook: every number, and how it came about.

        >>> model.run("I live in Dublin").explore()  # doctest: +SKIP

        The page is a widget: when you change the text, a weight or an equation, this kernel runs
        it. The run itself stays as it is. Without anywidget (``viete[notebook]``), the page is
        shown in a frame and does not compute. Raises VieteError for a run of several texts.
        """
        from viete.explore.session import Session
        from viete.explore.widget import explored

        return explored(Session.of(self))

    def draw(
        self, question: str | Expansion, against: Run | None = None, **values: Any
    ) -> Picture:  # fmt: skip
        """Draw an answer: a picture with ``.svg``, ``.text()`` and ``.save(path)``.

        >>> run.draw("A^{3,h}")  # doctest: +SKIP
        >>> run.draw(run.expand("logits_{-1, 5}")).save("terms.svg")  # doctest: +SKIP

        A matrix is drawn as a heat map, more axes as a grid of heat maps, a number for each block
        as a curve; a vector, ``top_5(…)`` and the terms of an expansion as bars. ``against`` and
        ``values`` are those of `ask`. Raises VieteError for numbers that are not floats.
        """
        from viete.ask.asking import asked
        from viete.ask.expansion import Expansion
        from viete.report.pictures.choosing import draw, drawn_terms

        if isinstance(question, Expansion):
            return drawn_terms(question)
        run = asked(self, values, against)
        return draw(run.answer(question).alone, sorted(run.program.model.loop_letters))


@cache
def asked(kind: type[Run]) -> type[Questions]:
    """A class of runs with the methods of `Questions`."""
    return cast(type[Questions], type(kind.__name__, (Questions, kind), {"__doc__": kind.__doc__}))


def questions(run: Run, of: Card | Model[Any]) -> Questions:
    """Turn a run into one that answers questions.

    Number systems and recordings have classes of runs in the folders below. The object gets a class
    that combines its own with `Questions`; its numbers stay the same.
    """
    run.__class__ = asked(type(run))
    for name in ("scope", "asked"):  # of a run that no model had yet
        run.__dict__.pop(name, None)
    out = cast(Questions, run)
    out.of = of
    return out


def answering(of: Card | Model[Any], make: Callable[..., Run], *given: Any) -> Questions:
    """A run that answers questions, from what `Questions.__reduce__` stores."""
    return questions(make(*given), of)


__all__ = ["Questions", "questions"]
