"""Sweeps of interventions: ``⟨v, x^N_{-1}⟩ with A^{i,h} = 0``, for every block and head at once.

Values that do not depend on the change come from the original run. A letter that an equation leaves
free, and that no condition after ``for`` mentions, is an axis of the answer. Heads, positions and
entries become an axis of the changed value and of everything computed from it; each block is a
separate pass that starts at that block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

from viete.ask.last_rows import by_last_rows
from viete.errors import Text, VieteError
from viete.evaluate.answers import Answer
from viete.evaluate.interventions import Intervention
from viete.evaluate.labelled import COL, ROW, Value, expand, in_order
from viete.evaluate.labels import axis_labels
from viete.evaluate.memos import recent
from viete.evaluate.queries import Query, query
from viete.evaluate.run import Run
from viete.evaluate.schedule import Member, Program, member_name
from viete.graph.card import CardData
from viete.graph.conditions import settled
from viete.graph.evaluator import Letter
from viete.notation.heads import head_of, joint
from viete.notation.printer import show
from viete.notation.substitution import substitute
from viete.notation.tree import Expr, Idx, Ref, Symbol, num, transform
from viete.rewrite.folding_in import FoldingIn, Met, place_of
from viete.rewrite.opening import underived
from viete.rewrite.paths import check_order, paths
from viete.rewrite.put import as_equation, by_groups, check_letters, unbounded
from viete.rewrite.replacement import Naming, Replacement, parse_replacement

QUESTIONS = 8  # cards of questions that stay with the program of a run
VARIED = "@"  # before a letter that is an axis of variants


@dataclass(frozen=True)
class Sweep:
    """Changes of a card, and the letters that they leave free: blocks, and others with a range.

    ``places`` are their sides and readers, as in the question. ``copies`` maps the
    second values that some readers see to the values that they equal where nothing changes.
    """

    program: Program
    changes: Sequence[Replacement]
    places: Sequence[Expr]
    blocks: Mapping[str, Sequence[int]]
    axes: Mapping[str, Letter]
    copies: Mapping[str, str]

    def own(self, member: Member) -> Member:
        """The member of the run that an unchanged value equals."""
        return self.copies.get(member[0], member[0]), member[1]

    @property
    def letters(self) -> tuple[str, ...]:
        return (*self.blocks, *self.axes)


def answer_with(run: Run, name: str, formula: Text, texts: Sequence[Text]) -> Answer:
    """The answer to a question about a formula after changes.

    Raises VieteError for a letter that is free on both sides of ``with``, and where a change does.
    """
    run, e = run.resolved(formula.text)
    about = query(run, e, formula)
    found = sweep(run, texts)
    own = {*about.places, *about.turns[0], *e.free}
    if both := own & {*found.letters}:
        raise formula.error(
            f"{min(both)} is free on both sides of with; write {min(both)}' for one of them"
        )
    values = []
    for blocks in product(*found.blocks.values()):
        at = dict(zip(found.blocks, blocks, strict=True))
        values.append(evaluated(run, found, at, about))
    value = stacked(run, values, found)
    letters = (*found.letters, *value_letters(e))
    order = in_order(value, letters)
    array = run.ordered(value, letters)
    shape = map(str, about.type.shape if value.core else ())
    axes = (*(a for a in order if a not in (ROW, COL)), *shape)
    return Answer(name, array, axes, tuple(
        labels_of(run, found, e, a, n) for a, n in zip(axes, np.shape(array), strict=True)
    ))  # fmt: skip


def value_letters(e: Expr) -> tuple[str, ...]:
    """The letters of a formula in the order of its axes."""
    return tuple(dict.fromkeys(e.symbol.slots if isinstance(e, Ref) else ())) + tuple(
        sorted(e.free)
    )


def labels_of(run: Run, found: Sweep, e: Expr, axis: str, size: int) -> Sequence[str]:
    """The labels of the entries along an axis of the answer."""
    if axis in found.blocks:
        return [str(k) for k in found.blocks[axis]]
    if axis in found.axes:
        place = next(x for x in found.places if axis in x.free)
        return axis_labels(run, place, axis, size)
    return axis_labels(run, e, axis, size)


# -- what is changed -------------------------------------------------------------------------------


def sweep(run: Run, texts: Iterable[Text]) -> Sweep:
    """The changes that some equations make, and the ranges of their letters."""
    card = run.program.model
    changes: list[Replacement] = []
    for text in texts:
        found = parse_replacement(text, card, run.scope)
        if isinstance(found, Naming):
            raise text.error(f"{show(found.left)} is not a value of {card.title}")
        if unbounded(card, found.right):
            found = replace(found, right=query(run, found.right, found.right_text).formula)
        bound = frozenset[str]().union(*(t.free for t in found.conditions))
        check_letters(card, found, {*card.loop_letters, *(found.right.free - bound)})
        check_letters(card, replace(found, right=num(0)))  # conditions are on what is changed
        if any(joint(*pair) in [Idx(x) for x in t.free] for t in found.conditions
               for pair in pairwise(found.left.index)):  # fmt: skip
            found = by_groups(found)
        changes.append(found)
    places: list[Expr] = [x for change in changes
                          for x in (place_of(change), *change.readers, change.right)]  # fmt: skip
    card, changes, copies = equations_of(card, changes)
    ready = run.program
    if card is not run.program.model:
        ready = recent(run.program.questions, ("with", card), lambda: Program(card.unstated).at(
            run.sizes), QUESTIONS)  # fmt: skip
    blocks: dict[str, Sequence[int]] = {}
    axes: dict[str, Letter] = {}
    for change in changes:
        bound = frozenset[str]().union(*(t.free for t in change.conditions))
        for letter, slot, each in free_letters(change):
            if letter in bound or letter in blocks or letter in axes:
                continue
            if slot in card.loop_letters:
                blocks[letter] = sorted({
                    s.makes[1][card.blocks_of(change.left.symbol).index(str(slot))]
                    for s in ready.steps if s.makes[0] == change.left.key
                })  # fmt: skip
            else:
                axes[letter] = letter_of(run, ready, change, letter, slot, each)
        if loose := sorted(change.right.free - {*blocks, *axes, *bound}):
            about = query(run, change.right, change.right_text)
            for letter in loose:
                if letter in about.blocks:
                    blocks[letter] = about.blocks[letter]
                else:
                    axes[letter] = letter_read(run, about, letter)
    return Sweep(ready, changes, places, blocks, axes, copies)


def equations_of(
    card: CardData, changes: Iterable[Replacement]
) -> tuple[CardData, list[Replacement], dict[str, str]]:  # fmt: skip
    """The card in which each change is a change of one equation's value, which all readers see.

    A change that only some readers see becomes a change of second values for these readers; the
    last part maps these to the values they copy.
    """
    out, copies = list[Replacement](), dict[str, str]()
    for change in changes:
        change = replace(change, right=underived(card, change.right))
        card, change = as_equation(card, change)
        if not change.readers:
            out.append(change)
            continue
        if not any(x.free for x in (change.left, *change.readers)):
            check_order(card, change)
        found = paths(card, change)
        card = found.card
        out += found.changes
        copies |= found.copies
    return card, out, copies


def letter_read(run: Run, about: Query, letter: str) -> Letter:
    """A letter of heads or entries that is only on the right side, as an axis of variants."""
    label = VARIED + letter
    if letter in about.places:
        first, count = (int(x.evaluate(run.sizes)) for x in about.places[letter])
        return Letter(label, label, first, count)
    own = run.program.range_of(letter)
    return Letter(label, label, own.start, len(own))


def free_letters(change: Replacement) -> list[tuple[str, str | int, Expr]]:
    """The letters of a left side, with the slot or the axis of each.

    A letter that counts heads of grouped queries is in the slot of their group, and comes with the
    number of heads in a group; for other letters this is 1.
    """
    pairs = list(zip(change.left.symbol.slots, change.left.index, strict=True))
    slots: list[tuple[str | int, Expr]] = [*pairs, *enumerate(change.items)]
    found = [(s, *(head_of(x) or (x, num(1)))) for s, x in slots]
    return [(x.name, s, each) for s, x, each in found if isinstance(x, Idx)]


def letter_of(
    run: Run, ready: Program, change: Replacement, letter: str, slot: str | int, each: Expr
) -> Letter:  # fmt: skip
    """A letter of heads, rows or columns as an axis of variants."""
    label = VARIED + letter
    if isinstance(slot, str):
        own = ready.range_of(slot)
        return Letter(label, label, own.start, len(own) * int(ready.index_size(each, {})))
    size = ready.shapes.types[change.left.key].shape[slot]
    return Letter(label, label, 0, int(size.evaluate(run.sizes)))


def at_blocks(change: Replacement, blocks: Mapping[str, int], axes: Iterable[str]) -> Replacement:
    """A change of one block and one variant, in which the variant's letter is a number."""
    letters: dict[str, Expr] = {s: num(k) for s, k in blocks.items()}
    letters |= {s: Ref(Symbol("dim", VARIED + s)) for s in axes}

    def put(e: Any) -> Any:
        return substitute(e, letters=letters)

    return replace(
        change, left=put(change.left), items=tuple(map(put, change.items)),
        right=put(change.right), conditions=tuple(map(put, change.conditions)),
    )  # fmt: skip


