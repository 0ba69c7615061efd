"""The symbolic card for N blocks and H heads, with random fractions for weights."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

import viete as vt

CARD = r"""# Symbolic transformer of N blocks

## Dimensions

| symbol | value | meaning |
| --- | --- | --- |
| $V$ | 10 | vocabulary |
| $d$ | 5 | width |
| $N$ | 1 | blocks |
| $H$ | 1 | heads |
| $d_k$ | $d / H$ | width of a head |
| $n_{max}$ | 64 | context |
| $n$ | $≤ n_{max}$ | length |
| $h$ | $1, …, H$ | head |

## Inputs

- $t ∈ \{0, …, V-1\}^n$: token ids

## Parameters

| symbol | shape |
| --- | --- |
| $E$ | $V \times d$ |
| $W_Q^{i,h}, W_K^{i,h}, W_V^{i,h}$ | $d \times d_k$ |
| $W_O^i$ | $d \times d$ |
| $γ^i, β^i$ | $d$ |
| $W_1^i, W_2^i$ | $d \times d$ |
| $W_U$ | $d \times V$ |

## Forward pass

1. $x^0 = E[t]$

For $i = 1, …, N$:

2. $Q^{i,h} = x^{i-1} W_Q^{i,h}$
3. $K^{i,h} = x^{i-1} W_K^{i,h}$
4. $V^{i,h} = x^{i-1} W_V^{i,h}$
5. $S^{i,h} = Q^{i,h} {K^{i,h}}^⊤ / \sqrt{d_k}$
6. $A^{i,h} = softmax(S^{i,h})$
7. $a^i = concat_h(A^{i,h} V^{i,h}) W_O^i$
8. $r^i = x^{i-1} + a^i$
9. $y^i = LN(r^i; γ^i, β^i)$
10. $m^i = GELU(y^i W_1^i) W_2^i$
11. $x^i = y^i + m^i$

12. $logits = x^N W_U$
13. $choice = argmax(logits)$
"""
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]


@cache
def model(**dims: int) -> vt.Card:
    return vt.read(CARD).bind(**dims)


def weights(of: vt.Card, seed: int = 0, plain_norm: bool = False) -> dict[str, Any]:
    """Numerators −9 … 9 over 1 … 9; with ``plain_norm`` γ = 1 and β = 0."""
    draw = random.Random(seed)
    out = {}
    for name, shape in sorted(of.parameter_shapes.items()):
        array = np.empty(shape, dtype=object)
        for place in np.ndindex(shape):
            array[place] = Fraction(draw.randint(-9, 9), draw.randint(1, 9))
            if plain_norm and name[:4] in ("gamm", "beta"):
                array[place] = Fraction(name[0] == "g")
        out[name] = array
    return out
