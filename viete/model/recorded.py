"""Checks a card against values that were recorded from the model itself.

Every equation is judged separately: it is computed from recorded values where they exist, so an
error is reported where it arises and not again in all that follows. For an equation that differs,
small changes are tried (see `repairs`), and the changes that make it agree are reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from viete.analysis.shapes import shapes_of
from viete.errors import Text, VieteError
from viete.evaluate.execution import execute
from viete.evaluate.labelled import COL, ROW, Value, in_order
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Step, program
from viete.formats.files import TensorFile
from viete.graph.card import CardData, Equation
from viete.model.repairs import MASKED, Trial, distance, fitted
from viete.model.suggest import Family
from viete.notation.parser import parse
from viete.notation.printer import show
from viete.notation.tree import Expr, Idx, Ref, Slot, Symbol, walk

Array = Any
# Of the largest recorded number: some hundred roundings of the type.
TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 5e-3, "bfloat16": 4e-2}


@dataclass(frozen=True)
class Difference:
    """A recorded value that the card does not reproduce.

    ``number`` counts the card's equations from 1, and is 0 for a value that is a formula over
    them. ``where`` gives the place of the largest difference by axis (letters from their first
    value, rows and columns from 0); ``relative`` is to the largest recorded number. ``fits`` are
    changes of the card that reproduce it, each with the equation as it then reads. ``repaired``
    says that earlier such changes were in force.
    """

    name: str
    number: int
    equation: str
    absolute: float
    relative: float
    tolerance: float
    where: Mapping[str, int]
    recorded: float
    computed: float
    fits: tuple[tuple[str, str], ...] = ()
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    repaired: bool = False


@dataclass(frozen=True)
class Recorded:
    """The values that agree, the differences in the order of the equations, and the omitted values.

    ``repaired`` are the values that agree only with the changes that earlier differences suggest.
    """

    agree: tuple[str, ...]
    differences: tuple[Difference, ...]
    skipped: Mapping[str, str]
    repaired: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether something was compared and nothing differs."""
        return bool(self.agree) and not self.differences


def check_recorded(
    card: CardData, weights: Mapping[str, Array], outputs: TensorFile,
    inputs: Mapping[str, Array] | None = None, extra: Mapping[Family, list[Array]] | None = None,
    formulas: Mapping[str, str] | None = None,
) -> Recorded:  # fmt: skip
    """Run a card and compare it with the recorded values, in the order of the equations.

    A recorded array has the name of a value (``A^{3,h}``), of one head (``A^{3,1}``), or is named
    by a formula; ``formulas`` gives a formula for other names. ``weights`` may lack some; values
    that need those are skipped. ``extra`` are the file's tensors that the card does not have, by
    family. Raises VieteError where the inputs are missing.
    """
    given = recorded_inputs(card, outputs, dict(inputs or {}))
    wide = {n: np.asarray(w, np.float64) for n, w in weights.items() if w.dtype.kind != "c"}
    run = execute(program(card), given, wide, names=[])
    steps, skipped = schedule(run, outputs, formulas or {})
    trial = Trial(run, extra or {})
    agree, repaired, differences = list[str](), list[str](), list[Difference]()
    since: list[Step] = []  # the steps whose results are the card's own
    want: dict[Member, str] = {}  # what each value that cannot be computed lacks
    for step, name in steps:
        recorded = None if name is None else array(outputs, name)
        if lacking := [m for m in step.needs if m not in run.store]:
            why = want[step.makes] = want.get(lacking[0]) or run.lacking(lacking[0])
            if name is not None:
                skipped[name] = f"it needs {why}"
                value = like_left(run, step, recorded)
                if value is not None:
                    run.store[step.makes] = value
            continue
        value = trial.compute(step)
        if name is None:
            since.append(step)
            continue
        found = compare(run, step, value, recorded, outputs.infos[name].dtype)
        if found is None:
            (repaired if step.makes in trial.changed else agree).append(name)
        else:
            found = replace(found, name=name, repaired=step.makes in trial.changed)
            if found.shapes is None:
                fits = trial.search(step, since, recorded, found.tolerance)
                found = replace(found, fits=fits)
            differences.append(found)
        if found is None or found.shapes is None:
            run.store[step.makes] = aligned(run, step, run.store[step.makes], recorded)
            trial.changed.discard(step.makes)
    return Recorded(tuple(agree), tuple(differences), skipped, tuple(repaired))


# -- what was recorded -----------------------------------------------------------------------------


def schedule(
    run: Run, outputs: TensorFile, formulas: Mapping[str, str]
) -> tuple[list[tuple[Step, str | None]], dict[str, str]]:
    """The card's steps, and one for every recorded formula, each with its recorded name.

    Also the reasons why the other recorded arrays are not values.
    """
    ready = run.program
    last = {step.makes: k for k, step in enumerate(ready.steps)}
    inputs = {i.name for i in ready.model.inputs}
    names: dict[Member, str] = {}
    behind: dict[int, list[tuple[Step, str]]] = {}
    skipped = {n: f"it is {what}" for n, what in outputs.refused.items()}
    for name, info in outputs.infos.items():
        if info.dtype.startswith("complex"):
            skipped[name] = "it is complex"
            continue
        text = formulas.get(name, name)
        try:
            e = parse(Text(text, "<name>"), ready.model.scope)
            if isinstance(e, Ref) and e.key in inputs:
                continue
            member = whole_value(run, e)
            step = None if member in last else formula_step(run, name, text, e)
        except VieteError as error:
            if name != "tokens":
                skipped[name] = f"it is not a value or formula of the card: {error.message}"
            continue
        if step is not None:
            at = max((last[m] for m in step.needs if m in last), default=-1)
            behind.setdefault(at, []).append((step, name))
        elif member is not None and names.setdefault(member, name) != name:
            skipped[name] = f"{names[member]} is the same value"
    steps: list[tuple[Step, str | None]] = list(behind.get(-1, ()))
    for k, step in enumerate(ready.steps):
        steps.append((step, names.get(step.makes) if last[step.makes] == k else None))
        steps += behind.get(k, ())
    return steps, skipped


