"""Questions with extra values, and questions about two runs together.

A question with extra values is asked of the card with these values as more inputs. A question about
two runs is asked of one card that holds both, in which the names of the second run have primes. The
lengths of the texts are numbers there. No value is copied: the question looks values up in the
runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from viete.errors import Text, VieteError
from viete.evaluate.inputs import host
from viete.evaluate.interventions import as_library
from viete.evaluate.labelled import COL, ROW, Array, Value, device_of
from viete.evaluate.memos import recent
from viete.evaluate.origins import Origin, whole_names
from viete.evaluate.run import Run
from viete.evaluate.schedule import Program
from viete.graph.card import CardData, Input
from viete.notation.cursor import parse_name
from viete.notation.tree import Symbol, num
from viete.rewrite.renaming import Renaming, joined

QUESTIONS = 8  # cards of questions that stay with the program of a run


@dataclass(frozen=True)
class Given:
    """A value given with a question: its name, its shape on paper, and its entries with labels."""

    symbol: Symbol
    shape: tuple[int, ...]
    value: Value
    ends: tuple[int, int] | None = None  # of whole numbers

    @property
    def input(self) -> Input:
        low, high = map(num, self.ends) if self.ends else (None, None)
        return Input(self.symbol, tuple(map(num, self.shape)), low, high, None, "a value given")


def asked(
    run: Run, values: Mapping[str, Any], against: Run | None = None, of: str | None = None
) -> Run:  # fmt: skip
    """The run for questions about ``run``, given ``values`` and a second run, or ``run`` itself.

    ``values`` are by their names. The names of ``against`` have a prime: ``x'^3``. ``of`` is the
    number that ``∂x^3`` is a derivative of; ``∂x'^3`` is of that number of the second run. Raises
    VieteError for a name that the card has, for a value that is not a vector, matrix or number, and
    for two runs in different kinds of numbers.
    """
    if against is not None and not isinstance(against, Run):
        raise VieteError(f"against must be another run, not {against!r:.60}")
    if not values and against is None and of is None:
        return run
    given = [own_value(run, name, v) for name, v in values.items()]
    if against is not None and type(against.arrays) is not type(run.arrays):
        raise VieteError("both runs must use the same number system: one is exact or in intervals")
    batches = [r.batch for r in (run, against) if r is not None and r.batch not in (None, 1)]
    if len(set(batches)) > 1:
        raise VieteError(f"one run has {batches[0]} texts and the other {batches[1]}")
    key = (
        tuple((g.symbol, g.shape, g.ends) for g in given), tuple(sorted(run.sizes.items())),
        None if against is None else (against.program, tuple(sorted(against.sizes.items()))),
    )  # fmt: skip
    ready, both = recent(
        run.program.questions, key, lambda: question_card(run, given, against), QUESTIONS
    )
    origins = {name: Origin(run, name, {}) for name in whole_names(run.program.model)}
    if against is not None:
        origins |= {new: Origin(against, old, both.labels) for old, new in both.names.items()}
    sizes = {name: ready.sizes.get(name, n) for name, n in run.sizes.items()} | ready.sizes
    out = run.extended(ready, sizes, {(g.symbol.key, ()): g.value for g in given}, origins)
    if of is not None:
        number = out.parse(of)
        out.metric = dict.fromkeys(whole_names(run.program.model), number)
        if both.renaming is not None:
            out.metric |= dict.fromkeys(both.names.values(), both.renaming.own(number))
    return out


@dataclass(frozen=True)
class Beside:
    """Names for the values and the index letters of a second run."""

    names: Mapping[str, str]
    labels: Mapping[str, str]
    renaming: Renaming | None = None


def question_card(
    run: Run, given: list[Given], against: Run | None
) -> tuple[Program, Beside]:  # fmt: skip
    """The card that questions are asked of, ready to run."""
    card = measured(run)
    both = Beside({}, {})
    if against is not None:
        other = measured(against)
        card, new = joined(card, other, shared(run, against))
        both = Beside(
            {name: new.symbol(other.symbols[name]).key for name in whole_names(other)},
            {letter: new.letter(letter) for letter in other.ranges},
            new,
        )
    card = replace(card, inputs=(*card.inputs, *(g.input for g in given)))
    return Program(card.unstated), both


def measured(run: Run) -> CardData:
    """A run's card in which the lengths of texts are the run's."""
    card = run.program.model
    dims = tuple(
        d if d.at_most is None or d.name not in run.sizes
        else replace(d, value=num(run.sizes[d.name]), at_most=num(run.sizes[d.name]))
        for d in card.dims
    )  # fmt: skip
    return replace(card, dims=dims)


def shared(run: Run, other: Run) -> set[str]:
    """The dimensions and index letters of another run with the same number in this one.

    Names that mean nothing in this run are included.
    """
    a, b = run.program.model, other.program.model
    sizes = {n for n in run.sizes.keys() & other.sizes if run.sizes[n] == other.sizes[n]}
    letters = {
        s for s in a.ranges.keys() & b.ranges.keys()
        if run.program.range_of(s) == other.program.range_of(s)
        and (s in a.loop_letters) == (s in b.loop_letters)
    }  # fmt: skip
    taken = a.plain_names | a.ranges.keys()  # a letter r may stand beside a family r^{i,h}
    sizes |= {n for n in other.sizes if n not in a.names}
    return sizes | letters | {n for n in b.ranges if n not in taken}


def own_value(run: Run, name: str, value: Any) -> Given:
    """A given vector, matrix or number, in the run's numbers."""
    symbol = own_symbol(run.program.model, name, "input")
    array = as_array(name, value)
    if not isinstance(array, np.ndarray):
        array = as_library(array, run.arrays.like, name)
    whole = "int" in str(array.dtype)
    like = run.arrays.like
    if whole:
        made = run.arrays.xp.asarray(array, device=device_of(like))
    else:
        made = run.taken(array, like, f"the value {name}")
    batch = run.batch
    rows = int(array.ndim > 2 or (array.ndim == 2 and batch is not None and len(array) == batch))
    if array.ndim - rows > 2 or (rows and batch != len(array)):
        raise VieteError(
            f"{name} has the shape {tuple(array.shape)}; it is a number, a vector or a matrix"
            + (f", or {batch} of them, one for each text" if batch else "")
        )
    axes = ("batch",) * rows + (ROW, COL)[2 - (array.ndim - rows) :]
    if not whole:
        return Given(symbol, tuple(array.shape)[rows:], Value(made, axes))
    # Of all indices alike, so that the next one is a question of the same card.
    low, high = int(host(array).min(initial=0)), int(host(array).max(initial=0))
    ends = min(-(2**31) * (low < 0), low), max(2**31 - 1, high)
    return Given(symbol, tuple(array.shape)[rows:], Value(made, axes, interval=ends), ends)


