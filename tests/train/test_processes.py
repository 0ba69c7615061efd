"""Several processes train as one does, and what they leave behind is whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viete as vt
from tests.command_line import instead
from tests.train.launching import ROOT, Launcher
from viete.errors import VieteError
from viete.model.checkpoints import load, path_of, steps
from viete.text.data import read_data
from viete.text.vocabulary import make_vocabulary
from viete.train import setup
from viete.train.fitting import with_loss
from viete.train.processes import SharedEngine, Team
from viete.train.settings import Settings
from viete.train.setup import LazyArrays

torch = pytest.importorskip("torch")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from viete.train.autograd import ModuleEngine  # noqa: E402
from viete.train.sharded import ShardedEngine  # noqa: E402

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("PyTorch was built without gloo", allow_module_level=True)

pytestmark = pytest.mark.slow

STEPS = 6
SETTINGS = [
    "--data", "dialogs", "--batch", "3", "--lr", "0.01", "--weight-decay", "0.1", "--clip", "0.05",
    "--accumulate", "2", "--dtype", "float64", "--log-every", "1", "--save-every", "3",
    "--validation", "0.34",
]  # fmt: skip


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Trains a card with dropout, on two dialogs for two processes or three."""
    text = vt.read("dialog-transformer").bind(d=16).write()
    card = tmp_path_factory.mktemp("card") / "card.md"
    card.write_text(text.replace("O = A U", "O = dropout(A; 0.1) U"))
    assert "dropout" in card.read_text()
    return ["train", str(card), *SETTINGS]


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    found = Launcher()
    yield found
    found.close()


def done(launcher: Launcher, processes: int, *arguments: str) -> str:
    said, codes = launcher(processes, *arguments)
    assert codes == [0] * processes, said
    return said