def whole_value(run: Run, e: Expr) -> Member | None:
    """The member that a formula names; None where it is only a part of one."""
    if not isinstance(e, Ref) or e.symbol.kind == "dim":
        return None
    loops = run.program.model.loop_letters
    slots = zip(e.symbol.slots, e.index, strict=True)
    whole = all(i == Idx(s) for s, i in slots if s not in loops)
    return (e.key, run.program.places(e, {})) if whole else None


def formula_step(run: Run, name: str, text: str, e: Expr) -> Step:
    """A recorded formula as if it were an equation of the card.

    Raises VieteError for one that the card cannot compute.
    """
    needs = frozenset(run.members(text))
    if not needs:
        raise VieteError("the file has no value that a run computes")
    run.program.shapes.located(Text(text, "<name>"), e, e.free, loops=True)
    letters = dict.fromkeys(x.name for x in walk(e) if isinstance(x, Idx))
    slots = tuple(Slot(s, True) for s in letters if s in e.free)
    left = Symbol("value", f"recorded {name}", (), slots).member
    return Step(Equation(left, e), {}, (left.key, ()), needs)


def recorded_inputs(
    card: CardData, outputs: TensorFile, given: dict[str, Array]
) -> dict[str, Array]:
    """The given inputs, else those recorded with the values."""
    for k, item in enumerate(card.inputs):
        if item.name in given:
            continue
        for name in outputs.infos:
            try:
                e: Expr | None = parse(name, card.scope)
            except VieteError:
                e = None
            if (isinstance(e, Ref) and e.key == item.name) or (k == 0 and name == "tokens"):
                found = outputs.load(name)
                if item.high is not None and found.dtype.kind == "f" and (found % 1 == 0).all():
                    found = found.astype(np.int64)
                given[item.name] = found
                break
    if card.inputs and card.inputs[0].name not in given:
        name = card.inputs[0].name
        raise VieteError(
            f"{outputs.path}: for which input were these values recorded? Give it (--tokens 3,1,4) "
            f"or add it to the file, as an array named '{name}' or 'tokens'"
        )
    return given


def array(outputs: TensorFile, name: str) -> Array:
    """A recorded array, in float64 unless its numbers are integers."""
    found = outputs.load(name)
    return found if found.dtype.kind in "iub" else found.astype(np.float64)


# -- comparing -------------------------------------------------------------------------------------


def compare(run: Run, step: Step, value: Value, recorded: Array, dtype: str) -> Difference | None:
    """The difference between a value and its recording; None where they agree."""
    equations = enumerate(run.program.model.equations, 1)
    number = next((k for k, e in equations if e is step.equation), 0)
    right = show(step.equation.right)
    shown = f"{show(step.equation.left)} = {right}" if number else right
    computed = np.asarray(run.ordered(value, step.equation.left.symbol.slots))
    there = fitted(computed.shape, recorded)
    tolerance = TOLERANCE.get(dtype, 0.0)
    blank = Difference("", number, shown, np.inf, np.inf, tolerance, {}, np.nan, np.nan)
    if there is None:
        return replace(blank, shapes=(recorded.shape, computed.shape))
    apart, scale = distance(computed, there)
    if not apart.size or apart.max() <= tolerance * scale:
        return None
    at = np.unravel_index(int(apart.argmax()), apart.shape)
    letters = in_order(value, step.equation.left.symbol.slots)
    first = {s: run.program.range_of(s)[0] for s in letters if s not in ("batch", ROW, COL)}
    return replace(
        blank, absolute=float(apart[at]), relative=float(apart[at] / (scale or 1.0)),
        where={s: int(k) + first.get(s, 0) for s, k in zip(letters, at, strict=True)},
        recorded=float(there[at]), computed=float(computed[at]),
    )  # fmt: skip


def aligned(run: Run, step: Step, like: Value, recorded: Array) -> Value:
    """The recorded array with the axes of its equation's value."""
    computed = np.asarray(run.ordered(like, step.equation.left.symbol.slots))
    there = fitted(computed.shape, recorded)
    assert there is not None
    there = np.where(np.isneginf(computed) & (there <= MASKED), -np.inf, there)
    return Value(
        there.astype(computed.dtype, copy=False), in_order(like, step.equation.left.symbol.slots)
    )


def like_left(run: Run, step: Step, recorded: Array) -> Value | None:
    """The recorded array as a value that the card cannot compute, from its type only."""
    t = shapes_of(run.program.model).types.get(step.equation.name)
    if t is None:
        return None
    letters = [s for s in step.equation.left.symbol.slots if s in t.family]
    axes = (*letters, *(ROW, COL)[2 - len(t.shape) :])
    while recorded.ndim > len(axes) and recorded.shape[0] == 1:
        recorded = recorded[0]
    axes = ("batch", *axes) if recorded.ndim == len(axes) + 1 else axes
    return Value(recorded, axes) if recorded.ndim == len(axes) else None