# -- what follows ----------------------------------------------------------------------------------


def evaluated(run: Run, found: Sweep, blocks: Mapping[str, int], about: Any) -> Value:
    """The value of a question with the changes of some blocks, with an axis for each variant."""
    formulas: dict[Member, list[Expr]] = {}
    for change in found.changes:
        single = at_blocks(change, blocks, found.axes)
        for member, formula in new_values(run, found.program, single):
            formulas.setdefault(member, []).append(formula)
    order = {s.makes: k for k, s in enumerate(found.program.steps)}
    needs = {m: frozenset[Member]().union(*(needed(run, found, m, f) for f in fs)) - {m}
             for m, fs in formulas.items()}  # fmt: skip
    old = run.program.members_made
    affected = {*formulas, *(m for m in order if found.own(m) not in old
                             and m[0] not in run.origins)}  # fmt: skip
    for step in found.program.steps:
        if step.needs & affected or needs.get(step.makes, frozenset()) & affected:
            affected.add(step.makes)
    for member, read in needs.items():
        if late := [m for m in read & affected if order[m] >= order[member]]:
            one, other = (member_name(found.program.model.symbols[m[0]], found.program.loops_of(
                found.program.model.symbols[m[0]], m[1])) for m in (late[0], member))  # fmt: skip
            raise VieteError(f"{one} is computed from {other}, so this change is circular")
    inside = {key for key, _ in formulas} & run.inside.keys()
    all_steps = list(found.program.steps)  # what is inside of a sum of few experts is not a value
    made = all_steps if inside else run.without_inside(all_steps)
    steps = [s for s in made if s.makes in affected]
    anew = {key for key, _ in affected - formulas.keys()}
    e = by_last_rows(found.program.model, about.formula, anew.__contains__)
    about = replace(about, formula=e)
    wanted = run.needs(e, about.turns)
    required = {m for m in wanted if m not in affected}
    live, rest, between = set(wanted), set[Member](), wanted & affected
    for step in reversed(steps):
        if step.makes in live:
            new = needs.get(step.makes, frozenset())
            live |= step.needs | new
            rest |= (step.needs | new) - affected
            between |= new & affected
    required |= rest
    run.supply(run.made_of({found.own(m) for m in required}))
    out = run.with_changes(found.program, {m: run.lookup(*found.own(m)) for m in required}, {})
    out.interventions = {m: changing(out, found, m, fs) for m, fs in formulas.items()}
    out.supply(between)
    with np.errstate(all="ignore"):
        return out.evaluate(about)


