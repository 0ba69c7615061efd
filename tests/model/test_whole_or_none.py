"""What consists of several files is written whole or not at all: a disk may be full at any file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from viete import atomic
from viete.formats.files import save_safetensors
from viete.model.mapping import load_weights
from viete.model.trained_coders import LearnedCoder, save_coder

SIZES = {"V": 11, "d": 8, "N": 2, "H": 2, "d_f": 8, "n_max": 16}


def model(folder: Path) -> None:
    vt.read("gpt2").bind(**SIZES).with_weights(seed=1).save(folder)


def circuit(folder: Path) -> None:
    card = vt.read("attention-only-2").bind(V=11, d=8, H=2, n_max=16).with_weights(seed=1)
    card.circuit("(logits_{-1,5})^2", [[1, 2, 3], [4, 5, 6]], 3).save(folder / "circuit.md")


def features(folder: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {"W_enc": rng.normal(size=(4, 6)), "b_enc": np.zeros(6),
              "W_dec": rng.normal(size=(6, 4)), "b_dec": np.zeros(4)}  # fmt: skip
    save_coder(LearnedCoder(arrays, 0, "m", "x^1", "x^1"), folder)


@pytest.mark.parametrize("write", [model, circuit, features])
def test_a_full_disk_leaves_what_was_there(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "whole")
    names = sorted(p.name for p in (tmp_path / "whole").iterdir())
    assert len(names) > 1 and not any(name.startswith(".") for name in names)
    real = os.fsync
    for full in range(1, len(names) + 1):
        left = iter(range(1, 100))

        def fsync(handle: int, full: int = full, left: object = left) -> None:
            if next(left) >= full:  # type: ignore[call-overload]
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(handle)

        monkeypatch.setattr(atomic.os, "fsync", fsync)
        with pytest.raises(vt.VieteError, match="No space left"):
            write(tmp_path / "part" / "of")
        assert not (tmp_path / "part").exists(), full
        monkeypatch.undo()


def test_numbers_of_eight_bits_without_their_scales_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    card = vt.read("attention-only-1").bind(V=11, d=8, H=2, n_max=16)
    arrays = {name: torch.tensor(a).to(torch.float8_e4m3fn)
              for name, a in card.initial_weights(seed=1).items()}  # fmt: skip
    save_safetensors(tmp_path / "model.safetensors", arrays)
    with pytest.raises(vt.VieteError, match="float8_e4m3fn, which is read with a scale"):
        load_weights(card, tmp_path / "model.safetensors")
