"""A card's forward pass against the same equations written by hand, in one run.

    python benchmarks/forward.py [numpy|torch] [--rounds 15]

SimpleTransformer at B = 64, T = 256, float32. The two are timed in turn (A B A B …), after a
warm-up; what counts is the median of the ratios of neighbours.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import viete as vt

B, T = 64, 256


def numpy_forward(w: dict[str, Any], t: Any) -> Any:
    """The equations of simple-transformer.md as a competent person writes them in NumPy.

    Heads are batched and projected together; temporaries are reused where that is easy.
    """
    W_Q, W_K, W_V = (np.concatenate(list(w[k]), axis=1) for k in ("W_Q^h", "W_K^h", "W_V^h"))
    h, _, k = w["W_Q^h"].shape
    b, n = t.shape
    x = w["E"][t] + w["P"][:n]
    flat = x.reshape(b * n, -1)
    q, key, v = (
        (flat @ W).reshape(b, n, h, k).transpose(0, 2, 1, 3) for W in (W_Q, W_K, W_V)
    )
    s = q @ key.transpose(0, 1, 3, 2)
    s /= math.sqrt(k)
    s[:, :, np.triu(np.ones((n, n), bool), 1)] = -np.inf
    s -= s.max(-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(-1, keepdims=True)
    c = (s @ v).transpose(0, 2, 1, 3).reshape(b * n, h * k)
    x = c @ w["W_O"] + w["b_O"]
    f = x @ w["W_1"]
    f += w["b_1"]
    np.maximum(f, 0, out=f)
    x = f @ w["W_2"] + w["b_2"]
    return (x @ w["W_lm"] + w["b_lm"]).reshape(b, n, -1)


def torch_forward(w: dict[str, Any], t: Any) -> Any:
    """The same in eager PyTorch, attention written out as the card writes it."""
    import torch

    W_Q, W_K, W_V = (torch.cat(list(w[k]), dim=1) for k in ("W_Q^h", "W_K^h", "W_V^h"))
    h, _, k = w["W_Q^h"].shape
    b, n = t.shape
    x = w["E"][t] + w["P"][:n]
    q, key, v = ((x @ W).view(b, n, h, k).transpose(1, 2) for W in (W_Q, W_K, W_V))
    s = q @ key.transpose(-2, -1) / math.sqrt(k)
    mask = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
    a = s.masked_fill(mask, -math.inf).softmax(-1)
    c = (a @ v).transpose(1, 2).reshape(b, n, h * k)
    x = c @ w["W_O"] + w["b_O"]
    x = (x @ w["W_1"] + w["b_1"]).relu() @ w["W_2"] + w["b_2"]
    return x @ w["W_lm"] + w["b_lm"]


def paired(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> None:
    """Time both in turn and print the medians and the ratio."""
    times: list[tuple[float, float]] = []
    for k in range(rounds + 2):
        row = []
        for f in (ours, theirs) if k % 2 else (theirs, ours):
            start = time.perf_counter()
            f()
            row.append(time.perf_counter() - start)
        if k >= 2:
            times.append((row[0], row[1]) if k % 2 else (row[1], row[0]))
    a, b = (statistics.median(t[i] for t in times) for i in (0, 1))
    ratios = sorted(x / y for x, y in times)
    print(f"card {a * 1e3:.1f} ms, by hand {b * 1e3:.1f} ms, ratio {statistics.median(ratios):.3f} "
          f"({ratios[0]:.3f} to {ratios[-1]:.3f}), {rounds} rounds")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", nargs="?", default="numpy", choices=("numpy", "torch"))
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    model = vt.read("simple-transformer")
    w: dict[str, Any] = vt.initial_weights(model, 0, "float32")
    t: Any = np.random.default_rng(0).integers(0, 772, (B, T))
    by_hand = numpy_forward
    if options.library == "torch":
        import torch

        torch.set_grad_enabled(False)
        w, t = {k: torch.from_numpy(v.copy()) for k, v in w.items()}, torch.from_numpy(t)
        by_hand = torch_forward
    from viete.interpret.run import program

    ready = program(model)
    ours = ready.run({"t": t}, w, ["logits"])["logits"]
    difference = float(abs(ours - by_hand(w, t)).max())
    print(f"{options.library}: largest difference of the logits {difference:.2e}")
    paired(lambda: ready.run({"t": t}, w, ["logits"])["logits"], lambda: by_hand(w, t), options.rounds)


if __name__ == "__main__":
    main()
