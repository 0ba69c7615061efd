"""What is given to `viete check` and its like in the place of a card, of weights or of values."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from viete.formats.files import save_npz, save_safetensors

Refused = Callable[..., str]
TINY = Path(__file__).with_name("tiny.md")


def test_json_that_is_no_card(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps({"model_type": "llama", "hidden_size": 8}))
    assert "this is the config of a model: give the folder" in refused("check", "model.json")
    (tmp_path / "index.json").write_text(json.dumps({"metadata": {}, "weight_map": {"a": "b"}}))
    assert "this is the index of a model's tensors" in refused("show", "index.json")
    (tmp_path / "other.json").write_text("{}")
    assert "other.json: a JSON card is an object" in refused("check", "other.json")


def test_text_under_the_name_of_a_tensor_file(refused: Refused, tmp_path: Path) -> None:
    for name in ("notes.gguf", "card.safetensors", "w.onnx"):
        (tmp_path / name).write_text("# A card\n\nwith γ and some words\n")
        said = refused("check", name)
        assert (
            f"{name}: is not a tensor file" in said
            and "it is text" in said
            and "a card's name ends in .md" in said
        )
    assert "it is text" in refused("check", TINY, "--weights", "notes.gguf")


def test_an_onnx_file_is_a_file_of_tensors(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(b"\x08\x01")
    said = refused("show", "x.onnx")
    assert "does not show" not in said and "x.onnx" in said


def test_exact_numbers_in_a_float_run() -> None:
    model = vt.read("exact-lesson")
    with pytest.raises(vt.VieteError, match=r"exact numbers.*run with meaning='exact'"):
        model.run([0, 1], model.exact_weights)


def test_recorded_values_of_a_card_alone(refused: Refused, tmp_path: Path) -> None:
    save_npz(tmp_path / "values.npz", {"logits": np.zeros((2, 3))})
    said = refused("check", TINY, "--against", "values.npz")
    assert "recorded values need its weights too" in said and "--weights" in said


def test_values_without_their_input(refused: Refused, tmp_path: Path) -> None:
    model = vt.read(TINY.read_text())
    save_safetensors(tmp_path / "w.safetensors", model.initial_weights(0))
    save_npz(tmp_path / "values.npz", {"logits": np.zeros((2, 3))})
    said = refused("check", TINY, "-w", "w.safetensors", "--against", "values.npz")
    assert "for which input were these values recorded" in said
