"""The page's data: a card, its run on a text, and everything shown of them, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from viete.analysis.next_token import scores, text_of
from viete.analysis.traits import predicts_next
from viete.ask.card_claims import Claims
from viete.cards.writer import blocks
from viete.document.html import parts, prose
from viete.document.tree import with_lists
from viete.errors import VieteError
from viete.evaluate.inputs import host
from viete.evaluate.run import Run
from viete.evaluate.schedule import Step
from viete.explore.choosing import choices_data
from viete.explore.claims import claims_data, claims_of
from viete.explore.differentiated import default_of, of_math
from viete.explore.expansions import ExpansionMaker, packed, patterns
from viete.explore.graphs import greatest_graphs, has_features
from viete.explore.program import program_data
from viete.explore.ranges import AxisNames
from viete.explore.reruns import (
    MOST_EXACT,
    MOST_WORK,
    backward_run,
    in_decimals,
    in_meaning,
    inputs_of,
    is_backward,
    work,
)
from viete.explore.symbols import symbols
from viete.explore.values import DIGITS, Shelf, in_floats, in_words
from viete.explore.walk import GRADIENT, STEP, Walk, float_evaluator
from viete.meanings.entries import EntryRun
from viete.meanings.exact.run import ExactRun
from viete.meanings.run import meaning_of
from viete.report.drawing.data import diagram_data
from viete.report.lesson.data import lesson_data
from viete.report.lesson.making import Maker
from viete.report.lesson.telling import Teller
from viete.rewrite.adjoint.grad import forward_pass
from viete.rewrite.choices import choices

FORMAT = 1
ROOM = 4_000_000  # bytes of values that a page carries
ROOM_FOR_TERMS = 2_000_000  # letters of the terms of expansions, before they are compressed
FAR, NEAR = 6, 2  # how often the terms of what a model gives out are opened, and of other values
MOST_WORDS = 1_000_000  # letters of a vocabulary that is listed


def page_data(
    run: Run,
    room: int = ROOM,
    *,
    of: str | None = None,
    meanings: Sequence[str] | None = None,
    live: bool = False,
    claims: Claims | None = None,
) -> dict[str, Any]:
    """All data that the page shows for a run of one text, as JSON.

    ``room`` is the number of bytes for values: values beyond it are listed under ``limits`` and
    have only their shapes. ``of`` is the value that is differentiated, as in `grad`. ``meanings``
    are the numbers that a page has besides decimals; by default 'exact', where that takes few
    operations. ``live`` says that a running model answers the page, which then carries nothing to
    compute with, and no terms of entries. ``claims`` are shown with their verdicts, by default the
    card's own. Raises VieteError for a run of several texts, and where ``of`` or ``meanings`` are
    not available.
    """
    if run.batch is not None:
        raise VieteError("a page shows one text, and this run has several")
    return PageMaker(run, of, meanings, live, claims).data(room)


class PageMaker:
    """Assembles the page of a run."""

    def __init__(
        self,
        run: Run,
        of: str | None,
        meanings: Sequence[str] | None,
        live: bool,
        claims: Claims | None,
    ) -> None:
        own = run if isinstance(run, EntryRun) else None  # in numbers of another meaning
        self.run = run = run if own is None else in_decimals(own)
        self.of, self.card = of, run.program.model
        self.live, self.claims = live, claims
        self.choices = choices(self.card)
        if claims is None and not live and self.card.claims and work(run) <= MOST_WORK:
            self.claims = claims_of(run)
        self.lesson: dict[str, Any] | None = None  # of a run that is exact too
        self.left_out: list[str] = []
        self.notes: dict[str, str] = {}  # why something is not there
        self.traced = work(run) <= MOST_WORK
        self.shelves = {"decimal": Shelf(in_floats)}
        self.forward = {e.name for e in forward_pass(self.card).equations}
        self.first = len(forward_pass(self.card).equations)
        walk = self.walk = Walk(run, float_evaluator(run), self.shelves["decimal"], self.traced)
        walk.givens()
        self.steps = walk.turns(self.is_forward)
        self.back = self.backward(of)
        self.meanings = [{"name": "decimal", "title": "decimal"}]
        if meanings is None:
            meanings = ["exact"] if work(run) <= MOST_EXACT and not run.interventions else []
        if own is not None:
            self.add_meaning(meaning_of(own), own)
        for word in meanings:
            if word not in self.shelves:
                self.add_meaning(word, *in_meaning(run, word))

    def is_forward(self, step: Step) -> bool:
        """Whether a step is not part of a backward pass."""
        return step.equation.name in self.forward

    def backward(self, of: str | None) -> Walk:
        """The walk over the run with its derivatives; over the run itself where it has none."""
        walk, self.backward_steps = self.walk, list[dict[str, Any]]()
        given = of
        if not is_backward(self.card):
            try:
                if not self.traced:
                    raise VieteError(
                        f"{self.card.title} is too large for a backward pass on the page"
                    )
                self.of = of = of or default_of(self.card)
                again = backward_run(self.run, of)
            except VieteError as error:
                if given is not None:
                    raise
                self.notes["backward"] = error.message
                return walk
            if again.missing:
                self.notes["backward"] = "; ".join(again.without())
            walk = Walk(again, float_evaluator(again), self.shelves["decimal"], self.traced)
            walk.givens()
        self.backward_steps = walk.turns(lambda step: not self.is_forward(step), GRADIENT)
        return walk

    def add_meaning(self, word: str, again: EntryRun, ended: VieteError | None = None) -> None:
        """Add the values of the forward pass in other numbers, on their own shelf."""
        shelf = self.shelves[word] = Shelf(in_words)
        walk = Walk(again, again.arrays, shelf, self.traced)
        walk.givens()
        walk.turns(self.is_forward, STEP)
        self.meanings.append({"name": word, "title": word}
                             | ({"note": ended.message} if ended is not None else {}))  # fmt: skip
        if isinstance(again, ExactRun) and self.card.inputs:
            made = Maker(again, DIGITS, "mathml", ended, decimals=True).lesson()
            self.lesson = lesson_data(made, word)

    def lesson_told(self) -> dict[str, Any] | None:
        """The lesson; for a run that is not exact, the lesson in words."""
        if self.lesson is None and not is_backward(self.card):
            teller = Teller(self.run, "mathml", DIGITS, self.walk.names.word)
            self.lesson = lesson_data(teller.lesson(), "")
        return self.lesson

    def data(self, room: int) -> dict[str, Any]:
        """The page's data."""
        equations, expansions = self.back.equations.data(), self.expansions()
        values, used = {}, 0
        for word, shelf in self.shelves.items():
            values[word], left_out, bytes_used = shelf.data(room)
            self.left_out += left_out
            used += bytes_used
        untraced = dict.fromkeys((*self.walk.left_out, *self.back.left_out))
        return {
            "format": FORMAT,
            "title": self.card.title,
            "about": list(map(prose, self.card.about)),
            "symbols": symbols(self.back.run.program.model, self.back.equations.all),
            "document": "\n".join(parts(list(with_lists(blocks(self.card, "latex"))))),
            "equations": equations[: self.first],
            "steps": self.steps,
            "backward": self.backward_steps,
            "backward_equations": equations[self.first :],
            "dimensions": {name: plain_size(size) for name, size in self.run.sizes.items()},
            "choices": choices_data(self.run, self.choices),
            "differentiated": of_math(self.card, self.of) if self.backward_steps else None,
            "tokens": {**tokens(self.run, self.walk.names), "targets": self.targets()},
            "meanings": self.meanings,
            "values": values,
            "program": self.program(values["decimal"], expansions["off"]),
            "expansions": expansions,
            "claims": None if self.claims is None else claims_data(self.claims),
            "diagram": diagram_data(forward_pass(self.card)),
            "lesson": self.lesson_told(),
            "limits": {
                "values": room, "used": used, "left_out": list(dict.fromkeys(self.left_out)),
                "operations": list(untraced), "notes": self.notes,
            },
            "server": None, "features": has_features(self.run),
        }  # fmt: skip

    def value(self, member: str, meaning: str) -> dict[str, Any] | None:
        """One value as JSON, however large; None for an unknown value or meaning."""
        shelf = self.shelves.get(meaning)
        found = None if shelf is None else shelf.values.get(member)
        return None if shelf is None or found is None else shelf.entry(found, there=True)

    def expansions(self) -> dict[str, Any]:
        """The terms of values by member, the last values first, as long as room is left."""
        if self.live or self.walk.steps.operations is None:
            return packed({}, patterns(self.card))
        maker = ExpansionMaker(self.run, self.walk.steps.operations, ROOM_FOR_TERMS)
        steps = [s for s in self.walk.steps.turns() if self.is_forward(s)]
        found = dict[str, Any]()
        for s in reversed(steps):  # what the model gives out opens as far as it goes
            first = not any(found.values())
            found[self.walk.steps.name(s.makes)] = made = maker.of(s, FAR if first else NEAR)
            if first and made is not None:
                made["graphs"] = greatest_graphs(self.run, s, ROOM_FOR_TERMS)
        return packed({k: x for k, x in found.items() if x is not None}, maker.off)

    def targets(self) -> str | None:
        """The input of targets that are the tokens one position later."""
        new = self.back.run.program.targets - inputs_of(self.run).keys()
        return min((name for name in new if self.back.run.is_there((name, ()))), default=None)

    def program(self, values: dict[str, Any], off: Sequence[str]) -> dict[str, Any] | None:
        """The program of the page; None where a running model answers or it cannot be made.

        ``off`` are the values that may be switched off.
        """
        if self.live:
            return None
        names = list(self.run.program.parameters)
        if not all("data" in values.get(name, ()) for name in names):
            self.notes["program"] = "the page has no room for all weights"
            return None
        backward = bool(self.backward_steps) and not is_backward(self.card)
        try:
            found = program_data(
                self.run, self.choices, off, self.back.equations, backward, self.of
            )
        except VieteError as error:
            self.notes["program"] = error.message
            return None
        shapes = {name: {"shape": values[name]["shape"]} for name in names}
        return {**found, "parameters": shapes}


def tokens(run: Run, names: AxisNames) -> dict[str, Any]:
    """The text: its ids and their words, and the vocabulary where it fits."""
    try:
        item = text_of(run.program.model)
    except VieteError:
        return {"ids": [], "words": [], "vocabulary": None}
    ids = [int(k) for k in host(run.lookup(item.name, ()).array)]
    listed = list(map(names.word, range(len(run.scope.words()))))
    vocabulary = listed if listed and sum(map(len, listed)) <= MOST_WORDS else None
    return {"ids": ids, "words": list(map(names.word, ids)), "vocabulary": vocabulary,
            "input": item.name, "scores": scores_of(run),
            "next": predicts_next(run.program.model)}  # fmt: skip


def scores_of(run: Run) -> str | None:
    """The value of the next token's scores; None for a card without it."""
    with suppress(VieteError):
        return scores(run.program.model)
    return None


def plain_size(x: Any) -> float | int:
    """A size for JSON."""
    return int(x) if x.denominator == 1 else float(x)


__all__ = ["PageMaker", "page_data"]
