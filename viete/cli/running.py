"""Starts the runs of commands: a card or a model on token ids, in the requested numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from threading import Timer
from typing import TYPE_CHECKING, Any

from viete.cli.cutting import Given
from viete.graph.card import CardData

if TYPE_CHECKING:
    from viete.nouns.model import Model
    from viete.nouns.run import Questions

PATIENCE = 5  # seconds
Start = Callable[[Any, Sequence[str] | None], "Questions"]


def started(
    card: CardData, model: Model | None, arrays: Mapping[str, Any], meaning: str, given: Given
) -> Start:  # fmt: skip
    """The run of a card or a model on token ids and the inputs ``given`` with them.

    Only the values that questions need are computed; None computes everything.
    """
    from viete.meanings.run import run
    from viete.nouns.card import Card
    from viete.nouns.run import questions

    def start(ids: Any, asked: Sequence[str] | None) -> Questions:
        inputs = given(ids)

        def named(names: Sequence[str] | None) -> Questions:
            found = run(card, ids, arrays, names=names, meaning=meaning, inputs=inputs)
            return questions(found, model or Card.of(card))

        return named(None) if asked is None else named(named([]).names_needed(asked))

    return start


def estimate(card: CardData, ids: Any, trained: bool) -> None:
    """Report on standard error what a long exact run needs; raise VieteError if it does not fit.

    The time depends on how long its numbers become, which nobody knows before: a command that is
    not done after some seconds says so.
    """
    from viete.evaluate.memory import check_exact

    screen = sys.stderr  # of this command; after it there is another

    def warn() -> None:
        if sys.stderr is screen:
            print(
                f"viete: exact numbers have taken {PATIENCE} s so far, and grow with every "
                f"operation: this may take long. A shorter text, fewer blocks, or weights with "
                f"short numbers take less; Ctrl-C stops.", file=screen, flush=True,
            )  # fmt: skip

    timer = Timer(PATIENCE, warn)
    timer.daemon = True
    timer.start()
    rows = ids if len(ids) and hasattr(ids[0], "__len__") else [ids]
    if needs := check_exact(card, max(map(len, rows)), len(rows), trained):
        print(f"viete: {needs}", file=sys.stderr, flush=True)
