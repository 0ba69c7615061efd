"""Holding values fixed: a run in which some values are given, so nothing before them matters."""

from __future__ import annotations

from collections.abc import Sequence

from viete.evaluate.labelled import Value
from viete.evaluate.origins import Origin, whole_names
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Program
from viete.notation.tree import num
from viete.rewrite.cut import cut


def with_held(run: Run, names: Sequence[str]) -> Run:
    """A run in which some values are held: derivatives and expansions stop at them.

    A name is as in `viete.rewrite.cut.cut`, which says what is refused.
    """
    if not names:
        return run
    card = run.program.model
    found = cut(card, names, whole=True)
    ready = Program(found.card.unstated)
    store: dict[Member, Value] = {}
    for item, blocks in ready.inputs.values():
        if item.name in found.inputs:
            letters = found.card.blocks_of(item.symbol)
            at = {s: num(k) for s, k in zip(letters, blocks, strict=True)}
            value = found.card.substitute(found.inputs[item.name], letters=at)
            store[item.name, blocks] = run.evaluate(query(run, value)).frozen()
    there = [name for name in whole_names(card) if name not in found.inputs]
    return run.extended(ready, run.sizes, store, {x: Origin(run, x, {}) for x in there})


__all__ = ["with_held"]