def measured(run: Path) -> list[tuple[int, Any, Any]]:
    """Steps with their losses, and validations."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(r["step"], r.get("loss"), r.get("validation")) for r in rows]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory, launcher: Launcher, command: list[str]) -> Path:
    """A run of one process."""
    run = tmp_path_factory.mktemp("one") / "run"
    done(launcher, 1, *command, "--steps", str(STEPS), "-o", str(run))
    return run


@pytest.mark.parametrize(
    ("first", "then", "engine"),
    [
        (1, 2, ["--engine", "numpy"]),
        (2, 1, ["--engine", "torch"]),
        (3, 2, ["--engine", "module"]),
        (2, 3, ["--engine", "module", "--shard"]),
    ],
    ids=lambda x: x[-1].strip("-") if isinstance(x, list) else None,
)
def test_any_number_of_processes_gives_the_losses_of_one(
    one: Path,
    launcher: Launcher,
    command: list[str],
    tmp_path: Path,
    first: int,
    then: int,
    engine: list[str],
) -> None:
    """To rounding; and goes on with a checkpoint of any other number. The third of three processes
    has no dialog of its own."""
    run = tmp_path / "run"
    half = str(STEPS // 2)
    said = done(launcher, first, *command, *engine, "--steps", half, "-o", str(run))
    assert said.count("steps done") == said.count("vocabulary;") == 1  # one of them speaks
    done(launcher, then, "train", "--resume", "--steps", str(STEPS), "-o", str(run))
    found, wanted = ([x for x in measured(r) if x[1] is not None] for r in (run, one))
    np.testing.assert_allclose([x[1] for x in found], [x[1] for x in wanted], rtol=0, atol=1e-10)
    assert len(wanted) == STEPS
    left, right = (load(path_of(r, STEPS)) for r in (one, run))
    assert abs(left.state["validation"] - right.state["validation"]) < 1e-10
    for name, w in {**left.weights, **left.moments}.items():
        other = {**right.weights, **right.moments}[name]
        assert w.shape == other.shape
        # Adam divides by the size of gradients, of which some are as small as rounding.
        assert np.abs(w - other).max() <= 1e-8, (name, np.abs(w - other).max())


def test_an_interrupted_torchrun(launcher: Launcher, command: list[str], tmp_path: Path) -> None:
    """Told to stop, all of them save and end."""
    run = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", "viete", *command, "--steps", "100000", "-o", str(run)],
        text=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        process_group=0, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    saved(run)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    said, _ = process.communicate(timeout=200)
    assert process.returncode != 0
    last = steps(run)[-1]
    assert "Traceback" not in said.split("torch/distributed/elastic")[0]
    assert f"stopped after step {last}, and saved" in said
    goes_on_to_the_same_bits(launcher, command, run, tmp_path / "whole")


def test_a_process_that_is_killed(launcher: Launcher, command: list[str], tmp_path: Path) -> None:
    """The others end by themselves."""
    run = tmp_path / "run"

    def kill(parent: int) -> None:
        saved(run)
        os.kill(children(parent)[0], signal.SIGKILL)  # the one that writes

    said, codes = launcher(2, *command, "--steps", "100000", "-o", str(run), meanwhile=kill)
    assert codes == [-signal.SIGKILL, 2]
    assert "Traceback" not in said
    assert steps(run)[-1] % 3 == 0
    assert said.count("viete: another process of this run has ended") == 1
    goes_on_to_the_same_bits(launcher, command, run, tmp_path / "whole")


def saved(run: Path) -> None:
    """Wait for a run's first checkpoint."""
    deadline = time.monotonic() + 200
    while not steps(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert steps(run), "no checkpoint came"


def goes_on_to_the_same_bits(
    launcher: Launcher, command: list[str], run: Path, whole: Path
) -> None:
    """A run that ended early, in as many processes as before."""
    last = steps(run)[-1]
    assert load(path_of(run, last)).step == last
    end = str(last + 2)
    said = done(launcher, 2, "train", "--resume", "--steps", end, "-o", str(run))
    assert f"going on after step {last}" in said
    done(launcher, 2, *command, "--steps", end, "-o", str(whole))
    assert [x for x in measured(run) if x[1]] == [x for x in measured(whole) if x[1]]
    ends = [load(path_of(r, last + 2)).weights for r in (run, whole)]
    for name, w in ends[0].items():
        np.testing.assert_array_equal(ends[1][name], w)


def children(parent: int) -> list[int]:
    """The processes that a process started, in order."""
    said = Path(f"/proc/{parent}/task/{parent}/children")
    if not said.exists():
        pytest.skip("this system does not list a process's children")
    return [int(x) for x in said.read_text().split()]


def test_what_the_first_process_refuses_ends_all(
    launcher: Launcher, one: Path, command: list[str]
) -> None:
    """And it alone says why."""
    said, codes = launcher(3, *command, "-o", str(one))
    assert codes == [2, 2, 2]
    assert said == (
        f"viete: {one}: the folder has a run, at step {STEPS}; continue it with --resume, or give "
        f"another folder\n"
    )
    said, codes = launcher(2, "train", "gtp2", "--data", "dialogs", "-o", str(one))
    assert codes == [2, 2] and said.count("viete: ") == said.count("did you mean gpt2?") == 1


def test_a_loss_that_is_no_number_is_said_once(
    launcher: Launcher, command: list[str], tmp_path: Path
) -> None:
    command = instead(command, "--lr", "1e300", "--clip", "0")
    said, codes = launcher(2, *command, "-o", str(tmp_path / "run"))
    assert codes == [2, 2]
    assert said.count("viete: the ") == said.count("is the first whose value is not finite") == 1


def test_a_divided_model_is_never_whole(tmp_path: Path) -> None:
    """One weight at a time comes and goes; the parts and their gradients are there once."""
    model = with_loss(vt.read("llama").bind(V=7, d=8, N=2, H=2, G=1, d_f=6, n_max=5))
    drawn = model.initial_weights(0)
    alive: list[weakref.ref[Any]] = []

    def make(name: str) -> Any:
        assert all(a() is None for a in alive), name
        alive.append(weakref.ref(array := drawn[name].copy()))
        return array

    torch.distributed.init_process_group("gloo", f"file://{tmp_path}/met", rank=0, world_size=1)
    try:
        engine = ShardedEngine(Team(), model, model, LazyArrays(drawn, make))
        assert len(alive) >= len(drawn)
        plain = ModuleEngine(model, model, {k: torch.as_tensor(w) for k, w in drawn.items()})
        tokens = np.array([[1, 2, 3]])
        for _ in range(2):
            given = {model.inputs[1].name: tokens + 1}
            assert abs(engine(tokens, **given) - plain(tokens, **given)) < 1e-12
            for name, p in engine.parameters.items():
                assert p.grad is None, name  # it is in flat_gradient alone
                part = engine.places[name].view(engine.gradients[name])
                np.testing.assert_allclose(part, plain.gradients[name], rtol=0, atol=1e-12)
                # What the optimiser changes is what PyTorch brings together.
                assert p.to_local().data_ptr() == engine.weights[name].data_ptr(), name
            for one in engine, plain:
                one.flat -= 0.1 * one.flat_gradient
        # Layers take W_Q and W_O in the order in which they lie, and copy neither.
        made = [copies_of(x, tokens, given, drawn["W_Q^{1,g,r}"].size) for x in (engine, plain)]
        assert made == [0, 0]
        for name, w in engine.for_checkpoint(engine.weights).items():
            np.testing.assert_allclose(np.asarray(w), plain.weights[name], rtol=0, atol=1e-12)
    finally:
        torch.distributed.destroy_process_group()


def copies_of(engine: Any, tokens: Any, given: Any, size: int) -> int:
    """How many copies of so many entries a loss makes."""
    made: list[Any] = []

    class Copies(TorchDispatchMode):
        def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), named: Any = None) -> Any:
            found = f(*args, **(named or {}))
            if str(f) == "aten.clone.default" and found.numel() == size:
                made.append(found)
            return found

    with Copies():
        loss = engine.loss(tokens, given)
    assert loss.requires_grad
    loss.backward()
    return len(made)


def test_the_first_process_encodes_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others map what it left, and need not see the data."""
    documents = read_data("dialogs")
    vocabulary = make_vocabulary(documents)

    class Pair(Team):
        def broadcast(self, value: Any) -> Any:
            notes.append(value)
            return notes[0]

    notes: list[Any] = []
    found = []
    for rank, data in (0, "dialogs"), (1, "nowhere.txt"):
        us = Pair(rank, 2)
        monkeypatch.setattr(setup, "team", lambda us=us: us)
        found.append(setup.encode_data(Settings(data=data), tmp_path, vocabulary, None))
    assert notes[0].parent == tmp_path / "tokens" and notes[1] is None
    for name in "ids", "starts", "own":
        np.testing.assert_array_equal(*(getattr(tokens, name) for tokens in found))
    assert found[0].source == found[1].source == documents.digest
    notes[0].unlink()
    with pytest.raises(VieteError, match="does not see what the first process wrote"):
        setup.encode_data(Settings(), tmp_path, vocabulary, None)


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
    values = [SharedEngine(Counts(), Alone(k, 3)).evaluate(batch, y=batch) for k in range(3)]  # type: ignore
    assert values == [0.0, 2.5, 3.5]
