"""Queries: a formula asked of a run, and the range of each of its letters.

A letter that a question leaves free is an axis of the answer. It ranges over the blocks in which
everything that the formula names exists, or over the rows, columns or heads that it indexes. A
letter below a binder without bounds gets its range in the same way: the bounds are written into the
formula, which is then evaluated like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from viete.analysis.types import Places, Type
from viete.errors import Text, VieteError
from viete.graph.sizes import ONE
from viete.notation.printer import show
from viete.notation.symbols import TEXTS
from viete.notation.tree import Bind, Expr, Idx, num, rebuilt, walk

if TYPE_CHECKING:
    from viete.evaluate.run import Run

Turn = Mapping[str, int]  # a number for each block letter


@dataclass(frozen=True)
class Query:
    """A formula whose binders have bounds, its type, and the ranges of its free letters.

    ``turns`` are the blocks that it is evaluated in, one entry for a formula without block letters;
    ``places`` gives the first value of every other letter, and the number of its values.
    """

    formula: Expr
    type: Type
    turns: tuple[Turn, ...]
    places: Mapping[str, Places]

    @property
    def blocks(self) -> dict[str, list[int]]:
        """The numbers of each block letter."""
        return {s: sorted({turn[s] for turn in self.turns}) for s in self.turns[0]}


def query(run: Run, e: Expr, source: Text | None = None) -> Query:
    """The query that a formula asks of a run; ``source`` is its text.

    Raises VieteError for a formula without a type, for a letter that counts nothing, and for a
    letter with a value in no block, or in pairs of blocks that make no table.
    """
    known = {} if run.origins else run.program.queries
    if e not in known:
        found, own = run.program.shapes.asked(source or Text(show(e)), e)
        written = with_bounds(run, e, own.bounds)
        known[e] = Query(written, found, turns(run, written), own.places)
    return known[e]


def with_bounds(run: Run, e: Expr, bounds: Mapping[Bind, Places]) -> Expr:
    """The formula with bounds written at every binder whose letter has no declared range."""
    made = rebuilt(e, [with_bounds(run, x, bounds) for x in e.children])
    if not isinstance(e, Bind) or not isinstance(made, Bind) or e.ranges is not None:
        return made
    if e in bounds:
        first, count = bounds[e]
        size = run.program.model.size_expr
        return Bind(e.op, e.index, size(first), size(first + count - ONE), made.body)
    if e.index != TEXTS and run.program.model.over_blocks(e):
        numbers = sorted({turn[e.index] for turn in turns(run, made.body)})
        if numbers[-1] - numbers[0] >= len(numbers):
            raise VieteError(f"{show(e)} has a value for only some of the blocks {e.index}")
        return Bind(e.op, e.index, num(numbers[0]), num(numbers[-1]), made.body)
    return made


def turns(run: Run, e: Expr) -> tuple[Turn, ...]:
    """The blocks in which a formula has a value, by its free block letters."""
    loose = run.program.model.block_letters(e)
    if not loose:  # as in almost every formula, which need not be walked then
        return ({},)
    letters = dict.fromkeys(x.name for x in walk(e) if isinstance(x, Idx) and x.name in loose)
    # Values before the first block, as x^0, and after the last, as x^{i-1}, count too.
    ranges = [range_of(run, e, letter) for letter in letters]
    wider = (range(r.start - 1, r.stop + 1) for r in ranges)
    found = [dict(zip(letters, k, strict=True)) for k in product(*wider)]
    found = [turn for turn in found if has_value(run, e, turn)]
    if not found:
        raise VieteError(f"{show(e)} does not have a value in any block")
    if len(found) != prod(len({turn[s] for turn in found}) for s in letters):
        raise VieteError(
            f"{show(e)} has a value for some combinations of the blocks {', '.join(letters)} only; "
            f"give one of these letters a number"
        )
    return tuple(found)


def range_of(run: Run, e: Expr, letter: str) -> range:
    """The blocks that a letter may take, from the loops in whose places it stands."""
    own = run.program.model.loop_letters
    slots = {slot for slot, name in e.standing if name == letter and slot in own}
    loops = [run.program.range_of(s) for s in slots or {letter}]
    return range(min(r.start for r in loops), max(r.stop for r in loops))


def has_value(run: Run, e: Expr, loops: Turn) -> bool:
    """Whether all that a formula refers to exists in given blocks, or is computed by the card."""
    for member in run.program.needed(e, loops):
        equation = run.derived.get(member[0])
        if equation is None or member[0] in run.origins:
            if not run.is_made(*member):
                return False
            continue
        inner = run.program.loops_of(equation.left.symbol, member[1])
        own = all(k in run.program.range_of(letter) for letter, k in inner.items())
        if not (own and has_value(run, equation.right, inner)):
            return False
    return True


__all__ = ["Query", "Turn", "query", "turns", "with_bounds"]
