"""`Questions`: what one asks of a run, whatever numbers it is in and however it was made."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Self, cast

from viete.errors import VieteError
from viete.evaluate.run import Run
from viete.graph.card import CardData
from viete.notation.symbols import Scope

if TYPE_CHECKING:
    from viete.nouns.card import Card
    from viete.nouns.model import Model


class Questions(Run):
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

    def extended(self, *given: Any) -> Self:
        """As `Run.extended`: it is of the same model."""
        out = super().extended(*given)
        out.of = self.of
        return out

    def ask(self, *questions: str, against: Run | None = None, **values: Any) -> Any:
        """The answers to questions in the notation, about this run and what is given besides.

        >>> run.ask("⟨x^3_{-1}, probe⟩", probe=v)                                  # doctest: +SKIP
        >>> run.ask("|x^3 - x'^3|", "cos(x^3_4, x'^3_4)", against=other)           # doctest: +SKIP

        One question gets an array, as ``run[question]`` does, and several get a tuple of arrays.
        ``values`` are numbers, vectors and matrices by names that the card does not have.
        ``against`` is another run, of the same card or of another; its names have a prime: ``x'^3``
        beside ``x^3``. Dimensions and index letters that differ have primes too. Raises VieteError
        for a name that the card has, and as ``run[question]`` does.
        """
        from viete.ask.asking import asked

        if not questions:
            raise VieteError("ask takes a question, such as run.ask('x^1_0')")
        run = asked(self, values, against)
        found = tuple(run[question] for question in questions)
        return found[0] if len(found) == 1 else found


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
