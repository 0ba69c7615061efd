"""`Questions`: what one asks of a run, whatever numbers it is in and however it was made."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, cast

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
        scope = self.program.model.scope
        return (
            scope if isinstance(self.of, CardData) else replace(scope, words=lambda: self.of.words)
        )


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
