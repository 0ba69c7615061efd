"""Costs against PyTorch's own counter, on every shipped card; experts and latent keys, two ways."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import viete as vt
from tests.command_line import viete
from tests.laws.strategies import random_inputs, shipped, tiny
from viete.analysis.cost import costs

LATENT = """
# Latent attention

## Dimensions

| symbol | value |
| --- | --- |
| $V$ | 11 |
| $d$ | 64 |
| $N$ | 2 |
| $H$ | 16 |
| $d_k$ | 32 |
| $d_c$ | 8 |
| $n$ | ≤ 32 |
| $h$ | $1, …, H$ |

## Inputs

- $t ∈ \\{0, …, V-1\\}^n$

## Parameters

| symbol | shape |
| --- | --- |
| $W_E$ | $V × d$ |
| $W_C^i$ | $d × d_c$ |
| $W_Q^{i,h}$ | $d × d_k$ |
| $W_K^{i,h}, W_V^{i,h}$ | $d_c × d_k$ |
| $W_O^{i,h}$ | $d_k × d$ |

## Forward pass

1. $x^0 = W_E[t]$

For $i = 1, …, N$:

2. $c^i = x^{i-1} W_C^i$
3. $K^{i,h} = c^i W_K^{i,h}$
4. $V^{i,h} = c^i W_V^{i,h}$
5. $A^{i,h} = softmax(causal(x^{i-1} W_Q^{i,h} {K^{i,h}}^⊤))$
6. $x^i = x^{i-1} + \\sum_h A^{i,h} V^{i,h} W_O^{i,h}$
7. $logits = x^N W_E^⊤$
"""


def small(path: str) -> tuple[vt.Card, dict[str, Any], dict[str, int]]:
    """A small card, inputs for it, and how long these are."""
    card = tiny(path)
    inputs = random_inputs(card)
    pairs = ((e, k) for i in card.inputs
             for e, k in zip(i.shape, np.shape(inputs[i.name]), strict=True))  # fmt: skip
    return card, inputs, {e.key: k for e, k in pairs if getattr(e, "key", "") in card.lengths}


@pytest.mark.parametrize("path", shipped(), ids=lambda p: Path(p).stem)
def test_products_are_those_that_pytorch_counts(path: str) -> None:
    card, inputs, lengths = small(path)
    module, found = card.to_torch(), costs(card, lengths)
    with FlopCounterMode(display=False) as counter:
        module(**{name: torch.as_tensor(np.asarray(a)) for name, a in inputs.items()})
    if (counted := counter.get_total_flops()) or found.whole.products.number:
        assert found.whole.products.number == counted  # an exported program computes all experts
    if not card.title.startswith("Mixtral"):
        assert found.whole == found.forward


def test_experts_are_counted_as_a_run_computes_them_and_as_a_whole() -> None:
    card, _, lengths = small(next(p for p in shipped() if p.endswith("mixtral.md")))
    found = costs(card, lengths)
    e, k, d, f, layers = (int(card.sizes[x]) for x in ("E", "k", "d", "d_f", "N"))
    left_out = 3 * 2 * lengths["n"] * d * f * (e - k) * layers
    assert found.whole.products.number - found.forward.products.number == left_out
    active = found.parameters.total.number - 3 * d * f * (e - k) * layers
    assert found.parameters.active.number == active
    big = costs(vt.read("mixtral"), {"n": 4096})  # Mistral AI: 12.9 of 46.7 thousand million
    assert (big.parameters.total.number, big.parameters.active.number) == (
        46_702_792_704, 12_879_925_248)  # fmt: skip
    assert round(big.forward_per_token.total.number / 1e9, 1) == 27.7
    shown = viete("show", "mixtral", "--costs").out
    assert "forward, with all experts" in shown and "one position uses 12,879,925,248" in shown
    assert "experts" not in viete("show", "gpt2", "--costs").out


def test_a_latent_cache_is_as_large_whether_keys_have_a_name_or_not() -> None:
    named = costs(vt.read(LATENT)).cache
    unnamed = LATENT.replace("3. $K^{i,h} = c^i W_K^{i,h}$\n", "").replace(
        "4. $V^{i,h} = c^i W_V^{i,h}$\n", "").replace("{K^{i,h}}^⊤", "(c^i W_K^{i,h})^⊤").replace(
        "A^{i,h} V^{i,h}", "A^{i,h} (c^i W_V^{i,h})")  # fmt: skip
    alone = costs(vt.read(unnamed)).cache
    assert named.per_token.number == 2 * 2 * 16 * 32
    assert named.least == alone.least == alone.per_token and alone.per_token.number == 2 * 8


def test_sizes_beyond_a_float_are_written() -> None:
    big = 10**200
    shown = viete("show", "gpt2", "--costs", "--set", f"d_f={big}", "--set", f"N={big}").out
    assert re.search(r"10\^40\d B", shown)
