"""A run after an intervention, for questions such as ``E with A^{2,1} = 0``.

It is a run of the card with the changed equations. Values that the change does not reach are taken
from the first run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from viete.analysis.token_vectors import question_scope
from viete.ask.sweeps import free_letters
from viete.errors import Text
from viete.evaluate.changed_places import check_places
from viete.evaluate.memos import recent
from viete.evaluate.origins import Origin, whole_names
from viete.evaluate.run import Run
from viete.evaluate.schedule import Program
from viete.graph.card import CardData
from viete.graph.dependence import equations_by_name, forward_slice
from viete.notation.symbols import Scope
from viete.rewrite.put import put
from viete.rewrite.replacement import Replacement, parse_replacement

QUESTIONS = 8  # cards of questions that stay with the program of a run


def changed_run(run: Run, texts: Sequence[Text]) -> Run:
    """The run of a card with some equations changed, on the same input.

    Raises VieteError as `viete.rewrite.put.put` does, and for a letter that stands for many
    changes.
    """
    card = others_first(run)
    for text in texts:
        check_one(text, card, run.scope)

    def scope(card: CardData) -> Scope:
        own = run.scope
        return replace(question_scope(card), words=own.words, text=own.text, vector=own.vector)

    changed = put(card, texts, scope)
    ready = recent(run.program.questions, ("put", changed),
                   lambda: Program(changed.unstated).at(run.sizes), QUESTIONS)  # fmt: skip
    before, after = equations_by_name(card), equations_by_name(changed)
    reached = forward_slice(changed, [x for x in after if after[x] != before.get(x)])
    origins = {
        name: run.origins.get(name) or Origin(run, name, {})
        for name in whole_names(card) if name not in reached
    }  # fmt: skip
    out = run.extended(ready, {**run.sizes, **ready.sizes}, {}, origins)
    check_places(ready, out)
    return out


def others_first(run: Run) -> CardData:
    """The card of a run, in which the values of another run come before its own."""
    card = run.program.model
    of = {e.name: run.origins[e.name].run if run.origins else run for e in card.equations}
    own = of[card.equations[0].name]
    before = (e for e in card.equations if of[e.name] is not own)
    return replace(card, equations=(*before, *(e for e in card.equations if of[e.name] is own)))


def check_one(text: Text, card: CardData, scope: Scope) -> None:
    """Check that an equation is one change, and not one for each value of a letter."""
    change = parse_replacement(text, card, scope)
    if not isinstance(change, Replacement):
        raise text.error(f"{change.left.symbol.key} is not a value of {card.title}")
    bound = frozenset[str]().union(*(t.free for t in change.conditions))
    for letter, *_ in free_letters(change):
        if letter not in bound:
            raise text.error(
                f"with a free letter {letter} this is many changes, and only one is possible here: "
                f"add which {letter} you mean, as in: for {letter} = 2"
            )


__all__ = ["changed_run"]
