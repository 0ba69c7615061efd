"""The counted costs are those of the arrays that a run really makes, multiplies and reads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import Card, cards, random_weights
from viete import read
from viete.analysis.cost import Costs, Quantity, costs
from viete.cards.catalogue import find
from viete.evaluate.array import COL, ROW, Arrays
from viete.evaluate.run import Run
from viete.evaluate.schedule import parameter_shapes
from viete.meanings.run import run

LONG = 5  # the length of all texts
COUNTS = ("forward.total", "backward.total", "activations", "cache.full")


@contextmanager
def traced() -> Iterator[list[int]]:
    """Operations of every product that is computed inside."""
    seen: list[int] = []
    contract = Arrays.contract

    def counted(self: Arrays, a: Any, b: Any, over: tuple[str, ...]) -> Any:
        if not (a.const and b.const):
            sizes = {label: v.size(label) for v in (a, b) for label in v.axes}
            seen.append(2 * math.prod(sizes.values()))
        return contract(self, a, b, over)

    with patch.object(Arrays, "contract", counted):
        yield seen


def check(model: vt.Card, inputs: dict[str, Any], batch: int) -> tuple[Costs, Run]:
    """Products, activations and parameters of a run against what was counted."""
    lengths = {
        item.shape[0].key: np.shape(inputs[item.name])[-1]
        for item in model.inputs if item.name in inputs
    }  # fmt: skip
    found = costs(model, lengths, batch)
    with traced() as products:
        made = run(model, None, random_weights(model), exact_definitions=True, **inputs)
    assert found.forward.products.number == sum(products)
    assert found.activations.number == sum(np.size(made[name]) for name in made)
    shapes = parameter_shapes(model)
    assert found.parameters.total.number == sum(math.prod(s) for s in shapes.values())
    return found, made


@given(cards(), st.sampled_from([None, 2]))
def test_random_cards(card: Card, batch: int | None):
    check(card.model, card.given(LONG, batch), batch or 1)


SMALL = {
    "pythia": lambda H, k, N: dict(V=7, N=N, H=H, d=8 * H * k, d_f=5, n_max=9),
    "gpt2": lambda H, k, N: dict(V=7, N=N, H=H, d=H * k, n_max=9),
    "llama": lambda H, k, N: dict(V=7, N=N, H=2 * H, G=H, d=4 * H * k, d_f=3, n_max=9),
    "bert": lambda H, k, N: dict(V=7, N=N, H=H, d=H * k, d_f=5, n_max=9),
    "simple-transformer": lambda H, k, N: dict(V=7, H=H, d=k, d_h=2 * H * k, T_max=9),
    "transformer-2017": lambda H, k, N: dict(V=7, N=N, H=H, d=2 * H * k, d_f=3, n_max=9),
}


def small(name: str, H: int, k: int, N: int, batch: int | None) -> tuple[vt.Card, dict[str, Any]]:
    """A shipped card of few dimensions, and inputs for it."""
    model = read(find(name)).bind(**SMALL[name](H, k, N))
    rng = np.random.default_rng(0)
    lead = () if batch is None else (batch,)
    inputs = {
        item.name: rng.integers(0, 7, (*lead, LONG + 2 * (item.name == "s")))
        for item in model.inputs if item.default is None
    }  # fmt: skip
    return model, inputs


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=12)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.sampled_from([None, 1, 3]))
def test_shipped_cards(name: str, H: int, k: int, N: int, batch: int | None):
    check(*small(name, H, k, N, batch), batch or 1)


EVERY_PRODUCT = r"""
# m
## Dimensions
| symbol | value |
| --- | --- |
| $d$ | 4 |
| $N$ | 3 |
| $H$ | 2 |
| $n$ | $≤ 9$ |
| $h$ | $1, …, H$ |
| $g$ | $1, …, H$ |
## Inputs
- $t ∈ \{0, …, 6\}^n$
## Parameters
| symbol | shape |
| --- | --- |
| $E$ | $7 × d$ |
| $W^i$ | $d × d$ |
| $U^h, R^{h,g}$ | $d × d$ |
| $v$ | $d$ |
| $w$ | $1 × d$ |
## Functions
- $twice(x; A) = x A A$: two products
## Forward pass
1. $x^0 = E[t]$

For $i = 1, …, N$:

2. $x^i = tanh(x^{i-1} W^i)$
3. $s = \sum_{i=1}^{N} x^{i-1} W^i v$: a matrix on a vector, in every block
4. $c = sum(x^N) w$: a column times a row
5. $a = <x^N_0, v U^2>$: an inner product, one head
6. $P^h = U^h U^h$: of weights alone
7. $q^h = twice(x^N; P^h)$
8. $r = concat_h(x^N U^h)$
9. $z = \sum_h \sum_g x^N R^{h,g} U^h$: a sum within a sum
11. $G = \sum_{j=0}^{n-1} (x^N_j ⊙ x^N_j)$: entries alone
12. $Z = x^N {x^N}^T$
13. $y = Z sum(x^N)$: a matrix on a column
"""


@pytest.mark.parametrize("batch", [None, 3])
def test_every_kind_of_product(batch: int | None):
    shape = (LONG,) if batch is None else (batch, LONG)
    check(read(EVERY_PRODUCT), {"t": np.zeros(shape, dtype=int)}, batch or 1)


@given(cards(), st.integers(1, 40))
def test_costs_are_linear_in_blocks(card: Card, blocks: int):
    if "loop" not in card.has:
        return
    one, two, many = (costs(card.model.bind(N=n)) for n in (1, 2, 1 + blocks))
    for what in (
        "forward.total",
        "backward.total",
        "activations",
        "cache.full",
        "parameters.total",
    ):
        a, b, c = (part(x, what).number for x in (one, two, many))
        assert c == a + blocks * (b - a)


def part(found: Any, path: str) -> Quantity:
    """One quantity of many, by its name with dots."""
    for name in path.split("."):
        found = getattr(found, name)
    return found


@given(cards())
def test_the_formula_gives_the_number(card: Card):
    found = costs(card.model, {"n": LONG})
    values = {**card.model.sizes, "n": LONG}
    for what in (*COUNTS, "weights"):
        quantity = part(found, what)
        assert quantity.symbolic.evaluate(values) == quantity.number


# -- the cache -------------------------------------------------------------------------------------


def read_across(made: Run) -> set[str]:
    """Named values of which another position's result changes when one position is disturbed."""
    rng = np.random.default_rng(1)
    found = set()
    for step in made.program.steps:
        env = made.arrays.env
        env = replace(env, index={**env.index, **step.loops})
        for member in step.needs:
            v = made.store[member]
            own = position_axis(v)
            if own is None or member[0] not in {e.name for e in made.program.model.equations}:
                continue
            before = made.arrays.of(step.equation.right, env)
            changed = v.array.copy()
            place = tuple(2 if a == own else slice(None) for a in v.axes)
            changed[place] += rng.standard_normal(changed[place].shape)
            made.store[member] = replace(v, array=changed)
            after = made.arrays.of(step.equation.right, env)
            made.store[member] = v
            axis = position_axis(before)
            if axis is not None:
                moved = differ(before.array, after.array).any(
                    axis=tuple(k for k, a in enumerate(before.axes) if a != axis)
                )
                if moved[[j for j in range(LONG) if j != 2]].any():
                    found.add(member[0])
    return found


def differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ~np.isclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True)


def position_axis(v: Any) -> str | None:
    """Rows, else columns, that are as long as the text: no other size is 5."""
    return next((a for a in (ROW, COL) if a in v.axes and v.size(a) == LONG), None)


@given(cards(causal=True))
def test_cached_is_what_later_positions_read(card: Card):
    model = card.model.bind(V=7)
    made = run(model, None, random_weights(model), exact_definitions=True, **card.given(LONG))
    cache = costs(model, {"n": LONG}).cache
    assert cache.why == ""
    assert {r.left.key for r in cache.rows} == read_across(made)
    kept = sum(np.size(made[name]) for name in made
               if made.program.names[name][0] in {r.left.key for r in cache.rows})  # fmt: skip
    assert cache.per_token.number * LONG == kept


@given(cards())
def test_a_card_has_a_cache_exactly_if_no_position_sees_a_later_one(card: Card):
    inputs = card.given(LONG)
    weights = card.weights()
    cache = costs(card.model).cache
    token = card.model.inputs[0].name
    one = run(card.model, None, weights, names=["logits"], **inputs)["logits"]
    inputs[token] = inputs[token].copy()
    inputs[token][-1] = (inputs[token][-1] + 1) % card.vocabulary
    two = run(card.model, None, weights, names=["logits"], **inputs)["logits"]
    blind = not differ(one[:-1], two[:-1]).any()
    if cache.rows:
        assert blind and card.causal
    else:
        assert not card.causal and "reads later positions" in cache.why
