"""Several processes train as one does, and what they leave behind is whole."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viete.train.checkpoints import load, path_of, steps
from viete.train.processes import Shared, Team

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("PyTorch was built without gloo", allow_module_level=True)

ROOT = Path(__file__).parents[2]
STEPS = 6
COMMAND = [
    "train", "dialog-transformer", "--set", "d=16", "--data", "dialogs", "--batch", "3",
    "--lr", "0.01", "--weight-decay", "0.1", "--accumulate", "2", "--dtype", "float64",
    "--log-every", "1", "--save-every", "3",
]  # fmt: skip


def start(processes: int, *arguments: str) -> subprocess.Popen[str]:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return subprocess.Popen(
        [sys.executable, *(torchrun if processes > 1 else []), "-m", "viete", *arguments],
        text=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def done(processes: int, *arguments: str) -> str:
    process = start(processes, *arguments)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return said


def losses(run: Path) -> list[float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [r["step"] for r in rows if "loss" in r] == list(range(1, STEPS + 1))
    return [r["loss"] for r in rows if "loss" in r]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one process."""
    run = tmp_path_factory.mktemp("one") / "run"
    done(1, *COMMAND, "--steps", str(STEPS), "-o", str(run))
    return run


def same(a: Path, b: Path) -> None:
    """Losses and last weights, to rounding. Three dialogs for two processes are one and two."""
    assert np.allclose(losses(a), losses(b), rtol=0, atol=1e-12)
    left, right = (load(path_of(run, STEPS)) for run in (a, b))
    for name, w in left.weights.items():
        assert w.shape == right.weights[name].shape
        assert np.allclose(w, right.weights[name], rtol=0, atol=1e-9), name
    for name, m in left.moments.items():
        assert np.allclose(m, right.moments[name], rtol=0, atol=1e-12), name


@pytest.mark.parametrize("kind", ["numpy", "module"])
def test_two_processes_give_the_losses_of_one(one: Path, tmp_path: Path, kind: str) -> None:
    """And a checkpoint of two goes on in one."""
    run = tmp_path / "run"
    said = done(2, *COMMAND, "--engine", kind, "--steps", str(STEPS // 2), "-o", str(run))
    assert said.count("steps done") == said.count("vocabulary;") == 1  # one of them speaks
    done(1, "train", "--resume", "--steps", str(STEPS), "-o", str(run))
    same(one, run)


def test_a_checkpoint_of_one_goes_on_in_two_with_divided_weights(one: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(one, run)
    done(2, "train", "--from", str(STEPS // 2), "--engine", "module", "--shard", "-o", str(run))
    same(one, run)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_an_interrupted_torchrun_leaves_the_last_checkpoint_whole(tmp_path: Path, how: str) -> None:
    """Told to stop, all of them save and end; when one is killed the others end by themselves."""
    run = tmp_path / "run"
    process = start(2, *COMMAND, "--steps", "100000", "-o", str(run))
    deadline = time.monotonic() + 60
    while not steps(run) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert steps(run), "no checkpoint came"
    if how == "stop":
        process.send_signal(signal.SIGTERM)
    else:
        os.kill(children(process.pid)[-1], signal.SIGKILL)
    said, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    last = steps(run)[-1]
    if how == "stop":
        assert f"stopped after step {last}, and saved" in said
    else:
        assert last % 3 == 0
    assert load(path_of(run, last)).step == last
    assert "Traceback" not in said.split("torch/distributed/elastic")[0]
    if how == "kill":
        assert "another process of this run has ended" in said
        said = done(1, "train", "--resume", "--steps", str(last + 1), "-o", str(run))
        assert f"going on after step {last}" in said


def children(parent: int) -> list[int]:
    """The processes that a process started, in order."""
    said = Path(f"/proc/{parent}/task/{parent}/children")
    if not said.exists():
        pytest.skip("this system does not list a process's children")
    return [int(x) for x in said.read_text().split()]


def test_what_the_first_process_refuses_ends_all(one: Path) -> None:
    process = start(2, *COMMAND, "-o", str(one))
    said, _ = process.communicate(timeout=60)
    assert process.returncode != 0 and "there is a run in it, at step 6" in said


def test_shares_are_the_whole_batch() -> None:
    for size in range(1, 6):
        for rows in range(1, 9):
            shares = [Team(k, size).share(rows) for k in range(size)]
            assert [k for s in shares for k in range(rows)[s]] == list(range(rows))


def test_a_process_without_rows_counts_for_nothing() -> None:
    """It computes one all the same, as the others wait for it."""

    class Counts:
        def evaluate(self, tokens: Any, **inputs: Any) -> float:
            assert len(tokens) == len(inputs["y"]) == 1
            return float(tokens[0, 0])

    class Alone(Team):
        def sum(self, value: float) -> float:
            return value

    batch = np.array([[5.0], [7.0]])
    values = [Shared(Counts(), Alone(k, 3)).evaluate(batch, y=batch) for k in range(3)]  # type: ignore
    assert values == [0.0, 2.5, 3.5]
