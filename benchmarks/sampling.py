"""Tokens per second: a small GPT-2 with its derived cache, without one, and by `transformers`.

    python benchmarks/sampling.py [--contexts 64 256] [--count 1] [--rounds 5] [--threads 1]

4 layers, 4 heads, 128 wide, a vocabulary of 65, float32, random weights, greedy, from one token to
a full context. `transformers` runs the same weights by its own `generate`, with its cache and
without; nanoGPT's loop is the whole text through the model for every token, and the last row of
scores alone. All take turns in one process; the tokens are compared before anything is timed, the
medians are shown, and ratios are those of tokens per second, NumPy with the cache / peer.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import viete as vt
from viete.model.mapping import load_weights

SIZES = {"N": 4, "d": 128, "H": 4, "V": 65}


def main() -> None:
    """Compare, then time."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contexts", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for context in given.contexts:
        measure(context, given.count, given.rounds)


def measure(context: int, count: int, rounds: int) -> None:
    """One context."""
    model = vt.read("gpt2").bind(**SIZES, n_max=context)
    torch.manual_seed(0)
    peer = GPT2LMHeadModel(GPT2Config(
        vocab_size=SIZES["V"], n_positions=context, n_embd=SIZES["d"], n_layer=SIZES["N"],
        n_head=SIZES["H"], bos_token_id=0, eos_token_id=None,
    )).eval()  # fmt: skip
    with torch.no_grad():
        for p in peer.parameters():  # larger than at the start, so that no two scores are close
            if p.ndim > 1:
                p.mul_(4)
    weights = weights_of(model, peer)
    tensors = {k: torch.tensor(v) for k, v in weights.items()}
    most = context - 1
    start = torch.ones((count, 1), dtype=torch.long)

    def ours(w: dict[str, Any], cache: bool) -> list[list[int]]:
        drawn = model.sample([1], w, most=most, greedy=True, count=count, cache=cache)
        return [list(t) for t in zip(*drawn, strict=True)]

    def theirs(cache: bool) -> list[list[int]]:
        with torch.no_grad():
            found = peer.generate(
                start, attention_mask=torch.ones_like(start), max_new_tokens=most,
                do_sample=False, use_cache=cache, pad_token_id=0,
            )  # fmt: skip
        return found[:, 1:].tolist()

    def in_a_loop() -> list[list[int]]:
        text = start
        with torch.no_grad():
            for _ in range(most):
                logits = peer(text, use_cache=False, logits_to_keep=1).logits[:, -1]
                text = torch.cat([text, logits.argmax(-1, keepdim=True)], 1)
        return text[:, 1:].tolist()

    runs: dict[str, Callable[[], list[list[int]]]] = {
        "derived cache, NumPy": lambda: ours(weights, True),
        "derived cache, PyTorch": lambda: ours(tensors, True),
        "no cache, NumPy": lambda: ours(weights, False),
        "no cache, PyTorch": lambda: ours(tensors, False),
        "transformers, cache": lambda: theirs(True),
        "transformers, no cache": lambda: theirs(False),
        "nanoGPT's loop, PyTorch": in_a_loop,
    }
    wanted = runs["transformers, cache"]()
    for name, run in runs.items():
        assert run() == wanted, f"{name} gives other tokens"
    took: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            took[name].append(time.perf_counter() - began)
    speed = {name: most * count / statistics.median(t) for name, t in took.items()}
    print(f"context {context}, {count} at once: the same {most} tokens from all")
    for name, s in speed.items():
        print(f"  {name:27} {s:8.0f} tokens/s   {speed['derived cache, NumPy'] / s:5.2f} ×")


def weights_of(model: Any, peer: GPT2LMHeadModel) -> dict[str, np.ndarray]:
    """The peer's weights under the card's names, through a file as a released model comes."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        peer.save_pretrained(folder)
        return load_weights(model, Path(folder) / "model.safetensors", dtype="float32")


if __name__ == "__main__":
    main()