def own_symbol(card: CardData, name: str, kind: str) -> Symbol:
    """The symbol of a given value. Raises VieteError for a name that the card has."""
    symbol = parse_name(Text(name), kind, set())
    derived = {d.left.symbol for d in card.derived}
    bases = {s.base for s in card.symbols.values() if s not in derived} | card.plain_names
    if {symbol.base, symbol.key} & {*card.symbols, *bases, *card.scope.indices}:
        what = {"dim": "a dimension", "input": "an input", "parameter": "a weight"}
        own = card.symbols.get(symbol.key)
        said = what.get(own.kind, "a value") if own else "a name"
        raise VieteError(
            f"{name} is {said} of {card.title}; give your value another name, such as my_{name}"
        )
    return symbol


def as_array(name: str, value: Any) -> Array:
    """An array, a list or a number as an array of real numbers."""
    if hasattr(value, "dtype") and not isinstance(value, np.ndarray | np.generic):
        if "bool" in str(value.dtype):
            raise VieteError(f"{name} must be real numbers, not {value.dtype}")
        return value
    try:
        array = np.array(value)
    except ValueError:
        raise VieteError(f"{name} must be a rectangular list of numbers") from None
    if array.dtype.kind not in "iufV" and not exact(array):  # V: bfloat16, and bounds
        given = array.dtype if hasattr(value, "dtype") else f"{value!r:.40}"
        raise VieteError(f"{name} must be real numbers, not {given}")
    return array


def exact(array: np.ndarray) -> bool:
    """Whether all entries are exact numbers."""
    return array.dtype == object and all(isinstance(x, int | Fraction) for x in array.flat)


__all__ = ["asked"]
