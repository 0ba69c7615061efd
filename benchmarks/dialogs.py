"""The three dialogs, learned in several ways: the tables of docs/articles/dialogs.md.

    python benchmarks/dialogs.py tour      [--seeds 8]     the tour's command, and settings near it
    python benchmarks/dialogs.py clipping  [--seeds 8]     learning rates and clippings
    python benchmarks/dialogs.py scores                    what grows where it goes wrong
    python benchmarks/dialogs.py one       [--seeds 8]     the dialogs as one text, and its parts
    python benchmarks/dialogs.py variants  [--seeds 8]     the cards dialog-*.md, and warmups

Zero errors: at every character of the three answers, from `<assistant>` to `<eot>`, the likeliest
one is right. In a causal model greedy sampling then gives the answers, and only then; `tour` and
`one` sample them besides. Set OMP_NUM_THREADS=1, or 2 to see how far rounding goes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from platform import machine
from typing import Any

import numpy as np

import viete as vt
from viete.evaluate.execution import execute
from viete.evaluate.schedule import program
from viete.text.data import SHIPPED
from viete.text.dialogs import read_dialogs
from viete.train.batches import Batches
from viete.train.diagnosis import SAFE
from viete.train.loop import Training
from viete.train.settings import Settings
from viete.train.setup import Job, begin

DIALOGS = list(read_dialogs(SHIPPED / "dialogs.txt"))
CHARACTERS = sum(len(str(d)) - 1 for d in DIALOGS)  # predicted ones: the sum of so many losses
TOUR = {"lr": 0.01, "clip": 0.0, "clip_entries": 5.0}


@contextmanager
def training(card: vt.Card, **settings: Any) -> Iterator[Training]:
    """A run with nothing written but its beginning, whose steps the caller takes."""
    given = {"data": "dialogs", "batch": 3, "steps": 1000, "validation": 0.0, **settings}
    with tempfile.TemporaryDirectory() as folder:
        job = begin(Settings(**given), card, Path(folder))
        assert job.lock is not None
        with job.lock:
            yield Training(job)


def answers_right(job: Job) -> Callable[[], bool]:
    """What says whether there are zero errors."""
    chosen = Settings(batch=3, loss_on="assistant", validation=0.0)
    own = Batches(job.model, job.batches.data, job.vocabulary, chosen).batch(0)
    names = job.batches.takes

    def right() -> bool:
        run = execute(program(job.model), own, job.engine.weights, ["logits"])
        said = np.asarray(run["logits"]).argmax(-1)
        return bool(((said == own[names.targets]) | (own[names.weights] == 0)).all())

    return right


def sampled(training: Training, prompt: str) -> str:
    """The greedy answer to a prompt."""
    job, vocabulary = training.job, training.job.vocabulary
    card = vt.Card.of(job.model)
    drawn = card.sample(vocabulary.encode(prompt), job.engine.weights, most=30, greedy=True)
    return vocabulary.decode([token for (token,) in drawn if token is not None])


@dataclass
class Learned:
    """The first step after which there were zero errors, its seconds, and whether they stayed."""

    step: int | None
    seconds: float
    right: bool
    weights: int
    loss: float


def learn(name: str, **settings: Any) -> Learned:
    """Train a shipped card. The seconds are of processor time, of the steps without the looking."""
    with training(vt.read(name), **settings) as run:
        right, first, took, until = answers_right(run.job), None, 0.0, 0.0
        for _ in range(run.settings.steps):
            began = time.process_time()
            run.take_step()
            took += time.process_time() - began
            if first is None and right():
                first, until = run.step, took
        return Learned(first, until, right(), run.engine.flat.size, run.loss)


# -- tables ----------------------------------------------------------------------------------------


TOURS = {
    "0.01, entries at 5": TOUR,
    "0.01, length at 1": {"lr": 0.01, "clip": 1.0},
    "0.03 after a warmup, entries at 5": {**TOUR, "lr": 0.03, "warmup": 100},
    "0.03 after a warmup, length at 1": {"lr": 0.03, "clip": 1.0, "warmup": 100},
    "0.03, as a run that goes wrong is advised": {"lr": 0.03, **SAFE},
}


def tour(seeds: int) -> None:
    """3000 steps, as the tour takes them: how many seeds give all three answers exactly."""
    for name, given in TOURS.items():
        good, took = 0, []
        for seed in range(seeds):
            with training(vt.read("dialog-transformer"), steps=3000, seed=seed, **given) as run:
                began = time.perf_counter()
                while run.step < 3000:
                    run.take_step()
                took.append(time.perf_counter() - began)
                good += all(sampled(run, d.prompt).startswith(d.answer) for d in DIALOGS)
        print(f"{name}: {good} of {seeds}; {statistics.median(took):.1f} s", flush=True)


CLIPPINGS = {
    "no clipping": {"clip": 0.0},
    "entries at 1": {"clip": 0.0, "clip_entries": 1.0},
    "length 1": {"clip": 1.0},
    "summed loss, entries at 5": {"clip": 0.0, "clip_entries": 5 / CHARACTERS},
    "summed loss, length 1": {"clip": 1 / CHARACTERS},
}  # Adam's steps do not change with the loss times 257, so clipping at 1/257 is that of the sum


def clipping(seeds: int) -> None:
    """How many seeds have zero errors after 1000 steps."""
    row("learning rate", *CLIPPINGS)
    row(*["---"] * (1 + len(CLIPPINGS)))
    for lr in 0.03, 0.02, 0.01:
        found = []
        for given in CLIPPINGS.values():
            runs = [learn("dialog-transformer", lr=lr, seed=s, **given) for s in range(seeds)]
            found.append(sum(run.right for run in runs))
        row(lr, *found)


def scores(seeds: int) -> None:
    """At 0.03: how far a step goes, and the largest score, with and without clipping."""
    for name in "no clipping", "length 1", "summed loss, entries at 5":
        for seed in range(seeds):
            told = []
            with training(vt.read("dialog-transformer"), lr=0.03, seed=seed,
                          **CLIPPINGS[name]) as run:  # fmt: skip
                for step in range(1, 401):
                    before = run.engine.flat.copy()
                    run.take_step()
                    if step in (100, 200, 400):
                        moved = np.sqrt(np.mean((run.engine.flat - before) ** 2)) / 0.03
                        values = execute(program(run.job.model), run.job.batches.batch(0),
                                         run.engine.weights, ["S"])  # fmt: skip
                        told.append(f"step {step}: {moved:.4f} lr, score {values['S'].max():.0f}")
            print(f"{name}, seed {seed}: " + "; ".join(told), flush=True)


VARIANTS = {
    "dialog-transformer": "as it is",
    "dialog-heads": "four heads",
    "dialog-norm": "layer norm",
    "dialog-residual": "residual connection",
    "dialog-depth": "two layers",
    "dialog-all": "all four",
}
SCHEDULED = ("dialog-transformer", "dialog-depth", "dialog-all")
SCHEDULES = {
    "": {},
    ", warmup": {"warmup": 100},
    ", warmup and cosine": {"warmup": 100, "schedule": "cosine"},
}


def variants(seeds: int) -> None:
    """Steps and seconds to zero errors, how many seeds had them once and how many after 500."""
    heads = (x for lr in (0.01, 0.03) for x in (f"{lr}: first", "s", "seeds"))
    row("", "weights", *heads)
    row(*["---"] * 8)
    for card, name in VARIANTS.items():
        for after, schedule in SCHEDULES.items():
            if after and card not in SCHEDULED:
                continue
            cells: list[object] = []
            for lr in 0.01, 0.03:
                runs = [learn(card, **{**TOUR, "lr": lr, "steps": 500, "seed": s, **schedule})
                        for s in range(seeds)]  # fmt: skip
                there = [run for run in runs if run.step is not None]
                cells += [middle([run.step for run in there], ".0f"),
                          middle([run.seconds for run in there], ".2f"),
                          f"{len(there)}, {sum(run.right for run in runs)}"]  # fmt: skip
            row(name + after, f"{runs[0].weights:,}", *cells)


def middle(values: list[Any], form: str) -> str:
    return format(statistics.median(values), form) if values else "–"


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


# -- one text --------------------------------------------------------------------------------------

LINES = [str(d).replace("><", ">\n<") + "\n" for d in DIALOGS]  # as the source's program joins them
PROMPTS = [text[: text.index("<assistant>") + 11] for text in LINES]
PRODUCTS = {
    "character asks character": "E[t] W_Q (E[t] W_K)^T / sqrt(d)",
    "character asks position": "E[t] W_Q (P[:n] W_K)^T / sqrt(d)",
    "position asks character": "P[:n] W_Q (E[t] W_K)^T / sqrt(d)",
    "position asks position": "P[:n] W_Q (P[:n] W_K)^T / sqrt(d)",
}


def one(seeds: int) -> None:
    """The dialogs as one text of 271 characters and their targets, from position 0."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.txt"
        corpus.write_text("".join(LINES), "utf-8")
        length = sum(map(len, LINES)) - 1
        given = {"data": str(corpus), "length": length, "batch": 1, "steps": 3000}
        bold = {"lr": 0.03, "clip": 0.0, "clip_entries": 5 / length}
        card = vt.read("dialog-transformer")
        for how, model, settings in (
            ("0.01, length at 1", card, {"lr": 0.01}),
            ("0.03, sum, entries at 5", card, bold),
            ("the same, weights drawn as by the program", as_drawn(card), bold),
        ):
            for seed in range(seeds):
                with training(model, seed=seed, **given, **settings) as run:
                    while run.step < 3000:
                        run.take_step()
                    said = [sampled(run, prompt).split("\n")[0] for prompt in PROMPTS]
                    print(f"{how}, seed {seed}: loss {run.loss:.2g}, {said}", flush=True)
                    parts(run)


