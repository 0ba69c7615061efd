"""``viete train``: a card, a text, and a folder with what was learned."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from viete.cli.common import Config, Set
from viete.errors import VieteError

if TYPE_CHECKING:
    from viete.train.setup import Job


def train(
    name: Annotated[
        str | None, typer.Argument(metavar="CARD", help="A card's path, or a shipped card's name.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="A text, JSON lines, dialogs, or a folder of them.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder of the run.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Changes of the weights [1000].")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Sequences in a batch [12], of all processes together.")
    ] = None,
    length: Annotated[
        int | None, typer.Option(help="Tokens in a sequence, and the card's context.")
    ] = None,
    accumulate: Annotated[int | None, typer.Option(help="Batches to a step [1].")] = None,
    lr: Annotated[float | None, typer.Option(help="The learning rate [0.001].")] = None,
    schedule: Annotated[str | None, typer.Option(help="constant (default) or cosine.")] = None,
    warmup: Annotated[int | None, typer.Option(help="Steps up to the learning rate [0].")] = None,
    min_lr: Annotated[float | None, typer.Option(help="Where a cosine ends [0].")] = None,
    optimiser: Annotated[
        str | None, typer.Option("--optimiser", "--optimizer", help="adamw (default) or adam.")
    ] = None,
    beta1: Annotated[float | None, typer.Option(help="β₁ [0.9].")] = None,
    beta2: Annotated[float | None, typer.Option(help="β₂ [0.999].")] = None,
    eps: Annotated[float | None, typer.Option(help="ε [1e-8].")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Of matrices [0].")] = None,
    clip: Annotated[
        float | None, typer.Option(help="Longest gradient [1]; 0 does not clip.")
    ] = None,
    clip_entries: Annotated[
        float | None, typer.Option(help="Largest entry of a gradient [0: any].")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights and batches [0].")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32 (default) or float64.")] = None,
    engine: Annotated[str | None, typer.Option(help="numpy (default), torch or module.")] = None,
    device: Annotated[str | None, typer.Option(help="Not with numpy: cpu or cuda.")] = None,
    bf16: Annotated[
        bool | None, typer.Option("--bf16", help="With --engine module: products in bfloat16.")
    ] = None,
    compile: Annotated[bool | None, typer.Option("--compile", help="… by torch.compile.")] = None,
    shard: Annotated[
        bool | None, typer.Option("--shard", help="… weights divided among processes (FSDP2).")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(help="Of the matrix products [1]; more pay for wide models on idle cores."),
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Of the data: text, dialogs, jsonl.")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="characters (default), bpe, or a tokenizer.json.")
    ] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Tokens of a new bpe.")] = None,
    validation: Annotated[float | None, typer.Option(help="Share of the data [0.1].")] = None,
    loss_on: Annotated[str | None, typer.Option(help="all (default) or assistant.")] = None,
    log_every: Annotated[int | None, typer.Option(help="Steps between lines [10].")] = None,
    eval_every: Annotated[int | None, typer.Option(help="… and validations [200].")] = None,
    eval_batches: Annotated[int | None, typer.Option(help="Batches of one [10].")] = None,
    save_every: Annotated[int | None, typer.Option(help="… and checkpoints [200].")] = None,
    keep: Annotated[int | None, typer.Option(help="Last checkpoints to keep [3].")] = None,
    sample_every: Annotated[
        int | None, typer.Option(help="Steps between samples of what it would write [0: none].")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="What they go on from; else how the data begins.")
    ] = None,
    tensorboard: Annotated[
        bool | None, typer.Option("--tensorboard", help="Write RUN/tensorboard/ too.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder.")
    ] = False,
    start: Annotated[
        str | None, typer.Option("--from", help="… from latest, previous, best or a step.")
    ] = None,
    sets: Set = None,
    config: Config = None,
) -> None:
    """Train a card on a text."""
    given: dict[str, Any] = {
        key: value for key, value in locals().items()
        if value is not None and key not in ("name", "run", "resume", "start", "sets", "config")
    }  # fmt: skip
    if run is None:
        raise VieteError("a run needs a folder to keep what it learns: give -o RUN/")
    going_on = resume or start is not None
    set_threads(given.get("threads") or (threads_before(run) if going_on else None))
    from viete.train.loop import train as go
    from viete.train.processes import team
    from viete.train.settings import Settings
    from viete.train.setup import begin
    from viete.train.setup import resume as go_on

    speaks = team().leads
    if going_on:
        if name is not None or sets or config is not None:
            raise VieteError("a run that goes on has its card: leave out CARD, --set and --config")
        job = go_on(given, run, start or "latest")
        if speaks:
            print(f"{job.run}: going on after step {job.step}", flush=True)
    else:
        from viete.cli.common import card

        if name is None or data is None:
            raise VieteError("give a CARD and --data FILE, or -o RUN/ --resume to go on")
        settings = Settings(card=name, sets=tuple(sets or ()), **given)
        job = begin(settings, card(name, sets, config), run)
    if job.step >= job.settings.steps and speaks:
        print(f"it has had its {job.settings.steps} steps; give it more with --steps")
    elif speaks:
        announce(job)
    found = go(job, sampler(job) if job.settings.sample_every else None)
    go_on_with = f"viete train --resume -o {run}"
    if found.stopped:
        if speaks:
            print(f"stopped after step {found.step}, and saved; to go on: {go_on_with}")
        sys.exit(130)
    if speaks:
        print(f"{found.step} steps done, loss {found.loss:.6f}; all of it is in {run}")


def sampler(job: Job) -> Callable[[int], str]:
    """What shows a hundred tokens that the model of a step would write, up to the text's end."""
    from viete.sampling.generating import sample, uncached
    from viete.train.dialogs import EOT

    data, vocabulary, model = job.batches.data, job.vocabulary, job.model
    first = 1 if data.own is None else int(data.own.argmax())  # up to the first answer
    ids = list(map(int, data.ids[:first]))
    if job.settings.prompt:
        ids = list(map(int, vocabulary.encode(job.settings.prompt)))
    cache = uncached(model) is None

    def ended(new: Sequence[int]) -> bool:
        return new[-1] == vocabulary.end or (
            data.own is not None and vocabulary.decode(new).endswith(EOT)
        )

    def show(step: int) -> str:
        weights = job.engine.whole(job.engine.weights)
        tokens = sample(model, weights, ids, most=100, stop=ended, cache=cache,
                        seed=job.settings.seed + step)  # fmt: skip
        new = [token for (token,) in tokens if token is not None]
        return f"{vocabulary.decode(ids)}▸{vocabulary.decode(new)}"

    return show


def announce(job: Job) -> None:
    """What is trained on what."""
    from viete.interpret.schedule import parameter_shapes

    weights = sum(map(math.prod, parameter_shapes(job.model).values()))
    batches = job.batches
    print(
        f"{job.model.title}: {weights:,} weights, {len(job.vocabulary)} tokens in its vocabulary; "
        f"{len(batches.data):,} tokens of {batches.data.name}, {batches.epoch:,} batches an epoch",
        flush=True,
    )


def threads_before(run: Path) -> int | None:
    """What config.json says of threads; any other trouble with it is told later."""
    try:
        found = json.loads((run / "config.json").read_text("utf-8"))["threads"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, int) else None


def set_threads(threads: int | None) -> None:
    """Bound the threads of the matrix products, before NumPy reads how many it may have.

    One by default: with two on busy cores each product waits for the slower one, and a step can
    take several times as long. OMP_NUM_THREADS in the environment counts where nothing is given.
    """
    count = str(threads or os.environ.get("OMP_NUM_THREADS") or 1)
    for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM"):
        if threads is not None or f"{library}_NUM_THREADS" not in os.environ:
            os.environ[f"{library}_NUM_THREADS"] = count
