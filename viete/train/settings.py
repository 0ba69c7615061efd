"""All settings of a run, stated once: a field is a command-line option and an entry of config.json.

Nothing heavy is imported here, since the command line reads its options from these fields.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from viete.atomic import replacing
from viete.errors import VieteError
from viete.regular import SETTINGS, decoded, regular

CONFIG = "config.json"
MOST = 10**9  # of any count: a larger one is a typing error, and overflows somewhere

_STEPS = re.compile(r"((log|\d{1,10})(,(log|\d{1,10}))*)?")
DATA, STEP, ENGINE, KEPT = "The data", "Steps and optimiser", "Engine", "Checkpoints and output"
VALUES = "Features of a model"


class Bound(NamedTuple):
    """The values that a setting may have: a description, and a test."""

    words: str
    holds: Callable[[Any], bool]


def one_of(*known: str) -> Bound:
    return Bound(f"is one of {', '.join(known)}", known.__contains__)


FROM_1 = Bound("is a whole number from 1", lambda v: v is None or v >= 1)
FROM_0 = Bound("is a whole number from 0", lambda v: v >= 0)
NUMBER = Bound("is a number from 0", lambda v: 0 <= v < math.inf)
BELOW_1 = Bound("is a number from 0, below 1", lambda v: 0 <= v < 1)
SHARE = Bound("is a share of the data, from 0, below 1", lambda v: 0 <= v < 1)


def setting(
    panel: str, default: Any, words: str, bound: Bound | None = None, *, began: bool = False,
    names: tuple[str, ...] = (),
) -> Any:  # fmt: skip
    """A field that is an option under the heading ``panel`` of the help, with its default.

    ``began`` says that a run resumes only with its first value: another would make it another run.
    """
    if "[" not in words and default is not False and default not in (None, "", ()):
        usual = f"{default:g}" if isinstance(default, float) else default
        words = f"{words.removesuffix('.')} [{usual}]."
    return dataclasses.field(default=default, metadata={
        "panel": panel, "words": words, "bound": bound, "began": began, "names": names,
    })  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The settings of a training run: each field is an option of ``viete train``.

    A length, kind or device of None is determined later.
    ``weights`` names the source of the first weights: a checkpoint's folder, a file of tensors or a
    released model's folder; empty for those of the card's init column.

    Raises VieteError for an invalid setting.
    """

    card: str = ""
    weights: str = dataclasses.field(default="", metadata={"began": True})
    data: str = setting(
        DATA, "", "The text to learn from: a text file, JSON lines, dialogs, or a folder of these."
    )
    sets: tuple[str, ...] = dataclasses.field(default=(), metadata={"began": True})
    kind: str | None = setting(
        DATA,
        None,
        "How to read the data: text, lines, dialogs or jsonl [found from its name and first line].",
        began=True,
    )
    tokenizer: str = setting(
        DATA, "characters",
        "characters, bpe, or the path of a tokenizer.json [characters; of a model, its own "
        "tokenizer].", began=True,
    )  # fmt: skip
    vocabulary: int | None = setting(
        DATA, None, "Number of tokens in a new bpe vocabulary.", began=True
    )
    special: tuple[str, ...] = setting(
        DATA, (), "A string to keep as a single token, such as <END> (repeatable).", began=True
    )
    validation: float = setting(
        DATA, 0.1, "Share of the data held out for the validation loss.", SHARE, began=True
    )
    loss_on: str = setting(
        DATA, "all", "Which words of a dialog count in the loss: all or assistant.",
        one_of("all", "assistant"), began=True,
    )  # fmt: skip
    model: str = setting(
        VALUES, "", "For a card of features, the model whose values it learns: a folder, a file, "
        "or an id on the hub.", began=True,
    )  # fmt: skip
    reads: str = setting(
        VALUES,
        "",
        "The value that the card of features reads: x^3, m^2, Q^{2,1}, blocks.2.hook_resid_post.",
        began=True,
    )
    writes: str = setting(
        VALUES,
        "",
        "The value that a transcoder learns to reproduce [the value it reads].",
        began=True,
    )
    steps: int = setting(STEP, 1000, "Number of training steps.", FROM_1)
    batch: int = setting(
        STEP, 12, "Sequences in a batch, over all processes together.", FROM_1, began=True
    )
    length: int | None = setting(
        STEP,
        None,
        "Tokens in a sequence; the card's context length is set to this.",
        FROM_1,
        began=True,
    )
    mean: str = setting(
        STEP, "targets", "Over what the loss of a batch is a mean: targets or texts.",
        one_of("targets", "texts"), began=True,
    )  # fmt: skip
    accumulate: int = setting(
        STEP, 1, "Batches whose gradients are averaged for one step.", FROM_1, began=True
    )
    optimiser: str = setting(
        STEP, "adamw", "Optimiser: adamw or adam.", one_of("adamw", "adam"), began=True,
        names=("--optimiser", "--optimizer"),
    )  # fmt: skip
    lr: float = setting(STEP, 1e-3, "Learning rate.", NUMBER)
    schedule: str = setting(
        STEP,
        "constant",
        "How the learning rate changes: constant or cosine.",
        one_of("constant", "cosine"),
    )
    warmup: int = setting(STEP, 0, "Steps in which the learning rate rises from 0.", FROM_0)
    min_lr: float = setting(STEP, 0.0, "Learning rate at the end of a cosine schedule.", NUMBER)
    beta1: float = setting(STEP, 0.9, "Adam's β₁, for its mean of the gradients.", BELOW_1)
    beta2: float = setting(STEP, 0.999, "Adam's β₂, for its mean of their squares.", BELOW_1)
    eps: float = setting(STEP, 1e-8, "Adam's ε, added to the root that it divides by.", NUMBER)
    weight_decay: float = setting(
        STEP, 0.0, "Weight decay of matrices; vectors do not decay.", NUMBER
    )
    clip: float = setting(
        STEP, 1.0, "Scale down a gradient whose norm is larger than this (0: never).", NUMBER
    )
    clip_entries: float = setting(
        STEP, 0.0, "Cut each entry of a gradient to this size (0: never).", NUMBER
    )
    seed: int = setting(
        STEP, 0, "Random seed of the first weights, batches and dropout.", FROM_0, began=True
    )
    engine: str = setting(
        ENGINE, "numpy",
        "numpy or torch, which run the derived backward equations, or module, a torch.nn.Module "
        "with autograd.", one_of("numpy", "torch", "module"),
    )  # fmt: skip
    dtype: str = setting(
        ENGINE, "float32", "Precision of the weights: float32 or float64.",
        one_of("float32", "float64"), began=True,
    )  # fmt: skip
    threads: int = setting(
        ENGINE,
        1,
        "Processor threads for matrix products [1]; more help wide models on idle cores.",
        FROM_1,
    )
    device: str | None = setting(ENGINE, None, "cpu or cuda, with --engine torch or module [cpu].")
    bf16: bool = setting(ENGINE, False, "With --engine module: compute products in bfloat16.")
    compile: bool = setting(ENGINE, False, "With --engine module: use torch.compile.")
    shard: bool = setting(
        ENGINE, False, "With --engine module: divide the weights among processes (FSDP2)."
    )
    log_every: int = setting(KEPT, 10, "Steps between printed lines (0: none).", FROM_0)
    eval_every: int = setting(KEPT, 200, "Steps between validations (0: only at the end).", FROM_0)
    eval_sequences: int = setting(KEPT, 120, "Sequences in one validation.", FROM_1)
    save_every: int = setting(KEPT, 200, "Steps between checkpoints (0: only at the end).", FROM_0)
    save_at: str = setting(
        KEPT, "", "Steps whose checkpoints are never deleted: log (0, 1, 2, 4, 8 …), or 0,50,100.",
        Bound("is log, steps such as 0,50,100, or both", lambda v: _STEPS.fullmatch(v) is not None),
    )  # fmt: skip
    keep: int = setting(KEPT, 3, "Number of latest checkpoints to keep.", FROM_1)
    sample_every: int = setting(
        KEPT, 0, "Steps between printed samples of the model's text (0: none).", FROM_0
    )
    prompt: str = setting(
        KEPT, "", "Prompt of these samples [the beginning of the data].", names=("--text",)
    )
    tensorboard: bool = setting(KEPT, False, "Also write RUN/tensorboard/.")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            name, value, bound = field.name, getattr(self, field.name), field.metadata.get("bound")
            if bound is not None and not bound.holds(value):
                raise wrong(name, bound.words, value)
            if type(value) is int and value > MOST and name != "vocabulary":  # it has its own bound
                raise wrong(name, f"is a whole number up to {MOST:,}", value)
        for name in ("bf16", "compile", "shard"):
            if getattr(self, name) and self.engine != "module":
                raise VieteError(f"--{name} needs --engine module")
        if self.device is not None and self.engine == "numpy":
            raise VieteError("--device needs --engine torch or module")
        if self.min_lr > self.lr:
            raise wrong("min_lr", f"is at most --lr, {self.lr:g}", self.min_lr)
        if self.min_lr and self.schedule != "cosine":
            raise VieteError("--min-lr needs --schedule cosine")
        if bool(self.model) != bool(self.reads):
            raise VieteError("--model and --reads go together: the model, and its value to read")
        if self.writes and not self.model:
            raise VieteError("--writes needs --model and --reads")
        if self.model and (self.shard or self.sample_every):
            option = "--shard" if self.shard else "--sample-every"
            raise VieteError(f"{option} is for a card that reads text, so not with --model")
        if self.prompt and not self.sample_every:
            raise VieteError("--text needs --sample-every, since the samples continue it")

    @property
    def steps_saved(self) -> frozenset[int]:
        """The steps of ``--save-at``; ``log`` is 0 and the powers of 2, as in Pythia."""
        powers = {0, *(1 << k for k in range(self.steps.bit_length()))}
        words = self.save_at.split(",") if self.save_at else []
        found = (powers if word == "log" else {int(word)} for word in words)
        return frozenset[int]().union(*found)


