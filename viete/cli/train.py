"""``viete train``: trains a card, and writes a run's folder; ``viete plot`` draws its losses."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from viete.cli.output import emit, format_of, output_option
from viete.cli.source import SourceOptions
from viete.document.columns import fitting_lines, table_width, terminal_width
from viete.errors import VieteError, VieteWarning, memory_refusals
from viete.train.settings import Settings, load_settings, option

if TYPE_CHECKING:
    from viete.train.setup import Job


@dataclass
class TrainingSource(SourceOptions):
    """The card to train, as for other commands; a resumed run has its own."""

    name: Annotated[
        str | None,
        typer.Argument(
            metavar="CARD",
            help="A card: its path or the name of a shipped card. Or a run or a model, to start "
            "a new run from its weights.",
        ),
    ] = None  # type: ignore[assignment]
    revision: Annotated[
        str | None,
        typer.Option(help="The checkpoint to start from or to resume at: latest, previous, best or "
                     "a step. Of a model: a branch, tag or commit."),
    ] = None  # fmt: skip


def options_of_settings() -> list[Parameter]:
    """The fields of `Settings` as options, None for those that were not given."""
    kinds, out = get_type_hints(Settings), []
    for field in fields(Settings):
        if "words" in field.metadata:
            said, kind = field.metadata, kinds[field.name]
            names = said["names"] or (option(field.name),)
            given = typer.Option(*names, help=said["words"], rich_help_panel=said["panel"])
            kind = list[str] if kind == tuple[str, ...] else kind
            out.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=None,
                                 annotation=Annotated[kind | None, given]))  # fmt: skip
    return out


SETTINGS = options_of_settings()


def train(
    source: TrainingSource,
    run: Annotated[Path | None, output_option("The folder of the run, a new one.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder -o.")
    ] = False,
    **settings: Any,
) -> None:
    """Train a card on text, and write weights, settings and losses to a folder.

    Ctrl-C stops and saves. viete train --resume -o RUN/ continues with the same settings.
    """
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value
             for name, value in settings.items() if value not in (None, [])}  # fmt: skip
    if run is None:
        raise VieteError("a run needs a folder to keep what it learns: give -o RUN/")
    name, going_on = source.name, resume or (source.revision is not None and source.name is None)
    set_threads(given.get("threads") or (threads_before(run) if going_on else None))
    from viete.train.loop import train as learn
    from viete.train.processes import team
    from viete.train.setup import begin, follow
    from viete.train.setup import resume as go_on

    speaks = team().leads
    if not speaks:
        job = follow(run)
    elif going_on:
        if (name, source.sets, source.config, source.instead, source.accept) != (None,) * 5:
            raise VieteError(
                "a resumed run keeps its card: leave out CARD, --set, --config, --card and --accept"
            )
        job = go_on(given, run, source.revision or "latest")
        print(f"{job.run}: going on after step {job.step}", flush=True)
    else:
        if name is None or "data" not in given:
            raise VieteError("give a CARD and --data FILE, or -o RUN/ --resume to continue a run")
        words = ""
        if source.is_model:
            start, words = starting_point(source, "tokenizer" in given)
            given = start | given
        source.refuse_cut("training has many texts")
        card, sets = source.card(), tuple(source.sets or ())
        before = source.unchanged() if source.is_model else None
        job = begin(Settings(card=name, sets=sets, **given), card, run, before)
        if words:
            print(words, flush=True)
    if job.step >= job.settings.steps and speaks:
        taken = number_of(job.settings.steps, "step")
        print(f"this run has already taken its {taken}; ask for more with --steps")
    elif speaks:
        announce(job)
    with memory_refusals("give a smaller --batch or --length, or smaller dimensions with --set"):
        found = learn(job, sampler(job) if job.settings.sample_every else None)
    if found.stopped:
        if speaks:
            print(f"stopped after step {found.step}, and saved; to go on: "
                  f"viete train --resume -o {run}")  # fmt: skip
        sys.exit(130)
    if speaks:
        print(f"{number_of(found.step, 'step')} done, loss {found.loss:.6f}; saved in {run}")
        if found.diverged:
            print(found.diverged)


def starting_point(source: SourceOptions, has_tokenizer: bool) -> tuple[dict[str, str], str]:
    """The settings of a new run that starts from a run or a model, and a note that says so.

    Raises VieteError where a run has no such checkpoint, and for a model without a tokenizer.
    """
    from viete.formats.hub import located
    from viete.model.checkpoints import steps
    from viete.model.trained import MARKDOWN, checkpoint_of, weights_beside

    here = Path(source.name).exists()
    path = located(source.name, None if here else source.revision).resolve()
    weights, where = weights_beside(path) if path.suffix == MARKDOWN else path, "its weights"
    if path.is_dir() and steps(path):
        found = checkpoint_of(path, source.revision or "latest")
        weights, where = found.path, f"its weights at step {found.step}"
    elif here and source.revision is not None:
        raise VieteError(f"{source.name} has no checkpoints for --revision to choose among")
    tokenizer = (path if path.is_dir() else path.parent) / "tokenizer.json"
    if not has_tokenizer and not tokenizer.is_file():
        raise VieteError(
            f"{source.name} has no tokenizer.json, so the tokens of its weights are unknown; name "
            f"a tokenizer with --tokenizer"
        )
    words = f"{source.name}: a new run from {where}, with a fresh optimiser"
    return {"weights": str(weights), "tokenizer": str(tokenizer)}, words


def sampler(job: Job) -> Callable[[int], str]:
    """A function that shows a hundred tokens that the model of a step would write."""
    from viete.sampling.texts import sample_texts
    from viete.text.dialogs import EOT

    data, vocabulary, model = job.batches.data, job.vocabulary, job.model
    first = 1 if data.own is None else int(data.own.argmax())  # up to the first answer
    ids = list(map(int, data.ids[:first]))
    if job.settings.prompt:
        ids = list(map(int, vocabulary.encode(job.settings.prompt)))

    stop = () if data.own is None else (EOT,)
    ends = () if vocabulary.end is None else (vocabulary.decode([vocabulary.end]),)

    def show(step: int) -> str:
        weights = job.engine.gather(job.engine.weights)
        if not job.team.leads:
            return ""  # nobody hears it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VieteWarning)  # of a card without a cache, each time
            pieces = sample_texts(model, weights, vocabulary, ids, stop=stop, stop_tokens=ends,
                                  most=100, seed=job.settings.seed + step)  # fmt: skip
        return f"{vocabulary.decode(ids)}▸{''.join(text for _, text in pieces)}"

    return show


def number_of(n: int, one: str, many: str = "") -> str:
    """``1 step``, ``2,000 steps``."""
    return f"{n:,} {one if n == 1 else many or f'{one}s'}"


def announce(job: Job) -> None:
    """Print what is trained, and on what."""
    from viete.evaluate.schedule import parameter_shapes

    weights = sum(map(math.prod, parameter_shapes(job.model).values()))
    batches, of = job.batches, f"{number_of(len(job.vocabulary), 'token')} in its vocabulary"
    if job.settings.model:
        facts = dict(job.model.facts)
        of = " and ".join(facts[x] for x in ("reads", "writes") if x in facts)
        of = f"{of} of {Path(job.settings.model).name}"
    said = (
        f"{job.model.title}: {weights:,} weights, {of}; "
        f"{number_of(len(batches.data), 'token')} of {batches.data.name}, "
        f"{number_of(batches.epoch, 'batch', 'batches')} per epoch"
    )
    print("\n".join(fitting_lines([said], table_width())), flush=True)
    if job.skipped:
        names = ", ".join(path.name for path in job.skipped[:3])
        more = f" and {len(job.skipped) - 3} more" if len(job.skipped) > 3 else ""
        print(f"left out, as no text: {names}{more}", flush=True)


def threads_before(run: Path) -> int | None:
    """The number of threads in config.json; other problems in the file are reported later."""
    with suppress(VieteError):
        return load_settings(run).threads
    return None


def set_threads(threads: int | None) -> None:
    """Limit the threads of matrix products, before NumPy reads the limit.

    One by default: with two on busy cores each product waits for the slower one, and a step can
    take several times as long. OMP_NUM_THREADS in the environment counts where nothing is given.
    """
    count = str(threads or os.environ.get("OMP_NUM_THREADS") or 1)
    for library in ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM"):
        if threads is not None or f"{library}_NUM_THREADS" not in os.environ:
            os.environ[f"{library}_NUM_THREADS"] = count


def plot(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="Folders that viete train wrote.")
    ],
    output: Annotated[
        Path | None, output_option("Write the picture to this file [RUN/loss.svg].")
    ] = None,
) -> None:
    """Draw the training and validation loss of a run, here and as RUN/loss.svg.

    Several runs are drawn in one picture.
    """
    from viete.document.colours import svg_file
    from viete.train.plot import plot_runs
    from viete.train.plot_text import plot_text

    picture = plot_runs(runs)
    target = output or runs[0] / "loss.svg"
    format_of(None, target, ("svg",))
    emit(svg_file(picture), target)
    if len(runs) == 1:
        print("\n".join(plot_text(runs[0], terminal_width())))