def needed(run: Run, found: Sweep, member: Member, formula: Expr) -> frozenset[Member]:
    """The values that a new value is computed from."""
    loops = found.program.loops_of(found.program.model.symbols[member[0]], member[1])
    return found.program.needed(formula, loops)


def new_values(
    run: Run, ready: Program, change: Replacement
) -> Iterable[tuple[Member, Expr]]:  # fmt: skip
    """Each value that a change replaces, and the formula that replaces it."""
    card: CardData = ready.model
    fold = FoldingIn(card, change, change.left.symbol, run.sizes)
    found = False
    for e in card.equations:
        where = fold.met(e) if e.name == change.left.key else None
        if where is None:
            continue
        formula = fold.value(e, where, e.left)
        for step in ready.steps:
            mine = step.makes[0] == e.name and step.equation.left == e.left
            if mine and fits(ready, change, step.makes) and holds(ready, where, step.loops):
                found = True
                yield step.makes, formula
    if not found:
        raise change.left_text.error(f"there is no {fold.place} that these conditions admit")


def fits(ready: Program, change: Replacement, member: Member) -> bool:
    """Whether a change is of a value's block, or of every block."""
    blocks = ready.model.block_index(change.left)
    return all(isinstance(x, Idx) or ready.index_size(x, {}) == k
               for x, k in zip(blocks, member[1], strict=True))  # fmt: skip


