"""Claims checked on runs: each index letter gets its values, and the verdicts are combined.

A claim is about every block, head and position, except for the letters that it restricts. A letter
after ``for some`` has one value for all texts if it counts blocks or heads, and one value in each
text if it counts positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from viete.ask.statements import CASE, StatementOnRun, Witness
from viete.errors import VieteError
from viete.evaluate.labelled import Array, Value
from viete.evaluate.queries import turns, with_bounds
from viete.evaluate.run import Run
from viete.graph.claim import Claim
from viete.graph.evaluator import Env, Letter
from viete.meanings.run import meaning_of
from viete.notation.printer import show
from viete.notation.tree import Apply, Expr, Idx

EXACT = "exact"
MOST_CASES = 20_000_000  # of the letters that a claim restricts, together

Choice = tuple[tuple[str, int], ...]  # values of the letters of which one is enough


@dataclass(frozen=True)
class Finding:
    """The result of checking a claim for some values of its letters.

    ``failure`` is where it is false, ``closest`` where a true one comes nearest to failing, and
    ``choice`` the chosen values of letters that need one value only. It is ``empty`` if nothing
    satisfies its conditions.
    """

    failure: Witness | None = None
    closest: Witness | None = None
    choice: Choice = ()
    empty: bool = False

    @property
    def ok(self) -> bool:
        """Whether the claim is not empty and holds."""
        return self.failure is None and not self.empty


def all_of(outcomes: Iterable[Finding]) -> Finding:
    """The finding of a claim that holds if each of these does: the worst of them."""
    found = [x for x in outcomes if not x.empty]
    if not found:
        return Finding(empty=True)
    return max(found, key=badness)


def one_of(outcomes: Iterable[Finding]) -> Finding:
    """The finding of a claim that holds if one of these does: the best of them."""
    found = [x for x in outcomes if not x.empty]
    if not found:
        return Finding(empty=True)
    return min(found, key=badness)


def badness(x: Finding) -> tuple[bool, float]:
    """A sort key: findings that fail come last, and a larger excess comes later."""
    worst = x.failure or x.closest
    if worst is None:
        return x.failure is not None, -np.inf
    return x.failure is not None, worst.excess


def outcomes(run: Run, claim: Claim) -> dict[Choice, Finding]:
    """The findings of a claim on one run, for each choice of the blocks and heads in ``some``.

    Raises VieteError, with the claim's place, for a value that the run does not have.
    """
    found: dict[Choice, dict[Choice, list[Finding]]] = {}
    bounds = run.program.shapes.claimed(claim)[1].bounds
    claim = claim.over(lambda e: with_bounds(run, e, bounds))
    for choice, own, place, env in instances(run, claim):
        try:
            with np.errstate(all="ignore"):
                made = outcome(run, claim, place, env)
        except VieteError as error:
            raise claim.text.error(error.message) from None
        found.setdefault(choice, {}).setdefault(own, []).append(made)
    out = {}
    for choice, group in found.items():
        each = (replace(all_of(made), choice=(*choice, *own)) for own, made in group.items())
        out[choice] = one_of(each)
    return out


def outcome(run: Run, claim: Claim, place: Mapping[str, int], env: Env[Value]) -> Finding:
    """The finding of a claim for given values of its blocks and of the chosen letters."""
    inner = chosen(run, claim, env)
    if inner is None:
        return Finding(empty=True)
    statement = StatementOnRun(run.arrays, inner, run.in_words, meaning_of(run) == EXACT)
    failure = statement.failure(claim.statement)
    closest = statement.closest() if failure is None else None
    failure, closest = (
        None if x is None else replace(x, where={**place, **x.where}) for x in (failure, closest)
    )
    return Finding(failure, closest)


def instances(
    run: Run, claim: Claim
) -> Iterator[tuple[Choice, Choice, dict[str, int], Env[Value]]]:
    """Every value of a claim's block letters and of those in ``some``.

    Yields the choice of blocks and heads, that of positions, the values of all other block letters,
    and the meanings of all letters.
    """
    base = run.arrays.env
    own = run.axis_letters(run.program.shapes.claimed(claim)[1].places)
    index: dict[str, Any] = {**base.index, **own}
    each = turns(run, claim.implication)
    ranges: dict[str, Iterable[int]] = {s: sorted({turn[s] for turn in each}) for s in each[0]}
    for s in claim.some:
        if s not in ranges:
            if s not in index:
                raise claim.text.error(f"the claim has no letter {s} for its 'for some {s}'")
            ranges[s] = range(index[s].first, index[s].first + index[s].count)
    for values in product(*ranges.values()):
        place = dict(zip(ranges, values, strict=True))
        choice = tuple((s, place[s]) for s in claim.some if s not in own)
        inner = tuple((s, place[s]) for s in claim.some if s in own)
        shown = {s: k for s, k in place.items() if s not in claim.some}
        yield choice, inner, shown, replace(base, index={**index, **place})


def chosen(run: Run, claim: Claim, env: Env[Value]) -> Env[Value] | None:
    """The letters with the values that satisfy a claim's conditions, case by case.

    None if no values do. Letters without conditions keep all their values, and need no cases.
    """
    conditions = [*in_ranges(claim), *claim.given]
    about = frozenset[str]().union(*(c.free for c in conditions))
    axes = {s: x for s, x in env.index.items() if s in about and isinstance(x, Letter)}
    count = prod(x.count for x in axes.values())
    if count > MOST_CASES:
        raise VieteError(
            f"{', '.join(axes)} have {count:,} values together, and at most {MOST_CASES:,} are "
            "checked, so give shorter texts"
        )
    grid = np.indices([x.count for x in axes.values()]).reshape(len(axes), count)
    cases = {s: row + x.first for (s, x), row in zip(axes.items(), grid, strict=True)}
    for condition in conditions:
        env = with_cases(env, cases)
        truth = StatementOnRun(run.arrays, env, exact=meaning_of(run) == EXACT).truth(condition)
        if not set(truth.axes) <= {CASE}:
            raise VieteError(
                f"{show(condition)} is not a condition on letters: it differs from entry to entry"
            )
        holds = np.broadcast_to(truth.holds, (count,) if cases else ())
        count = int(holds.sum())
        if not count:
            return None
        cases = {s: row[holds] for s, row in cases.items()}
    return with_cases(env, cases)


def with_cases(env: Env[Value], cases: Mapping[str, Array]) -> Env[Value]:
    """The environment in which some letters have these values, one for each case."""
    made = {
        s: Value(row.astype(np.float64), (CASE,), True, False, (int(row.min()), int(row.max())))
        for s, row in cases.items()
    }
    return replace(env, index={**env.index, **made})


def in_ranges(claim: Claim) -> Iterator[Expr]:
    """The ranges of a claim as conditions."""
    for letter, first, last in claim.ranges:
        yield Apply("ge", (Idx(letter), first))
        yield Apply("le", (Idx(letter), last))


__all__ = ["Choice", "Finding", "all_of", "one_of", "outcomes"]
