"""Sets up a run: from settings to everything it needs, and the folder that keeps it.

    RUN/card.md             the card as bound to this data, with its training loss
    RUN/config.json         all settings
    RUN/tokenizer.json      the vocabulary
    RUN/tokens/             the encoded data, if it is large or shared by several processes
    RUN/checkpoints/        see `checkpoints`
    RUN/metrics.jsonl       see `metrics`

A run that starts and a run that resumes both read the folder, so they cannot differ. With several
processes, the first starts or resumes the run, and the others `follow`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from os.path import realpath
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from viete.analysis.next_token import scores
from viete.atomic import replacing
from viete.cards.reader import read
from viete.cards.writer import write
from viete.errors import VieteError, os_refusals
from viete.evaluate.initial_weights import initial_weight, literal_weights
from viete.evaluate.inputs import writable
from viete.evaluate.memory import check_room, counted
from viete.evaluate.schedule import parameter_shapes, program
from viete.evaluate.shares import Shares, shares
from viete.formats.tensors import on_device, require
from viete.graph.card import CardData
from viete.model import checkpoints
from viete.model.checkpoints import Checkpoint
from viete.model.folder import tensors_of
from viete.model.mapping import load_weights
from viete.model.trained import CARD, card_digest
from viete.regular import regular
from viete.sampling.texts import spelled
from viete.text.data import read_data
from viete.text.vocabulary import (
    Vocabulary,
    digest,
    load_vocabulary,
    make_vocabulary,
    save_vocabulary,
)
from viete.train.batches import PARTS, Batches, same_data
from viete.train.dropout import Masks, with_masks
from viete.train.engines import LossEngine, PlannedEngine
from viete.train.fitting import check_sets, fit_card
from viete.train.inputs import training_inputs
from viete.train.metrics import read_metrics
from viete.train.optimiser import Adam, spans
from viete.train.processes import Team, data_parallel, own_device, team
from viete.train.settings import CONFIG, Settings, load_settings, resume_settings, save_settings
from viete.train.tokens import Tokens, memory_mapped, tokenize
from viete.train.values import (
    AnyBatches,
    ValueBatches,
    begin_weights,
    fit_values,
    model_values,
    own_tokenizer,
)

TOKENS = "tokens"
LARGE = 1 << 24  # bytes of data, above which its tokens are kept in files and mapped


@dataclass
class Job:
    """A run ready to take its next step; ``last`` is the checkpoint it resumes from.

    ``start`` is open until that step is done: an error in it leaves the folder unchanged.
    """

    settings: Settings
    run: Path
    model: CardData
    card: str
    vocabulary: Vocabulary
    batches: AnyBatches
    validation: AnyBatches | None
    engine: LossEngine
    masks: Masks
    shares: Shares | None  # where the loss of a batch is a mean over targets
    optimiser: Adam
    last: Checkpoint | None
    lock: BinaryIO | None  # of the process that writes
    team: Team
    start: ExitStack = field(default_factory=ExitStack)
    skipped: tuple[Path, ...] = ()  # files of the data's folder that are not text

    @property
    def step(self) -> int:
        return 0 if self.last is None else self.last.step


def begin(settings: Settings, card: CardData, run: Path, before: CardData | None = None) -> Job:
    """Begin a new run of a card, in an empty folder.

    ``before`` is the card of the weights that it starts from, where the card was changed since.

    Raises VieteError, and leaves no files, for a card and data that do not fit, and for a folder
    with other files; only a run without a checkpoint is begun anew.
    """
    check_vacant(run)
    documents = read_data(settings.data, settings.kind)
    if documents.path.is_dir() and Path(realpath(run)).is_relative_to(realpath(documents.path)):
        raise VieteError(
            f"{run}: the run would be written into its own data, since it is in the folder "
            f"{documents.path}; give a folder outside of it"
        )
    if settings.model:
        if settings.tokenizer == "characters":
            settings = replace(settings, tokenizer=own_tokenizer(settings.model))
        if Path(settings.model).exists():  # to be found again from any folder
            settings = replace(settings, model=str(Path(settings.model).resolve()))
    if settings.tokenizer in ("characters", "bpe"):
        vocabulary = make_vocabulary(
            documents, settings.tokenizer, settings.vocabulary, settings.special
        )
    elif settings.special:
        raise VieteError(f"--special needs a new vocabulary; {settings.tokenizer} has its own")
    else:
        vocabulary = load_vocabulary(settings.tokenizer)
    if settings.model:
        card = fit_values(card, model_values(settings), documents, vocabulary, settings)
    else:
        card = fit_card(card, documents, vocabulary, settings)
        training_inputs(card)
    check_sets(card, settings.sets)
    if given := next((p for p in card.parameters if p.from_config), None):
        raise VieteError(
            f"{card.title}: {given.name} is given by a config and is not learned, but training "
            f"would change it too"
        )
    literal_weights(card)
    if settings.sample_every:
        scores(card)
        spelled(settings.prompt, vocabulary, "--text")
    # To be found again from any folder, whatever this one may contain under that name.
    settings = replace(settings, data=str(documents.path.resolve()))
    with ExitStack() as stack:
        lock = stack.enter_context(owned_folder(run))
        save_settings(settings, run)  # first, since it marks the folder as a run's
        with replacing(run / CARD) as file:
            file.write(write(card, "md").encode())
        save_vocabulary(vocabulary, run / "tokenizer.json")
        team().broadcast((settings, None))
        try:
            found = build_job(settings, run, None, lock, before)
        except VieteError as error:
            if error.where is not None and error.where.file == str(run / CARD):
                masked_engine(
                    settings, card, None, None, before
                )  # raises the same in the user's card
            raise
        return replace(found, skipped=documents.skipped, start=stack.pop_all())


def resume(given: Mapping[str, Any], run: Path, which: str) -> Job:
    """Resume a run from its checkpoint ``which``, with some settings changed.

    Raises VieteError for a folder without a checkpoint, and for data, card or settings that
    changed.
    """
    settings = resume_settings(load_settings(run), given)
    with ExitStack() as stack:
        lock = stack.enter_context(owned_folder(run))
        if not checkpoints.steps(run):
            raise VieteError(f"{run}: the run has no checkpoint yet; start without --resume")
        last = checkpoints.choose(run, which, card_digest(run))
        team().broadcast((settings, last.step))
        found = build_job(settings, run, last, lock)
        read_metrics(run)  # so that invalid metrics are refused before anything changes
        stack.enter_context(finish_resuming(settings, run, last.step))
        return replace(found, start=stack.pop_all())


@contextmanager
def finish_resuming(settings: Settings, run: Path, last: int) -> Iterator[None]:
    """After the body, turn the folder into that of a run resumed from step ``last``."""
    yield
    for step in checkpoints.steps(run):
        if step > last:  # of another continuation, which could be mistaken for this one
            checkpoints.set_aside(checkpoints.path_of(run, step))
    save_settings(settings, run)


def follow(run: Path) -> Job:
    """The run that the first process begins or resumes, for all other processes."""
    found = team().broadcast(None)
    if found is None:
        raise SystemExit(2)  # the first process has reported why
    settings, step = found
    last = None if step is None else checkpoints.load(checkpoints.path_of(run, step))
    return build_job(settings, run, last, None)


def build_job(
    settings: Settings, run: Path, last: Checkpoint | None, lock: BinaryIO | None,
    before: CardData | None = None,
) -> Job:  # fmt: skip
    model = read(run / CARD)
    vocabulary = load_vocabulary(run / "tokenizer.json")
    check_batch(settings, model)
    shared = shares(model) if settings.mean == "targets" else None
    masks, engine = masked_engine(settings, model, shared, last, before)
    tokens = encode_data(settings, run, vocabulary, last)  # last, since it takes longest to fail

    count = None if tokens.starts is None else len(tokens.starts) - 1
    held = settings.validation if count is None else int(count * settings.validation)
    parts = PARTS[: 2 if held else 1]
    batches, *validation = batches_of(model, tokens, vocabulary, settings, parts)
    if last is not None:
        batches.check(last.state["batches"])
    elif settings.model and not settings.weights:
        begin_weights(model, engine.weights, batches.batch(0))
    ranks = {name: len(p.shape) for name, (p, _, _) in program(model).parameters.items()}
    shapes = {name: tuple(w.shape) for name, w in engine.weights.items()}
    adam = Adam(engine.flat, spans(shapes, ranks), settings, engine.spread)
    if last is not None:
        adam.steps = last.state["optimiser steps"]
        moments = last.moments
        adam.load(LazyArrays(moments, lambda key: engine.shard(key.split("/", 1)[1], moments[key])),
                  engine.weights)  # fmt: skip
    held_out = validation[0] if validation else None
    return Job(settings, run, model, card_digest(run), vocabulary, batches, held_out, engine,
               masks, shared, adam, last, lock, team())  # fmt: skip


def batches_of(
    card: CardData, tokens: Tokens, vocabulary: Vocabulary, settings: Settings, parts: Sequence[str]
) -> list[AnyBatches]:
    """The batches of some parts of the data: texts, or a model's values on them."""
    if not settings.model:
        return [Batches(card, tokens, vocabulary, settings, part) for part in parts]
    values = model_values(settings)
    return [ValueBatches(card, values, tokens, vocabulary, settings, part) for part in parts]


