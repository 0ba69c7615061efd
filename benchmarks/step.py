"""One training step of SimpleTransformer, beside the same model by hand with autograd.

    python benchmarks/step.py [--rounds 7] [--threads 2] [--dtype float32|bfloat16|float16]
        [--compile] [--batch 64] [--cpu]

B = 64 sequences of T = 256 tokens: the loss, all gradients and an Adam step (PyTorch's fused one,
for all). Ours are the backward equations derived from the card, run a few sequences at a time, with
no line written for this card. The peers take turns with it in one process; times are medians,
ratios are ours / peer. "products alone" is the floor: the matrix products of the card's own plan,
of the same shapes on the same memory, and nothing between them. Before anything is timed, the loss
and every gradient are compared with those of float64: times count at equal accuracy. ``--cpu``
counts the seconds of processor time, for a machine that others use too; autograd's threads wait by
turning in a circle, so that of two threads it says something with ``--alone`` only.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import viete as vt
from viete.evaluate.plan.engine import Engine
from viete.evaluate.plan.making import Compiler

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


def in_float64(weights: Weights, t: Any, y: Any) -> tuple[float, Weights]:
    """The loss and its gradients, for what rounding is measured by."""
    w = {k: v.double().requires_grad_() for k, v in weights.items()}
    loss = head_by_head(w, t, y)
    loss.backward()
    return float(loss.detach()), {k: v.grad for k, v in w.items() if v.grad is not None}


def errors(loss: float, w: Weights, true: tuple[float, Weights]) -> dict[str, float]:
    """Relative errors of a loss, and of gradients by norm."""
    out = {"loss": abs(loss - true[0]) / abs(true[0])}
    return out | {k: float((w[k].grad - g).norm() / g.norm()) for k, g in true[1].items()}


def peer(loss: Callable[..., torch.Tensor], weights: Weights, t: Any, y: Any, half: Any) -> Any:
    """One step with autograd; half precision by autocast, with float32 weights."""
    w = {k: v.clone().requires_grad_() for k, v in weights.items()}
    adam = torch.optim.Adam(w.values(), lr=1e-4, fused=True)

    def step() -> float:
        adam.zero_grad(set_to_none=True)
        with torch.autocast("cpu", half, enabled=half is not None):
            out = loss(w, t, y)
        out.backward()
        adam.step()
        return float(out.detach())

    return step, w


def ours(weights: Weights, t: Any, y: Any, half: Any) -> Any:
    """One step with the planned equations, and its matrix products alone; half precision with a
    float32 master."""
    model = vt.read("simple-transformer")
    engine = Engine(model, weights, compute=half)
    adam = torch.optim.Adam([engine.flat], lr=1e-4, fused=True)
    engine.flat.grad = engine.flat_gradient
    for name, w in engine.weights.items():
        w.grad = engine.gradients[name]

    def step() -> float:
        with torch.no_grad():
            loss = engine(t, y=y)
        adam.step()
        return loss

    return step, engine.weights, products(engine, t, y)


def products(engine: Engine, t: Any, y: Any) -> Callable[[], None]:
    """The matrix products of a step: of each thread's plan, as often as the thread runs it."""
    found: dict[Compiler, list[Callable[[], Any]]] = {}
    original = Compiler.call

    def call(self: Compiler, step: Any, *where: Any) -> Any:
        made = original(self, step, *where)
        if step.kernel == "matmul":
            found.setdefault(self, []).append(made)
        return made

    Compiler.call = call  # type: ignore[method-assign]
    engine(t, y=y)
    Compiler.call = original  # type: ignore[method-assign]
    tasks = []
    for k, (compiler, calls) in enumerate(found.items()):
        tasks.append(calls * len(range(k, B // compiler.space.batch, len(found))))

    def run(calls: list[Callable[[], Any]]) -> None:
        for each in calls:
            each()

    def alone() -> None:
        with torch.no_grad():
            if len(tasks) == 1:
                return run(tasks[0])
            engine.workers.run([partial(run, calls) for calls in tasks])

    return alone


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--cpu", action="store_true", help="processor time, not the clock's")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--numpy", action="store_true", help="ours on NumPy, too")
    parser.add_argument("--alone", action="store_true", help="ours alone, for its memory")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    half = None if given.dtype == "float32" else getattr(torch, given.dtype)
    global B
    B = given.batch
    clock = time.process_time if given.cpu else time.perf_counter
    model = vt.read("simple-transformer")
    rng = np.random.default_rng(0)
    words = int(model.sizes["V"])
    t, y = (torch.from_numpy(rng.integers(0, words, (B, T))) for _ in range(2))
    weights = {k: torch.from_numpy(v) for k, v in model.initial_weights(0, "float32").items()}
    peers: dict[str, Callable[..., torch.Tensor]] = {
        "fused attention": lambda w, t, y: by_hand(w, t, y, True),
        "written out": lambda w, t, y: by_hand(w, t, y, False),
        "head by head": head_by_head,
    }
    if given.compile:
        peers["compiled"] = torch.compile(lambda w, t, y: by_hand(w, t, y, True))
    if given.alone:
        peers = {}
    steps = {name: peer(loss, weights, t, y, half) for name, loss in peers.items()}
    step, own, floor = ours(weights, t, y, half)
    steps["card"] = step, own
    if given.numpy:
        arrays = {k: v.numpy() for k, v in weights.items()}
        engine, tokens, targets = Engine(model, arrays), t.numpy(), y.numpy()
        flat = torch.from_numpy(engine.flat)
        flat.grad = torch.from_numpy(engine.flat_gradient)
        adam = torch.optim.Adam([flat], lr=1e-4, fused=True)
        views = {k: torch.from_numpy(v) for k, v in engine.weights.items()}
        for k, v in views.items():
            v.grad = torch.from_numpy(engine.gradients[k])

        def on_numpy() -> float:
            loss = engine(tokens, y=targets)
            adam.step()
            return loss

        steps["card on NumPy"] = on_numpy, views
    if not given.alone:
        true = in_float64(weights, t, y)
        # After one step each, the gradients are still there. By norm: a single ReLU that rounding
        # turns on or off changes single entries a lot.
        off = {name: errors(step(), w, true) for name, (step, w) in steps.items()}
        print("error against float64:", ", ".join(off))
        for k in off["card"]:
            print(f"{k:8}", *(f"{off[name][k]:.2e}" for name in off))
    rounds = {name: step for name, (step, _) in steps.items()} | {"products alone": floor}
    times: dict[str, list[float]] = {name: [] for name in rounds}
    for _ in range(given.rounds):
        for name, step in rounds.items():
            start = clock()
            step()
            times[name].append(clock() - start)
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
