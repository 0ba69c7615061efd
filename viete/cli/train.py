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
from viete.regular import SETTINGS, regular

if TYPE_CHECKING:
    from viete.train.setup import Job


DATA, STEPS, ENGINE, KEPT, AGAIN = (
    "The data", "A step", "What computes it", "What is kept and shown", "Going on"
)  # fmt: skip


def option(panel: str, said: str, *names: str) -> Any:
    """An option of ``viete train``, under its heading of the help."""
    return typer.Option(*names, help=said, rich_help_panel=panel)


def train(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="CARD",
            help="A card: its path or a shipped name. Or a run or a model, to start a new run from "
            "its weights.",
        ),
    ] = None,
    data: Annotated[
        str | None, option(DATA, "A text, JSON lines, dialogs, or a folder of them.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder of the run, a new one.")
    ] = None,
    sets: Set = None,
    config: Config = None,
    kind: Annotated[
        str | None, option(DATA, "text, dialogs or jsonl [by name and first line].")
    ] = None,
    tokenizer: Annotated[
        str | None,
        option(DATA, "characters, bpe, or a tokenizer.json [characters; of a model, its own]."),
    ] = None,
    vocabulary: Annotated[int | None, option(DATA, "Tokens of a new bpe.")] = None,
    special: Annotated[
        list[str] | None,
        option(DATA, "A piece of the text that is one token, such as <END> (repeatable)."),
    ] = None,
    validation: Annotated[
        float | None, option(DATA, "Share of the data to set aside [0.1].")
    ] = None,
    loss_on: Annotated[
        str | None, option(DATA, "Of dialogs, all or the assistant's words alone [all].")
    ] = None,
    steps: Annotated[int | None, option(STEPS, "Changes of the weights [1000].")] = None,
    batch: Annotated[
        int | None, option(STEPS, "Sequences in a batch, of all processes together [12].")
    ] = None,
    length: Annotated[
        int | None, option(STEPS, "Tokens in a sequence, which becomes the card's context.")
    ] = None,
    accumulate: Annotated[int | None, option(STEPS, "Batches to a step [1].")] = None,
    lr: Annotated[float | None, option(STEPS, "The learning rate [0.001].")] = None,
    schedule: Annotated[str | None, option(STEPS, "constant or cosine [constant].")] = None,
    warmup: Annotated[int | None, option(STEPS, "Steps up to the learning rate [0].")] = None,
    min_lr: Annotated[float | None, option(STEPS, "Where a cosine ends [0].")] = None,
    optimiser: Annotated[
        str | None, option(STEPS, "adamw or adam [adamw].", "--optimiser", "--optimizer")
    ] = None,
    beta1: Annotated[float | None, option(STEPS, "β₁ [0.9].")] = None,
    beta2: Annotated[float | None, option(STEPS, "β₂ [0.999].")] = None,
    eps: Annotated[float | None, option(STEPS, "ε [1e-8].")] = None,
    weight_decay: Annotated[float | None, option(STEPS, "Of matrices [0].")] = None,
    clip: Annotated[
        float | None, option(STEPS, "The longest gradient; 0 does not clip [1].")
    ] = None,
    clip_entries: Annotated[
        float | None, option(STEPS, "The largest entry of a gradient; 0 does not clip [0].")
    ] = None,
    seed: Annotated[int | None, option(STEPS, "Of weights, batches and dropout [0].")] = None,
    engine: Annotated[
        str | None,
        option(
            ENGINE,
            "numpy, torch (the card's own equations on either), or module (as an "
            "nn.Module, with autograd) [numpy].",
        ),
    ] = None,
    dtype: Annotated[str | None, option(ENGINE, "float32 or float64 [float32].")] = None,
    threads: Annotated[
        int | None,
        option(ENGINE, "Of the matrix products [1]; more pay for wide models on idle cores."),
    ] = None,
    device: Annotated[str | None, option(ENGINE, "cpu or cuda; not with numpy [cpu].")] = None,
    bf16: Annotated[
        bool | None, option(ENGINE, "Of a module: products in bfloat16.", "--bf16")
    ] = None,
    compile: Annotated[
        bool | None, option(ENGINE, "Of a module: by torch.compile.", "--compile")
    ] = None,
    shard: Annotated[
        bool | None,
        option(ENGINE, "Of a module: weights divided among processes (FSDP2).", "--shard"),
    ] = None,
    log_every: Annotated[int | None, option(KEPT, "Steps between lines [10].")] = None,
    eval_every: Annotated[int | None, option(KEPT, "Steps between validations [200].")] = None,
    eval_sequences: Annotated[
        int | None, option(KEPT, "Sequences of one validation [120].")
    ] = None,
    save_every: Annotated[int | None, option(KEPT, "Steps between checkpoints [200].")] = None,
    keep: Annotated[int | None, option(KEPT, "How many of the last to keep [3].")] = None,
    sample_every: Annotated[
        int | None, option(KEPT, "Steps between samples of what it would write; 0 for none [0].")
    ] = None,
    prompt: Annotated[
        str | None, option(KEPT, "What the samples go on from [how the data begin].")
    ] = None,
    tensorboard: Annotated[
        bool | None, option(KEPT, "Write RUN/tensorboard/ too.", "--tensorboard")
    ] = None,
    resume: Annotated[bool, option(AGAIN, "Go on with the run in the folder.", "--resume")] = False,
    start: Annotated[
        str | None,
        option(AGAIN, "Go on, or start from RUN, at latest, previous, best or a step.", "--from"),
    ] = None,
) -> None:
    """Train a card on a text, and keep what it learned in a folder.

    The settings are remembered there: viete train --resume -o RUN/ goes on with them.
    """
    given: dict[str, Any] = {
        key: value for key, value in locals().items()
        if value is not None and key not in ("name", "run", "resume", "start", "sets", "config")
    }  # fmt: skip
    if special:
        given["special"] = tuple(special)
    if run is None:
        raise VieteError("a run needs a folder to keep what it learns: give -o RUN/")
    going_on = resume or (start is not None and name is None)
    set_threads(given.get("threads") or (threads_before(run) if going_on else None))
    from viete.train.loop import train as go
    from viete.train.processes import team
    from viete.train.settings import Settings
    from viete.train.setup import begin, follow
    from viete.train.setup import resume as go_on

    speaks = team().leads
    if not speaks:
        job = follow(run)
    elif going_on:
        if name is not None or sets or config is not None:
            raise VieteError("a run that goes on has its card: leave out CARD, --set and --config")
        job = go_on(given, run, start or "latest")
        print(f"{job.run}: going on after step {job.step}", flush=True)
    else:
        from viete.cli.common import card, is_model

        if name is None or data is None:
            raise VieteError("give a CARD and --data FILE, or -o RUN/ --resume to go on")
        model = card(name, sets, config)
        said = ""
        if is_model(name):
            source, said = learned(name, start, "tokenizer" in given)
            given = source | given
        elif start is not None:
            raise VieteError(f"{name} is a card, which has no weights for --from to choose among")
        job = begin(Settings(card=name, sets=tuple(sets or ()), **given), model, run)
        if said:
            print(said, flush=True)
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
        if found.diverged:
            print(found.diverged)


