"""All settings of a run with their defaults: what the command takes and config.json holds."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from viete.atomic import replacing
from viete.errors import VieteError
from viete.regular import SETTINGS, regular
from viete.train.batches import LOSS_ON
from viete.train.engines import ENGINES
from viete.train.schedule import KINDS

OPTIMISERS = ("adamw", "adam")
CONFIG = "config.json"
MOST = 10**9  # of whatever is counted: more is a slip of the keys, and overflows somewhere


@dataclass(frozen=True)
class Settings:
    """How a card is trained. A length, a kind or a device that is None is found out.

    ``weights`` is where the first weights come from: a checkpoint's folder, a file of tensors or a
    released model's folder; empty for those of the card's init column.

    ``clip`` and ``clip_entries`` of 0 do not clip; ``eval_every``, ``save_every`` and
    ``sample_every`` of 0 leave that for the end of the run, and ``log_every`` of 0 logs nothing.
    """

    card: str = ""
    weights: str = ""
    data: str = ""
    sets: tuple[str, ...] = ()
    kind: str | None = None
    tokenizer: str = "characters"
    vocabulary: int | None = None
    special: tuple[str, ...] = ()
    validation: float = 0.1
    loss_on: str = "all"
    steps: int = 1000
    batch: int = 12
    length: int | None = None
    accumulate: int = 1
    optimiser: str = "adamw"
    lr: float = 1e-3
    schedule: str = "constant"
    warmup: int = 0
    min_lr: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0
    clip: float = 1.0
    clip_entries: float = 0.0
    seed: int = 0
    dtype: str = "float32"
    engine: str = "numpy"
    device: str | None = None
    bf16: bool = False
    compile: bool = False
    shard: bool = False
    threads: int = 1
    log_every: int = 10
    eval_every: int = 200
    eval_sequences: int = 120
    save_every: int = 200
    keep: int = 3
    sample_every: int = 0
    prompt: str = ""
    tensorboard: bool = False

    def __post_init__(self) -> None:
        """Raises VieteError for a setting that means nothing."""
        choices = {"optimiser": OPTIMISERS, "schedule": KINDS, "engine": ENGINES,
                   "dtype": ("float32", "float64"), "loss_on": LOSS_ON}  # fmt: skip
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise wrong(name, f"is one of {', '.join(known)}", getattr(self, name))
        for name in ("bf16", "compile", "shard"):
            if getattr(self, name) and self.engine != "module":
                raise VieteError(f"--{name} goes with --engine module")
        for name in ("steps", "batch", "accumulate", "threads", "keep", "eval_sequences"):
            if getattr(self, name) < 1:
                raise wrong(name, "is a whole number from 1", getattr(self, name))
        for name in ("warmup", "log_every", "eval_every", "save_every", "sample_every", "seed"):
            if getattr(self, name) < 0:
                raise wrong(name, "is a whole number from 0", getattr(self, name))
        for name, value in vars(self).items():
            if type(value) is int and value > MOST and name != "vocabulary":  # it has its own bound
                raise wrong(name, f"is a whole number up to {MOST:,}", value)
        for name in ("lr", "min_lr", "eps", "weight_decay", "clip", "clip_entries"):
            if not 0 <= getattr(self, name) < math.inf:
                raise wrong(name, "is a number from 0", getattr(self, name))
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise wrong(name, "is a number from 0, below 1", getattr(self, name))
        if not 0 <= self.validation < 1:
            raise wrong("validation", "is a share of the data, from 0, below 1", self.validation)
        if self.device is not None and self.engine == "numpy":
            raise VieteError("--device goes with --engine torch or module")
        if self.min_lr > self.lr:
            raise wrong("min_lr", f"is at most --lr, {self.lr:g}", self.min_lr)
        if self.min_lr and self.schedule != "cosine":
            raise VieteError("--min-lr goes with --schedule cosine")
        if self.prompt and not self.sample_every:
            raise VieteError("--prompt goes with --sample-every, since samples go on from it")


def wrong(name: str, right: str, value: object) -> VieteError:
    return VieteError(f"--{name.replace('_', '-')} {right}, not {value}")


# What a run that goes on cannot change: it would be another run.
FIXED = (
    "weights", "sets", "seed", "dtype", "tokenizer", "vocabulary", "special", "accumulate",
    "optimiser", "kind", "batch", "length", "validation", "loss_on",
)  # fmt: skip


def gone_on(before: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings of a run that goes on, with what is given this time.

    Raises VieteError for a change that would make it another run.
    """
    for name in FIXED:
        if name in given and given[name] != (was := getattr(before, name)):
            option = f"--{name.replace('_', '-')}"
            began = f"without {option}" if was is None else f"with {option} {was}"
            raise VieteError(f"this run began {began}, and goes on only so, not with {given[name]}")
    return dataclasses.replace(before, **given)


def save_settings(settings: Settings, run: Path) -> None:
    """Write ``config.json``, whole or not at all."""
    with replacing(run / CONFIG) as file:
        file.write((json.dumps(vars(settings), indent=1, ensure_ascii=False) + "\n").encode())


def load_settings(run: Path) -> Settings:
    """The settings that a run began with.

    Raises VieteError for a folder that holds no run, and for a file that was changed by hand.
    """
    path = run / CONFIG
    try:
        said = json.loads(regular(path, SETTINGS).read_text("utf-8"))
    except FileNotFoundError:
        raise VieteError(f"{run}: no run of `viete train` (there is no {CONFIG} in it)") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise VieteError(f"{path}: cannot be read ({reason})") from None
    known = {f.name: f for f in dataclasses.fields(Settings)}
    if not isinstance(said, dict) or not said.keys() <= known.keys():
        odd = sorted(said.keys() - known.keys())[0] if isinstance(said, dict) else "no table"
        raise VieteError(f"{path}: no settings of a run ({odd!r} is none)")
    lists = ("sets", "special")
    kinds = {**get_type_hints(Settings), **dict.fromkeys(lists, list)}
    if odd := next((name for name in said if not is_a(said[name], kinds[name])), None):
        raise VieteError(f"{path}: no settings of a run ({odd} is of another kind)")
    said |= {name: tuple(map(str, said.get(name, ()))) for name in lists}
    return Settings(**said)


def is_a(value: object, kind: Any) -> bool:
    """Whether a value from JSON is of a setting's kind: a whole number is one with a fraction."""
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, int | float if kind is float else kind)


__all__ = ["CONFIG", "OPTIMISERS", "Settings", "gone_on", "load_settings", "save_settings"]
