"""nanoGPT's example on a CPU, beside nanoGPT: the time of a step, and the loss after 2000.

    python benchmarks/shakespeare.py tinyshakespeare.txt [--rounds 15] [--steps 2000] [--seeds 2]

4 layers, 4 heads, 128 wide, context 64, batch 12, no dropout, AdamW, cosine. Ours is `viete train`
as it is: the card `nanogpt`, a step of its loop. The peer is nanoGPT by hand (`nanogpt.py`), eager
and compiled, with its own batches, clipping and AdamW. Everybody takes turns in one process; ratios
are ours / the fastest peer, over the medians. With ``--steps`` both then train to the end, one
after the other, and the loss is that of the whole validation text in windows of 64 tokens.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from nanogpt import GPT, adamw, get_batch, learning_rate
from threadpoolctl import ThreadpoolController

import viete as vt
from viete.train.loop import Training
from viete.train.settings import Settings
from viete.train.setup import begin

BATCH, N, STEPS = 12, 64, 2000
SETTINGS = Settings(
    card="nanogpt", steps=STEPS, batch=BATCH, length=N, lr=1e-3, min_lr=1e-4, schedule="cosine",
    warmup=100, beta2=0.99, weight_decay=0.1, log_every=0, eval_every=0, save_every=0,
)  # fmt: skip
EACH = 5  # steps to a turn


class Peer:
    """nanoGPT's training, as far as a step and what it learned."""

    def __init__(
        self, text: Path, compiled: bool = False, fused: bool = True, seed: int = 0
    ) -> None:
        torch.manual_seed(1337 + seed)
        letters = sorted(set(said := text.read_text("utf-8")))
        ids = np.array([letters.index(c) for c in said], dtype=np.uint16)
        self.train, self.held = ids[: int(0.9 * len(ids))], ids[int(0.9 * len(ids)) :]
        self.net = GPT(len(letters), 128, 4, 4, N)
        self.adam = adamw(self.net, 1e-3, (0.9, 0.99), 0.1, fused)
        self.call: Any = torch.compile(self.net) if compiled else self.net
        self.k = 0

    def step(self) -> None:
        """Everything that nanoGPT does between two steps, but for printing."""
        for group in self.adam.param_groups:
            group["lr"] = learning_rate(self.k, 1e-3, 1e-4, 100, STEPS)
        x, y = get_batch(self.train, BATCH, N)
        _, loss = self.call(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        self.last = loss.item()
        self.k += 1

    def validation(self) -> float:
        with torch.no_grad():
            return mean_loss(self.held, lambda x, y: self.net(*map(torch.from_numpy, (x, y)))[1])


class Ours:
    """A run of ``viete train`` in a folder of its own."""

    def __init__(self, text: Path, engine: str, threads: int, seed: int = 0) -> None:
        self.folder = tempfile.TemporaryDirectory()
        given = replace(SETTINGS, data=str(text), engine=engine, threads=threads, seed=seed)
        self.job = begin(given, vt.read("nanogpt"), Path(self.folder.name))
        self.training = Training(self.job)

    def step(self) -> None:
        self.training.take_step()

    def validation(self) -> float:
        held = self.job.validation
        assert held is not None
        ids = np.asarray(held.data.ids[held.first : held.last])
        return mean_loss(ids, lambda x, y: self.job.engine.evaluate(x, y=y))


def mean_loss(ids: np.ndarray[Any, Any], loss: Callable[..., Any]) -> float:
    """Over all of a text, in windows of N tokens one after the other."""
    count = (len(ids) - 1) // N
    windows = np.array([ids[k * N : k * N + N + 1] for k in range(count)]).astype(np.int64)
    total = 0.0
    for k in range(0, count, 64):
        part = windows[k : k + 64]
        total += len(part) * float(loss(part[:, :-1].copy(), part[:, 1:].copy()))
    return total / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--steps", type=int, default=0, help="train ours and the peer this far")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--no-compile", action="store_true")
    given = parser.parse_args()
    blas = ThreadpoolController().select(user_api="blas")

    def using(threads: int) -> None:
        torch.set_num_threads(threads)
        blas.limit(limits=threads)

    runs: dict[tuple[str, int], Any] = {}
    for t in given.threads:
        using(t)
        runs["nanoGPT, eager", t] = Peer(given.text)
        runs["nanoGPT, eager, AdamW not fused", t] = Peer(given.text, fused=False)
        if not given.no_compile:
            runs["nanoGPT, compiled", t] = Peer(given.text, compiled=True)
        for engine in ("numpy", "torch"):
            runs[f"viete train, {engine}", t] = Ours(given.text, engine, t)
    times: dict[tuple[str, int], list[float]] = {name: [] for name in runs}
    for round_ in range(-1, given.rounds):
        for (name, t), run in runs.items():
            using(t)
            run.step()  # so that what the others left in the caches is gone
            start = time.perf_counter()
            for _ in range(EACH):
                run.step()
            if round_ >= 0:
                times[name, t].append((time.perf_counter() - start) / EACH)
    medians = {name: statistics.median(v) for name, v in times.items()}
    best = min((k for k in runs if k[0].startswith("nanoGPT")), key=lambda k: medians[k])
    print(f"{given.rounds} rounds of {EACH} steps; the fastest peer: {best[0]}, {best[1]} threads")
    for (name, t), seconds in times.items():
        ratios = [a / b for a, b in zip(seconds, times[best], strict=True)]
        print(
            f"{name:33} {t} threads  {1000 * medians[name, t]:6.1f} ms "
            f"(fastest {1000 * min(seconds):6.1f})  / the fastest peer "
            f"{medians[name, t] / medians[best]:.3f} ({min(ratios):.3f}-{max(ratios):.3f})"
        )
    if not given.steps:
        return
    ours = min((k for k in runs if k[0].startswith("viete")), key=lambda k: medians[k])
    for seed in range(given.seeds):
        using(best[1])
        peer = Peer(given.text, "compiled" in best[0], "not fused" not in best[0], seed)
        using(ours[1])
        mine = Ours(given.text, ours[0].split()[-1], ours[1], seed)
        for name, t, run in ((*best, peer), (*ours, mine)):
            using(t)
            start = time.perf_counter()
            for _ in range(given.steps):
                run.step()
            seconds = time.perf_counter() - start
            print(
                f"seed {seed}: {name}, {t} threads: {given.steps} steps in {seconds:.1f} s, "
                f"validation loss {run.validation():.4f}", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
