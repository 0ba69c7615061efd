"""GPT-2 124M on a GPU: tokens a second and the share of its peak, beside nanoGPT's bench.py.

    python benchmarks/bench_gpu.py [--steps 20] [--rounds 5] [--batch 12] [--no-compile]
    python benchmarks/bench_gpu.py --device cpu --tiny        # whether it runs at all

12 layers, 12 heads, 768 wide, context 1024, a vocabulary of 50304, no biases, random tokens,
bfloat16 by autocast, `torch.compile`, fused AdamW: what nanoGPT's bench.py measures. Ours is the
card `nanogpt` at this size as `viete train --engine module --bf16 --compile` steps it; the peer is
nanoGPT by hand (`nanogpt.py`). They take turns in one process.

FLOPs of a token are 6 N + 12 L d T (Chowdhery et al. 2022, appendix B, as nanoGPT counts them), N
without the positions; the peak is that of the GPU in bfloat16, without sparsity.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from nanogpt import GPT, adamw

import viete as vt
from viete.evaluate.schedule import program
from viete.train.autograd import ModuleEngine
from viete.train.optimiser import Adam, spans
from viete.train.settings import Settings

PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40": 181e12, "4090": 165e12}
BETAS, RATE, DECAY = (0.9, 0.95), 1e-4, 1e-2


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="2 layers, 64 wide, context 32")
    parser.add_argument("--no-compile", action="store_true")
    given = parser.parse_args()
    v, d, layers, heads, n = (97, 64, 2, 2, 32) if given.tiny else (50304, 768, 12, 12, 1024)
    torch.manual_seed(1337)
    torch.set_float32_matmul_precision("high")
    device = torch.device(given.device)
    tokens, targets = (torch.randint(v, (given.batch, n), device=device) for _ in range(2))
    model = vt.read("nanogpt").bind(V=v, d=d, N=layers, H=heads, n_max=n)
    net = GPT(v, d, layers, heads, n).to(device)
    runs = {
        "nanoGPT": peer(net, tokens, targets, not given.no_compile),
        "viete": ours(model, device, tokens, targets, not given.no_compile),
    }
    losses = {}
    for name, step in runs.items():
        for _ in range(10):
            losses[name] = step()
    took: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.rounds):
        for name, step in runs.items():
            wait(device)
            start = time.perf_counter()
            for _ in range(given.steps):
                step()
            wait(device)
            took[name].append((time.perf_counter() - start) / given.steps)
    count = sum(p.numel() for p in net.parameters()) - net.wpe.weight.numel()
    flops = given.batch * n * (6 * count + 12 * layers * d * n)
    said = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    peak = next((p for name, p in PEAKS.items() if name in said), None)
    first = statistics.median(took["nanoGPT"])
    print(f"{said}, {count / 1e6:.1f} M weights without positions, batch {given.batch} of {n}")
    for name, seconds in took.items():
        middle = statistics.median(seconds)
        share = f", {100 * flops / middle / peak:.1f} % of the peak" if peak else ""
        print(
            f"{name:8} {1000 * middle:.2f} ms a step, {given.batch * n / middle:,.0f} tokens/s"
            f"{share}; tokens/s, it / nanoGPT {first / middle:.3f}; loss {losses[name]:.3f}"
        )


def peer(net: GPT, tokens: Any, targets: Any, compiled: bool) -> Callable[[], float]:
    """A step of nanoGPT's bench.py."""
    adam = adamw(net, RATE, BETAS, DECAY, fused=True)
    call: Any = torch.compile(net) if compiled else net

    def step() -> float:
        with torch.autocast(tokens.device.type, torch.bfloat16):
            _, loss = call(tokens, targets)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
        return float(loss.detach())

    return step


def ours(
    model: vt.Card, device: Any, tokens: Any, targets: Any, compiled: bool
) -> Callable[[], float]:
    """The same by the card."""
    drawn = model.initial_weights(0, "float32")
    weights = {name: torch.from_numpy(w).to(device) for name, w in drawn.items()}
    engine = ModuleEngine(model, model, weights, bf16=True, compiled=compiled)
    ranks = {name: len(p.shape) for name, (p, _, _) in program(model).parameters.items()}
    shapes = {name: tuple(w.shape) for name, w in engine.weights.items()}
    chosen = Settings(beta1=BETAS[0], beta2=BETAS[1], weight_decay=DECAY)
    adam = Adam(engine.flat, spans(shapes, ranks), chosen, engine.spread)

    def step() -> float:
        loss = engine(tokens, y=targets)
        adam(engine.flat_gradient, RATE)
        return loss

    return step


def wait(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
