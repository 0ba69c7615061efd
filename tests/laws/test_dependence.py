"""Dependence found in the equations is that of a run: slices, who makes what, which positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import Card, cards, shipped, tiny
from viete.analysis.def_use import def_use
from viete.analysis.flows import flows_of
from viete.evaluate.schedule import Member, program
from viete.graph.card import CardData
from viete.graph.dependence import backward_slice, forward_slice
from viete.meanings.run import run
from viete.notation.tree import Ref
from viete.rewrite.incremental import IncrementalForm


@given(card=cards(), data=st.data())
def test_a_value_needs_its_backward_slice_alone(card: Card, data: st.DataObject) -> None:
    model = card.model
    name = data.draw(st.sampled_from([e.name for e in model.equations]))
    alone = replace(model.unstated, equations=tuple(backward_slice(model, [name])), derived=(),
                    claims=())  # fmt: skip
    whole, part = (run(m, None, card.weights(), **card.given()) for m in (model, alone))
    members = [s.makes for s in program(alone).steps if s.makes[0] == name]
    assert members
    for member in members:
        np.testing.assert_array_equal(part.store[member].array, whole.store[member].array)


@given(card=cards(), data=st.data())
def test_outside_a_forward_slice_nothing_changes(card: Card, data: st.DataObject) -> None:
    model, weights = card.model, card.weights()
    name = data.draw(st.sampled_from(sorted(program(model).parameters)))
    other = {**weights, name: weights[name] + 1}
    key = program(model).parameters[name][0].name
    reached = forward_slice(model, [key])
    before, after = (run(model, None, w, **card.given()) for w in (weights, other))
    changed = {s.makes[0] for s in program(model).steps if not np.array_equal(
        before.store[s.makes].array, after.store[s.makes].array, equal_nan=True)}  # fmt: skip
    assert changed <= reached


def read_in_a_run(card: CardData) -> set[tuple[int, int, bool]]:
    """(reader, maker, from an earlier turn of their loop) of all values in the unrolled equations.

    Equations are named by their positions, as in `DefUse`.
    """
    number = {(e.left, e.loop): k for k, e in enumerate(card.equations)}
    made: dict[Member, tuple[int, Mapping[str, int]]] = {}
    found = set()
    for step in program(card).steps:
        k, loop = number[step.equation.left, step.equation.loop], step.equation.loop
        for member in step.needs & made.keys():
            j, turn = made[member]
            inside = loop is not None and card.equations[j].loop == loop
            found.add((k, j, inside and turn != step.loops))
        made[step.makes] = k, step.loops
    return found


@pytest.mark.parametrize("path", shipped(), ids=lambda p: p.rsplit("/", 1)[-1])
def test_who_makes_what_a_shipped_card_reads(path: str) -> None:
    card = tiny(path)
    check_uses(card)
    blocks = {x.upper.key: 3 for x in card.loops if isinstance(x.upper, Ref)}
    assert check_uses(card.unstated.bind(**blocks)) or not card.loops


@given(card=cards())
def test_who_makes_what_a_random_card_reads(card: Card) -> None:
    check_uses(card.model)


def check_uses(card: CardData) -> bool:
    """Whether there are enough blocks for every use to happen is given back."""
    found = {(u.reader, u.maker, u.around) for u in def_use(card).all if u.maker is not None}
    read = read_in_a_run(card)
    assert read <= found
    turns = [program(card).range_of(loop.index) for loop in card.loops]
    several = all(len(turn) > 2 for turn in turns)  # x^0 and x^{i-1} both are read
    assert not several or read == found
    return several


@given(card=cards(causal=True), data=st.data())
def test_a_row_depends_on_no_later_token(card: Card, data: st.DataObject) -> None:
    """What `Flows` say of each value, held against a run with another token."""
    form = IncrementalForm(card.model, None, False)
    form.derive()
    found = zip(form.model.equations, flows_of(form.model).found, strict=True)
    flows = {e.name: v for e, (v, _) in found if e.name in form.dependent - form.refusals.keys()}
    given_tokens, weights = card.given(), card.weights()
    name = form.tokens.name
    place = data.draw(st.integers(0, len(given_tokens[name]) - 1))
    other = given_tokens[name].copy()
    other[place] = (other[place] + 1) % card.vocabulary
    before, after = (run(card.model, None, weights, **{**card.given(), name: t})
                     for t in (given_tokens[name], other))  # fmt: skip
    for step in program(card.model).steps:
        v, axes = flows.get(step.makes[0]), before.store[step.makes].axes
        if v is None or v.own is None:
            continue
        rows = [slice(None)] * len(axes)
        for label in axes:
            hidden = v.mask is not None and (v.mask.now, v.mask.later) == (v.own, label)
            if label in v.axes and v.axes[label].place == v.place and not hidden:
                rows[axes.index(label)] = slice(place)
        np.testing.assert_array_equal(
            before.store[step.makes].array[tuple(rows)], after.store[step.makes].array[tuple(rows)]
        )
