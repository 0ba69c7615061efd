"""What the training loop adds to a step: SimpleTransformer on real text.

    python benchmarks/loop.py TEXT [--rounds 15] [--threads 1]

B = 64 sequences of T = 256 characters. The bare step is the planned equations on one batch again
and again, and Adam (PyTorch's fused one). The loop is that of `viete train` with a line and a
measurement every 10 steps: a new batch, the loss looked at, the gradient's length, clipping, Adam,
the rate, the progress. Both take turns in one process; loop / bare, over the medians.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
from threadpoolctl import ThreadpoolController

import viete as vt
from viete.train.loop import Training
from viete.train.metrics import RunMetrics
from viete.train.settings import Settings
from viete.train.setup import begin


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--engines", nargs="*", default=["numpy", "torch"])
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    ThreadpoolController().select(user_api="blas").limit(limits=given.threads)
    for engine in given.engines:
        with tempfile.TemporaryDirectory() as folder:
            measure(engine, given.text, Path(folder), given.rounds, given.threads)


def measure(engine: str, text: Path, folder: Path, rounds: int, threads: int) -> None:
    """The two in turn."""
    settings = Settings(
        data=str(text), batch=64, engine=engine, threads=threads, steps=rounds + 2, save_every=0,
        eval_every=0,
    )  # fmt: skip
    job = begin(settings, vt.read("simple-transformer"), folder)
    training = Training(job)
    training.metrics = RunMetrics(folder)
    batch = job.batches.batch(0)
    weights = {name: w.copy() if engine == "numpy" else w.clone()
               for name, w in job.engine.weights.items()}  # fmt: skip
    step = vt.Card.of(job.model).planned(weights)
    flat, gradient = (
        torch.from_numpy(a) if engine == "numpy" else a for a in (step.flat, step.flat_gradient)
    )
    flat.grad = gradient
    adam = torch.optim.Adam([flat], lr=1e-3, fused=True)

    def bare() -> None:
        step(batch["t"], y=batch["y"])
        adam.step()

    def loop() -> None:
        training.take_step()
        training.after_step()

    times: dict[str, list[float]] = {"bare": [], "loop": []}
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        for k in range(rounds + 1):
            for name, run in (("bare", bare), ("loop", loop)):
                start = time.perf_counter()
                run()
                if k:
                    times[name].append(time.perf_counter() - start)
    middle = {name: statistics.median(t) for name, t in times.items()}
    print(
        f"{engine}, {threads} threads: bare {1000 * middle['bare']:.1f} ms, loop "
        f"{1000 * middle['loop']:.1f} ms; {middle['loop'] / middle['bare']:.3f}, of the fastest "
        f"{min(times['loop']) / min(times['bare']):.3f}", flush=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
