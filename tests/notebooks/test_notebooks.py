"""The gallery: its notebooks run and show what they say, and their findings hold of other texts."""

from __future__ import annotations

import os
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import viete
from tests.notebooks.running import FOLDER, executed, read, text_of, varies, words_and_numbers

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 60  # of one core, for a notebook
BYTES = 200_000  # of a file of weights
NUMBER = 0.02  # how far a number may be from the one in the file, of itself and of 1


def seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


@pytest.mark.notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_and_its_finding_holds_of_other_texts(path: Path, tmp_path: Path) -> None:
    started, names = seconds(), dict[str, Any]()
    now = executed(path, names)
    assert seconds() - started < SECONDS

    for before, after in zip(read(path)["cells"], now["cells"], strict=True):
        if before["cell_type"] == "code" and not varies(before):
            words, numbers = words_and_numbers(text_of(before))
            new, found = words_and_numbers(text_of(after))
            assert new == words, f"written anew by python -m tests.notebooks.running {path}"
            assert found == pytest.approx(numbers, rel=NUMBER, abs=NUMBER)

    for seed in (1, 2, 3):  # a finding is a model, and perhaps a page of claims about it
        with chdir(tmp_path):
            if "write_texts" in names:
                names["write_texts"](seed)
            ended = viete("check", *names["finding"], "--seed", seed, code=0)
        assert "holds" in ended.out or "proved" in ended.out


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_has_its_outputs_and_a_picture(path: Path) -> None:
    cells = read(path)["cells"]
    assert cells[0]["source"][0].startswith("# ")
    shown = [x for cell in cells if cell["cell_type"] == "code" for x in cell["outputs"]]
    assert any("image/svg+xml" in x.get("data", ()) for x in shown)
    assert not any(x["output_type"] == "error" for x in shown)
    assert not any("Not read:" in text_of(x) for x in cells if x["cell_type"] == "code")


def test_weights_are_small() -> None:
    assert all(p.stat().st_size <= BYTES for p in FOLDER.rglob("*.safetensors"))