def wrong(name: str, right: str, value: object) -> VieteError:
    return VieteError(f"{option(name)} {right}, not {value}")


def option(name: str) -> str:
    """A setting's name on the command line."""
    names: tuple[str, ...] = Settings.__dataclass_fields__[name].metadata.get("names", ())
    return names[0] if names else f"--{name.replace('_', '-')}"


def resume_settings(before: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings of a resumed run, updated with those given now.

    Raises VieteError for a change that would make it another run.
    """
    for field in dataclasses.fields(Settings):
        name, was = field.name, getattr(before, field.name)
        if field.metadata.get("began") and name in given and given[name] != was:
            began = "without" if was is None else "with"
            raise VieteError(
                f"this run began {began} {option(name)}{'' if was is None else f' {was}'} and "
                f"cannot resume with {option(name)} {given[name]}; leave the option out, or start "
                "a new run"
            )
    return dataclasses.replace(before, **given)


def save_settings(settings: Settings, run: Path) -> None:
    """Write ``config.json``, completely or not at all."""
    with replacing(run / CONFIG) as file:
        file.write((json.dumps(vars(settings), indent=1, ensure_ascii=False) + "\n").encode())


def load_settings(run: Path) -> Settings:
    """The settings that a run began with.

    Raises VieteError for a folder without a run, and for a file that was changed by hand.
    """
    path = run / CONFIG
    try:
        stored = decoded(regular(path, SETTINGS).read_text("utf-8"))
    except FileNotFoundError:
        raise VieteError(f"{run}: not a run of `viete train` (it has no {CONFIG})") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise VieteError(f"{path}: cannot be read ({reason})") from None
    kinds = {name: list if kind == tuple[str, ...] else kind
             for name, kind in get_type_hints(Settings).items()}  # fmt: skip
    if not isinstance(stored, dict):
        raise VieteError(f"{path}: must be a JSON object, the settings of a run of `viete train`")
    if unknown := sorted(stored.keys() - kinds.keys()):
        raise VieteError(
            f"{path}: this version of Viète knows no setting {unknown[0]!r}; update Viète if a "
            "newer version wrote the file, or remove the entry"
        )
    if odd := next((name for name in stored if not is_a(stored[name], kinds[name])), None):
        raise VieteError(f"{path}: the value of {odd} is of the wrong kind: {stored[odd]!r:.40}")
    values: dict[str, Any] = {
        name: tuple(map(str, value)) if kinds[name] is list else value
        for name, value in stored.items()
    }
    return Settings(**values)


def is_a(value: object, kind: Any) -> bool:
    """Whether a JSON value is of a setting's type; a whole number is valid as a float."""
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, int | float if kind is float else kind)


__all__ = ["CONFIG", "Settings", "load_settings", "resume_settings", "save_settings"]