def check_batch(settings: Settings, card: CardData) -> None:
    """Raise VieteError for batches too large for memory: their tokens, and a module's values."""
    longest = max((int(card.greatest.get(name, 1)) for name in card.lengths), default=1)
    needed = settings.batch * (settings.length or longest) * 16  # ids and targets, in 64 bits
    if settings.engine == "module" and settings.device in (None, "cpu"):
        found = counted(card, settings.length or longest, settings.batch)
        needed += 4 * (found.activations.number or 0) if found is not None else 0
    check_room(needed, f"a batch of {settings.batch:,}", "give a smaller --batch or --length")


def masked_engine(
    settings: Settings, card: CardData, shared: Shares | None, last: Checkpoint | None,
    before: CardData | None = None,
) -> tuple[Masks, LossEngine]:  # fmt: skip
    """The masks and engine of a card, with its first weights or a checkpoint's."""
    parts = team().size if settings.shard else 1
    draw = initial_weight(card, settings.seed, settings.dtype, parts)
    own = card if before is None else before
    found = first_weights(settings, own) if last is None else checkpoint_weights(last, card)
    if last is None and before is not None:
        found = kept_weights(found, card, before)

    def weight(name: str) -> np.ndarray:
        return found[name].astype(settings.dtype) if name in found else draw(name)

    card = card if shared is None else shared.card
    masks, weights = with_masks(card), LazyArrays(parameter_shapes(card), weight)
    return masks, make_engine(settings.engine, masks.model, card, weights, settings.device,
                              settings.bf16, settings.compile, settings.shard)  # fmt: skip


