"""A slice is what its name says: outside of it nothing is needed, and nothing changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.strategies import Card, cards
from viete.evaluate.schedule import program
from viete.graph.dependence import backward_slice, forward_slice
from viete.meanings.run import run


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
