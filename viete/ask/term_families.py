"""Families of terms, and how they are indexed: by block, by head, by source position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from viete.analysis.dependent import HOLE
from viete.analysis.linearity import ATOM, filled
from viete.ask.stream import value_of
from viete.graph.sizes import Size
from viete.notation.substitution import fresh
from viete.notation.tree import Apply, Expr, Pick, Ref, walk


@dataclass(frozen=True)
class Mark:
    """One step to a term: a block by its number; a head, source, neuron or expert by a letter."""

    word: str
    letter: str
    number: int | None = None


@dataclass(frozen=True)
class Terms:
    """Terms: ``context`` with ``focus`` at its place, one for each value of ``letters``.

    ``kind`` is 'term', 'constant' or 'unopened'. ``letters`` gives for each letter the number of
    its values, from 0, or None where it ranges over the heads that the card declares by that name.
    """

    focus: Expr
    context: Expr = HOLE
    kind: str = ATOM
    marks: tuple[Mark, ...] = ()
    letters: tuple[tuple[str, Size | str], ...] = ()

    @property
    def formula(self) -> Expr:
        """The term, with its letters."""
        return filled(self.context, self.focus)

    def patterns(self) -> list[Ref]:
        """The values of a formula whose entries are picked, such as attention patterns."""
        found = (x.args[0] for x in walk(self.formula) if isinstance(x, Apply) and x.op == "times")
        return [value_of(x) for x in found if isinstance(x, Pick)]

    @property
    def block(self) -> tuple[str, int] | None:
        """The loop's letter and the number of the block that it comes from."""
        found = next((m for m in self.marks if m.word == "block"), None)
        return None if found is None or found.number is None else (found.letter, found.number)


@dataclass(frozen=True)
class State:
    """A point in an expansion: the steps to it, its letters, and the number of heads on the way.

    ``inside`` says that it has reached the stream, so that the next parts are sub-layers.
    """

    marks: tuple[Mark, ...] = ()
    letters: tuple[tuple[str, Size | str], ...] = ()
    depth: int = 0
    inside: bool = False

    def at(self, word: str, letter: str, number: int | None = None) -> State:
        """The state one step further."""
        kept = self.marks
        if word == "block" and kept and kept[-1].word == "block":
            kept = kept[:-1]  # further up the same stream
        return replace(self, marks=(*kept, Mark(word, letter, number)))


def fresh_letter(
    wish: str, state: State, taken: frozenset[str] = frozenset(),
    bound: frozenset[str] = frozenset(),
) -> str:  # fmt: skip
    """A new letter: the wish with as many primes as needed."""
    there = {name for name, _ in state.letters}
    if wish in taken:
        wish = fresh(taken | there, "kjlpqsuvwcm")
    while wish in there | bound:
        wish += "'"
    return wish


def with_letter(state: State, word: str, letter: str, values: Size | str) -> State:
    """A state with one more letter, and the step for it."""
    state = replace(state, letters=(*state.letters, (letter, values)))
    return state.at(word, letter)


def by_block(families: Sequence[Terms]) -> list[Terms]:
    """The families, with those of one block and one context added up to a single family."""
    out: dict[object, Terms] = {}
    for k, f in enumerate(families):
        key = (f.block, f.context) if f.kind == ATOM and f.block is not None else k
        there = out.get(key)
        focus = f.focus if there is None else Apply("add", (there.focus, f.focus))
        out[key] = replace(f, focus=focus)
    return list(out.values())


__all__ = ["Mark", "State", "Terms", "by_block", "fresh_letter", "with_letter"]
