"""The roles of equations: every shipped card has what attention is made of, each once."""

from __future__ import annotations

import pytest

import viete as vt
from viete.analysis import roles as role
from viete.analysis.roles import roles
from viete.analysis.traits import Traits
from viete.cards.catalogue import shipped


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_card_has_its_roles(name: str) -> None:
    """Attention has one of each role for every softmax over positions; scores come before all."""
    card = vt.read(name)
    found = [r for own in roles(card) for r in own]
    masks = found.count(role.WEIGHTS)
    assert masks >= 1
    for wanted in (role.SCORES, role.MIX):
        assert found.count(wanted) == masks, wanted
    for wanted in (role.QUERY, role.KEY, role.VALUE):
        assert found.count(wanted) >= masks, wanted
    assert found.count(role.RESIDUAL) == len(Traits(card).residuals())
    assert role.EMBED in found
    if Traits(card).generation() is not None:
        assert role.UNEMBED in found
    assert all(roles(card)), "an equation without a role"


def test_what_plays_no_role_is_left_alone() -> None:
    card = vt.read("dialog-transformer")
    assert roles(card)[0] == (role.EMBED, role.POSITIONS)
    assert roles(card)[7] == (role.OUTPUT,)
    assert roles(card)[-1] == (role.LOSS,)


def test_what_stands_beside_attention_has_a_role_by_who_reads_it() -> None:
    found = {name: [r for own in roles(vt.read(name)) for r in own]
             for name in ("roberta", "t5", "mixtral", "olmo2", "gpt2")}  # fmt: skip
    beside = {role.PLACES, role.COUNTED, role.PAIRS, role.ROUTE, role.SHARE, role.SIZE, role.POOL}
    assert {name: {r: own.count(r) for r in own if r in beside} for name, own in found.items()} == {
        "roberta": {role.COUNTED: 1, role.PLACES: 1, role.POOL: 1}, "t5": {role.PAIRS: 2},
        "mixtral": {role.ROUTE: 1, role.SHARE: 1}, "olmo2": {role.SIZE: 2}, "gpt2": {},
    }  # fmt: skip
