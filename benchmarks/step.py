"""One training step of SimpleTransformer, beside the same model by hand with autograd.

    python benchmarks/step.py [--rounds 7] [--threads 2] [--dtype float32|bfloat16] [--compile]

B = 64 sequences of T = 256 tokens: the loss, all gradients and an Adam step (PyTorch's fused one,
for all). Ours are the backward equations derived from the card, run a few sequences at a time, with
no line written for this card. The peers take turns with it in one process; times are medians,
ratios are ours / peer. Gradients are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import viete as vt
from viete.interpret.plan.engine import Engine

B, T = 64, 256
Weights = dict[str, torch.Tensor]


def by_hand(w: Weights, t: torch.Tensor, y: torch.Tensor, fused: bool) -> torch.Tensor:
    """The model in plain PyTorch, heads side by side in one product."""
    x = w["E"][t] + w["P"][:T]
    heads, _, d_k = w["W_Q^h"].shape

    def split(name: str) -> torch.Tensor:
        joined = w[name].permute(1, 0, 2).reshape(w[name].shape[1], -1)
        return (x @ joined).view(B, T, heads, d_k).transpose(1, 2)

    q, k, v = split("W_Q^h"), split("W_K^h"), split("W_V^h")
    if fused:
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        s = q @ k.transpose(-1, -2) / d_k**0.5
        mask = torch.ones(T, T, dtype=torch.bool).triu(1)
        o = s.masked_fill(mask, float("-inf")).softmax(-1) @ v
    a = o.transpose(1, 2).reshape(B, T, -1) @ w["W_O"] + w["b_O"]
    f = F.relu(a @ w["W_1"] + w["b_1"]) @ w["W_2"] + w["b_2"]
    logits = f @ w["W_lm"] + w["b_lm"]
    return F.cross_entropy(logits.flatten(0, 1).float(), y.flatten())


def head_by_head(w: Weights, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The same, a loop over heads."""
    x = w["E"][t] + w["P"][:T]
    heads, _, d_k = w["W_Q^h"].shape
    mask = torch.ones(T, T, dtype=torch.bool).triu(1)
    out = []
    for h in range(heads):
        q, k, v = (x @ w[name][h] for name in ("W_Q^h", "W_K^h", "W_V^h"))
        s = (q @ k.transpose(-1, -2) / d_k**0.5).masked_fill(mask, float("-inf"))
        out.append(s.softmax(-1) @ v)
    a = torch.cat(out, -1) @ w["W_O"] + w["b_O"]
    f = F.relu(a @ w["W_1"] + w["b_1"]) @ w["W_2"] + w["b_2"]
    logits = f @ w["W_lm"] + w["b_lm"]
    return F.cross_entropy(logits.flatten(0, 1).float(), y.flatten())


def peer(loss: Callable[..., torch.Tensor], weights: Weights, t: Any, y: Any, bf16: bool) -> Any:
    """One step with autograd; bfloat16 by autocast, with float32 weights."""
    w = {k: v.clone().requires_grad_() for k, v in weights.items()}
    adam = torch.optim.Adam(w.values(), lr=1e-4, fused=True)

    def step() -> None:
        adam.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            out = loss(w, t, y)
        out.backward()
        adam.step()

    return step, w


def ours(weights: Weights, t: Any, y: Any, bf16: bool) -> Any:
    """One step with the planned equations; bfloat16 with a float32 master."""
    model = vt.read("simple-transformer")
    engine = Engine(model, weights, compute=torch.bfloat16 if bf16 else None)
    adam = torch.optim.Adam([engine.flat], lr=1e-4, fused=True)
    engine.flat.grad = engine.flat_gradient
    for name, w in engine.weights.items():
        w.grad = engine.gradients[name]

    def step() -> None:
        with torch.no_grad():
            engine(t, y=y)
        adam.step()

    return step, engine.weights


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--numpy", action="store_true", help="ours on NumPy, too")
    parser.add_argument("--alone", action="store_true", help="ours alone, for its memory")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    bf16 = given.dtype == "bfloat16"
    model = vt.read("simple-transformer")
    rng = np.random.default_rng(0)
    words = int(model.sizes["V"])
    t, y = (torch.from_numpy(rng.integers(0, words, (B, T))) for _ in range(2))
    weights = {k: torch.from_numpy(v) for k, v in vt.initial_weights(model, 0, "float32").items()}
    peers: dict[str, Callable[..., torch.Tensor]] = {
        "fused attention": lambda w, t, y: by_hand(w, t, y, True),
        "written out": lambda w, t, y: by_hand(w, t, y, False),
        "head by head": head_by_head,
    }
    if given.compile:
        peers["compiled"] = torch.compile(lambda w, t, y: by_hand(w, t, y, True))
    if given.alone:
        peers = {}
    steps = {name: peer(loss, weights, t, y, bf16) for name, loss in peers.items()}
    steps["card"] = ours(weights, t, y, bf16)
    if given.numpy:
        arrays = {k: v.numpy() for k, v in weights.items()}
        engine, tokens, targets = Engine(model, arrays), t.numpy(), y.numpy()
        flat = torch.from_numpy(engine.flat)
        flat.grad = torch.from_numpy(engine.flat_gradient)
        adam = torch.optim.Adam([flat], lr=1e-4, fused=True)
        views = {k: torch.from_numpy(v) for k, v in engine.weights.items()}
        for k, v in views.items():
            v.grad = torch.from_numpy(engine.gradients[k])
        steps["card on NumPy"] = lambda: (engine(tokens, y=targets), adam.step()), views
    for step, _ in steps.values():
        step()
    for name, (_, w) in steps.items():  # after one step each, the gradients are still there
        # By norm: a single ReLU that rounding turns on or off changes single entries a lot.
        worst = max(
            float((w[k].grad - v.grad).norm() / v.grad.norm()) for k, v in steps["card"][1].items()
        )
        print(f"{name}: gradients differ from the card's by {worst:.1e}, by norm, at most")
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(given.rounds):
        for name, (step, _) in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    mine = statistics.median(times["card"])
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(times["card"], seconds, strict=True)]
        middle = statistics.median(seconds)
        fastest = min(times["card"]) / min(seconds)
        print(
            f"{name}: {1000 * middle:.0f} ms, fastest {1000 * min(seconds):.0f}; card / it "
            f"{mine / middle:.3f} ({min(ratios):.3f}-{max(ratios):.3f}), fastest {fastest:.3f}"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process {peak:.0f} MB")


if __name__ == "__main__":
    main()
