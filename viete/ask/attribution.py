"""Attribution: how much each value contributes to a number, to first order and exactly.

To first order it is the derivative of the number with respect to the value, times the distance of
the value from another run's value (attribution patching) or from 0 (gradient × input). With several
steps, the mean of the derivatives along the way counts (integrated gradients: Sundararajan, Taly &
Yan 2017); the attributions then add up to the difference that all values make together. The exact
effect of one value is the change when only that value is replaced by the other run's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from viete.ask.asking import asked
from viete.ask.holding import with_held
from viete.ask.term_table import floats
from viete.document.displayed import Displayed
from viete.document.rendering import render
from viete.document.tree import Block, table
from viete.errors import VieteError
from viete.evaluate.interventions import Intervention
from viete.evaluate.labelled import Array, Value
from viete.evaluate.origins import Origin, whole_names
from viete.evaluate.queries import query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member
from viete.notation.printer import show
from viete.notation.substitution import substitute
from viete.notation.tree import (
    Expr,
    Idx,
    Pick,
    Ref,
    num,
    replaced,
    walk,
)


@dataclass(frozen=True)
class Effect:
    """The contribution of a value to a number: the estimate, and the exact effect if asked for."""

    name: str
    estimate: float
    exact: float | None = None


@dataclass(frozen=True)
class Attribution(Displayed):
    """The contribution of each member of a family of values to a number.

    ``entries`` has the axes ``axes``: the letters of ``by``, then the rows and columns of a member.
    ``estimate`` is its sum over these, and ``exact`` has an effect for each member, or is None. For
    several texts all are sums.
    """

    of: str
    by: Expr
    axes: tuple[str, ...]
    entries: Array
    letters: Mapping[str, Sequence[int]]
    exact: np.ndarray | None = None

    @property
    def estimate(self) -> np.ndarray:
        """The first-order effect of each member."""
        a = floats(self.entries)
        return a.sum(axis=tuple(range(len(self.letters), a.ndim)))

    def __iter__(self) -> Iterator[Effect]:
        """The effects of the members, the largest first."""
        estimate = self.estimate
        shares = []
        for place in np.ndindex(estimate.shape):
            at = dict(zip(self.letters, place, strict=True))
            put: dict[str, Expr] = {x: num(self.letters[x][k]) for x, k in at.items()}
            exact = None if self.exact is None else float(self.exact[place])
            name = show(substitute(self.by, letters=put), "unicode")
            shares.append(Effect(name, float(estimate[place]), exact))
        return iter(sorted(shares, key=lambda s: -abs(s.estimate)))

    def page(self, style: str = "unicode", top: int | None = None) -> list[Block]:
        """A table with a row for each of the largest effects."""
        header = ["value", "estimate", "exact"][: 2 + (self.exact is not None)]
        rows = [[s.name, f"{s.estimate:+.4f}", *([] if s.exact is None else [f"{s.exact:+.4f}"])]
                for s in list(self)[:top]]  # fmt: skip
        return [table(header, rows)]

    def __str__(self) -> str:
        return render(self.page(), "text")


def attributed(
    run: Run, of: str, by: str, against: Run | None = None, steps: int = 1, exact: bool = False,
    held: Sequence[str] = (),
) -> Attribution:  # fmt: skip
    """Attribute a number of a run to the values ``by``; see `viete.nouns.run.Questions.attribute`.

    Raises VieteError for a ``by`` that is not a value of an equation.
    """
    asked_by = run.parse(by)
    ref = asked_by.value if isinstance(asked_by, Pick) else asked_by
    if not isinstance(ref, Ref) or ref.key not in run.program.computed:
        raise VieteError(f"attribution is to a value, such as A^{{i,h}}, not {by}")
    if steps < 1:
        raise VieteError(f"steps, the number of derivatives, must be at least 1, not {steps}")
    base = with_held(run, held)
    instead = "0" if against is None else primed(asked_by, ref)
    slope = f"(∂({of})/∂{show(asked_by)})"
    total: Value | None = None
    turns = query(run, ref).turns
    for k in range(steps):
        # One step is the derivative where the run is; of several each is in the middle of its part.
        at = base if steps == 1 else with_held(
            moved(run, ref, turns, against, (k + 0.5) / steps), held)  # fmt: skip
        ask = asked(at, {}, None)
        found, _ = ask.found(slope)
        total = found if total is None else run.arrays.entrywise("add", [total.frozen(), found])
    assert total is not None
    ask = asked(run, {}, against)
    distance, _ = ask.found(f"({by} - {instead})")
    mean = run.arrays.entrywise("div", [total.frozen(), run.arrays.number(Fraction(steps))])
    entries = run.arrays.entrywise("times", [mean.frozen(), distance.frozen()])
    names = [x.name for x in walk(asked_by) if isinstance(x, Idx)]
    letters = numbers(run, asked_by)
    effects = effect(ask, of, by, instead, names) if exact else None
    array = run.ordered(entries, names)
    if "batch" in entries.axes:  # the first axis; an effect on several texts is that on their sum
        array = array.sum(0)
    rest = len(getattr(array, "shape", ())) - len(names)
    return Attribution(
        of, asked_by, (*names, *("row", "column")[-rest:][:rest]), array, letters, effects
    )


def primed(e: Expr, ref: Ref) -> str:
    """The name, with primes, of a second run's value or of a row of it."""
    other = replace(ref, symbol=replace(ref.symbol, base=ref.symbol.base + "'"))
    return show(replaced(e, {ref: other}))


