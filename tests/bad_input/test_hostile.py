"""What is hostile or huge ends in one sentence: no traceback, no flood, no memory gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import viete as vt
from tests.command_line import viete
from viete.errors import VieteError
from viete.evaluate import memory as room
from viete.text.vocabulary import BytePairs
from viete.train.metrics import METRICS


class Interrupted:
    """An import during which somebody presses Ctrl-C."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == self.name:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["viete.cli.app", "viete.errors", "contextlib"])
def test_control_c_while_python_imports(monkeypatch, name) -> None:
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(name), *sys.meta_path])
    assert viete("cards", code=130).err == "stopped\n"


def test_what_is_imported_before_control_c_is_heard() -> None:
    """Little more than Python itself has imported, since a press before that shows a traceback."""
    code = ("import os, sys; before = {*sys.modules}; import viete.cli.main; "
            "print(*{*sys.modules} - before)")  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(vt.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True,
                          env=environment, check=True)  # fmt: skip
    assert {*done.stdout.split()} == {"__future__", "viete", "viete.cli", "viete.cli.main"}


# -- numbers without end ---------------------------------------------------------------------------

HUGE = "1180591620717411303424"  # 2^70
DEEP = "[" * 100_000


def test_more_blocks_than_a_number_of_the_machine_holds(tmp_path: Path) -> None:
    said = viete("run", "gpt2", "-t", "1", "--set", f"N={HUGE}", "--seed", "0", code=2).err
    assert "runs over 1,180,591,620,717,411,303,424 blocks; at most" in said
    config = {"model_type": "gpt2", "n_layer": int(HUGE), "activation_function": "gelu_new"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = viete("run", "gpt2", "-t", "1", "--config", tmp_path / "config.json", "--seed", "0",
                 code=2).err  # fmt: skip
    assert said.startswith("viete: ") and "Traceback" not in said


def test_a_plan_of_more_positions_than_the_context() -> None:
    said = viete("grad", "dialog-transformer", "--plan", "--length", 10**31, code=2).err
    assert said.startswith("viete: n must be a whole number from 1 to ")
    assert said.rstrip().endswith(", not 1" + "0" * 31)


@pytest.mark.parametrize("dim", ["T_max", "V"])
def test_a_plan_of_arrays_that_cannot_be(dim: str) -> None:
    said = viete("grad", "simple-transformer", "--plan", "--set", f"{dim}={10**31}", code=2).err
    assert "has more than 2^56 numbers with these sizes" in said


@pytest.mark.parametrize("option", ["accumulate", "batch", "steps", "eval-sequences", "keep"])
def test_counts_without_end(option: str, tmp_path: Path) -> None:
    said = viete("train", "dialog-transformer", "--data", "dialogs", f"--{option}", 10**30,
                 "-o", tmp_path / "run", code=2).err  # fmt: skip
    assert f"--{option} is a whole number up to 1,000,000,000" in said
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_that_the_library_would_end_the_process_for() -> None:
    with pytest.raises(VieteError, match="at most 4,194,304 tokens, not 1,000,000,000"):
        BytePairs.of(["a rose"], 10**9)


# -- files -----------------------------------------------------------------------------------------


def test_a_tokenizer_whose_pattern_explodes(capfd: pytest.CaptureFixture) -> None:
    """The library panics, which is no `Exception`, and writes pages to standard error."""
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated",
             "invert": False}  # fmt: skip
    model = {"type": "BPE", "vocab": {"a": 0, "!": 1}, "merges": []}
    said = {"version": "1.0", "added_tokens": [], "pre_tokenizer": split, "model": model}
    tokenizer = BytePairs.loads(json.dumps(said))
    assert list(tokenizer.encode("aa")) == [0, 0]
    with pytest.raises(VieteError, match="the tokenizer's own patterns fail on it"):
        tokenizer.encode("a" * 40 + "!")
    assert capfd.readouterr().err == ""


