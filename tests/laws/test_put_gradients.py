"""Gradients of changed cards: whatever is put to 0, ∂ of every value is that of autograd.

Autograd differentiates the card as it was, with hooks that put the same to 0. Not only weights: a
value of which the definition was opened below a condition has its derivative too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import viete as vt
from tests.laws.strategies import cards, random_inputs, random_weights, shipped, tiny
from viete.evaluate.schedule import member_name, program
from viete.rewrite.adjoint.grad import with_loss

torch = pytest.importorskip("torch")

from tests.laws.differentiating import loss_of  # noqa: E402

Hook = Callable[[Any], Any]


def put_to_zero(card: vt.Card, random: Random, most: int) -> tuple[list[str], dict[str, Hook]]:
    """Changes to 0 of some values, of a head, a row or an entry of them; and hooks for the same."""
    types, ready = card.shapes.types, program(card)
    texts, hooks = list[str](), dict[str, Hook]()
    found = [e for e in card.equations if types[e.name].kind == "real"][:-1]
    for e in random.sample(found, min(most, len(found))):
        symbol, block = e.left.symbol, dict[str, int]()
        if e.loop is not None:
            block[e.loop.index] = random.choice(ready.range_of(e.loop.index))
        elif e.left != symbol.member:  # x^0
            block = {s: int(card.size(x).number()) for s, x in zip(
                symbol.slots, e.left.index, strict=True)}  # fmt: skip
        name, heads = member_name(symbol, block), card.heads_of(symbol)
        rank = len(types[e.name].shape)
        one = random.random() < 0.5
        places = (0,) * random.randint(0, rank)
        text = name + f"[{', '.join('0' for _ in places)}]" * bool(places) + " = 0"
        starts = {s: ready.range_of(s).start for s in heads} if one else {}
        texts.append(text + " for " * bool(starts) + ", ".join(
            f"{s} = {k}" for s, k in starts.items()))  # fmt: skip
        at = (0,) * len(heads) if one else (slice(None),) * len(heads)

        def hook(a: Any, at: tuple[Any, ...] = (*at, *places)) -> Any:
            there = torch.ones_like(a)
            there[at] = 0
            return a * there

        hooks[name] = hook
    return texts, hooks


def holds(card: vt.Card, of: str | None, weights: dict[str, Any], inputs: dict[str, Any],
          random: Random, most: int) -> None:  # fmt: skip
    """∂ of all weights and values of the card with changes is what autograd says."""
    whole, loss = with_loss(card, of)
    leaves = {k: torch.tensor(np.asarray(v), requires_grad=True) for k, v in weights.items()}
    given = {k: torch.tensor(np.asarray(v)) for k, v in inputs.items()}
    texts, hooks = put_to_zero(card, random, most)
    while True:  # what divides by a length may be left without one
        run = vt.Card.run(whole, None, leaves, put=hooks, **given)
        if bool(torch.isfinite(run[loss.key])):
            break
        texts.pop()
        hooks.popitem()
    values = leaves | {k: run[k] for k in run if k != loss.key and run[k].requires_grad}
    slopes = torch.autograd.grad(run[loss.key], list(values.values()), allow_unused=True)
    truth = {k: s.numpy() for k, s in zip(values, slopes, strict=True) if s is not None}
    try:
        derived = card.put(*texts).grad(of)
    except vt.VieteError as error:
        assert "does not depend" in error.message, texts
        assert not any(truth[k].any() for k in weights if k in truth), texts
        return
    found = derived.run(None, weights, **inputs)
    close = 1e-9 * max((float(np.abs(s).max(initial=0)) for s in truth.values()), default=0)
    for name in found:
        key = re.sub(r"^partial\{(.+?)\}", r"\1", name)
        if key != name and key in truth and np.isfinite(truth[key]).all():
            np.testing.assert_allclose(found[name], truth[key], rtol=1e-7, atol=close + 1e-12,
                                       err_msg=f"∂{key} after {texts}")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("path", shipped(), ids=lambda path: Path(path).stem)
def test_a_shipped_card(path: str) -> None:
    card = tiny(path)
    weights = {k: v + (v.ndim == 1) for k, v in random_weights(card, 1, scale=0.3).items()}
    holds(card, loss_of(card), weights, random_inputs(card), Random(Path(path).stem), 6)


@settings(max_examples=6, deadline=None)
@given(cards(), st.randoms(use_true_random=False))
def test_a_random_card(card: Any, random: Random) -> None:
    holds(card.model, loss_of(card.model), card.weights(), card.given(), random, 3)


ROWS = r"""# Rows of what a block reads
## Dimensions
| symbol | value |
| --- | --- |
| $n$ | 3 |
| $d$ | 2 |
| $N$ | 2 |
## Parameters
| symbol | shape |
| --- | --- |
| $W$ | $n \times d$ |
## Forward pass
1. $x^0 = W$

For $i = 1, …, N$:

1. $m^i = x^{i-1}[0] / (1 + |x^{i-1}|[0])$
1. $y^i = x^{i-1} ⊙ m^i$
1. $x^i = x^{i-1} + tanh(y^i)$

1. $L = mean_{j=0}^{n-1}(mean(x^N_j ⊙ x^N_j))$
"""


@pytest.mark.parametrize("change", ["m^1 = 2 m^1", "y^2_0 = 0", "x^1_j = 2 x^1_j for j ≥ 1"])
def test_a_row_of_what_a_block_reads(change: str) -> None:
    card = vt.read(ROWS).put(change)
    W = np.random.default_rng(0).normal(size=(3, 2))
    leaf = torch.tensor(W, requires_grad=True)
    card.run(None, {"W": leaf})["L"].backward()
    found = card.grad("L").run(None, {"W": W})["∂W"]
    np.testing.assert_allclose(found, leaf.grad, rtol=1e-9)
