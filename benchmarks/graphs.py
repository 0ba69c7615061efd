"""Graphs of the top 200 edges, against a forward and a backward pass of the same model in PyTorch.

A model of Pythia-70M's shape with random weights in float32, and a text of 64 tokens: the arrows of
heads and sources that lead to a logit, and the features of a transcoder of 4096 features for each
block. Prints seconds, the best of a few, with the ratio, and the memory that each took besides the
model. ``python benchmarks/graphs.py``.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import viete as vt
from viete.ask.arrows import arrows
from viete.features.search import feature_graph
from viete.model.coders import Coder, Coders

PYTHIA_70M = {"N": 6, "d": 512, "H": 8, "d_k": 64, "d_f": 2048, "V": 50304, "n_max": 2048}
TOKENS, FEATURES, EDGES, TURNS = 64, 4096, 200, 3
OF = "logits_{-1, 5}"


def best(call: Callable[[], Any]) -> float:
    """The least time of a few calls, after one that is not counted."""
    call()
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def peak(call: Callable[[], Any]) -> float:
    """The memory that a call takes at most, in MB: of NumPy's arrays, and of Python's objects."""
    tracemalloc.start()
    call()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found / 1e6


def coders(rng: np.random.Generator) -> Coders:
    """Random transcoders of which about one feature in a hundred is active."""
    d, each = PYTHIA_70M["d"], {}
    for k in range(PYTHIA_70M["N"]):
        arrays = {
            "W_enc": rng.normal(size=(d, FEATURES)).astype(np.float32) / d**0.5,
            "b_enc": np.full(FEATURES, -2.3, np.float32),
            "W_dec": rng.normal(size=(FEATURES, d)).astype(np.float32) * 0.02,
            "b_dec": np.zeros(d, np.float32),
        }
        each[k] = Coder(arrays, Path("random"))
    return Coders(each)


def main() -> None:
    """Print a line for each graph."""
    card = vt.read("pythia").bind(**PYTHIA_70M)
    weights = card.initial_weights(seed=0, dtype="float32")
    model = card.with_weights(weights)
    rng = np.random.default_rng(0)
    text = rng.integers(0, PYTHIA_70M["V"], TOKENS)
    module = card.with_weights(weights, framework="torch", dtype="float32").to_torch()
    ids = torch.as_tensor(text)[None]

    def step() -> None:
        module.zero_grad()
        module(ids)[0, -1, 5].backward()

    base = best(step)
    values = 4 * sum(np.asarray(v).size for v in weights.values()) / 1e6
    print(f"forward and backward in PyTorch: {base:.3f} s; gradients {values:.0f} MB")
    run = model.run(text)
    coded = model.put(coders(rng)).run(text)
    active = np.mean([(coded[f"feature^{i}"] > 0).mean() for i in range(1, 7)])
    for name, call in {
        "arrows of heads and sources": lambda: arrows(run.expand(OF, "head, source", top=EDGES)),
        f"features ({active:.1%} of {FEATURES} active)": lambda: feature_graph(coded, OF, EDGES),
    }.items():
        seconds = best(call)
        print(f"{name}: {seconds:.3f} s, {seconds / base:.2f} of it; {peak(call):.0f} MB")


if __name__ == "__main__":
    main()