def replacing(old: str, new: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


@pytest.mark.parametrize(
    ("part", "step", "words"),
    [
        ("normalizer", {"type": "Sequence", "normalizers": [replacing("a", "aa")] * 34}, "more"),
        ("normalizer", {"type": "Prepend", "prepend": "a" * 2000}, "more than 1,000 characters"),
        ("decoder", {"type": "Sequence", "decoders": [replacing("a", "aaaa")] * 9}, "its decoder"),
        ("normalizer", {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, replacing(" ", "▁")] * 3}, ""),
    ],
)  # fmt: skip
def test_a_tokenizer_that_makes_much_of_little(part: str, step: object, words: str) -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "!": 1}, "merges": []}
    text = json.dumps({"version": "1.0", "added_tokens": [], part: step, "model": model})
    if not words:
        assert len(BytePairs.loads(text)) == 2
        return
    with pytest.raises(VieteError, match=words):
        BytePairs.loads(text)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (['{"step": 1, "loss": ' + DEEP, ""], "not a measurement of a run"),
        (['{"step": 1, "loss": 1' + "0" * 400 + "}", ""], "not a measurement of a run"),
        (['{"step": 1' + "0" * 400 + ', "loss": 1}', ""], "not a measurement of a run"),
        (['{"step": 1, "loss": 1e308}', '{"step": 2, "loss": -1e308}', ""], "there is no loss"),
    ],
)
def test_measurements(rows: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text("\n".join(rows))
    assert words in viete("plot", tmp_path, "-o", tmp_path / "x.svg", code=2).err


def test_a_loss_that_went_to_the_end_of_the_numbers_is_drawn_up_to_there(tmp_path: Path) -> None:
    losses = [3.0, 2.0, 1e308, -1e308, float("nan"), 1.5]
    rows = [json.dumps({"step": k, "loss": loss}) + "\n" for k, loss in enumerate(losses)]
    (tmp_path / METRICS).write_text("".join(rows))
    viete("plot", tmp_path, "-o", tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text().startswith("<svg")


def test_settings_and_states_nested_without_end(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(DEEP)
    state = tmp_path / "checkpoints" / "step-000001" / "state.json"
    state.parent.mkdir(parents=True)
    state.write_text(DEEP)
    said = viete("train", "--resume", "-o", tmp_path, code=2).err
    assert "config.json: cannot be read" in said
    from viete.model.checkpoints import read_state

    with pytest.raises(VieteError, match="the checkpoint is damaged"):
        read_state(state.parent)


# -- memory ----------------------------------------------------------------------------------------


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 2 GB of free memory."""
    monkeypatch.setattr(room, "available", lambda: 2 * 10**9)


@pytest.mark.parametrize("command", [["lesson", "pythia"], ["run", "gpt2", "--meaning", "exact"]])
def test_exact_runs_that_there_is_no_room_for(command: list[str], small_machine: None) -> None:
    said = viete(*command, "--tokens", "1,2", "--seed", "0", code=2).err
    assert "an exact run of" in said and "GB of memory, but this machine has 2.0 GB free" in said


def test_a_long_exact_run_says_so_first() -> None:
    model = vt.read("simple-transformer")
    said = room.check_exact(model, 64)
    assert "exact operations with" in said and "GB of memory" in said and "--set V=…" in said
    assert room.check_exact(vt.read("exact-lesson"), 2) == ""


def test_samples_and_batches_that_there_is_no_room_for(small_machine: None, tmp_path: Path) -> None:
    model = vt.read("dialog-transformer").bind(V=30, d=8)
    weights = model.initial_weights(0)
    with pytest.raises(VieteError, match=r"drawing 1,000,000,000 samples at once needs about"):
        model.sample([1, 2], weights, count=10**9)
    assert len(next(iter(model.sample([1, 2], weights, count=3, most=1)))) == 3
    said = viete("train", "dialog-transformer", "--data", "dialogs", "--set", "d=8", "--batch",
                 10**8, "-o", tmp_path / "run", code=2).err  # fmt: skip
    assert "a batch of 100,000,000 needs about" in said and "--batch" in said


def test_free_memory_is_known_here() -> None:
    free = room.available()
    assert free is not None and free > 10**7
    held = np.zeros(1)
    room.check_room(held.nbytes, "a number", "take none")


@pytest.mark.parametrize("error", [
    MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried …"),
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
], ids=["Python", "PyTorch", "GPU"])  # fmt: skip
def test_a_training_that_needs_too_much_memory(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*given: object) -> None:
        raise error

    monkeypatch.setattr("viete.train.loop.train", lacking)
    said = viete("train", "dialog-transformer", "--data", "dialogs", "-o", tmp_path, code=2).err
    assert "more memory than there is; give a smaller --batch or --length" in said
