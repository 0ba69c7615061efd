"""The page's data: a card, its run on a text and all that is shown of them, as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

from viete.analysis.next_token import text_of
from viete.cards.writer import blocks
from viete.document.html import parts, prose
from viete.document.tree import with_lists
from viete.errors import VieteError
from viete.evaluate.array import Arrays
from viete.evaluate.inputs import host
from viete.evaluate.labelled import Value, in_order, permute
from viete.evaluate.run import Run
from viete.explore.operations import Tracer
from viete.explore.ranges import AxisNames, operation_key
from viete.explore.steps import NumberedEquations, PageSteps
from viete.explore.symbols import symbols
from viete.explore.values import PageValue, Shelf, base64_floats
from viete.notation.tree import Symbol
from viete.report.drawing.data import diagram_data

FORMAT = 1
ROOM = 4_000_000  # bytes of values that a page carries
STEP, INPUT, PARAMETER, PART = range(4)  # ranks of values


def page_data(run: Run, room: int = ROOM) -> dict[str, Any]:
    """All that the page shows of a run of one text, as JSON has it, with ``room`` for values.

    Raises VieteError for a run of several texts.
    """
    if run.batch is not None:
        raise VieteError("a page is of one text, and this run has a batch of them")
    card = run.program.model
    equations = NumberedEquations(run)
    operations = Tracer(run, float_evaluator(run))
    steps = PageSteps(run, equations, operations)
    shelf = Shelf(base64_floats)
    names = AxisNames(run)
    shelve_givens(run, steps, names, shelf)
    walked = [stored(run, steps, names, shelf, step) for step in steps.turns()]
    values, left_out, used = shelf.data(room)
    return {
        "format": FORMAT,
        "title": card.title,
        "about": list(map(prose, card.about)),
        "symbols": symbols(card, equations.all),
        "document": "\n".join(parts(list(with_lists(blocks(card, "latex"))))),
        "equations": equations.data(),
        "steps": walked,
        "backward": [],
        "backward_equations": [],
        "dimensions": {name: whole(size) for name, size in run.sizes.items()},
        "choices": choices(run),
        "tokens": tokens(run, names),
        "meanings": [{"name": "decimal", "title": "decimal"}],
        "values": {"decimal": values},
        "program": None,
        "diagram": diagram_data(card),
        "lesson": None,
        "limits": {"values": room, "used": used, "left_out": left_out},
        "server": None,
    }


def float_evaluator(run: Run) -> Arrays:
    """What computes a run's operations: float64, whatever the run itself is in."""

    def lookup(key: str, loops: tuple[int, ...]) -> Value:
        v = run.lookup(key, loops)
        array = np.asarray(host(run.arrays.array(v)))
        whole = array.dtype.kind in "iub"
        return Value(array if whole else array.astype(np.float64), v.axes, interval=v.interval)

    return Arrays(run.program.model, run.sizes, np.zeros(()), lookup, quick=False)


def on_paper(run: Run, v: Value, symbol: Symbol) -> tuple[np.ndarray, tuple[str, ...]]:
    """A member's array as ``run[...]`` gives it, and the labels of its axes."""
    axes = in_order(v, symbol.slots)
    return permute(np, np.asarray(host(run.arrays.array(v))), v.axes, axes), axes


def shelve_givens(run: Run, steps: PageSteps, names: AxisNames, shelf: Shelf) -> None:
    """Put the inputs and the weights on a shelf."""
    inputs = {i.name for i in run.program.model.inputs}
    made = {s.makes for s in run.program.steps}
    for member, v in run.store.items():
        if member in made:
            continue
        array, axes = on_paper(run, v, symbol := steps.symbols[member[0]])
        ranges = names.of_value(symbol, axes)
        shelf.values[steps.name(member)] = PageValue(
            array, ranges, tuple(map(names.labels, ranges)),
            INPUT if member[0] in inputs else PARAMETER,
        )  # fmt: skip


def stored(run: Run, steps: PageSteps, names: AxisNames, shelf: Shelf, step: Any) -> dict[str, Any]:
    """A step as JSON; its value and those of its operations go on a shelf."""
    data, made = steps.of(step)
    member, symbol = data["member"], step.equation.left.symbol
    array, axes = on_paper(run, run.lookup(*step.makes), symbol)
    ranges = names.of_value(symbol, axes)
    shelf.values[member] = PageValue(array, ranges, tuple(map(names.labels, ranges)), STEP)
    known: dict[str, tuple[str, ...]] = {k: v.axes for k, v in shelf.values.items()}
    for o in made:
        known[operation_key(o.id)] = ranges = names.of_operation(o, known)
        if o.key not in shelf.values:
            value = np.asarray(operations_array(o.value))
            shelf.values[o.key] = PageValue(value, ranges, tuple(map(names.labels, ranges)), PART)
    return data


def operations_array(v: Value) -> Any:
    """An operation's value as an array of floats."""
    return np.asarray(v.array, dtype=np.float64)


def tokens(run: Run, names: AxisNames) -> dict[str, Any]:
    """The text: its ids and their words, and the vocabulary where there is one to show."""
    card = run.program.model
    try:
        item = text_of(card)
    except VieteError:
        return {"ids": [], "words": [], "vocabulary": None}
    ids = [int(k) for k in host(run.lookup(item.name, ()).array)]
    words = run.scope.words()
    vocabulary = [names.word(k) for k in range(len(words))] if 0 < len(words) <= 60_000 else None
    return {"ids": ids, "words": list(map(names.word, ids)), "vocabulary": vocabulary,
            "input": item.name}  # fmt: skip


def choices(run: Run) -> list[dict[str, Any]]:
    """Numbers of the card that are no sizes, such as ε, which a reader may change."""
    card = run.program.model
    sizes = {k for t in run.program.shapes.types.values() for s in t.shape for k in s.names()}
    bounds = {k for lower, upper in card.ranges.values() for k in lower.keys | upper.keys}
    return [
        {"name": name, "kind": "number", "value": float(value)}
        for name, value in card.sizes.items()
        if name not in sizes | bounds and value.denominator != 1
    ]


def whole(x: Any) -> float | int:
    """A size as JSON has it."""
    return int(x) if x.denominator == 1 else float(x)


__all__ = ["page_data"]