def as_drawn(card: vt.Card) -> vt.Card:
    """The card with all weights uniform to ±1/√d, as the source's program draws them."""
    return vt.read(card.write().replace("xavier", "uniform(1 / sqrt(d))"))


def parts(run: Training) -> None:
    """What the answers are made of: positions, and text of other dialogs."""
    model, weights = run.job.model, run.engine.weights
    batch = run.job.batches.batch(0)
    whole = execute(program(model), batch, weights, ["A", "logits"])
    n = batch["t"].shape[1]
    seen = np.tril(np.ones((n, n), bool))
    shares = {}
    for name, product in PRODUCTS.items():
        scores = np.asarray(whole[product]).reshape(n, n)  # of one text; positions have no batch
        scores = np.where(seen, scores, np.nan)
        shares[name] = np.nanmean((scores - np.nanmean(scores, 1, keepdims=True)) ** 2)
    total = sum(shares.values())
    print("   ", "; ".join(f"{name} {share / total:.2f}" for name, share in shares.items()))
    start = 0
    for text, prompt in zip(LINES, PROMPTS, strict=True):
        ids = run.job.vocabulary.encode(text)
        first, stop = start + len(prompt) - 1, start + len(text) - 1
        counts = [right(np.asarray(whole["logits"])[0, first:stop], ids[len(prompt) :])]
        for at in 0, start:  # alone: from position 0, and at its old positions
            moved = {**weights, "P": np.roll(weights["P"], -at, 0)}
            alone = model.run(ids[:-1], moved, y=ids[1:])
            counts.append(right(alone["logits"][len(prompt) - 1 :], ids[len(prompt) :]))
        before = np.asarray(whole["A"])[0, first:stop, :start].sum(1).mean()
        print(f"    {counts} of {stop - first} right in place, alone, alone in its place; "
              f"{before:.2f} of A on earlier dialogs")  # fmt: skip
        start += len(text)


def right(logits: np.ndarray, wanted: np.ndarray) -> int:
    return int((logits.argmax(-1) == wanted[: len(logits)]).sum())


def conditions(seeds: int) -> str:
    """What the numbers depend on: the processor, its threads, NumPy, the commit, the seeds."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((x.partition(": ")[2] for x in lines if x.startswith("model name")), machine())
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return (
        f"{model}, {os.environ.get('OMP_NUM_THREADS', 'all')} threads, NumPy {np.__version__}, "
        f"commit {commit.stdout.strip()}, float32, seeds 0 to {seeds - 1}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["tour", "clipping", "scores", "one", "variants"])
    parser.add_argument("--seeds", type=int, default=8)
    said = parser.parse_args()
    print(conditions(said.seeds), flush=True)
    globals()[said.what](said.seeds)