def holds(ready: Program, where: Met, loops: Mapping[str, int]) -> bool:
    """Whether the conditions of a change may hold in a block."""

    def number(e: Expr) -> Fraction | None:
        try:
            return ready.index_size(e, loops)
        except VieteError:  # it is about entries, or about a variant
            return None

    return not any(settled(test, number) is False for test in where.tests)


def changing(
    run: Run, found: Sweep, member: Member, formulas: Sequence[Expr]
) -> Intervention:  # fmt: skip
    """The intervention that replaces a value by new values, one formula after the other."""
    loops = found.program.loops_of(found.program.model.symbols[member[0]], member[1])
    env = run.arrays.env
    env = replace(env, index={**env.index, **loops, **{x.name: x for x in found.axes.values()}})

    def varied(x: Expr) -> Expr | None:
        axis = isinstance(x, Ref) and x.symbol.kind == "dim" and x.key.startswith(VARIED)
        return Idx(x.key) if axis and isinstance(x, Ref) else None

    def apply(value: Value, batch: int | None) -> Value:
        for formula in formulas:
            run.store[member] = value.frozen()
            value = run.arrays.of(transform(formula, varied), env)
            step = next(s for s in found.program.steps if s.makes == member)
            value = run.full(value, step.equation)
        return value

    return apply


def stacked(run: Run, values: Sequence[Value], found: Sweep) -> Value:
    """The values of all blocks as one array, whose axes of variants have the letters' names."""
    env, xp = run.arrays.env, run.arrays.xp
    out = []
    for value in values:
        missing = [x for x in found.axes.values() if x.label not in value.axes]
        value = run.arrays.spread(value, missing, env) if missing else value
        for letter, x in found.axes.items():
            value = value.relabel(x.label, letter)
        out.append(value)
    if not found.blocks:
        return out[0]
    axes = tuple(dict.fromkeys(a for v in out for a in v.axes))
    arrays = [expand(xp, run.arrays.array(v), v.axes, axes) for v in out]
    whole = xp.stack(xp.broadcast_arrays(*arrays), axis=0)
    counts = [len(numbers) for numbers in found.blocks.values()]
    return Value(xp.reshape(whole, (*counts, *whole.shape[1:])), (*found.blocks, *axes))


__all__ = ["answer_with"]
