"""What Viète adds to each equation: GPT-2 of 6 blocks, d = 32, n = 5, against the same by hand.

    python benchmarks/overhead.py [numpy|torch] [--rounds 300]

Arrays this small cost next to nothing, so that what is timed is Python. All compute the logits
alone, in turn: by hand; the card from the second run of a shape on, also with a function hooked
into the attention of a middle block; a first run, of which nothing is kept; and the equations
evaluated one by one, as what cannot be recorded is.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from forward import ratios, rounds_of

import viete as vt
from viete.evaluate.execution import execute
from viete.evaluate.interventions import interventions
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


def in_torch(w: dict[str, Any], t: Any, blocks: int) -> Any:
    """gpt2.md in PyTorch, with its own norm, softmax and GELU."""
    import torch
    from torch.nn.functional import embedding, gelu, layer_norm

    n, (d, k) = len(t), w["W_Q^{1,h}"].shape[1:]
    later = torch.ones(n, n, dtype=torch.bool).triu_(1)
    x = embedding(t, w["W_E"]) + w["W_P"][:n]
    for i in range(1, blocks + 1):
        u = layer_norm(x, (d,), w[f"gamma_A^{i}"], w[f"beta_A^{i}"], 1e-5)
        q, key, v = (u @ w[f"W_{a}^{{{i},h}}"] + w[f"b_{a}^{{{i},h}}"][:, None] for a in "QKV")
        s = (q @ key.transpose(1, 2) / math.sqrt(k)).masked_fill_(later, -math.inf).softmax(-1)
        x = x + (s @ v @ w[f"W_O^{{{i},h}}"]).sum(0) + w[f"b_O^{i}"]
        f = layer_norm(x, (d,), w[f"gamma_M^{i}"], w[f"beta_M^{i}"], 1e-5)
        f = gelu(f @ w[f"W_1^{i}"] + w[f"b_1^{i}"], approximate="tanh")
        x = x + f @ w[f"W_2^{i}"] + w[f"b_2^{i}"]
    return layer_norm(x, (d,), w["gamma"], w["beta"], 1e-5) @ w["W_E"].T


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", nargs="?", default="numpy", choices=("numpy", "torch"))
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    model = vt.read("gpt2").bind(N=6, d=32, H=4, V=50, n_max=16)
    ready, w = program(model), dict(model.initial_weights(0, "float32"))
    t: Any = np.array([3, 1, 4, 1, 5])
    hand: Callable[..., Any] = by_hand
    if options.library == "torch":
        import torch

        torch.set_grad_enabled(False)
        torch.set_num_threads(1)
        w, t, hand = {k: torch.from_numpy(v) for k, v in w.items()}, torch.from_numpy(t), in_torch
    hook = interventions(ready, {"A^{3,h}": lambda a: a})

    def first() -> Any:
        ready.recordings.clear()
        return execute(ready, {"t": t}, w, ["logits"])["logits"]

    def evaluated() -> Any:
        with patch("viete.evaluate.execution.replayed", lambda *args: None):
            return execute(ready, {"t": t}, w, ["logits"])["logits"]

    functions: dict[str, Callable[[], Any]] = {
        "by hand": lambda: hand(w, t, 6),
        "card": lambda: execute(ready, {"t": t}, w, ["logits"])["logits"],
        "with a hook": lambda: execute(ready, {"t": t}, w, ["logits"], put=hook)["logits"],
    }
    for run in (*functions.values(), first, evaluated):
        assert np.allclose(run(), functions["by hand"](), atol=1e-5)
    rows, count = rounds_of(functions, options.rounds), len(ready.steps)
    print(f"{options.library}, load {os.getloadavg()[0]:.1f}; {count} equations, "
          f"{options.rounds} rounds")  # fmt: skip
    for name in functions:
        each = statistics.median(r[name] for r in rows) * 1e6 / count
        ratio = statistics.median(r[name] / r["by hand"] for r in rows)
        print(f"{name:12} {each:6.1f} µs an equation, {ratio:5.2f} × by hand")
    rows = rounds_of({"card": first, "evaluated": evaluated}, options.rounds // 10 + 1)
    middle = statistics.median(ratios(rows, "evaluated"))
    print(f"first run    {statistics.median(r['card'] for r in rows) * 1e3:6.1f} ms, "
          f"{middle:5.2f} × the equations evaluated one by one")  # fmt: skip


if __name__ == "__main__":
    main()