def make_engine(
    kind: str, model: CardData, card: CardData, weights: Mapping[str, np.ndarray],
    device: str | None = None, bf16: bool = False, compiled: bool = False, shard: bool = False,
) -> LossEngine:  # fmt: skip
    """The engine of that name, starting from copies of these weights, in their dtype.

    With several processes, each has a whole engine, or with ``shard`` a part, joined to the
    others'; with ``shard`` the arrays of ``weights`` are read one by one.
    """
    if kind == "numpy":
        return data_parallel(PlannedEngine(model, card, dict(weights)))
    torch = require("torch", f"for the engine {kind}")
    device = own_device(device)
    divided, there = shard and team().size > 1, {}
    with on_device(device or "cpu"):
        float(torch.ones((), device=device))  # fails on a device without memory, such as meta
        for name in () if divided else weights:
            there[name] = torch.as_tensor(writable(weights[name])).to(device or "cpu")
    if kind == "torch":
        return data_parallel(PlannedEngine(model, card, there))
    if divided:
        from viete.train.sharded import ShardedEngine

        return data_parallel(ShardedEngine(team(), model, card, weights, device, bf16, compiled))
    from viete.train.autograd import ModuleEngine

    return data_parallel(ModuleEngine(model, card, there, bf16, compiled))


class LazyArrays(Mapping[str, Any]):
    """Arrays by name, each made at every access."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Any]) -> None:
        self.names, self.make = tuple(names), make

    def __getitem__(self, name: str) -> Any:
        return self.make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def checkpoint_weights(last: Checkpoint, card: CardData) -> Mapping[str, Any]:
    """A checkpoint's weights, checked like its moments against the card's shapes.

    Raises VieteError for a checkpoint with correct digests whose tensors are not the card's.
    """
    weights = parameter_shapes(card)
    moments = {f"{kind}/{name}": shape for kind in "mv" for name, shape in weights.items()}
    for file, found, wanted in (
        (checkpoints.MODEL, last.weights, weights), (checkpoints.OPTIMISER, last.moments, moments),
    ):  # fmt: skip
        for name in {**wanted, **found}:
            if name not in wanted or name not in found:
                how = "is missing" if name in wanted else "is nobody's"
            elif found[name].shape != wanted[name] or found[name].dtype.kind != "f":
                how = f"is {found[name].dtype} of shape {tuple(found[name].shape)}"
            else:
                continue
            raise VieteError(f"{last.path / file}: does not fit the run's card: {name} {how}")
    return last.weights


def first_weights(settings: Settings, card: CardData) -> Mapping[str, Any]:
    """The weights that a new run starts from, if ``--weights`` names some.

    Raises VieteError for a damaged checkpoint, and for tensors that do not fit the card.
    """
    if not settings.weights:
        return {}
    path = Path(settings.weights)
    if (path / checkpoints.STATE).is_file():
        return checkpoint_weights(checkpoints.load(path), card)
    return load_weights(card, tensors_of(path))


def kept_weights(found: Mapping[str, Any], card: CardData, before: CardData) -> Mapping[str, Any]:
    """The weights that a changed card still has; its new parameters are drawn.

    Raises VieteError for a parameter that has another shape than before, and for a new one that
    does not say how it begins.
    """
    was, shapes = parameter_shapes(before), parameter_shapes(card)
    there = {p.name for p in before.parameters}
    for p in card.parameters:
        if p.name not in there and not (p.init or p.value):
            raise p.text.error(f"{p.name} is new, so it needs an init, such as normal(1/50)")
    for name in found.keys() & shapes.keys():
        if shapes[name] != was[name]:
            raise VieteError(
                f"{name} has the shape {shapes[name]} in the changed card, and its weights have "
                f"{was[name]}; give what is new another name"
            )
    return {name: found[name] for name in found.keys() & shapes.keys()}


def encode_data(
    settings: Settings, run: Path, vocabulary: Vocabulary, last: Checkpoint | None
) -> Tokens:
    """The data as tokens: the first process encodes them, the others map its files.

    Raises VieteError for data that changed since a run began, before encoding them.
    """
    us = team()
    if not us.leads:
        there = memory_mapped(us.broadcast(None))
        if there is None:
            raise VieteError(f"{run}: this process does not see what the first process wrote there")
        return there
    documents = read_data(settings.data, settings.kind)
    if last is not None:
        same_data(
            str(documents.path), documents.digest, documents.size, digest(vocabulary),
            last.state["batches"],
        )  # fmt: skip
    in_files = us.size > 1 or documents.size > LARGE
    tokens = tokenize(documents, vocabulary, run / TOKENS if in_files else None)
    us.broadcast(tokens.note)
    return tokens


def check_vacant(run: Path) -> None:
    """Raise VieteError for a folder that is not empty, since a run could overwrite its files.

    A run that was killed before its first checkpoint is begun anew.
    """
    if there := checkpoints.steps(run):
        raise VieteError(
            f"{run}: the folder has a run, at step {there[-1]}; continue it with --resume, or give "
            f"another folder"
        )
    names = sorted(p.name for p in run.iterdir() if p.name[0] != ".") if run.is_dir() else []
    try:
        if names:
            load_settings(run)
    except VieteError:
        raise VieteError(
            f"{run}: this folder is not empty ({names[0]} is in it); give a new one for the run"
        ) from None


@contextmanager
def owned_folder(run: Path) -> Iterator[BinaryIO]:
    """The folder, made if missing, and locked until the yielded file is closed.

    If the body raises, the file is closed at once, and a folder that was new or empty is removed or
    emptied again. Raises VieteError if another process trains in it.
    """
    fresh = not run.is_dir() or not any(run.iterdir())
    new = [folder for folder in (run, *run.parents) if not folder.exists()]
    lock = lock_folder(run)
    try:
        for left in (*run.glob(".viete-*.tmp"), *(run / TOKENS).glob(".viete-*.tmp")):
            left.unlink(missing_ok=True)  # of a process killed while writing
        yield lock
    except GeneratorExit:  # no step was taken
        raise
    except BaseException:
        lock.close()
        with suppress(OSError):
            for path in run.iterdir() if fresh else ():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for folder in new:
                folder.rmdir()
        raise


def lock_folder(run: Path) -> BinaryIO:
    """The lock file by which a process owns a folder."""
    with os_refusals(run, "written to"):
        run.mkdir(parents=True, exist_ok=True)
        lock = open(regular(run / ".lock"), "ab")  # noqa: SIM115
    try:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # not on Windows
        pass
    except OSError:
        lock.close()
        raise VieteError(f"{run}: another process is training in it") from None
    return lock


__all__ = ["CONFIG", "Job", "begin", "follow", "resume"]