def numbers(run: Run, e: Expr) -> dict[str, Sequence[int]]:
    """The values of each free letter: the card's blocks, all heads, all positions."""
    q = query(run, e)
    out: dict[str, Sequence[int]] = {}
    for letter in [x.name for x in walk(e) if isinstance(x, Idx)]:
        if letter in q.blocks:
            out[letter] = q.blocks[letter]
        elif letter in q.places:
            first, count = (int(x.evaluate(run.sizes)) for x in q.places[letter])
            out[letter] = range(first, first + count)
        else:
            out[letter] = list(run.program.range_of(letter))
    return out


def rerun(run: Run, changes: Mapping[Member, Intervention]) -> Run:
    """The run again, with some values replaced."""
    there = {key for key, _ in run.store} | run.origins.keys()
    absent = {i.name for i in run.program.model.inputs} - there  # such as the targets of a loss
    names = set(whole_names(run.program.model)) - run.program.computed - absent
    origins = {name: Origin(run, name, {}) for name in names}
    new = run.extended(run.program, run.sizes, {}, origins)
    new.interventions = dict(changes)
    return new


def moved(
    run: Run, ref: Ref, turns: Sequence[Mapping[str, int]], against: Run | None, part: float
) -> Run:
    """The run with a family's values on the way from the other run's, or from 0, to their own."""
    changes = {}
    for turn in turns:
        member = ref.key, run.program.places(ref, turn)
        run.supply({member})
        here = run.lookup(*member)
        there = other(run, member, against)
        value = between(run, there, here, part)
        changes[member] = always(value)
    new = rerun(run, changes)
    new.compute_members(None)
    new.interventions = {}  # they are values now: a derivative is one by what took their place
    return new


def always(value: Value) -> Intervention:
    """An intervention that always puts in one value."""
    return lambda *_: value


def other(run: Run, member: Member, against: Run | None) -> Value:
    """The value that replaces a member: another run's, or 0."""
    if against is None:
        return run.arrays.entrywise(
            "times", [run.lookup(*member).frozen(), run.arrays.number(Fraction(0))]
        )
    against.supply({member})
    return against.lookup(*member)


def between(run: Run, a: Value, b: Value, part: float) -> Value:
    """A value on the line from one value to another."""
    arrays = run.arrays
    way = arrays.entrywise("sub", [b.frozen(), a.frozen()])
    step = arrays.entrywise("times", [way.frozen(), Value(part, (), True)])
    return arrays.entrywise("add", [a.frozen(), step.frozen()]).frozen()


def effect(
    run: Run, of: str, by: str, instead: str, letters: Sequence[str]
) -> np.ndarray:  # fmt: skip
    """The decrease of a number when another value replaces one member, for each separately."""
    changed = run.answer(f"({of}) with {by} = {instead}")
    whole, found = floats(run[of]), floats(changed.array)
    order = [changed.axes.index(x) for x in letters]
    found = np.moveaxis(found, order, range(len(order)))
    left: np.ndarray = found.sum(axis=tuple(range(len(order), found.ndim)))
    return whole.sum() - left


__all__ = ["Attribution", "Effect", "attributed"]
