"""What is refused is refused before the work, which may take long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viete as vt
from tests.command_line import viete
from viete.circuits.search import Circuits
from viete.cli.weights import WeightOptions


def never(*args: Any, **options: Any) -> Any:
    pytest.fail("work was done for what is refused")


def test_a_circuit_with_nothing_to_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    model = vt.read("attention-only-2").bind(V=11, d=8, H=2, n_max=16).with_weights(seed=1)
    monkeypatch.setattr(Circuits, "scores", property(never))
    with pytest.raises(vt.VieteError, match="nothing to explain"):
        model.circuit("logits_{-1,5}", [[1, 2, 3]], 3)


@pytest.mark.parametrize("name", ["nope", "nope^{1,2}", "Q, nope"])
def test_a_blank_that_no_step_makes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viete.report.lesson.making.lesson", never)
    said = viete("lesson", "letters-block", "-t", "1,2", "--blank", name, code=2)
    assert "no step makes nope" in said.err


def test_an_expansion_without_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WeightOptions, "arrays", never)
    said = viete("expand", "t5", "--of", "logits_{-1,5}", "--seed", "1", code=2)
    assert "give the input either as --tokens" in said.err


def test_a_folder_that_is_not_there_is_no_shipped_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = viete("export", "sae/", "--to", "saelens", "-o", "out", code=2)
    assert "there is no file sae/" in said.err


@pytest.mark.parametrize("form", ["torch", "numpy", "jax", "js"])
def test_an_export_of_sizes_beyond_a_float(form: str) -> None:
    said = viete("export", "gpt2", "--to", form, "--set", f"d_f={10**400}", code=2)
    assert "401 digits is beyond a float" in said.err
