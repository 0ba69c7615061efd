"""With all edges, a card in which every reader has a stream of its own computes what it did."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.laws import strategies
from tests.laws.held_rewritings import check
from tests.laws.programs import Program
from viete.analysis.next_token import scores
from viete.circuits.card import circuit_card, live_edges, weights_of
from viete.circuits.edges import Wiring
from viete.circuits.names import literal
from viete.errors import VieteError
from viete.evaluate.schedule import program
from viete.notation.printer import show
from viete.notation.tree import Ref, num, refs

SHIPPED = strategies.shipped()
NO_STREAM = tuple(
    """simple-transformer dialog-transformer dialog-depth dialog-heads dialog-norm
    letters-table letters-vectors letters-attention letters-causal""".split()
)


@pytest.mark.parametrize("path", [p for p in SHIPPED if Path(p).stem not in NO_STREAM])
def test_all_edges_are_the_card(path: str) -> None:
    holds(strategies.tiny(path))


@pytest.mark.parametrize("added", [
    "sum_{s=2}^{S}(s * y^{s - 1})",  # a sum with limits of its own reads the heads before
    "y^S + tanh(y^S)",  # a member that a size names
])  # fmt: skip
def test_a_sum_of_some_heads_has_their_edges(added: str) -> None:
    text = rf"""# Some heads
## Dimensions
| symbol | value |
| --- | --- |
| $d$ | 2 |
| $V$ | 3 |
| $S$ | 3 |
| $n$ | $≤ 4$ |
| $s$ | $1, …, S$ |
## Inputs
- $t ∈ \{{0, …, V-1\}}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $V × d$ |
| $U^s$ | $d × d$ |
| $W$ | $d × V$ |
## Forward pass
1. $x = E[t]$
1. $y^s = x U^s$
1. $g = {added}$
1. $r = x + g$
1. $logits = r W$
"""
    check("all edges of a circuit are the card", Program(1, 1, text, frozenset(), "logits"))


@pytest.mark.parametrize("block", [0, 1])
def test_a_stream_of_one_term_is_read_by_another_name(block: int) -> None:
    """What is asked for is the stream itself, which one embedding writes."""
    card = strategies.tiny("gpt2")
    symbol = next(e.left.symbol for e in card.equations if e.name == "x^i")
    holds(card, Ref(symbol, (num(block),)))


def holds(card: vt.Card, root: Ref | None = None) -> None:
    """The sum of the writers is the stream, and the readers are all that read it."""
    try:
        name = scores(card)
    except VieteError:
        name = card.equations[-1].name
    root = root or next(e.left for e in card.equations if e.name == name)
    name = show(root)
    ready = program(card)
    wiring = Wiring(ready, [root])
    whole = circuit_card(wiring)
    weights = card.initial_weights(seed=1)
    found = vt.Card.of(whole.card)
    inputs = strategies.random_inputs(card)
    given = {i.name: inputs[i.name] for i in found.inputs}
    mine = found.run(weights=weights_of(ready, weights, whole.weights), **given)
    run = card.run(weights=weights, **inputs)
    np.testing.assert_allclose(mine[name], run[name], rtol=0, atol=1e-12)
    assert vt.read(found.write()) == found
    own = {p.stream for p in wiring.ports}
    for made in wiring.made.values():
        read = {literal(x) for x in refs(made.right) if x.symbol.kind == "value"}
        assert read <= own | wiring.made.keys()
        assert read & own == {p.stream for p in made.ports}
    assert {w for p in wiring.ports for w in p.writers} <= wiring.made.keys()
    assert live_edges(wiring, wiring.edges) == wiring.edges
    assert live_edges(wiring, ()) == ()