def learned(name: str, which: str | None, has_words: bool) -> tuple[dict[str, str], str]:
    """The settings by which a new run starts from a run or a model, and a sentence that says so.

    ``which`` is the checkpoint of a run; ``has_words``: a tokenizer is given. Raises VieteError
    where there are no checkpoints to choose among, and for a model without a tokenizer.
    """
    from viete.formats.hub import located
    from viete.model import checkpoints
    from viete.train.setup import card_digest

    path = located(name).resolve()
    if path.is_dir() and checkpoints.steps(path):
        found = checkpoints.choose(path, which or "latest", card_digest(path))
        weights, where = found.path, f"its weights at step {found.step}"
    elif which is not None:
        raise VieteError(f"{name} has no checkpoints for --from to choose among")
    else:
        weights, where = path, "its weights"
    words = (path if path.is_dir() else path.parent) / "tokenizer.json"
    if not has_words and not words.is_file():
        raise VieteError(
            f"{name} has no tokenizer.json, by which its weights know the tokens; say which with "
            f"--tokenizer"
        )
    said = f"{name}: a new run from {where}, with a fresh optimiser"
    return {"weights": str(weights), "tokenizer": str(words)}, said


def sampler(job: Job) -> Callable[[int], str]:
    """What shows a hundred tokens that the model of a step would write, up to the text's end."""
    from viete.sampling.generating import sample, uncached
    from viete.text.dialogs import EOT

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
        if not job.team.leads:
            return ""  # nobody hears it
        tokens = sample(model, weights, ids, most=100, stop=ended, cache=cache,
                        seed=job.settings.seed + step)  # fmt: skip
        new = [token for (token,) in tokens if token is not None]
        return f"{vocabulary.decode(ids)}▸{vocabulary.decode(new)}"

    return show


def announce(job: Job) -> None:
    """What is trained on what."""
    from viete.evaluate.schedule import parameter_shapes

    weights = sum(map(math.prod, parameter_shapes(job.model).values()))
    batches = job.batches
    print(
        f"{job.model.title}: {weights:,} weights, {len(job.vocabulary)} tokens in its vocabulary; "
        f"{len(batches.data):,} tokens of {batches.data.name}, {batches.epoch:,} batches an epoch",
        flush=True,
    )
    if job.skipped:
        names = ", ".join(path.name for path in job.skipped[:3])
        more = f" and {len(job.skipped) - 3} more" if len(job.skipped) > 3 else ""
        print(f"left out, as no text: {names}{more}", flush=True)


def threads_before(run: Path) -> int | None:
    """What config.json says of threads; any other trouble with it is told later."""
    try:
        found = json.loads(regular(run / "config.json", SETTINGS).read_text("utf-8"))["threads"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
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
