"""A card's forward pass against the same equations written by hand, in one run.

    python benchmarks/forward.py [numpy|torch] [--threads 1|2] [--rounds 15] [--peer NAME …]

SimpleTransformer at B = 64, T = 256, float32. After a warm-up the card and all peers of
`by_hand.py` are timed once a round, in an order that turns with the rounds, so that whatever else
the machine does meets them alike. What counts is the median over rounds of (card / peer of the
same round), against the peer that gives the largest.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

B, T = 64, 256


def rounds_of(functions: Mapping[str, Callable[[], Any]], rounds: int) -> list[dict[str, float]]:
    """Seconds of each function in each round; two more rounds go before, to warm up."""
    names, out = list(functions), []
    for k in range(rounds + 2):
        turn = k % len(names)
        row = {}
        for name in (names[turn:] + names[:turn])[:: -1 if k // len(names) % 2 else 1]:
            start = time.perf_counter()
            functions[name]()
            row[name] = time.perf_counter() - start
        out.append(row)
    return out[2:]


def ratios(rows: list[dict[str, float]], peer: str) -> list[float]:
    """Card / peer, round by round, smallest first."""
    return sorted(row["card"] / row[peer] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", nargs="?", default="numpy", choices=("numpy", "torch"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1, choices=(1, 2))
    parser.add_argument("--peer", nargs="*", default=[], help="only these (default: all)")
    options = parser.parse_args()
    for name in ("OPENBLAS", "OMP", "MKL"):  # read when the libraries are loaded
        os.environ[f"{name}_NUM_THREADS"] = str(options.threads)

    import numpy as np
    from by_hand import PEERS

    import viete as vt
    from viete.evaluate.execution import execute
    from viete.evaluate.schedule import program

    model = vt.read("simple-transformer")
    w: dict[str, Any] = model.initial_weights(0, "float32")
    t: Any = np.random.default_rng(0).integers(0, 772, (B, T))
    if options.library == "torch":
        import torch

        torch.set_grad_enabled(False)
        torch.set_num_threads(options.threads)
        w, t = {k: torch.from_numpy(v.copy()) for k, v in w.items()}, torch.from_numpy(t)
    ready = program(model)
    functions: dict[str, Callable[[], Any]] = {
        "card": lambda: execute(ready, {"t": t}, w, ["logits"])["logits"]
    }
    logits = functions["card"]()
    for name, peer in PEERS[options.library].items():
        if not options.peer or name in options.peer:
            functions[name] = lambda peer=peer: peer(w, t)  # type: ignore[misc]
            off = float(abs(logits - functions[name]()).max())
            assert off < 1e-4, f"{name} differs from the card by {off}"
    del logits
    rows = rounds_of(functions, options.rounds)
    print(f"{options.library}, {options.threads} thread(s), {options.rounds} rounds, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"{'card':24} {statistics.median(r['card'] for r in rows) * 1e3:7.1f} ms")
    for name in sorted(
        functions.keys() - {"card"}, key=lambda p: -statistics.median(ratios(rows, p))
    ):
        r = ratios(rows, name)
        print(f"{name:24} {statistics.median(row[name] for row in rows) * 1e3:7.1f} ms   "
              f"card / this {statistics.median(r):.3f}  ({r[0]:.3f} to {r[-1]:.3f})")  # fmt: skip


if __name__ == "__main__":
    main()
