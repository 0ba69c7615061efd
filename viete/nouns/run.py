"""`Questions`: what one asks of a run, whatever numbers it is in and however it was made."""

from __future__ import annotations

from collections.abc import Sequence
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
    """A run of a card or of a model, which one can ask in the notation.

    ``of`` is what was run: the `Card`, or the `Model` with its tokenizer. The inputs and the
    weights are in the run.
    """

    of: Card | Model[Any]

    @cached_property
    def scope(self) -> Scope:
        """As `Run.scope`; its words are a model's own, which may be its tokenizer's."""
        of, scope = self.of, self.program.scope
        return scope if isinstance(of, CardData) else replace(scope, words=lambda: of.words)

    def __getitem__(self, name: str) -> Any:
        """As `Run`; ``run["top_5(logits_{-1})"]`` is a `viete.ask.top.Top`, with names, and so are
        ``svd_3(…)`` a `viete.ask.decompositions.Svd`, ``pca_2(…)`` a `viete.ask.vector_sets.Pca`.
        """
        if changes_of(self, name) is None and own_question(self, name) is None:
            return super().__getitem__(name)
        found = self.answer(name)
        return found.array if type(found) is Answer else found

    def answer(self, name: str) -> Answer:
        """As `Run.answer`, of ``top_5(…)``, ``svd_3(…)`` and of ``… with A^{i,h} = 0`` too."""
        if (changes := changes_of(self, name)) is not None:
            if (found := own_question(self, changes[0].text)) is None:
                return answer_with(self, name, *changes)
            return own_answer(self, found, name.strip().removeprefix(changes[0].text).strip())
        found = own_question(self, name)
        return super().answer(name) if found is None else own_answer(self, found)

    def read(self, name: str) -> tuple[Expr, tuple[Convention, ...]]:
        """As `Run.read`, of questions with ``T("…")`` and of arrows ``x^2_4 →(A^{5,1}) x^5_7``."""
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
        """The run that has the vectors of a question's texts, and the question with their names."""
        if not (isinstance(question, str) and texts_in(question)):
            return self, question
        of = self.of
        if isinstance(of, CardData):
            raise VieteError('T("…") is of a text, which only a model with a tokenizer reads')
        vectors = self.__dict__.setdefault("text_vectors", {})

        def vector(text: str) -> Any:
            if text not in vectors:
                vectors[text] = vector_of(of.card, text, of.run, meaning_of(self))
            return vectors[text]

        return with_texts(self, question, vector)

    def conventions(self, question: str) -> tuple[Convention, ...]:
        """As `Run.conventions`, of ``top_5(…)``, ``svd_3(…)`` and of ``… with A^{i,h} = 0`` too."""
        if (changes := changes_of(self, question)) is not None:
            question = changes[0].text
        found = own_question(self, question)
        inside = (question,) if found is None else found.formulas
        return tuple(c for q in inside for c in super(Questions, self).conventions(q))

    def extended(self, *given: Any) -> Self:
        """As `Run.extended`: it is of the same model."""
        out = super().extended(*given)
        out.of = self.of
        return out

    def with_changes(self, *given: Any) -> Self:
        """As `Run.with_changes`: it is of the same model."""
        out = super().with_changes(*given)
        out.of = self.of
        return out

    def names_needed(self, questions: Sequence[str]) -> list[str]:
        """The names of the values that questions need, for ``names`` of another such run.

        What a question has besides, as derivatives, is computed when it is asked.
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
        """The answers to questions in the notation, about this run and what is given besides.

        >>> run.ask("⟨x^3_{-1}, probe⟩", probe=v)                                  # doctest: +SKIP
        >>> run.ask("|x^3 - x'^3|", "cos(x^3_4, x'^3_4)", against=other)           # doctest: +SKIP
        >>> run.ask("(x^3 - x'^3) ⊙ ∂x'^3", against=other, of="logits_{-1,5}")     # doctest: +SKIP

        One question gets an array, as ``run[question]`` does, and several get a tuple of arrays.
        ``values`` are numbers, vectors and matrices by names that the card does not have.
        ``against`` is another run, of the same card or of another; its names have a prime: ``x'^3``
        beside ``x^3``. Dimensions and index letters that differ have primes too. With ``of`` a
        number, ``∂x^3`` is ``∂(of)/∂x^3``, and ``∂x'^3`` the derivative of that number of the other
        run. Raises VieteError for a name that the card has, for an ``of`` that is no number, and as
        ``run[question]`` does.
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
        """An expression into the terms that made it, by the card's own equations.

        >>> e = run.expand("logits_{-1, 5}", into="block, head, source", top=8)     # doctest: +SKIP
        >>> for term in e: print(term.kind, term.label, term.value)                 # doctest: +SKIP
        >>> sum(term.value for term in e)  # is run["logits_{-1, 5}"]               # doctest: +SKIP

        ``into`` says how far: 'block', 'sublayer', 'head', 'source' (the position that a head takes
        from), 'neuron', 'path' (what a head read there, through ``depth`` heads), and of scores
        'query' and 'key'. 'feature' is a neuron of anything decoded, as by an autoencoder, and has
        the error of that as a term. 'directions', or the name of one, projects vectors on the
        ``directions``, by default on all that the card has a name for, and has what is left as a
        term. The terms add up to the expression. Listed are the ``top`` largest whose size is at
        least ``least``; ``cumulative`` lists them in the order in which they add up. All else is a
        term too, of another ``kind``: 'hidden', 'unopened', 'constant' and 'rounding'.
        ``held`` is what is taken as given: A, the patterns of attention, scale, what norms divide
        by, and any other values, as in ``held="A, scale_A^i, m^2"``, of which each is a term then.
        ``explain=0.9`` opens the largest terms further, as far as they go, until these have that
        share of all sizes. ``against`` and ``values`` are as in `ask`. Raises VieteError for a word
        that means nothing, and where the terms do not add up to the expression.
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
        """What a number owes to each of some values, to first order, through the derived gradient.

        >>> found = run.attribute("logits_{-1, 5}", by="A^{i,h}", against=other)    # doctest: +SKIP
        >>> found.estimate.shape                                                    # doctest: +SKIP
        (12, 12)

        ``of`` is one number, ``by`` a value; its free letters are the axes of the answer, whose
        ``estimate`` sums over rows and columns, and whose ``entries`` has them. It is the
        derivative times the difference to the run ``against`` (attribution patching), or times the
        value itself. With ``steps`` it is the mean of so many derivatives on the way (integrated
        gradients). ``exact`` adds the effect of each member by itself, as ``of with by = …`` has
        it. No derivative goes through the values ``held``. Raises VieteError for what no equation
        makes.
        """
        from viete.ask.attribution import attributed

        return attributed(self, of, by, against, steps, exact, held)

    def page(self, style: str = "unicode") -> list[Block]:
        """The text and the values with their shapes, which a notebook shows."""
        from viete.report.run_page import run_blocks

        return run_blocks(self, style)

    def explore(self) -> Any:
        """The page of this run in a notebook: every number, and how each came about.

        >>> model.run("I live in Dublin").explore()                                 # doctest: +SKIP

        It is a widget: a change of the text, a weight or an equation is run by this kernel, and
        the run itself stays as it is. Without anywidget (``viete[notebook]``) it is the page alone,
        in a frame. Raises VieteError for a run of several texts.
        """
        from viete.explore.session import Session
        from viete.explore.widget import explored

        return explored(Session.of(self))

    def draw(
        self, question: str | Expansion, against: Run | None = None, **values: Any
    ) -> Picture:  # fmt: skip
        """A picture of an answer, which a notebook shows: ``.svg``, ``.text()``, ``.save(path)``.

        >>> run.draw("A^{3,h}")                                                     # doctest: +SKIP
        >>> run.draw(run.expand("logits_{-1, 5}")).save("terms.svg")                # doctest: +SKIP

        A matrix is a heat map, and more axes are a grid of them, (…, rows, columns); a number for
        each block is a curve; a vector, the greatest entries of ``top_5(…)`` and the terms of an
        expansion are bars. ``against`` and ``values`` are as in `ask`. Raises VieteError for
        numbers that are no floats.
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
    """A kind of run that takes questions besides."""
    return cast(type[Questions], type(kind.__name__, (Questions, kind), {"__doc__": kind.__doc__}))


def questions(run: Run, of: Card | Model[Any]) -> Questions:
    """The same run, as one that takes questions.

    Meanings and recordings each make runs of a kind of their own, below this room; a run does not
    change its numbers by being asked, so that it is this object that gets the verbs.
    """
    run.__class__ = asked(type(run))
    for name in ("scope", "asked"):  # of a run that no model had yet
        run.__dict__.pop(name, None)
    out = cast(Questions, run)
    out.of = of
    return out


__all__ = ["Questions", "questions"]
