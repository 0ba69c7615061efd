"""What Viète adds to each equation: GPT-2 of 6 blocks, d = 32, n = 5, against NumPy by hand.

    python benchmarks/overhead.py [--rounds 300]

Arrays this small cost next to nothing, so that what is timed is Python. Both compute the logits
alone, in turn; the overhead is the median difference of a round over the equations.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from typing import Any

import numpy as np
from forward import ratios, rounds_of

import viete as vt
from viete.evaluate.run import execute
from viete.evaluate.schedule import program


def norm(x: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * gamma + beta


def by_hand(w: dict[str, Any], t: Any, blocks: int) -> Any:
    """gpt2.md in NumPy, with the weights by their names in the card."""
    n, k = len(t), w["W_Q^{1,h}"].shape[-1]
    later = np.triu(np.ones((n, n), bool), 1)
    x = w["W_E"][t] + w["W_P"][:n]
    for i in range(1, blocks + 1):
        u = norm(x, w[f"gamma_A^{i}"], w[f"beta_A^{i}"], 1e-5)
        q, key, v = (u @ w[f"W_{a}^{{{i},h}}"] + w[f"b_{a}^{{{i},h}}"][:, None] for a in "QKV")
        s = q @ key.transpose(0, 2, 1) / math.sqrt(k)
        s[:, later] = -np.inf
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        x = x + (s @ v @ w[f"W_O^{{{i},h}}"]).sum(0) + w[f"b_O^{i}"]
        f = norm(x, w[f"gamma_M^{i}"], w[f"beta_M^{i}"], 1e-5) @ w[f"W_1^{i}"] + w[f"b_1^{i}"]
        f = 0.5 * f * (1 + np.tanh(math.sqrt(2 / math.pi) * (f + 0.044715 * f * f * f)))
        x = x + f @ w[f"W_2^{i}"] + w[f"b_2^{i}"]
    return norm(x, w["gamma"], w["beta"], 1e-5) @ w["W_E"].T


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    model = vt.read("gpt2").bind(N=6, d=32, H=4, V=50, n_max=16)
    ready, w = program(model), model.initial_weights(0, "float32")
    t = np.array([3, 1, 4, 1, 5])
    both = {
        "card": lambda: execute(ready, {"t": t}, w, ["logits"])["logits"],
        "by hand": lambda: by_hand(w, t, 6),
    }
    assert np.allclose(both["card"](), both["by hand"](), atol=1e-5)
    rows, count = rounds_of(both, rounds), len(ready.steps)
    card, hand = (statistics.median(r[name] for r in rows) * 1e6 / count for name in both)
    over = statistics.median((r["card"] - r["by hand"]) * 1e6 / count for r in rows)
    print(f"load {os.getloadavg()[0]:.1f}; {count} equations, {rounds} rounds: card {card:.1f} µs, "
          f"by hand {hand:.1f} µs an equation; overhead {over:.1f} µs an equation, "
          f"ratio {statistics.median(ratios(rows, 'by hand')):.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
