"""Checkpoints of a run: each is complete or absent, however the run ends.

    RUN/checkpoints/step-000200/
        model.safetensors       the weights, by the names of `parameter_shapes`
        optimiser.safetensors   m/NAME and v/NAME
        state.json              the step, the position in the data, and digests of all three

A checkpoint is written into a folder with another name, and renamed once all of it is on disk. So a
folder with a checkpoint's name was complete when it was written; the digests tell whether it still
is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viete.errors import VieteError, os_refusals
from viete.formats.files import open_tensors, save_safetensors
from viete.regular import SETTINGS, decoded, regular

Array = Any
FOLDER, STATE, MODEL, OPTIMISER = (
    "checkpoints", "state.json", "model.safetensors", "optimiser.safetensors"
)  # fmt: skip
FILES = MODEL, OPTIMISER
_STEP = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint, read and checked. ``moments`` are m/NAME and v/NAME."""

    path: Path
    state: dict[str, Any]
    weights: dict[str, Array]
    moments: dict[str, Array]

    @property
    def step(self) -> int:
        return int(self.state["step"])


def save(
    run: Path, state: Mapping[str, Any], weights: Mapping[str, Array], moments: Mapping[str, Array]
) -> Path:
    """Write the checkpoint of ``state["step"]``.

    Raises VieteError where the disk is full or refuses; everything written earlier stays.
    """
    final = path_of(run, state["step"])
    temporary = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(parents=True)
        save_safetensors(temporary / MODEL, weights)
        save_safetensors(temporary / OPTIMISER, moments)
        whole = {**state, "files": {name: described(temporary / name) for name in FILES}}
        with open(temporary / STATE, "x", encoding="utf-8") as file:
            json.dump({**whole, "digest": digest_of(whole)}, file, indent=1, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        sync(temporary)
        set_aside(final)
        os.rename(temporary, final)
        sync(final.parent)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if not isinstance(error, OSError | VieteError):
            raise
        # Of `viete.atomic.replacing`'s sentence, the words in its brackets.
        inner = re.search(r"cannot be written \((.*)\)", str(error))
        reason = getattr(error, "strerror", None) or (inner[1] if inner else error)
        there = steps(run)
        kept = f"; that of step {there[-1]} is as it was" if there else ""
        raise VieteError(f"{final}: the checkpoint cannot be written ({reason}){kept}") from None
    return final


def sync(folder: Path) -> None:
    """Flush a folder's names to disk, where the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def set_aside(path: Path) -> Path | None:
    """Rename a checkpoint so that it is no longer found; nothing is deleted."""
    if not path.exists():
        return None
    names = (path.with_name(f"set-aside-{path.name}{(k and f'-{k}') or ''}") for k in range(10**6))
    return path.rename(next(name for name in names if not name.exists()))


def described(path: Path) -> dict[str, Any]:
    """A file's length and its digest, as ``sha256sum`` prints it."""
    with open(regular(path), "rb") as file:
        return {
            "bytes": os.fstat(file.fileno()).st_size,
            "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
        }


def digest_of(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


# -- what there is ---------------------------------------------------------------------------------


def steps(run: Path) -> list[int]:
    """The steps of all checkpoints on disk, in order."""
    folder = run / FOLDER
    found = [_STEP.fullmatch(p.name) for p in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(m[1]) for m in found if m)


def path_of(run: Path, step: int) -> Path:
    return run / FOLDER / f"step-{step:06d}"


def read_state(path: Path) -> dict[str, Any]:
    """The state in a checkpoint. Raises VieteError, naming the checkpoint, if it is damaged."""
    try:
        with os_refusals(path / STATE):
            if not (path / STATE).exists():
                raise VieteError(f"{path}: the checkpoint has no {STATE}")
            state = decoded(regular(path / STATE, SETTINGS).read_text("utf-8"))
        digest = state.pop("digest")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise VieteError(f"{path}: the checkpoint is damaged ({STATE} is cut short)") from None
    if digest != digest_of(state):
        raise VieteError(f"{path}: the checkpoint is damaged ({STATE} was changed)")
    named = _STEP.search(path.name)
    if not is_state(state) or (named and int(named[1]) != state["step"]):
        raise VieteError(f"{path}: the checkpoint is damaged ({STATE} holds something else)")
    return state


def is_state(said: Mapping[str, Any]) -> bool:
    """Whether a state has all that a run needs to continue, each value of the right type."""
    files = said.get("files")
    return (
        all(is_count(said.get(name)) for name in ("step", "optimiser steps"))
        and is_count(said.get("tokens", 0))
        and type(said.get("loss", 0.0)) is float
        and type(said.get("validation")) in (float, type(None))
        and isinstance(said.get("batches"), dict)
        and isinstance(files, dict) and files.keys() == {MODEL, OPTIMISER}
        and all(isinstance(x, dict) and x.keys() == {"bytes", "sha256"} and is_count(x["bytes"])
                for x in files.values())
        and ((low := said.get("lowest")) is None
             or (isinstance(low, list) and [*map(type, low)] == [float, int]))
    )  # fmt: skip


def is_count(value: object) -> bool:
    """Whether a value from JSON is a number of steps, tokens or bytes."""
    return type(value) is int and 0 <= value < 2**63


def load(path: Path, card: str | None = None) -> Checkpoint:
    """A checkpoint, with every byte checked. ``card`` is the digest that its card must have.

    Raises VieteError with the checkpoint and the reason: cut short, changed, or another card's.
    """
    state = read_state(path)
    if card is not None and state.get("card") != card:
        raise VieteError(
            f"{path}: this checkpoint belongs to another card ({state.get('title')}), not to the "
            f"card.md in {path.parent.parent}"
        )
    tables = []
    for name in FILES:
        if damage := damage_of(path / name, state["files"][name]):
            raise VieteError(f"{path}: the checkpoint is damaged ({name} {damage})")
        file = open_tensors(path / name)
        tables.append({key: file.load(key) for key in file.infos})
    return Checkpoint(path, state, *tables)


def damage_of(path: Path, wanted: Mapping[str, Any]) -> str:
    """How a file differs from what was written; empty if it does not."""
    with os_refusals(path):
        if not path.exists():
            return "is missing"
        there = described(path)
    if there["bytes"] < wanted["bytes"]:
        return f"is cut short: {there['bytes']:,} of {wanted['bytes']:,} bytes"
    if there["bytes"] > wanted["bytes"]:
        return "is longer than it was"
    return "" if there == wanted else "was changed"


def choose(run: Path, which: str, card: str | None = None) -> Checkpoint:
    """The checkpoint asked for: 'latest', 'previous', 'best' or the number of its step.

    'previous' is the newest undamaged one before the latest. Raises VieteError for a checkpoint
    that is missing or damaged; for a damaged latest one, the message names the newest undamaged one
    before it.
    """
    there = steps(run)
    if not there:
        raise VieteError(f"{run}: the run has no checkpoint to resume from")
    if which == "previous":
        if len(there) < 2:
            raise VieteError(f"{run}: there is no checkpoint before that of step {there[-1]}")
        if (whole := whole_before(run, there, card)) is None:
            raise VieteError(f"{run}: no checkpoint before the latest one is complete")
        return whole
    if which == "best":
        if (step := best(run)) is None:
            raise VieteError(f"{run}: no checkpoint has a validation loss, so none is the best")
    elif which == "latest":
        step = there[-1]
    elif not which.isdecimal():
        raise VieteError(f"a run resumes from latest, previous, best or a step, not {which!r:.40}")
    elif (step := int(which)) not in there:
        known = ", ".join(map(str, there))
        raise VieteError(f"{run}: there is no checkpoint of step {which}; there are {known}")
    try:
        return load(path_of(run, step), card)
    except VieteError as error:
        if which != "latest":
            raise
        other = whole_before(run, there, card)
        hint = "no other is whole" if other is None else (
            f"that of step {other.step} is whole: go on from it with --revision previous"
        )  # fmt: skip
        raise VieteError(f"{error}; {hint}") from None


def whole_before(run: Path, there: list[int], card: str | None) -> Checkpoint | None:
    """The newest checkpoint before the latest that can be read."""
    for step in reversed(there[:-1]):
        with suppress(VieteError):
            return load(path_of(run, step), card)
    return None


def best(run: Path) -> int | None:
    """The step with the lowest validation loss among the checkpoints on disk."""
    found = validations(run)
    return min(found, key=lambda step: (found[step], step)) if found else None


def validations(run: Path) -> dict[int, float]:
    """The validation losses of the checkpoints on disk, by step."""
    found = {}
    for step in steps(run):
        with suppress(VieteError):
            loss = read_state(path_of(run, step)).get("validation")
            if loss is not None:
                found[step] = float(loss)
    return found


def prune(run: Path, keep: int, besides: Collection[int] = ()) -> None:
    """Remove all checkpoints but the last few, the best and those of the steps ``besides``.

    Files that killed runs left half written are removed too. Only the process that writes to the
    run may call this.
    """
    there = steps(run)
    for step in set(there[:-keep]) - {best(run), *besides}:
        # Renamed first: what has its name is whole, even while it is being removed.
        gone = run / FOLDER / f".step-{step:06d}.{secrets.token_hex(4)}.tmp"
        os.rename(path_of(run, step), gone)
        shutil.rmtree(gone, ignore_errors=True)
    for left in (run / FOLDER).glob(".step-*.tmp"):
        shutil.rmtree(left, ignore_errors=True)


__all__ = [
    "Checkpoint",
    "best",
    "choose",
    "load",
    "prune",
    "save",
    "set_aside",
    "steps",
    "validations",
]
