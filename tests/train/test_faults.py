"""Runs that end badly: killed, out of disk, interrupted. What was kept is whole, and goes on."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import instead
from tests.train.launching import TRAINING, Launched, Launcher
from viete.model.checkpoints import load, path_of, steps

pytestmark = pytest.mark.slow

STEPS = 60
COMMAND = [
    "train", "dialog-transformer", "--set", "d=16", "--data", "dialogs", "--steps", str(STEPS),
    "--batch", "2", "--lr", "0.01", "--log-every", "1", "--save-every", "1", "--keep", "2",
]  # fmt: skip


Viete = Callable[..., Launched]


@pytest.fixture(scope="module")
def viete() -> Iterator[Viete]:
    """``viete("train", …)`` is a process that runs."""
    launcher = Launcher(TRAINING)
    yield partial(Launched, launcher)
    launcher.close()


def losses(run: Path) -> list[tuple[int, float]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(row["step"], row["loss"]) for row in rows]


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory, viete: Viete) -> Path:
    """The run that nothing happened to."""
    run = tmp_path_factory.mktemp("right") / "run"
    assert viete(*COMMAND, "-o", str(run)).wait(60) == 0
    return run


def killed_until_done(
    viete: Viete, run: Path, rng: random.Random, longest: float, most: float = 6
) -> int:
    """Train, with kill −9 after random times, until a process comes to the end; how many did not.

    After so many as ``most`` one is left alone.

    After every kill, each checkpoint that has its name is whole, and none that was there is gone
    but those that a later one replaced.
    """
    kills, before = 0, 0
    while True:
        begun = bool(steps(run))
        process = viete(*(["train", "--resume", "-o"] if begun else [*COMMAND, "-o"]), str(run))
        if kills < most:
            if not begun or rng.random() < 0.8:  # at a time after the start, in which it does work
                wait_for_step(process, run, before)
                time.sleep(rng.random() * longest)
            else:
                time.sleep(rng.random())
            process.send_signal(signal.SIGKILL)
        _, said = process.communicate(timeout=60)
        if process.returncode == 0:
            return kills
        assert process.returncode == -signal.SIGKILL, said
        kills += 1
        there = steps(run)
        for step in there:
            assert load(path_of(run, step)).step == step
        assert (there[-1] if there else 0) >= before
        before = there[-1] if there else 0


def wait_for_step(process: Launched, run: Path, before: int) -> None:
    while process.poll() is None and (not steps(run) or steps(run)[-1] <= before):
        time.sleep(0.002)


def test_killed_at_any_instant_a_run_goes_on_to_the_same_losses(
    tmp_path: Path, right: Path, viete: Viete
) -> None:
    kills = killed_until_done(viete, tmp_path / "killed", random.Random(), 0.15)
    assert kills
    assert losses(tmp_path / "killed") == losses(right)
    ends = [load(path_of(run, STEPS)) for run in (right, tmp_path / "killed")]
    for name, w in ends[0].weights.items():
        np.testing.assert_array_equal(ends[1].weights[name], w)
    # Nothing half written is left.
    assert len(list((tmp_path / "killed" / "checkpoints").iterdir())) == 2


def test_killed_while_it_encodes(tmp_path: Path, viete: Viete) -> None:
    """What it left half written is gone when the run is begun anew."""
    data, run = tmp_path / "data.txt", tmp_path / "run"
    data.write_text("a rose is a rose\n" * 1_000_000)  # so much that its tokens go into files
    command = ["train", "dialog-transformer", "--set", "d=8", "--length", "8", "--data", str(data),
               "--steps", "1", "--eval-sequences", "1", "-o", str(run)]  # fmt: skip
    process = viete(*command)
    while process.poll() is None and not list(run.glob("tokens/.viete-*.tmp")):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL and list(run.glob("tokens/.viete-*.tmp"))
    process = viete(*command)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert steps(run) == [1] and not list(run.rglob(".viete-*"))
    assert len(list((run / "tokens").iterdir())) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_stopped_saves_and_says_how_to_go_on(
    tmp_path: Path, number: int, viete: Viete
) -> None:
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and number == signal.SIGHUP:
        pytest.skip("under nohup a terminal that goes away stops nothing")
    run = tmp_path / "run"
    process = viete(*instead(COMMAND, "--steps", "100000", "--save-every", "0"), "-o", str(run))
    metrics = run / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.01)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    last = out.splitlines()[-1]
    step = int(last.split("stopped after step ")[1].split(",")[0])
    assert last.endswith(f"viete train --resume -o {run}")
    assert steps(run) == [step] and losses(run)[-1][0] == step


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 640 kB, where this may be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", "size=640k", "tmpfs", str(place)]
    if mount is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_ends_with_a_sentence(small_disk: Path, right: Path, viete: Viete) -> None:
    run = small_disk / "run"
    process = viete(*instead(COMMAND, "--keep", "100"), "-o", str(run))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, out
    assert "No space left on device" in err and len(err.strip().splitlines()) == 1
    there = steps(run)
    assert there
    for step in there:
        load(path_of(run, step))
    assert not list((run / "checkpoints").glob(".*"))
    # With room again, it goes on as if nothing had been.
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    process = viete("train", "--resume", "-o", str(run))
    assert process.wait(60) == 0
    assert losses(run) == losses(right)
