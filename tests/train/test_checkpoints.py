"""A checkpoint is whole or not there; what is wrong with one is said in a sentence."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from viete.errors import VieteError
from viete.model import checkpoints
from viete.model.checkpoints import best, choose, load, path_of, prune, save, steps

WEIGHTS = {"E": np.arange(12.0).reshape(3, 4), "b": np.ones(3, np.float32)}
MOMENTS = {f"{k}/{n}": w * 0 for n, w in WEIGHTS.items() for k in "mv"}


def saved(run: Path, step: int, validation: float | None = None, card: str = "a card") -> Path:
    state = {"step": step, "card": card, "title": "Some card", "validation": validation,
             "optimiser steps": step, "batches": {}}  # fmt: skip
    return save(run, state, {k: w + step for k, w in WEIGHTS.items()}, MOMENTS)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    found = load(saved(tmp_path, 7, 0.5), "a card")
    assert (found.step, found.state["validation"]) == (7, 0.5)
    for name, w in WEIGHTS.items():
        np.testing.assert_array_equal(found.weights[name], w + 7)
        assert found.weights[name].dtype == w.dtype
    assert found.moments.keys() == MOMENTS.keys()


def test_the_last_few_and_the_best_are_kept(tmp_path: Path) -> None:
    for step, loss in zip(range(10, 80, 10), [5.0, 1.0, 2.0, None, 3.0, 4.0, None], strict=True):
        saved(tmp_path, step, loss)
        prune(tmp_path, keep=2)
    assert steps(tmp_path) == [20, 60, 70]
    assert best(tmp_path) == 20
    assert choose(tmp_path, "best").step == 20
    assert choose(tmp_path, "latest").step == 70
    assert choose(tmp_path, "previous").step == 60
    assert choose(tmp_path, "60").step == 60
    assert {p.name for p in (tmp_path / "checkpoints").iterdir()} == {
        "step-000020", "step-000060", "step-000070"
    }  # fmt: skip


@pytest.mark.parametrize("name", ["model.safetensors", "optimiser.safetensors", "state.json"])
@pytest.mark.parametrize("how", ["cut", "changed", "missing", "empty"])
def test_damage_is_named_and_the_previous_used_when_asked(
    tmp_path: Path, name: str, how: str
) -> None:
    saved(tmp_path, 100)
    file = saved(tmp_path, 200) / name
    raw = bytearray(file.read_bytes())
    if how == "missing":
        file.unlink()
    else:
        raw[len(raw) // 2] ^= 1
        file.write_bytes({"cut": raw[: len(raw) // 2], "changed": raw, "empty": b""}[how])
    with pytest.raises(VieteError, match=r"step-000200.*that of step 100 is whole.*previous"):
        choose(tmp_path, "latest", "a card")
    assert choose(tmp_path, "previous", "a card").step == 100


def test_another_cards_checkpoint_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, 5)
    with pytest.raises(VieteError, match="to another card \\(Some card\\)"):
        load(path, "another card")


@pytest.mark.parametrize(
    ("which", "said"),
    [("best", "no checkpoint has a validation"), ("30", "there are 10$"),
     ("previous", "no checkpoint before that of step 10"), ("soon", "latest, previous, best")],
)  # fmt: skip
def test_what_is_not_there_is_said(tmp_path: Path, which: str, said: str) -> None:
    with pytest.raises(VieteError, match="no checkpoint to resume from"):
        choose(tmp_path, which)
    saved(tmp_path, 10)
    with pytest.raises(VieteError, match=said):
        choose(tmp_path, which)


@pytest.mark.parametrize("call", ["fsync", "rename", "mkdir"])
@pytest.mark.parametrize("nth", range(5))
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, nth: int
) -> None:
    saved(tmp_path, 100)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    genuine, calls = getattr(os, call), []

    def full(*args: object, **more: object) -> object:
        calls.append(args)
        if len(calls) == nth + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return genuine(*args, **more)

    monkeypatch.setattr(os, call, full)
    try:
        saved(tmp_path, 200)
    except VieteError as error:
        assert "No space left on device" in str(error) and "step 100 is as it was" in str(error)
        assert steps(tmp_path) == [100]
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    else:  # fewer calls than that, or one to sync a folder, of which nothing depends
        assert load(path_of(tmp_path, 200)).step == 200
    assert load(path_of(tmp_path, 100)).step == 100


def test_a_checkpoint_of_that_name_is_set_aside_not_lost(tmp_path: Path) -> None:
    for _ in range(3):
        saved(tmp_path, 3)
    names = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert names == ["set-aside-step-000003", "set-aside-step-000003-1", "step-000003"]


def test_the_digests_are_those_of_sha256sum(tmp_path: Path) -> None:
    import hashlib

    path = saved(tmp_path, 1)
    said = json.loads((path / checkpoints.STATE).read_text())["files"]["model.safetensors"]
    raw = (path / "model.safetensors").read_bytes()
    assert said == {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}
